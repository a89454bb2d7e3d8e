"""Passes over the coordinates: sums over runs, the same bits every time, repaired where powers over- or underflow."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

from mixtailor.kernels.norms import HIGHEST, lengths
from mixtailor.kernels.selection import in_range
from mixtailor.updates.engine import CpuEngine, Engine, Floats, Integers
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point

if TYPE_CHECKING:
    from mixtailor.updates.home import Home

__all__ = ["Passes"]

Flags: TypeAlias = npt.NDArray[np.bool_]

# Below this, a sum of p-th powers has lost digits to underflow and is formed anew with a scale.
_TINY = 1e-280
_HUGE = float(np.finfo(np.float64).max)
# Up to this power no difference of float32 numbers vanishes, and few overflow; beyond it rows are looked at first.
_SAFE_POWER = 4.0
_SAFE_DECADES = 150.0
# A pass holds at most about this many numbers of answers that are still to be summed, or those of so many runs.
_HELD = 1 << 17
_LEAST_RUNS = 8


class Passes(ABC):
    """Rows by blocks, and what is summed over them. Abstract; `Updates` asks its questions through it."""

    n: int
    d: int
    engine: Engine[Any]
    in_memory: ClassVar[bool] = True  # else one reading for all is worth more than a quicker one for some

    @property
    @abstractmethod
    def home(self) -> "Home": ...

    @abstractmethod
    def runs(self) -> list[tuple[int, int]]:
        """The runs of coordinates that passes go over, in order, without gaps."""

    @abstractmethod
    def block(self, start: int, stop: int) -> Any:
        """All rows over one run of coordinates."""

    @abstractmethod
    def coordinates(self, which: Integers) -> Floats:
        """The rows on these coordinates, as a small matrix."""

    def values(self, point: Point, start: int, stop: int) -> Any:
        """A point's coordinates over one run, in float64."""
        if isinstance(point, Given):
            return self.home.given_values(point.vector, start, stop)
        if isinstance(point, Formula):
            return point.function(start, stop, *(self.values(part, start, stop) for part in point.parts))
        block = point.updates.block(start, stop)
        if isinstance(point, Combination):
            values, finite = point.updates.engine.combine(block, point.weights)
        elif isinstance(point, Columns):
            values, finite = point.updates.engine.columns(block, point.statistic)
        else:
            raise TypeError(f"{point!r} is not a point of this package.")
        if not finite:
            self.home.examine()
        return values

    def _fold(
        self, question: Callable[[int, int], Any], *, size: int, maximum: "bool | np.ndarray[Any, Any]" = False
    ) -> Floats:
        """The answers for all runs, each of `size` numbers: their sums, or maxima, or both by a mask of the first axis.

        In the order of the runs, whatever the threads did: the same bits every time.
        """
        runs = self.runs()
        step = max(_LEAST_RUNS, _HELD // max(size, 1))
        total: Floats | None = None
        for at in range(0, len(runs), step):
            parts = self.home.gathered([partial(question, start, stop) for start, stop in runs[at : at + step]])
            part = _reduced(parts, maximum)
            total = part if total is None else _reduced(np.stack([total, part]), maximum)
        assert total is not None  # there is always one run, though it may be empty
        return total

    def _total(self, question: Callable[[int, int], Any], *, size: int = 1) -> Floats:
        return self.home.reduce(self._fold(question, size=size))

    def _sum(self, question: Callable[[int, int, Any], Any], *, size: int = 1) -> Floats:
        total = self._total(lambda start, stop: question(start, stop, self.block(start, stop)), size=size)
        if not np.isfinite(total).all():
            self.home.examine()
        return total

    def gram(self, about: int, inverse_scales: Floats, *, origin: bool) -> Floats:
        """Inner products of ``(row - about) * inverse_scale``, from the differences; with the origin as last row."""

        def question(_start: int, _stop: int, block: Any) -> Floats:
            return self.engine.gram(self.engine.with_origin(block) if origin else block, about, inverse_scales)

        return self._sum(question, size=(self.n + 1) ** 2)

    def gram_rows(self, about: int, inverse_scales: Floats, which: Integers) -> Floats:
        """Some rows of `gram`: what costs little more than a reading, where they are few."""
        return self._sum(
            lambda _start, _stop, block: self.engine.gram_rows(block, about, inverse_scales, which),
            size=self.n * len(which),
        )

    def _zero_is_exact(self, _p: float) -> bool:
        """Whether a sum of p-th powers that is zero means equal rows, and not underflow."""
        return False

    def _measure(self, norms: tuple[float, ...]) -> dict[float, Floats]:
        direct = tuple(p for p in norms if self._is_direct(p))
        others = tuple(p for p in norms if p not in direct)
        if direct and (self.in_memory or not others):
            return {**self._measure_directly(direct), **(self._measure(others) if others else {})}
        powers = np.array(norms)
        factor = 1.0 if norms == (2.0,) else self._factor(max((p for p in norms if p < np.inf), default=1.0))
        sums = self._sums_or_maxima(powers, lambda block: self.engine.pair_sums(block, powers, factor), size=self.n**2)
        equal, exact = np.zeros((self.n, self.n), bool), np.array([self._zero_is_exact(p) for p in norms])
        if in_range(sums, powers, exact, _TINY, equal):
            return {p: _rooted(p, total, factor) for p, total in zip(norms, sums, strict=True)}
        if not np.isfinite(sums).all():
            self.home.examine()
        suspects = _suspects(norms, sums, equal)
        scales = self._pair_maxima(np.logical_or.reduce(suspects))
        return {
            p: self._repaired_pairs(p, total, factor, suspect, scales)
            for p, total, suspect in zip(norms, sums, suspects, strict=True)
        }

    def _is_single(self) -> bool:
        """Whether blocks hold rows of float32 that were received, on the CPU."""
        return self.home is self and getattr(self, "tile", None) == np.float32 and isinstance(self.engine, CpuEngine)

    def _is_direct(self, p: float) -> bool:
        """Whether distances come as such, from float32 arithmetic: not for p = 2, since its digits carry a geometry."""
        return p != 2.0 and p <= HIGHEST and 4 * p == int(4 * p) and self._is_single()

    def _measure_directly(self, norms: tuple[float, ...]) -> dict[float, Floats]:
        powers = np.array(norms)
        total = self._lengths(
            lambda engine, start, stop: engine.pair_norms(self.block(start, stop), powers), powers, size=self.n**2
        )
        total = total.reshape(len(norms), self.n, self.n)
        total.setflags(write=False)
        return dict(zip(norms, total, strict=True))

    def _lengths(self, question: Callable[[CpuEngine, int, int], Floats], powers: Floats, *, size: int) -> Floats:
        """The l_p lengths, (P, size), of which the question gives those over one run."""
        engine, runs = self.engine, self.runs()
        assert isinstance(engine, CpuEngine)

        def part(start: int, stop: int) -> Floats:
            return question(engine, start, stop).reshape(len(powers), size)

        step = max(_LEAST_RUNS, _HELD // (size * len(powers)))
        total = np.zeros((len(powers), size))
        for at in range(0, len(runs), step):
            parts = self.home.gathered([partial(part, *run) for run in runs[at : at + step]])
            total = parts[0] if len(runs) == 1 else lengths(np.concatenate([total[None], parts]), powers)
        if not np.isfinite(total).all():
            self.home.examine()
        return total

    def _pair_maxima(self, pairs: Flags) -> Floats:
        """The largest difference of each of these pairs, n x n; one reading for all norms that ask for it."""
        scales = np.zeros(pairs.shape)
        first, second = (index.astype(np.intp) for index in np.nonzero(pairs))
        if len(first):
            scales[first, second] = self.home.reduce(
                self._fold(
                    lambda a, b: self.engine.pair_maxima(self.block(a, b), first, second),
                    size=len(first),
                    maximum=True,
                ),
                maximum=True,
            )
        return scales

    def _factor(self, p: float) -> float:
        """A power of two that brings the p-th powers of differences into range, from a look at a few coordinates.

        Only a guess: what still overflows or vanishes is formed anew, pair by pair, each with its own scale.
        """
        if p <= _SAFE_POWER or self.n < 2 or not self.d:
            return 1.0
        few = np.asarray(self.coordinates(np.unique(np.linspace(0, self.d - 1, 32).astype(np.intp))), np.float64)
        with np.errstate(invalid="ignore", over="ignore"):
            gaps = np.abs(few[1:] - few[:-1])
        gaps = gaps[np.isfinite(gaps) & (gaps > 0)]
        usual = float(np.median(gaps)) if len(gaps) else 1.0
        if not 1e-300 < usual < 1e300 or p * abs(np.log10(usual)) < _SAFE_DECADES:
            return 1.0
        return float(2.0 ** -np.round(np.log2(usual)))

    def _sums_and_maxima(self, powers: Floats, question: Callable[[Any], Any], *, size: int) -> Floats:
        total = self._sums_or_maxima(powers, question, size=size)
        if not np.isfinite(total).all():
            self.home.examine()
        return total

    def _sums_or_maxima(self, powers: Floats, question: Callable[[Any], Any], *, size: int) -> Floats:
        """As they come: whether they are finite is for the caller to see."""
        if len(powers) == 1:
            maximum = bool(powers[0] == np.inf)
            total = self._fold(lambda start, stop: question(self.block(start, stop)), size=size, maximum=maximum)
            return self.home.reduce(total, maximum=maximum)
        largest = [p == np.inf for p in powers.tolist()]
        infinite, mixed = np.array(largest), any(largest) and not all(largest)
        total = self._fold(
            lambda start, stop: question(self.block(start, stop)),
            size=size * len(powers),
            maximum=infinite if mixed else largest[0],
        )
        if mixed:
            total[infinite] = self.home.reduce(total[infinite], maximum=True)
            total[~infinite] = self.home.reduce(total[~infinite])
        else:
            total = self.home.reduce(total, maximum=largest[0])
        return total

    def _repaired_pairs(self, p: float, sums: Floats, factor: float, suspect: Flags, scales: Floats) -> Floats:
        answer = _rooted(p, sums, factor)
        if suspect.any():
            answer.setflags(write=True)
            exact = np.minimum(scales, _HUGE)
            if not np.isinf(p):
                # Pairs without any difference are equal after all; the others are formed anew, in their own units.
                first, second = (index.astype(np.intp) for index in np.nonzero(suspect & (scales > 0)))
                units = exact[first, second]
                if len(first):
                    anew = self._total(
                        lambda a, b: self.engine.pair_sums_scaled(self.block(a, b), first, second, p, units),
                        size=len(first),
                    )
                    with np.errstate(over="ignore"):
                        exact[first, second] = np.minimum(units * np.minimum(anew, _HUGE) ** (1.0 / p), _HUGE)
            answer[suspect] = exact[suspect]
            answer.T[suspect] = exact[suspect]
            answer.setflags(write=False)
        return answer

    def _in_norms(self, point: Point, norms: tuple[float, ...]) -> tuple[Floats, ...]:
        if len(norms) == 1:
            return (self._to_points(point, norms[0]),)
        powers = np.array(norms)
        largest = np.isinf(powers)
        total = self._fold(
            lambda a, b: self.engine.point_sums(self.block(a, b), self.values(point, a, b), powers),
            size=self.n * len(norms),
            maximum=largest,
        )
        for which, maximum in ((largest, True), (~largest, False)):
            if which.any():
                total[which] = self.home.reduce(total[which], maximum=maximum)
        sound = np.isfinite(total).all(axis=1) & (largest | (total >= _TINY).all(axis=1))
        return tuple(
            (sums if np.isinf(q) else sums ** (1.0 / q)) if ok else self._to_points(point, q)
            for q, sums, ok in zip(norms, total, sound, strict=True)
        )

    def _to_combinations(self, points: Sequence[Combination], norms: Sequence[float]) -> list[Floats]:
        if not isinstance(self.engine, CpuEngine):  # a device is kept busy by one point
            return [self._to_points(point, float(p)) for point, p in zip(points, norms, strict=True)]

        if self._is_single():
            finite = [place for place, p in enumerate(norms) if p < np.inf]
            known = self._lengths_to([points[place] for place in finite], [norms[place] for place in finite])
            found = dict(zip(finite, known, strict=True))
            return [
                found[place] if place in found else self._to_points(point, float(norms[place]))
                for place, point in enumerate(points)
            ]

        def question(block: Any) -> Any:
            each = zip(points, norms, strict=True)
            return np.stack([self.engine.combination_sums(block, point.weights, float(p)) for point, p in each])

        total = self._sums_and_maxima(np.array(norms, np.float64), question, size=self.n)
        if total.min() >= _TINY and total.max() < np.inf:
            return [sums if np.isinf(p) else sums ** (1.0 / p) for p, sums in zip(norms, total, strict=True)]
        each = []
        for point, p, sums in zip(points, norms, total, strict=True):
            lost = ~np.isfinite(sums)
            if not np.isinf(p):
                lost |= (sums < _TINY) & ~((sums == 0.0) & self._zero_is_exact(p))
            plain = sums if np.isinf(p) else sums ** (1.0 / p)
            each.append(self._to_points(point, float(p)) if lost.any() else plain)
        return each

    def _lengths_to(self, points: Sequence[Combination], norms: Sequence[float]) -> Floats:
        if not points:
            return np.zeros((0, self.n))

        def question(engine: CpuEngine, start: int, stop: int) -> Floats:
            block, each = self.block(start, stop), zip(points, norms, strict=True)
            return np.stack([engine.combination_norms(block, point.weights, float(p)) for point, p in each])

        return self._lengths(question, np.array(norms, np.float64), size=self.n)

    def _to_points(self, point: Point | None, p: float) -> Floats:
        """Distances of the rows to a point, or to the origin; scaled where the plain sums over- or underflow."""
        if isinstance(point, Combination) and point.updates is self and p < np.inf and self._is_single():
            return np.asarray(self._lengths_to([point], [p])[0])

        def values(start: int, stop: int) -> Any:
            return self.engine.zeros(stop - start) if point is None else self.values(point, start, stop)

        if p < np.inf and self._is_single():
            found = self._lengths(
                lambda engine, start, stop: engine.point_norms(self.block(start, stop), values(start, stop), p),
                np.array([p]),
                size=self.n,
            )
            return np.asarray(np.minimum(found[0], _HUGE))

        def of(powers: Floats) -> Floats:
            if isinstance(point, Combination) and point.updates is self and len(powers) == 1:
                return self._sums_and_maxima(
                    powers,
                    lambda block: self.engine.combination_sums(block, point.weights, float(powers[0]))[None],
                    size=self.n,
                )
            largest = bool(np.isinf(powers[0]))
            total = self._fold(
                lambda a, b: self.engine.point_sums(self.block(a, b), values(a, b), powers),
                size=self.n,
                maximum=largest,
            )
            total = self.home.reduce(total, maximum=largest)
            if not np.isfinite(total).all():
                self.home.examine()
            return total

        sums: Floats = of(np.array([p]))[0]
        if np.isinf(p):
            return np.minimum(sums, _HUGE)
        if np.isfinite(sums).all() and not ((sums < _TINY) & ~((sums == 0.0) & self._zero_is_exact(p))).any():
            return sums ** (1.0 / p)
        scales = np.minimum(of(np.array([np.inf]))[0], _HUGE)
        safe = np.where(scales > 0, scales, 1.0)
        scaled = self._total(
            lambda a, b: self.engine.point_sums_scaled(self.block(a, b), values(a, b), p, safe), size=self.n
        )
        with np.errstate(over="ignore"):  # a length beyond float64 is its largest number
            return np.minimum(safe * np.minimum(scaled, _HUGE) ** (1.0 / p), _HUGE)


def _suspects(norms: tuple[float, ...], sums: Floats, equal: Flags) -> list[Flags]:
    """For each norm the pairs whose sums over- or underflowed: not those of equal rows, which are zero by right."""
    bad = [~np.isfinite(total) | (total < _TINY) & (p < np.inf) for p, total in zip(norms, sums, strict=True)]
    return [np.triu(which & ~equal, 1) for which in bad]


def _rooted(p: float, sums: Floats, factor: float) -> Floats:
    """Distances from sums of p-th powers that were taken of differences times a factor."""
    answer: Floats = sums.copy() if p == np.inf else sums ** (1.0 / p)
    if factor != 1.0:
        answer /= factor
    answer.flat[:: len(answer) + 1] = 0.0
    answer.setflags(write=False)
    return answer


def _reduced(parts: Floats, maximum: "bool | np.ndarray[Any, Any]") -> Floats:
    """Sums over the first axis, or maxima, or both by a mask of the second."""
    if len(parts) == 1:
        return np.asarray(parts[0], np.float64)
    if isinstance(maximum, bool):
        return np.asarray(parts.max(axis=0) if maximum else parts.sum(axis=0))
    total = np.empty(parts.shape[1:])
    total[maximum] = parts[:, maximum].max(axis=0)
    total[~maximum] = parts[:, ~maximum].sum(axis=0)
    return total
