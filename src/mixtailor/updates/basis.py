"""`Basis`: the rows that views are combinations of, and what is known of them."""

from collections.abc import Sequence
from typing import Any, final

import numpy as np

from mixtailor._types import Floats, Integers
from mixtailor.updates.blocks import Blocks
from mixtailor.updates.evaluation import values
from mixtailor.updates.geometry import Geometry, in_unit
from mixtailor.updates.points import Point
from mixtailor.updates.reader import Reader

__all__ = ["Basis"]

# Up to so many points beside the rows, their distances are measured point by point.
_FEW = 2


@final
class Basis:
    """Rows, the distances between them that were asked for, and their geometry.

    The rows are those of a storage, or those of a view that must be measured: mixed rows in which far rows cancel, and
    rows with points beside them that are no combinations of them.

    Parameters
    ----------
    reader : Reader
    source : Blocks
        Where the rows come from.
    base : int, optional
        The row that all others are differences to: the origin of the geometry.
    made_of : (Basis, array), optional
        For mixed rows: the basis that they are combinations of, and their weights.
    below, points : Updates, sequence of Point
        For rows with points beside them: the rows, and the points. (Typed loosely: this module is below `Updates`.)
    """

    def __init__(
        self,
        reader: Reader,
        source: Blocks,
        *,
        base: int | None = None,
        made_of: "tuple[Basis, Floats] | None" = None,
        below: Any = None,
        points: Sequence[Point] = (),
    ) -> None:
        self.reader, self.space, self.source, self.n = reader, reader.space, source, source.n
        self.stored = source is reader
        self.made_of, self.below, self.points = made_of, below, points
        self.base, self.origin = base, self.n if base is None else base
        self._single = self.stored and reader.storage.single
        self.lengths: dict[float, Floats] = {}
        self.geometry = Geometry(self)
        self._units: dict[float, tuple[Floats, float]] = {}
        self._norms: dict[float, Floats] = {}
        self._inner: Floats | None = None

    def over_received(self, weights: Floats) -> Floats | None:
        """Weights on these rows as weights on the received updates; None if the rows depend on anything else."""
        if self.stored:
            return weights[: len(self.reader.received)]
        return None if self.made_of is None else self.made_of[0].over_received(weights @ self.made_of[1])

    def measure(self, norms: Sequence[float]) -> list[Floats]:
        """The distances in these norms, each in its unit; all that are not known are measured by one reading."""
        missing = [p for p in dict.fromkeys(norms) if p not in self.lengths]
        if missing:
            self._measure(missing)
        return [self._units[p][0] for p in norms]

    def _measure(self, missing: Sequence[float]) -> None:
        powers = np.array(missing)
        if 0 < len(set(self.points)) <= _FEW:
            self._measure_beside(missing, powers)
            return
        # Squares of differences of float32 numbers never leave float64, so that they can be added as they are.
        raw = np.array([p == np.inf or (p == 2.0 and self._single) for p in missing])

        def query(start: int, stop: int) -> Any:
            return self.space.pair_lengths(self.source.block(start, stop), powers, raw)

        n = self.n
        found = self.reader.lengths(query, self.source.runs(), powers, raw, n * n).reshape(-1, n, n)
        for p, lengths in zip(missing, found, strict=True):
            self.learn(p, lengths)

    def _measure_beside(self, norms: Sequence[float], powers: Floats) -> None:
        """The distances between the rows below, and one pass for each distinct point."""
        below, space = self.below, self.space
        between = below.lengths(norms)
        distinct = list(dict.fromkeys(self.points))
        rows, count = below.n, len(distinct)
        away = np.zeros((len(norms), count, rows + count))
        for index, point in enumerate(distinct):
            later = distinct[index + 1 :]

            def query(start: int, stop: int, point: Point = point, later: "list[Point]" = later) -> Any:
                block = below.block(start, stop)
                if later:
                    block = space.beside(block, [values(other, start, stop) for other in later])
                return space.point_lengths(block, values(point, start, stop), powers)

            raw = np.zeros(len(norms), np.bool_)
            found = self.reader.lengths(query, self.source.runs(), powers, raw, rows + len(later))
            away[:, index, :rows] = found[:, :rows]
            away[:, index, rows + index + 1 :] = away[:, index + 1 :, rows + index] = found[:, rows:]
        place = np.array([distinct.index(point) for point in self.points])
        columns = np.concatenate([np.arange(rows), rows + place])
        for p, known, lengths in zip(norms, between, away, strict=True):
            whole, beside = np.empty((self.n, self.n)), lengths[np.ix_(place, columns)]
            whole[:rows, :rows], whole[rows:], whole[:rows, rows:] = known, beside, beside[:, :rows].T
            self.learn(p, whole)

    def learn(self, p: float, lengths: Floats) -> None:
        """Keep the distances in a norm."""
        lengths.flat[:: self.n + 1] = 0.0
        lengths.setflags(write=False)
        self.lengths[p] = lengths
        scaled = (lengths, 1.0) if self._single else in_unit(lengths)
        scaled[0].setflags(write=False)
        self._units[p] = scaled

    def distances(self, p: float) -> Floats:
        """The distances in a norm, in their unit."""
        if p not in self._units:
            self.measure([p])
        return self._units[p][0]

    def unit(self, p: float) -> float:
        """The unit of the distances in a norm: 1 unless float64 cannot hold their squares."""
        if p not in self._units:
            self.measure([p])
        return self._units[p][1]

    def norms(self, p: float) -> Floats:
        """The distances of the rows to the origin."""
        if self.base is not None:
            self.measure([p])
            from_base: Floats = self.lengths[p][self.base]
            return from_base
        if p not in self._norms:
            powers = np.array([p])

            def query(start: int, stop: int) -> Any:
                return self.space.point_lengths(self.source.block(start, stop), self.space.zeros(stop - start), powers)

            raw = np.zeros(1, np.bool_)
            self._norms[p] = self.reader.lengths(query, self.source.runs(), powers, raw, self.n)[0]
        return self._norms[p]

    def inner(self) -> Floats:
        """Inner products of the rows about zero, from the rows themselves."""
        if self._inner is None:
            self._inner = self.gram(-1, np.ones(self.n), origin=False)
        return self._inner

    def gram(self, about: int, inverse_scales: Floats, *, origin: bool) -> Floats:
        """Inner products of ``(row - about) * inverse_scale``, from differences; with the origin as last row."""
        space = self.space

        def query(start: int, stop: int) -> Any:
            block = self.source.block(start, stop)
            return space.gram(space.with_origin(block) if origin else block, about, inverse_scales)

        return self.reader.total(query, self.source.runs(), (self.n + 1) ** 2)

    def gram_rows(self, about: int, inverse_scales: Floats, which: Integers) -> Floats:
        """Some rows of `gram`: little more than a reading, where they are few."""

        def query(start: int, stop: int) -> Any:
            return self.space.gram_rows(self.source.block(start, stop), about, inverse_scales, which)

        return self.reader.total(query, self.source.runs(), self.n * len(which))
