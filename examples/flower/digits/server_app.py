"""The server: a strategy of Flower's in every respect but one, how replies become a model. Or no rounds at all."""

import json
import resource
import time
from pathlib import Path

from flwr.app import Array, ArrayRecord, Context, MetricRecord
from flwr.serverapp import Grid, ServerApp

import mixtailor as mt
from digits import task
from mixtailor.attacks import Tailored
from mixtailor.engines.flower import Colluding, RobustStrategy, run_buffered
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


@app.main()
def main(grid: Grid, context: Context) -> None:
    config = context.run_config
    versions, report = config["num-server-rounds"], {}
    rule = make_rule(config["rule"], f=config["f"])
    images, labels = task.data()

    def evaluate(server_round: int, arrays: ArrayRecord) -> MetricRecord:
        weights = {name: array.numpy() for name, array in arrays.items()}
        report["accuracy"] = task.accuracy(weights, images, labels)
        return MetricRecord(report)

    initial = ArrayRecord({name: Array(values) for name, values in task.model().items()})
    if config["fresh"]:  # no rounds: a version of the model after so many new updates
        inbox = mt.Inbox(rule, oldest=5)
        run_buffered(
            grid, inbox, initial, when=mt.Fresh(config["fresh"]), versions=versions, evaluate_fn=evaluate,
            timeout=config["timeout"],
        )  # fmt: skip
        rounds = {"versions": inbox.version}
    else:
        strategy = Measured(
            rule,
            run_config=config,
            min_train_nodes=config["clients"],
            min_available_nodes=config["clients"],
            fraction_evaluate=0.0,
        )
        if config["collude"]:  # in a simulation only: these clients see what all others send
            grid = Colluding(grid, Tailored(epsilon=1.0), config["byzantine"])
        result = strategy.start(grid, initial, versions, config["timeout"], evaluate_fn=evaluate)
        rounds = {number: dict(metrics) for number, metrics in result.train_metrics_clientapp.items()}
    print(f"accuracy {report['accuracy']:.3f} on digits that no client has, after {versions} rounds", flush=True)
    if config["report"]:
        Path(config["report"]).write_text(json.dumps({**report, "rounds": rounds}))
