"""What is sent, and what an answer to it is worth. Needs numpy alone: other libraries have an environment of their own.

Twelve gradient-like float32 rows, of which two are hostile. An answer is *kept* if it is finite and no farther from the
mean of the honest rows than the honest row that is farthest from it; then no hostile row has moved it beyond what
honest workers do themselves. For rows in another unit, the answer must be that of the same rows in the usual unit.
"""

from __future__ import annotations

import contextlib
import signal
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["CASES", "Case", "F", "N", "judged", "rows"]

N, F, D = 12, 2, 1000
ALIKE = 1e-3  # how much an answer in another unit may differ, of the honest spread
SLACK = 1e-5  # of the honest spread, for rounding in float32
SECONDS = 10.0  # by the processor, for 12 rows of 1,000 coordinates


@dataclass(frozen=True)
class Case:
    """One kind of hostility.

    Attributes
    ----------
    name : str
    hostile : callable
        From honest rows and a generator to the hostile ones.
    unit : float
        What all rows are multiplied by.
    """

    name: str
    hostile: Callable[[Any, np.random.Generator], Sequence[Any]]
    unit: float = 1.0


def _quiet(honest: Any, _rng: np.random.Generator) -> Sequence[Any]:
    return [-0.1 * honest.mean(axis=0)] * F


def _filled(value: float) -> Callable[[Any, np.random.Generator], Sequence[Any]]:
    def hostile(_honest: Any, rng: np.random.Generator) -> Sequence[Any]:
        return [np.full(D, value, np.float32) * rng.choice([-1, 1], D).astype(np.float32) for _ in range(F)]

    return hostile


def _one_entry(value: float) -> Callable[[Any, np.random.Generator], Sequence[Any]]:
    def hostile(honest: Any, rng: np.random.Generator) -> Sequence[Any]:
        row = honest.mean(axis=0)
        row[rng.integers(D)] = value
        return [row, honest.mean(axis=0)]

    return hostile


def _short(honest: Any, _rng: np.random.Generator) -> Sequence[Any]:
    return [honest.mean(axis=0)[:-1], honest.mean(axis=0)]


CASES = (
    Case("nothing hostile but the paper's attack, epsilon 0.1", _quiet),
    Case("one NaN in one row", _one_entry(np.nan)),
    Case("two rows of NaN", _filled(np.nan)),
    Case("one infinity in one row", _one_entry(np.inf)),
    Case("two rows at 1e12", _filled(1e12)),
    Case("two rows at 1e30", _filled(1e30)),
    Case("two rows at 3e38", _filled(3e38)),
    Case("a row of another length", _short),
    Case("all rows times 1e-12", _quiet, 1e-12),
    Case("all rows times 1e-30", _quiet, 1e-30),
    Case("all rows times 1e25", _quiet, 1e25),
)


def rows(case: Case, *, unit: float | None = None) -> tuple[list[Any], Any]:
    """What a server receives, a list of float32 vectors, and which of them are honest."""
    rng = np.random.default_rng(2022)
    shared = 0.5e-4 * rng.standard_t(3, D)
    honest = (shared + 1e-4 * rng.standard_t(3, (N - F, D))).astype(np.float32)
    hostile = [np.asarray(row, np.float32) for row in case.hostile(honest.astype(np.float64), rng)]
    scale = np.float32(case.unit if unit is None else unit)
    order = rng.permutation(N)
    received = [row * scale for row in (*honest, *hostile)]
    return [received[place] for place in order], order < N - F


def judged(case: Case, call: Callable[[Any], Any]) -> str:
    """What came of it, in a word or an error's name; `call` takes a matrix, or a list where lengths differ."""
    received, honest = rows(case)
    answer = _answered(call, received)
    if isinstance(answer, str):
        return answer
    if not np.isfinite(answer).all():
        return "not finite"
    kept = np.stack([row for row, good in zip(received, honest, strict=True) if good]).astype(np.float64)
    mean = kept.mean(axis=0)
    spread = float(np.linalg.norm(kept - mean, axis=1).max())
    away = float(np.linalg.norm(answer - mean))
    if case.unit != 1.0:
        usual, once_more = (_answered(call, rows(case, unit=1.0)[0]) for _ in range(2))
        if isinstance(usual, str) or float(np.linalg.norm(answer - case.unit * usual)) > ALIKE * spread:
            # Some rules draw: then another answer says nothing about the unit.
            return "another answer" if np.array_equal(usual, once_more) else "another answer at each call"
        return "kept"
    return "kept" if away <= (1 + SLACK) * spread else f"{away / spread:.1g} spreads away"


def _answered(call: Callable[[Any], Any], received: list[Any]) -> Any:
    alike = len({len(row) for row in received}) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with _limited():
                found = call(np.stack(received) if alike else received)
        except Exception as error:
            return type(error).__name__
        except _Late:
            return f"no answer in {SECONDS:g} s"
    return np.asarray(found[0] if isinstance(found, (list, tuple)) else found, dtype=np.float64).reshape(-1)


class _Late(BaseException):  # no Exception, which a library may catch and go on
    pass


@contextlib.contextmanager
def _limited() -> Iterator[None]:
    def late(_number: int, _frame: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)
