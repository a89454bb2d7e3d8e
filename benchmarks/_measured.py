"""One size, measured: ours on each kind of data, the means, and the peers, all in one interleaved run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import _own
from benchmarks._data import Data, gradients
from benchmarks._harness import SETTLE, Contender, Timing, interleave, local, ratio
from benchmarks._plans import Plan, Size

__all__ = ["Measured", "measure"]

_WARM = 8192  # coordinates: enough for the kernels that are generated for a number of rows


@dataclass(frozen=True)
class Measured:
    """Timings of one size, all of one run.

    Attributes
    ----------
    timings : mapping
        By ``data/task`` for ours, ``mean/library`` for the means and ``peer/task`` for the peers.
    passes : mapping
        How often an iterative rule read the rows, by ``data/task``.
    """

    size: Size
    timings: Mapping[str, Timing]
    passes: Mapping[str, int]

    @property
    def yardstick(self) -> str:
        """The fastest mean."""
        means = [key for key in self.timings if key.startswith("mean/")]
        return min(means, key=lambda key: self.timings[key].median)

    @property
    def mean(self) -> Timing:
        return self.timings[self.yardstick]

    def of(self, data: Data, task: str) -> Timing:
        return self.timings[f"{data}/{task}"]

    def multiple(self, timing: Timing) -> tuple[float, float, float]:
        """In units of the fastest mean, with quartiles."""
        return ratio(timing, self.mean)

    def has(self, data: Data, task: str) -> bool:
        return f"{data}/{task}" in self.timings


def _means(rows: Any) -> list[Contender]:
    """The mean in each library, as fast as it has it; all return a new array."""
    n = len(rows)
    weights = np.full(n, 1 / n, np.float32)
    found = [
        local("mean/numpy", lambda: weights @ rows, SETTLE),
        local("mean/mixtailor", _own.tasks(n, 1)["Mean"](rows)),
    ]
    try:
        import torch
    except ImportError:
        return found
    tensor, shares = torch.from_numpy(rows), torch.from_numpy(weights)
    return [
        *found,
        local("mean/torch, product", lambda: shares @ tensor, SETTLE),
        local("mean/torch, mean", lambda: tensor.mean(dim=0), SETTLE),
    ]


def measure(
    plan: Plan,
    size: Size,
    own: Sequence[str],
    data: Sequence[Data] = ("gradients",),
    *,
    extra: Mapping[Data, Iterable[str]] | None = None,
    peers: Iterable[Contender] = (),
    say: Callable[[str], None] = lambda _text: None,
) -> Measured:
    """Time our tasks on each kind of data, tasks of `extra` on theirs, the means, and the peers."""
    say(f"{size}: compiling and warming up")
    tasks = _own.tasks(size.n, size.f)
    wanted = {kind: [*own, *(extra or {}).get(kind, ())] for kind in (*data, *(extra or {}))}
    contenders: list[Contender] = []
    passes: dict[str, int] = {}
    for kind, names in wanted.items():
        names = names if kind in data else list((extra or {})[kind])
        warm = gradients(size.n, min(_WARM, size.d), size.f, kind)
        rows = gradients(size.n, size.d, size.f, kind)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in names:
                tasks[name](warm)()
                if name.startswith("GeometricMedian p="):
                    passes[f"{kind}/{name}"] = _passes(_own.rules(size.n, size.f)[name], rows)
        if kind == data[0]:
            contenders += _means(rows)
        contenders += [local(f"{kind}/{name}", tasks[name](rows)) for name in names]
    timings = interleave(
        [*contenders, *peers], rounds=plan.rounds, spend=plan.spend, say=lambda text: say(f"{size}: {text}")
    )
    return Measured(size, timings, passes)


def _passes(rule: Any, rows: Any) -> int:
    """Readings of the rows: one for the distances to the start, one an iteration, one for the answer."""
    return int(rule.aggregate(rows).iterations or 0) + 2
