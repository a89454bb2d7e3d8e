"""The server: a strategy of Flower's in every respect but one, how replies become a model."""

import json
import resource
import time
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

import mixtailor as mt
from digits import task
from mixtailor.attacks import Tailored
from mixtailor.engines.flower import BufferedServer, Colluding, RobustStrategy
from mixtailor.mixing.registry import make_rule

app = ServerApp()


class Measured(RobustStrategy):
    """The strategy; it also says what the aggregation of each round costs."""

    def aggregate_train(self, server_round, replies):
        start, cpu = time.perf_counter(), time.process_time()
        found = super().aggregate_train(server_round, replies)
        seconds, cpu = time.perf_counter() - start, time.process_time() - cpu
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3  # kB on Linux
        print(f"round {server_round} aggregated in {seconds:.2f} s ({cpu:.2f} s of processors, peak {peak:.0f} MB)")
        return found


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
    rule = make_rule(config["rule"], f=config["f"])
    if config["asynchronous"]:
        train_without_waiting(grid, config, rule)
        return
    strategy = Measured(
        rule,
        run_config=config,
        min_train_nodes=config["clients"],
        min_available_nodes=config["clients"],
        fraction_evaluate=0.0,
    )
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
