"""Rows as differences to a base, which are never made: most questions do not care where the origin is."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, final

import numpy as np

from mixtailor.updates.base import Call
from mixtailor.updates.engine import Floats, Integers
from mixtailor.updates.home import Home
from mixtailor.updates.points import Columns, Combination, Point
from mixtailor.updates.statistics import AroundMedian, AroundTrimmed, Median, Trimmed

if TYPE_CHECKING:
    from mixtailor.updates.receive import Arrival

__all__ = ["Differences"]

# Statistics of columns that move with the column.
_MOVING = (Median, Trimmed, AroundMedian, AroundTrimmed)


@final
class Differences(Home):
    r"""The rows :math:`s_i (x_i - b)` of a home whose last row is the base b.

    Without scales, distances, products about a row, columnwise statistics and combinations are taken of the rows as
    they lie, in place, and the base is subtracted from the answer. Other questions see the differences run by run, in
    float64. Extra memory is that of the home behind.

    Parameters
    ----------
    whole : Home
        The rows, and the base after them. The base must be finite.
    call : Call
    scales : array, optional
        A factor for each row.

    Attributes
    ----------
    arrival : Arrival or None
        What was received, set by who made this; a rule that is given the differences finds it here.

    Examples
    --------
    >>> from mixtailor.updates.dense import Dense
    >>> rows = Differences(Dense.of(np.array([[3.0, 1.0], [5.0, 1.0], [1.0, 1.0]])), Call())
    >>> rows.norms(), rows.at(rows.mean())
    (array([2., 4.]), array([3., 0.]))
    """

    arrival: "Arrival | None" = None

    def __init__(self, whole: Home, call: Call, scales: Floats | None = None) -> None:
        super().__init__(whole.n - 1, whole.d, whole.engine, call, whole.received[:-1])
        self.whole, self.scales = whole, scales
        self._factors = np.ones(self.n) if scales is None else np.asarray(scales, np.float64)
        self._mixing = np.column_stack([np.diag(self._factors), -self._factors])

    @property
    def largest(self) -> float:
        return self.whole.largest

    def runs(self) -> list[tuple[int, int]]:
        return self.whole.view_runs(self.n + 1)

    def view_runs(self, n: int) -> list[tuple[int, int]]:
        return self.whole.view_runs(max(n, self.n + 1))

    def block(self, start: int, stop: int) -> Any:
        return self.engine.mix(self.whole.block(start, stop), self._mixing)

    def coordinates(self, which: Integers) -> Floats:
        rows = np.asarray(self.whole.coordinates(which), np.float64)
        with np.errstate(invalid="ignore", over="ignore"):  # what is not finite is found and named by the pass
            apart: Floats = self._factors[:, None] * (rows[:-1] - rows[-1])
        return apart

    def only(self, rows: Sequence[int]) -> "Differences":
        scales = None if self.scales is None else self.scales[list(rows)]
        return Differences(self.whole.only([*rows, self.n]), self.call, scales)

    # Questions that do not care about the base.

    def _measure(self, norms: tuple[float, ...]) -> dict[float, Floats]:
        if self.scales is not None:
            return super()._measure(norms)
        found = {}
        for p, between in zip(norms, self.whole.distances(norms), strict=True):
            found[p] = between[:-1, :-1]
            self._norms[p] = between[:-1, -1]  # the distance to the base is the norm of the difference
        return found

    def gram(self, about: int, inverse_scales: Floats, *, origin: bool) -> Floats:
        if self.scales is not None:
            return super().gram(about, inverse_scales, origin=origin)
        units = inverse_scales if origin else np.append(inverse_scales, 1.0)
        whole = self.whole.gram(about % (self.n + 1), units, origin=False)
        return whole if origin else whole[:-1, :-1]

    def examine(self) -> None:
        self.whole.examine()
        self._examined = True

    # The answer.

    def evaluate(self, point: Point) -> Any:
        if isinstance(point, Combination) and point.updates.root is self:
            if point.updates._by_parts():
                answer = self.new()
                self._fill(point.updates, partial(self._values_run, answer, point))
                return answer
            weights = (point.weights @ point.updates.weights) * self._factors
            return self.whole.evaluate(self.whole.combine(np.append(weights, -weights.sum())))
        if (
            isinstance(point, Columns)
            and point.updates is self
            and self.scales is None
            and isinstance(point.statistic, _MOVING)
        ):
            rows = self.whole.only(range(self.n))
            return self._less_base(rows.evaluate(rows.columns(point.statistic)))
        return super().evaluate(point)

    def _less_base(self, answer: Any) -> Any:
        pair = np.array([1.0, -1.0])
        base = self.whole.only([self.n])
        for start, stop in self.whole.view_runs(2):
            own = self.whole.slice(answer, start, stop)
            values = np.concatenate(getattr(own, "pieces", [own])).astype(np.float64)
            block = self.engine.beside(base.block(start, stop), [values])
            self.engine.store(self.engine.combine(block, -pair)[0], own)
        return answer

    def new(self) -> Any:
        return self.whole.new()

    def slice(self, answer: Any, start: int, stop: int) -> Any:
        return self.whole.slice(answer, start, stop)

    def copy_row(self, row: int, answer: Any) -> None:
        raise AssertionError("a difference lies nowhere that it could be copied from")

    def assemble(self, matrices: list[Any]) -> Any:
        return np.concatenate(matrices, axis=1)

    def given_values(self, vector: Any, start: int, stop: int) -> Any:
        return self.whole.given_values(vector, start, stop)

    def given_coordinates(self, vector: Any, which: Integers) -> Floats:
        return self.whole.given_coordinates(vector, which)

    def row_bytes(self, row: int) -> Iterable[Any]:
        """What was sent, base and all: that is what a worker can hash too."""
        return self.whole.row_bytes(row)
