"""One aggregation on a Flower server takes a fifth of the time and half of the extra memory of Flower's own strategies.

``python -m benchmarks.flower_server --clients 50 --samples 3``

Each strategy is timed in a process of its own, ours and Flower's in turn, and no other process of the benchmark runs
meanwhile. Each number is printed when it is known. Samples end early where the next would exceed `--seconds`: one of
Flower's Bulyan takes more than a minute.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._findings import Finding
from benchmarks._worker import _return_free_memory, _status

__all__ = ["findings"]

CLAIM = "flower_server"
FASTER, MEMORY = 5.0, 0.5
SECONDS = 3600.0
NAMES = ("Krum", "Bulyan", "FedMedian")


def _shapes(width: int) -> dict[str, tuple[int, ...]]:
    """The 62 arrays of parameters of a ResNet-18, 11.7 million where width is 64."""
    shapes: dict[str, tuple[int, ...]] = {"conv1": (width, 3, 7, 7), "bn1.weight": (width,), "bn1.bias": (width,)}
    before = width
    for stage in range(4):
        own = width << stage
        for block in range(2):
            name, first = f"layer{stage + 1}.{block}", before if block == 0 else own
            for part, channels in (("1", first), ("2", own)):
                shapes[f"{name}.conv{part}"] = (own, channels, 3, 3)
                shapes[f"{name}.bn{part}.weight"] = shapes[f"{name}.bn{part}.bias"] = (own,)
            if block == 0 and stage > 0:
                shapes[f"{name}.downsample"] = (own, before, 1, 1)
                shapes[f"{name}.downsample.weight"] = shapes[f"{name}.downsample.bias"] = (own,)
        before = own
    return {**shapes, "fc.weight": (1000, 8 * width), "fc.bias": (1000,)}


class _Server:
    """A strategy, and the replies that it is to aggregate."""

    def __init__(self, clients: int, width: int) -> None:
        from flwr.app import Array, ArrayRecord, ConfigRecord
        from flwr.supercore.task_identity import TaskIdentity

        # What a ServerApp's process has set before a strategy makes messages.
        TaskIdentity.run_id = TaskIdentity.node_id = TaskIdentity.task_id = 1
        rng = np.random.default_rng(0)
        self.nodes = list(range(1, clients + 1))
        self.config = ConfigRecord()
        base = {name: rng.standard_normal(shape, np.float32) / 8 for name, shape in _shapes(width).items()}
        self.model = ArrayRecord({name: Array(values) for name, values in base.items()})
        self.sent = []
        for _ in self.nodes:
            own = {n: v + np.float32(0.01) * rng.standard_normal(v.shape, np.float32) for n, v in base.items()}
            self.sent.append({name: Array(values) for name, values in own.items()})

    def get_node_ids(self) -> list[int]:
        return self.nodes

    def replies(self, strategy: Any) -> list[Any]:
        """New messages around the same bytes, since some strategies take their replies apart."""
        from flwr.app import ArrayRecord, Message, MetricRecord, RecordDict

        found = []
        for message in strategy.configure_train(1, self.model, self.config, self):
            own = self.sent[message.metadata.dst_node_id - 1]
            content: Any = {"arrays": ArrayRecord(own), "metrics": MetricRecord({"num-examples": 1})}
            found.append(Message(RecordDict(content), reply_to=message))
        return found

    def strategy(self, name: str, side: str) -> Any:
        import logging

        from flwr.serverapp.strategy import Bulyan, FedMedian, Krum

        import mixtailor as mt
        from mixtailor.engines.flower import RobustStrategy

        logging.getLogger("flwr").setLevel(logging.ERROR)
        n, f = len(self.nodes), max(1, (len(self.nodes) - 3) // 4 - 1)
        options: dict[str, Any] = {"min_train_nodes": n, "min_available_nodes": n}
        made: dict[tuple[str, str], Callable[[], Any]] = {
            ("Krum", "flower"): lambda: Krum(num_malicious_nodes=f, **options),
            ("Krum", "ours"): lambda: RobustStrategy(mt.Krum(f), **options),
            ("Bulyan", "flower"): lambda: Bulyan(num_malicious_nodes=f, **options),
            ("Bulyan", "ours"): lambda: RobustStrategy(mt.Bulyan(f), **options),
            ("FedMedian", "flower"): lambda: FedMedian(**options),
            ("FedMedian", "ours"): lambda: RobustStrategy(mt.Comed(), **options),
        }
        return made[name, side]()


def _timed(clients: int, width: int, name: str, samples: int, most: float, path: str) -> None:
    """Seconds of one aggregation, ours and Flower's in turn, by the clock and of the processors; at least one each."""
    server = _Server(clients, width)
    seconds: dict[str, list[float]] = {"ours": [], "flower": [], "ours cpu": [], "flower cpu": []}
    for sample in range(-1, samples):
        spent = sum(seconds["ours"]) + sum(seconds["flower"])
        if sample > 0 and spent * (sample + 1) / sample > most:
            break
        for side in ("ours",) if sample < 0 else ("ours", "flower"):
            strategy = server.strategy(name, side)
            replies = server.replies(strategy)
            start, cpu = time.perf_counter(), time.process_time()
            arrays, _ = strategy.aggregate_train(1, replies)
            took, cpu = time.perf_counter() - start, time.process_time() - cpu
            assert arrays is not None
            if sample >= 0:  # the first call may compile
                seconds[side].append(took)
                seconds[f"{side} cpu"].append(cpu)
            del arrays, replies, strategy
            gc.collect()
    Path(path).write_text(json.dumps(seconds))


def _peak(clients: int, width: int, name: str, side: str, path: str) -> None:
    """Resident bytes that one aggregation adds at its highest to the replies, which nobody else holds."""
    small = _Server(11, 1)
    strategy = small.strategy(name, side)
    strategy.aggregate_train(1, small.replies(strategy))
    server = _Server(clients, width)
    strategy = server.strategy(name, side)
    replies = server.replies(strategy)
    server.sent.clear()
    gc.collect()
    _return_free_memory()
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    answer = strategy.aggregate_train(1, replies)
    high = _status("VmHWM")
    assert answer[0] is not None
    Path(path).write_text(json.dumps(max(0, high - before)))


def _in_a_process(body: Callable[..., None], *arguments: Any) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        process = multiprocessing.get_context("spawn").Process(target=body, args=(*arguments, str(path)))
        process.start()
        try:
            process.join(SECONDS)
        finally:
            if process.is_alive():
                process.kill()
        return json.loads(path.read_text())


def findings(
    clients: int,
    width: int,
    samples: int,
    names: Sequence[str] = NAMES,
    say: Callable[[str], None] = lambda _text: None,
    seconds_each: float = 120.0,
) -> Iterator[Finding]:
    """How many times faster than Flower's strategies, of medians, and which part of their extra memory."""
    parameters = sum(int(np.prod(shape)) for shape in _shapes(width).values())
    size = f"{clients} clients, {parameters / 1e6:.1f} million parameters in {len(_shapes(width))} arrays"
    for name in names:
        say(f"{size}: time of {name}")
        seconds = _in_a_process(_timed, clients, width, name, samples, seconds_each)
        ours, theirs = (statistics.median(seconds[side]) for side in ("ours", "flower"))
        facts = {"ours, seconds": ours, "Flower's, seconds": theirs, "samples": len(seconds["flower"])}
        # On a busy machine the clock counts the others' work, too.
        facts["ours, seconds of the processors"] = statistics.median(seconds["ours cpu"])
        facts["Flower's, seconds of the processors"] = statistics.median(seconds["flower cpu"])
        yield Finding(CLAIM, f"{name}, time", size, theirs / ours, "times faster", FASTER, at_least=True, facts=facts)
        say(f"{size}: memory of {name}")
        ours, theirs = (_in_a_process(_peak, clients, width, name, side) / 1e6 for side in ("ours", "flower"))
        facts = {"ours, MB": ours, "Flower's, MB": theirs}
        yield Finding(CLAIM, f"{name}, extra memory", size, ours / theirs, "of Flower's", MEMORY, facts=facts)


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.flower_server", description=__doc__)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--width", type=int, default=64, help="64 gives 11.7 million parameters")
    parser.add_argument("--samples", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=120.0, help="how long the samples of one strategy may take")
    parser.add_argument("--only", choices=NAMES, nargs="*", default=NAMES)
    chosen = parser.parse_args()
    say = partial(print, flush=True)
    measured = findings(chosen.clients, chosen.width, chosen.samples, chosen.only, say, chosen.seconds)
    for finding in measured:
        facts = ", ".join(f"{name}: {value:,.4g}" for name, value in finding.facts.items())
        kept = "kept" if finding.met else "MISSED"
        say(f"{finding.what}: {finding.value:.3g} {finding.unit} (limit {finding.limit:g}, {kept}); {facts}")


if __name__ == "__main__":
    main()
