"""Sharded Krum costs at most 2.5 times a plain all_reduce, and less than gathering everything on one rank.

``python -m benchmarks.sharded_krum --ranks 4 --d 1000000 --samples 15``

All three do the same job: each rank has its vector in a tensor, and in the end the answer is in that tensor. The vector
is put there anew before each call, outside the clock. As ours keeps memory for the rows between calls, so does
gathering. Gathering does less in one respect: it does not look whether the ranks agree on length and type.

torch computes with one thread in all ranks. Our kernels may use all processors, which is to the good of gathering,
where one rank computes and the others wait. A sample starts when all ranks are ready and ends when the last has the
answer; another of the three comes first in each.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks._findings import Finding
from benchmarks._harness import Timing, ratio

__all__ = ["findings"]

CLAIM = "sharded_krum"
LIMIT = 2.5
SECONDS = 600.0


def _rank(rank: int, count: int, d: int, samples: int, folder: str) -> None:
    """Time the three in turn, sample by sample, and leave the first rank's seconds behind."""
    import torch
    import torch.distributed as dist

    import mixtailor as mt
    from mixtailor.engines.distributed import robust_all_reduce

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=count)
    rule = mt.Krum(1 if count >= 5 else 0)
    own = torch.randn(d, generator=torch.Generator().manual_seed(rank))
    tensor = own.clone()
    rows = [torch.empty(d) for _ in range(count)] if rank == 0 else None

    def plain() -> None:
        dist.all_reduce(tensor)

    def sharded() -> None:
        robust_all_reduce(tensor, rule)

    def gathered() -> None:
        dist.gather(tensor, rows, dst=0)
        if rows is not None:
            tensor.copy_(rule(rows))
        dist.broadcast(tensor, src=0)

    tasks: list[tuple[str, Callable[[], None]]] = [("all_reduce", plain), ("sharded", sharded), ("gathered", gathered)]
    seconds: dict[str, list[float]] = {name: [] for name, _ in tasks}
    for sample in range(samples + 2):
        tasks = [*tasks[1:], tasks[0]]
        for name, task in tasks:
            tensor.copy_(own)
            dist.barrier()
            start = time.perf_counter()
            task()
            dist.barrier()  # a step is over when the last rank has its answer
            if sample >= 2:
                seconds[name].append(time.perf_counter() - start)
    if rank == 0:
        (Path(folder) / "seconds.json").write_text(json.dumps(seconds))
    dist.destroy_process_group()


def _measured(ranks: int, d: int, samples: int) -> dict[str, list[float]]:
    with tempfile.TemporaryDirectory() as folder:
        context = multiprocessing.get_context("spawn")
        processes = [context.Process(target=_rank, args=(rank, ranks, d, samples, folder)) for rank in range(ranks)]
        for process in processes:
            process.start()
        deadline = time.monotonic() + SECONDS
        try:
            for process in processes:
                process.join(max(0.0, deadline - time.monotonic()))
        finally:
            for process in processes:
                if process.is_alive():
                    process.kill()
        seconds: dict[str, list[float]] = json.loads((Path(folder) / "seconds.json").read_text())
        return seconds


def findings(ranks: int, d: int, samples: int, say: Callable[[str], None] = lambda _text: None) -> list[Finding]:
    """Sharded Krum over the all_reduce and over the gather: the median of the ratios within a sample, and quartiles."""
    size = f"{ranks} ranks, d = {d:,}"
    say(f"sharded Krum: {size}")
    timings = {name: Timing(list(times)) for name, times in _measured(ranks, d, samples).items()}
    facts = {f"{name} milliseconds": 1e3 * timing.median for name, timing in timings.items()}
    found = []
    for other, what, unit, limit in (
        ("all_reduce", "over all_reduce", "x all_reduce", LIMIT),
        ("gathered", "over gathering on one rank", "x gather", 1.0),
    ):
        value, low, high = ratio(timings["sharded"], timings[other])
        found.append(Finding(CLAIM, what, size, value, unit, limit, low=low, high=high, facts=facts))
    return found


def main() -> None:
    """Run from the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks.sharded_krum", description=__doc__)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--d", type=int, default=1_000_000)
    parser.add_argument("--samples", type=int, default=15)
    chosen = parser.parse_args()
    for finding in findings(chosen.ranks, chosen.d, chosen.samples):
        print(finding)


if __name__ == "__main__":
    main()
