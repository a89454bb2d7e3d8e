"""`Home`: received rows, wherever they live."""

import hashlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import refuse
from mixtailor.kernels import threads
from mixtailor.updates.base import Call, Faulty, Updates
from mixtailor.updates.engine import Engine, Floats, Integers
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point, only_row

__all__ = ["Home", "split"]

# A pass hands out runs of about this many entries (all rows together): enough to keep a thread busy, few enough to
# share out evenly. Runs do not depend on the number of threads, so neither do the bits of a sum.
RUN_ENTRIES = 1 << 20
# Views copy a run before they work on it, so theirs are smaller.
VIEW_ENTRIES = 1 << 17
# Below this, handing work to another thread takes longer than it saves.
SMALL_ENTRIES = 1 << 19


def split(stop: int, width: int, start: int = 0) -> list[tuple[int, int]]:
    """Runs of about equal width, none much longer than `width`; one empty run where there is nothing."""
    count = max(1, round((stop - start) / width))
    step = max(1, -(-(stop - start) // count))
    return [(lo, min(lo + step, stop)) for lo in range(start, stop, step)] or [(start, start)]


def run_width(n: int, entries: int) -> int:
    """How many coordinates make a run of n rows."""
    return max(1024, entries // max(n, 1) // 64 * 64)


class Home(Updates):
    """Received rows. Abstract: a home for each place that rows can live in.

    Laws: `block` reads in place where it can; `only` keeps rows in order and reads nothing; `new` makes an answer of
    the type that rows have here, and `evaluate` fills it run by run.

    Attributes
    ----------
    received : tuple of int
        Which of the rows as received these are.
    in_place : bool
        Whether a block is nothing but addresses.
    """

    in_place: ClassVar[bool] = False

    def __init__(self, n: int, d: int, engine: Engine[Any], call: Call, received: Sequence[int]) -> None:
        super().__init__(n, d, engine, call)
        self.received = tuple(received)
        self._examined = False

    @property
    def home(self) -> "Home":
        return self

    @property
    def root(self) -> Updates:
        return self

    @property
    def weights(self) -> Floats:
        return np.eye(self.n)

    def runs(self) -> list[tuple[int, int]]:
        return split(self.d, run_width(self.n, RUN_ENTRIES))

    def view_runs(self, n: int) -> list[tuple[int, int]]:
        """Runs for a view of n rows that copies before it works."""
        return split(self.d, run_width(max(n, self.n), VIEW_ENTRIES))

    @abstractmethod
    def only(self, rows: Sequence[int]) -> "Home":
        """A home of these rows alone, which knows nothing of the others."""

    def _subset(self, rows: Integers) -> Updates:
        # Known distances are worth keeping; with none known, rows that are not taken need not be read.
        if self._distances and len(set(rows.tolist())) == len(rows):
            return super()._subset(rows)
        return self.only([int(row) for row in rows])

    # The answer.

    @property
    @abstractmethod
    def largest(self) -> float:
        """The largest number that every coordinate of an answer can hold."""

    @abstractmethod
    def new(self) -> Any:
        """An empty answer, flat."""

    @abstractmethod
    def slice(self, answer: Any, start: int, stop: int) -> Any:
        """A run of the answer, to be written to."""

    @abstractmethod
    def copy_row(self, row: int, answer: Any) -> None:
        """Write one row to the answer, bit for bit."""

    @abstractmethod
    def assemble(self, matrices: list[Any]) -> Any:
        """The blocks of a matrix, side by side, in the rows' type."""

    @abstractmethod
    def given_values(self, vector: Any, start: int, stop: int) -> Any:
        """A run of a vector from outside, in float64."""

    @abstractmethod
    def given_coordinates(self, vector: Any, which: Integers) -> Floats:
        """Some coordinates of a vector from outside."""

    def picked(self, run: Any, which: Integers) -> Floats:
        """Some numbers of a run that this process computed, by their place in it."""
        return self.given_coordinates(run, which)

    def evaluate(self, point: Point) -> Any:
        """The point's coordinates, in a new answer."""
        answer = self.new()
        updates = point.updates
        if isinstance(point, Combination):
            over, weights = updates, point.weights
            if updates.root is self:
                over, weights = self, weights if updates is self else weights @ updates.weights
                row = only_row(weights)
                if row is not None:
                    self._check_row(row)
                    self.copy_row(row, answer)
                    return answer
                if updates._by_parts():  # in the order in which rows were measured: what cancelled there does here
                    over, weights = updates, point.weights
            self._fill(over, partial(self._combine_run, answer, over, weights, np.nonzero(weights)[0]))
        elif isinstance(point, Columns):
            self._fill(updates, partial(self._columns_run, answer, point))
        elif isinstance(point, (Given, Formula)):
            self._fill(self, partial(self._values_run, answer, point))
        return answer

    def _fill(self, over: Updates, write: Any) -> None:
        if not self.gathered([partial(write, start, stop) for start, stop in over.runs()]).all():
            self.examine()

    def _combine_run(
        self, answer: Any, updates: Updates, weights: Floats, used: Integers, start: int, stop: int
    ) -> bool:
        block = updates.block(start, stop)
        if len(used) < len(weights):
            block = self.engine.take(block, used)
        return self.engine.combine_into(block, weights[used], self.slice(answer, start, stop))

    def _columns_run(self, answer: Any, point: Columns, start: int, stop: int) -> bool:
        block = point.updates.block(start, stop)
        return self.engine.columns_into(block, point.statistic, self.slice(answer, start, stop))

    def _values_run(self, answer: Any, point: Point, start: int, stop: int) -> bool:
        self.engine.store(self.values(point, start, stop), self.slice(answer, start, stop))
        return True

    # Passes.

    def gathered(self, jobs: Sequence[Callable[[], Any]]) -> Any:
        """Run the jobs of a pass and stack their small answers, in order, as one numpy array."""
        if len(jobs) == 1:
            return np.asarray(jobs[0]())[None]
        if self.n * self.d <= SMALL_ENTRIES:
            return np.stack([job() for job in jobs])
        return np.stack(threads.over(jobs))

    # Faults.

    def reduce(self, total: Floats, *, maximum: bool = False) -> Floats:
        """Sums of this process's coordinates to sums of all: the same thing, unless coordinates are shared out."""
        return total

    def examine(self) -> None:
        """Look for non-finite entries, row by row; called where a pass saw a sign of one."""
        if self._examined:
            return
        parts = self.gathered([partial(self._finite_run, start, stop) for start, stop in self.runs()])
        finite = self.reduce((~parts.all(axis=0)).astype(np.float64)) == 0.0
        if not finite.all():
            raise Faulty([self.received[row] for row in np.nonzero(~finite)[0]])
        self._examined = True

    def _finite_run(self, start: int, stop: int) -> "np.ndarray[Any, np.dtype[np.bool_]]":
        return self.engine.finite_rows(self.block(start, stop))

    def _check_row(self, row: int) -> None:
        """A row that is handed out as it is has been read by no pass if the rule decided without one."""
        if self._distances or self._examined:
            return
        self.only([row]).examine()

    @abstractmethod
    def row_bytes(self, row: int) -> Iterable[Any]:
        """One row's coordinates as buffers, in the type they came in."""

    def digests(self) -> list[bytes]:
        """The SHA-256 of each row's coordinates, in the type and order they came in."""
        digests = []
        for row in range(self.n):
            digest = hashlib.sha256()
            for part in self.row_bytes(row):
                digest.update(part)
            digests.append(digest.digest())
        return digests

    # Plain callables.

    def check_materialise(self, rule: str) -> None:
        """Refuse where a matrix of all updates must not be made."""

    def adopt(self, answer: Any, rule: str) -> Any:
        """What a plain callable returned, as a flat vector."""
        vector = np.asarray(answer)
        if vector.dtype.kind not in "fiub":
            raise TypeError(f"{rule} needs to return real numbers and returned an array of {vector.dtype}.")
        if vector.shape != (self.d,):
            refuse(f"{rule} needs to return a vector of {self.d} coordinates and returned shape {vector.shape}.")
        vector = vector.astype(np.float64)
        if not np.isfinite(vector).all():
            refuse(f"{rule} returned an update that is not finite, from finite rows.")
        return vector
