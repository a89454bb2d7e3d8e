"""Arithmetic on blocks that are torch tensors, on any device, without a host round trip inside a pass."""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from mixtailor._types import Array, Floats, Integers
from mixtailor.kernels import columnwise
from mixtailor.kernels.sketches import signs_of
from mixtailor.kernels.space import Space

__all__ = ["Tensors"]

# Differences of rows are formed for as many rows at once as keep their tile below about this many entries.
_TILE = 1 << 21
# Up to this power, sums of differences of float32 numbers stay within float64.
_SAFE_POWER = 4.0

Weighted: TypeAlias = columnwise.WeightedMedian | columnwise.WeightedTrimmed


class Tensors(Space[torch.Tensor]):
    """Blocks are (k, width) tensors. Small results stay on the device until the pass is over. Final."""

    run_entries = view_entries = 1 << 21  # a device needs more work at a time than the cache of a core holds

    def __init__(self, device: torch.device) -> None:
        self.device = device
        # Apple's devices have no float64; there, sums accumulate in float32.
        self.wide = torch.float32 if device.type == "mps" else torch.float64

    def tensor(self, values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A small host array on the device."""
        return torch.as_tensor(np.require(values, requirements=["C", "W"]), dtype=dtype).to(self.device)

    # Lengths.

    def pair_lengths(self, block: torch.Tensor, powers: Floats) -> Any:
        rows = block.to(self.wide)
        k, width = rows.shape
        step = max(1, _TILE // max(1, k * width))
        safe = block.dtype != torch.float64 and self.wide == torch.float64
        parts = []
        for start in range(0, k, step):
            # Each pair once, and each row with itself, where infinity shows as a difference that is not a number.
            gaps = (rows[start : start + step, None] - rows[None, start:]).abs_()
            found = torch.stack([_lengths(gaps, p, safe) for p in powers.tolist()])
            parts.append(torch.nn.functional.pad(found, (start, 0)))
        lengths = torch.cat(parts, dim=1)
        return lengths.triu() + lengths.triu(1).mT

    def point_lengths(self, block: torch.Tensor, point: Any, powers: Floats) -> Any:
        gaps = (block.to(self.wide) - point).abs_()
        return torch.stack([_lengths(gaps, p, False) for p in powers.tolist()])

    # Products.

    def gram(self, block: torch.Tensor, about: int, inverse_scales: Floats) -> Any:
        rows = block.to(self.wide)
        if about >= 0:
            rows = rows - rows[about]
        rows = rows * self.tensor(inverse_scales, self.wide)[:, None]
        return rows @ rows.mT

    def point_dots(self, block: torch.Tensor, point: Any) -> Any:
        return block.to(self.wide) @ point

    def sketch(self, block: torch.Tensor, start: int, key: int, size: int) -> Any:
        rows, signs, at = block.to(self.wide), np.empty(size), 0
        out = torch.zeros((len(rows), size), dtype=self.wide, device=self.device)
        while at < rows.shape[1]:
            chunk, first = divmod(start + at, size)
            count = min(size - first, rows.shape[1] - at)
            turned = signs_of(np.uint64(key), chunk, signs) + first
            buckets = (turned + np.arange(count)) % size
            part = rows[:, at : at + count] * self.tensor(signs[first : first + count], self.wide)
            out.index_add_(1, self.tensor(buckets), part)
            at += count
        return out

    # Vectors.

    def combine(self, block: torch.Tensor, weights: Floats) -> tuple[Any, Any]:
        values = self.mix(block, weights[None])[0]
        return values, values.isfinite().all()

    def columns(self, block: torch.Tensor, statistic: columnwise.Statistic) -> tuple[Any, Any]:
        rows = block.to(torch.float64 if block.dtype == torch.float64 else torch.float32)
        # Rounded to the type of the rows: a statistic has the digits of what it was computed from.
        return self._statistic(rows, statistic).to(rows.dtype).to(self.wide), rows.isfinite().all()

    def _statistic(self, rows: torch.Tensor, statistic: columnwise.Statistic) -> torch.Tensor:
        if isinstance(statistic, columnwise.Sign):
            return rows.sign().sum(dim=0).sign()
        if isinstance(statistic, columnwise.Extreme):
            return rows.amax(dim=0) if statistic.largest else rows.amin(dim=0)
        if isinstance(statistic, columnwise.Deviation):
            return rows.to(self.wide).std(dim=0, correction=statistic.ddof)
        if isinstance(statistic, Weighted):
            found = rows.sort(dim=0)
            return _weighted(
                found.values.to(self.wide), self.tensor(statistic.mass, self.wide)[found.indices], statistic
            )
        ordered = rows.sort(dim=0).values.to(self.wide)  # no name keeps the indices
        k = len(ordered)
        match statistic:
            case columnwise.Median():
                return _middle(ordered)
            case columnwise.Trimmed(trim):
                return _mean(ordered[trim : k - trim])
            case columnwise.Around(keep, None):
                return _around(ordered, _middle(ordered), keep)
            case columnwise.Around(keep, int(trim)):
                return _around(ordered, _mean(ordered[trim : k - trim]), keep)
        raise TypeError(f"{statistic!r} is not a columnwise statistic of this package.")

    # Blocks.

    def mix(self, block: torch.Tensor, weights: Floats) -> torch.Tensor:
        used = np.nonzero(weights.any(axis=0))[0]  # the rest is skipped: zero times infinity is no number
        if len(used) < weights.shape[1]:
            block, weights = block[self.tensor(used)], weights[:, used]
        return self.tensor(weights, self.wide) @ block.to(self.wide)

    def beside(self, block: torch.Tensor, vectors: list[Any], *, rounded: bool = False) -> torch.Tensor:
        dtype = block.dtype if rounded else self.wide
        return torch.cat([block.to(dtype), *(vector[None].to(dtype) for vector in vectors)])

    def block_of(self, matrix: Any) -> torch.Tensor:
        found: torch.Tensor = matrix
        return found

    def take(self, block: torch.Tensor, rows: Integers) -> torch.Tensor:
        return block[self.tensor(rows)]

    def finite_rows(self, block: torch.Tensor) -> Any:
        return block.isfinite().all(dim=1)

    def zeros(self, width: int) -> Any:
        return torch.zeros(width, dtype=self.wide, device=self.device)

    def vector(self, values: Any) -> Any:
        if isinstance(values, torch.Tensor):
            return values.to(self.device, self.wide)
        return self.tensor(values, self.wide)

    def host(self, vector: Any) -> Floats:
        return np.asarray(vector.cpu().numpy(), np.float64)

    def stack(self, parts: Sequence[Any]) -> Any:
        return torch.stack(list(parts))

    def write(self, vector: Any, out: Any) -> None:
        out.copy_(vector)

    def matrix(self, blocks: Sequence[torch.Tensor]) -> Any:
        wide = torch.float64 if any(block.dtype == torch.float64 for block in blocks) else torch.float32
        return torch.cat([block.to(wide) for block in blocks], dim=1)

    # Passes.

    def collect(self, jobs: Sequence[Callable[[], Any]], finite: list[Any], *, threaded: bool) -> tuple[Array, bool]:
        # One after the other: the device has its own queue, and torch its own threads on the CPU.
        found = torch.stack([torch.as_tensor(job(), device=self.device) for job in jobs])
        if not finite:
            return found.cpu().numpy(), True
        # One transfer for both: the results, and whether everything on the way to them was finite.
        sound = torch.stack([torch.as_tensor(flag, device=self.device) for flag in finite]).all().to(found.dtype)
        finite.clear()
        moved = torch.cat([found.reshape(-1), sound[None]]).cpu().numpy()
        return moved[:-1].reshape(found.shape), bool(moved[-1])


def _lengths(gaps: torch.Tensor, p: float, safe: bool) -> torch.Tensor:
    """l_p lengths over the last axis, in the unit of the largest entry where powers may leave the range."""
    if not gaps.shape[-1]:
        return gaps.new_zeros(gaps.shape[:-1])
    if safe and p <= _SAFE_POWER:
        return gaps.pow(p).sum(dim=-1).pow(1.0 / p)
    largest = gaps.amax(dim=-1)
    if np.isinf(p):
        return largest
    units = torch.where((largest > 0) & largest.isfinite(), largest, torch.ones_like(largest))
    found = units * (gaps / units[..., None]).pow(p).sum(dim=-1).pow(1.0 / p)
    return torch.where(largest.isfinite(), found, largest)


def _mean(ordered: torch.Tensor) -> torch.Tensor:
    """The mean of sorted rows. Where their sum overflows the mean does not, and rounding must not leave the range."""
    k = len(ordered)
    total = ordered.sum(dim=0)
    careful = (ordered / k).sum(dim=0).clamp(ordered[0], ordered[-1])
    return torch.where(total.isfinite(), total / k, careful)


def _weighted(ordered: torch.Tensor, mass: torch.Tensor, statistic: Weighted) -> torch.Tensor:
    """A statistic of sorted columns in which each value has a mass; see `mixtailor.kernels.weighted`."""
    below, total = mass.cumsum(dim=0), sum(statistic.mass)
    if isinstance(statistic, columnwise.WeightedMedian):
        low = ordered.gather(0, (2 * below >= total).int().argmax(dim=0)[None])[0]
        high = ordered.gather(0, (2 * below > total).int().argmax(dim=0)[None])[0]
        return torch.where(low == high, low, low / 2 + high / 2)
    trim = statistic.trim
    parts = (below.clamp(max=total - trim) - (below - mass).clamp(min=trim)).clamp(min=0.0)
    mean = (parts / (total - 2 * trim) * ordered).sum(dim=0)
    inside = parts > 0.0
    least = torch.where(inside, ordered, torch.inf).amin(dim=0)
    return mean.clamp(least, torch.where(inside, ordered, -torch.inf).amax(dim=0))


def _middle(ordered: torch.Tensor) -> torch.Tensor:
    """The median: with an even number of rows, the mean of the two middle ones."""
    half = len(ordered) // 2
    return _mean(ordered[len(ordered) - half - 1 : half + 1])


def _around(ordered: torch.Tensor, centre: torch.Tensor, keep: int) -> torch.Tensor:
    """The mean of the `keep` values nearest to the centre, which are neighbours; of two windows the lower."""
    # The window moves up while the value that enters is nearer than the one that leaves; once it is not, it never is
    # again, so that the number of true comparisons is where the window starts.
    entering, leaving = ordered[keep:], ordered[: len(ordered) - keep]
    above, below = entering - centre, centre - leaving
    halved = entering / 2 - centre / 2 < centre / 2 - leaving / 2  # for differences beyond the largest number
    moves = torch.where(above.isfinite() & below.isfinite(), above < below, halved)
    low = moves.sum(dim=0)
    which = low[None] + torch.arange(keep, device=ordered.device)[:, None]
    return _mean(ordered.gather(0, which))
