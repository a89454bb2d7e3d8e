"""The server: a strategy of Flower's in every respect but one, how replies become a model."""

import json
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

import mixtailor as mt
from digits import task
from mixtailor.attacks import Tailored
from mixtailor.engines.flower import Colluding, RobustStrategy

app = ServerApp()


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    rule = mt.recommended(f=config["f"])
    strategy = RobustStrategy(
        rule,
        run_config=config,
        min_train_nodes=config["clients"],
        min_available_nodes=config["clients"],
        fraction_evaluate=0.0,
    )
    if config["collude"]:  # in a simulation only: these clients see what all others send
        grid = Colluding(grid, Tailored(epsilon=1.0), config["byzantine"])

    images, labels = task.data()

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        weights = {name: array.numpy() for name, array in arrays.items()}
        return MetricRecord({"accuracy": task.accuracy(weights, images, labels)})

    result = strategy.start(
        grid,
        initial_arrays=ArrayRecord({name: Array(values) for name, values in task.model().items()}),
        num_rounds=config["num-server-rounds"],
        timeout=config["timeout"],
        evaluate_fn=evaluate,
    )
    last = result.evaluate_metrics_serverapp[config["num-server-rounds"]]["accuracy"]
    print(f"accuracy {last:.3f} on digits that no client has, after {config['num-server-rounds']} rounds", flush=True)
    if config["report"]:
        rounds = {number: dict(metrics) for number, metrics in result.train_metrics_clientapp.items()}
        Path(config["report"]).write_text(json.dumps({"accuracy": last, "rounds": rounds}))
