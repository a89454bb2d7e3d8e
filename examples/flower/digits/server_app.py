"""The server: a strategy of Flower's in every respect but one, how replies become a model."""

import json
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

import mixtailor as mt
from digits import task
from digits.costs import print_costs
from mixtailor.attacks import Tailored
from mixtailor.engines.flower import BufferedServer, Colluding, RobustStrategy
from mixtailor.mixing.registry import make_rule

app = ServerApp()


def untrained() -> ArrayRecord:
    return ArrayRecord({name: Array(values) for name, values in task.model().items()})


def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
    images, labels = task.data()
    weights = {name: array.numpy() for name, array in arrays.items()}
    return MetricRecord({"accuracy": task.accuracy(weights, images, labels)})


def train_without_waiting(grid: Grid, config, rule) -> None:
    """A step for every two thirds of the clients' updates; slow clients are used when they are ready."""
    server = BufferedServer(mt.Inbox(rule, oldest=10), when=mt.Fresh(2 * config["clients"] // 3))
    found = server.start(
        grid, untrained(), config["num-server-rounds"], timeout=config["timeout"], evaluate_fn=evaluate
    )
    last = found.records[-1]["metrics"]["accuracy"]
    print(f"accuracy {last:.3f} on digits that no client has, after {len(found.records)} steps", flush=True)
    if config["report"]:
        steps = [{name: step[name] for name in ("version", "workers", "quarantined")} for step in found.records]
        Path(config["report"]).write_text(json.dumps({"accuracy": last, "steps": steps}))


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    rule = make_rule(config["rule"], f=config["f"])  # "recommended" is mt.recommended(f=...)
    if config["asynchronous"]:
        train_without_waiting(grid, config, rule)
        return
    strategy = RobustStrategy(
        rule,
        run_config=config,
        min_train_nodes=config["clients"],
        min_available_nodes=config["clients"],
        fraction_evaluate=0.0,
    )
    if config["costs"]:
        print_costs(strategy)
    if config["collude"]:  # in a simulation only: these clients see what all others send
        grid = Colluding(grid, Tailored(epsilon=1.0), config["byzantine"])

    result = strategy.start(
        grid,
        initial_arrays=untrained(),
        num_rounds=config["num-server-rounds"],
        timeout=config["timeout"],
        evaluate_fn=evaluate,
    )
    last = result.evaluate_metrics_serverapp[config["num-server-rounds"]]["accuracy"]
    print(f"accuracy {last:.3f} on digits that no client has, after {config['num-server-rounds']} rounds", flush=True)
    if config["report"]:
        rounds = {number: dict(metrics) for number, metrics in result.train_metrics_clientapp.items()}
        Path(config["report"]).write_text(json.dumps({"accuracy": last, "rounds": rounds}))
