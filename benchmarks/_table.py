"""The rows of the table: which timings make each, and what it may take in units of the fastest mean."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from benchmarks import _own
from benchmarks._data import Data
from benchmarks._harness import Timing
from benchmarks._measured import Measured

__all__ = ["ROWS", "Entry", "Row", "entries", "tasks_of_table"]

Made: TypeAlias = tuple[Timing, Timing, str]
Make: TypeAlias = Callable[[Measured, Data], Made]

CLASSES = {"Krum": range(16), "Comed": range(16, 32), "GeometricMedian": range(32, 48), "Bulyan": range(48, 64)}


@dataclass(frozen=True)
class Entry:
    """A row, measured: what was timed, what of it is held against the limit, and what is left to say."""

    row: Row
    timing: Timing
    held: Timing
    note: str = ""


@dataclass(frozen=True)
class Row:
    """A row of the table.

    Attributes
    ----------
    name : str
    limit : float, optional
        Multiples of the fastest mean, at most.
    faster : float, optional
        Times faster than the fastest peer, at least.
    peer : str, optional
        The name under which peers have it.
    memory : str, optional
        The task whose peak memory stands in the row.
    """

    name: str
    make: Make
    limit: float | None = None
    faster: float | None = None
    peer: str | None = None
    memory: str | None = None


def _one(task: str) -> Make:
    return lambda measured, data: (measured.of(data, task), measured.of(data, task), "")


def _worst(measured: Measured, timings: dict[str, Timing]) -> tuple[str, Timing]:
    name = max(timings, key=lambda each: measured.multiple(timings[each])[0])
    return name, timings[name]


def _any_norm(measured: Measured, data: Data) -> Made:
    """The slowest of sixteen norms; with gradients, at any magnitude that was measured."""
    kinds: list[Data] = ["gradients", "far", "tiny"] if data == "gradients" else [data]
    timings = {
        f"p = {p:g}{', ' + kind if kind != 'gradients' else ''}": measured.of(kind, f"Krum p={p:g}")
        for kind in kinds
        for p in _own.NORMS
        if measured.has(kind, f"Krum p={p:g}")
    }
    name, timing = _worst(measured, timings)
    return timing, timing, f"slowest at {name}"


def _a_pass(measured: Measured, data: Data) -> Made:
    names = [f"GeometricMedian p={p:g}" for p in _own.NORMS if p != 2.0]
    passes = {name: measured.passes[f"{data}/{name}"] for name in names}
    shares = {name: measured.of(data, name) * (1 / passes[name]) for name in names}
    name, timing = _worst(measured, shares)
    return timing, timing, f"slowest at {name[16:]}; {min(passes.values())} to {max(passes.values())} passes"


def _behind(task: str) -> Make:
    def make(measured: Measured, data: Data) -> Made:
        timing = measured.of(data, f"NNM >> {task}")
        return timing, timing - measured.of(data, task), "held: over the rule itself"

    return make


def _mean_of(places: range | tuple[int, ...]) -> Make:
    def make(measured: Measured, data: Data) -> Made:
        known = [measured.of(data, f"pool {place}") for place in _distinct(places)]
        # The sixteen comeds of the pool are one rule, timed once.
        shares = [16 if place == 16 else 1 for place in _distinct(places)]
        total = known[0] * shares[0]
        for timing, share in zip(known[1:], shares[1:], strict=True):
            total = total + timing * share
        mean = total * (1 / sum(shares))
        slowest = max(measured.multiple(each)[0] for each in known)
        return mean, mean, f"slowest rule: {slowest:.1f}"

    return make


def _distinct(places: range | tuple[int, ...]) -> list[int]:
    return [place for place in places if not 16 < place < 32]


def _over_n(task: str) -> Make:
    def make(measured: Measured, data: Data) -> Made:
        alone = measured.of(data, f"{task}, n alone")
        timing = measured.of(data, task)
        return timing, timing - alone, f"held: less {1e3 * alone.median:.2f} ms that depend on n alone"

    return make


_COLUMNWISE_OR_OTHER = {"Comed", "TrimmedMean", "Meamed", "Krum p=3"}

ROWS: tuple[Row, ...] = (
    Row("Comed", _one("Comed"), 1.6, 60, "Comed", "Comed"),
    Row("TrimmedMean", _one("TrimmedMean"), 2, 30, "TrimmedMean", "TrimmedMean"),
    Row("Meamed", _one("Meamed"), 3, 60, "Meamed", "Meamed"),
    Row("Krum, p = 2", _one("Krum"), 2.5, 8, "Krum", "Krum"),
    Row("MultiKrum, p = 2", _one("MultiKrum"), 3, 8, "MultiKrum", "MultiKrum"),
    Row("Krum, any integer p up to 16, any magnitude", _any_norm, 9, memory="Krum p=16"),
    Row("all 16 distance matrices of the paper's pool", _one("sixteen distances"), 12, memory="sixteen distances"),
    Row("GeometricMedian, p = 2", _one("GeometricMedian"), 3.5, 12, "GeometricMedian", "GeometricMedian"),
    Row("Bulyan", _one("Bulyan"), 7, 40, "Bulyan", "Bulyan"),
    Row("GeometricMedian, other p, a pass", _a_pass, 2.5, memory="GeometricMedian p=3"),
    *(
        Row(
            f"NNM >> {task.replace('p=', 'p = ')}",
            _behind(task),
            8 if task in _COLUMNWISE_OR_OTHER else 1.5,
            None,
            f"NNM >> {task}",
            f"NNM >> {task}",
        )
        for task in _own.CHAINED
    ),
    Row("MixTailor, the paper's pool, mean of 64 rules", _mean_of(_own.POOL), 15, memory="pool 0"),
    *(Row(f"MixTailor, its 16 {name}", _mean_of(places)) for name, places in CLASSES.items()),
    *(Row(task, _over_n(task), 8, None, task, task) for task in ("SMEA", "CAF", "MDA")),
    # Samples of coordinates depend on more than n, so that nothing is taken off.
    Row("DnC", _one("DnC"), 8, None, "DnC", "DnC"),
    *(
        Row(f"recommended, {rule}", _one(f"recommended, {rule}"), 10, memory=f"recommended, {rule}")
        for rule in _own.REMEMBERED
    ),
)


def tasks_of_table() -> list[str]:
    """Our tasks that the rows are made of, on every kind of data; the norms of Krum are measured on tiny rows too."""
    return [
        *_own.MAIN,
        *(f"Krum p={p:g}" for p in _own.NORMS),
        "sixteen distances",
        *(f"GeometricMedian p={p:g}" for p in _own.NORMS if p != 2.0),
        *(f"NNM >> {name}" for name in _own.CHAINED),
        *(f"pool {place}" for place in _distinct(_own.POOL)),
        *_own.ALONE,
        *(f"{name}, n alone" for name in _own.SEARCHED),
        *(f"recommended, {name}" for name in _own.REMEMBERED),
    ]


def entries(measured: Measured, data: Data) -> Iterator[Entry]:
    """Every row of the table, from what was measured."""
    for row in ROWS:
        timing, held, note = row.make(measured, data)
        yield Entry(row, timing, held, note)
