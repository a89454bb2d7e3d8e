"""Arithmetic on blocks that are torch tensors, on any device, without a host round trip inside a pass."""

from typing import Any

import numpy as np
import torch

from mixtailor.updates.engine import Engine, Floats, Integers
from mixtailor.updates.statistics import (
    AroundMedian,
    AroundTrimmed,
    Deviation,
    Extreme,
    Median,
    Sign,
    Statistic,
    Trimmed,
)

__all__ = ["TorchEngine"]

# Differences of rows are formed for as many rows at once as keep their tile below about this many entries.
_TILE = 1 << 21


class TorchEngine(Engine[torch.Tensor]):
    """Blocks are (k, width) tensors. The small answers stay on the device: the home brings those of a pass at once.

    Whether a statistic or a combination was finite is not known before it is brought to the host, so it is noted in
    `doubts` and looked at when the pass is over.

    Parameters
    ----------
    device : torch.device
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        # Apple's devices have no float64; there, sums accumulate in float32.
        self.wide = torch.float32 if device.type == "mps" else torch.float64
        self.doubts: list[torch.Tensor] = []

    def tensor(self, values: Any, dtype: torch.dtype | None = None) -> torch.Tensor:
        """A small host array on the device."""
        return torch.as_tensor(np.ascontiguousarray(values), dtype=dtype).to(self.device)

    # Sums.

    def pair_sums(self, block: torch.Tensor, powers: Floats, factor: float = 1.0) -> Any:
        rows = block.to(self.wide) * factor
        k, width = rows.shape
        step = max(1, _TILE // max(1, k * width))
        parts = []
        for start in range(0, k, step):
            # Each pair once, and each row with itself, where infinity shows as a difference that is no number.
            gaps = (rows[start : start + step, None] - rows[None, start:]).abs_()
            sums = torch.stack([_power_sums(gaps, p) for p in powers.tolist()])
            parts.append(torch.nn.functional.pad(sums, (start, 0)))
        sums = torch.cat(parts, dim=1)
        return sums.triu() + sums.triu(1).mT

    def _gaps(self, block: torch.Tensor, first: Integers, second: Integers) -> torch.Tensor:
        chosen = [block[self.tensor(index)].to(self.wide) for index in (first, second)]
        return (chosen[0] - chosen[1]).abs_()

    def _by_pairs(self, block: torch.Tensor, first: Integers, second: Integers, question: Any) -> Any:
        step = max(1, _TILE // max(1, block.shape[1]))
        parts = [
            question(self._gaps(block, first[at : at + step], second[at : at + step]), slice(at, at + step))
            for at in range(0, len(first), step)
        ]
        return torch.cat(parts)

    def pair_sums_scaled(self, block: torch.Tensor, first: Integers, second: Integers, p: float, scales: Floats) -> Any:
        on_device = self.tensor(scales, self.wide)
        return self._by_pairs(block, first, second, lambda gaps, which: _power_sums(gaps / on_device[which, None], p))

    def pair_maxima(self, block: torch.Tensor, first: Integers, second: Integers) -> Any:
        return self._by_pairs(block, first, second, lambda gaps, _which: _power_sums(gaps, np.inf))

    def point_sums(self, block: torch.Tensor, point: Any, powers: Floats) -> Any:
        gaps = (block.to(self.wide) - point).abs_()
        return torch.stack([_power_sums(gaps, p) for p in powers.tolist()])

    def point_sums_scaled(self, block: torch.Tensor, point: Any, p: float, scales: Floats) -> Any:
        gaps = (block.to(self.wide) - point).abs_() / self.tensor(scales, self.wide)[:, None]
        return _power_sums(gaps, p)

    def combination_sums(self, block: torch.Tensor, weights: Floats, p: float) -> Any:
        return self.point_sums(block, self._combined(block, weights), np.array([p]))[0]

    def gram(self, block: torch.Tensor, about: int, inverse_scales: Floats) -> Any:
        rows = block.to(self.wide)
        if about >= 0:
            rows = rows - rows[about]
        rows = rows * self.tensor(inverse_scales, self.wide)[:, None]
        return rows @ rows.mT

    def point_dots(self, block: torch.Tensor, point: Any) -> Any:
        return block.to(self.wide) @ point

    def dot(self, first: Any, second: Any) -> Any:
        return first @ second

    # Vectors.

    def _combined(self, block: torch.Tensor, weights: Floats) -> torch.Tensor:
        used = np.nonzero(weights)[0]  # the rest is skipped, not multiplied: zero times infinity is no number
        if len(used) < len(weights):
            block = block[self.tensor(used)]
        return self.tensor(weights[used], self.wide) @ block.to(self.wide)

    def combine(self, block: torch.Tensor, weights: Floats) -> tuple[Any, bool]:
        values = self._combined(block, weights)
        self.doubts.append(~values.isfinite().all())
        return values, True

    def combine_into(self, block: torch.Tensor, weights: Floats, out: Any) -> bool:
        values = self._combined(block, weights)
        self.store(values, out)
        parts = out if isinstance(out, list) else [out]
        self.doubts.extend((~part.isfinite().all()).to(self.device) for part in parts)
        return True

    def columns(self, block: torch.Tensor, statistic: Statistic) -> tuple[Any, bool]:
        rows = block.to(torch.float64 if block.dtype == torch.float64 else torch.float32)
        self.doubts.append(~rows.isfinite().all())
        # To the rows' type and back, as everywhere: a statistic has the digits of what it was taken of.
        return self._statistic(rows, statistic).to(rows.dtype).to(self.wide), True

    def columns_into(self, block: torch.Tensor, statistic: Statistic, out: Any) -> bool:
        values, _ = self.columns(block, statistic)
        self.store(values, out)
        return True

    def _statistic(self, rows: torch.Tensor, statistic: Statistic) -> torch.Tensor:
        if isinstance(statistic, Sign):
            return rows.sign().sum(dim=0).sign()
        if isinstance(statistic, Extreme):
            return rows.amax(dim=0) if statistic.largest else rows.amin(dim=0)
        if isinstance(statistic, Deviation):
            return rows.to(self.wide).std(dim=0, correction=statistic.ddof)
        ordered = rows.sort(dim=0).values.to(self.wide)
        k = len(ordered)
        match statistic:
            case Median():
                return _middle(ordered)
            case Trimmed(trim):
                return _mean(ordered[trim : k - trim])
            case AroundMedian(keep):
                return _around(ordered, _middle(ordered), keep)
            case AroundTrimmed(trim, keep):
                return _around(ordered, _mean(ordered[trim : k - trim]), keep)
        raise TypeError(f"{statistic!r} is not a columnwise statistic of this package.")

    # Blocks.

    def mix(self, block: torch.Tensor, weights: Floats) -> torch.Tensor:
        used = np.nonzero(weights.any(axis=0))[0]
        if len(used) < weights.shape[1]:
            block, weights = block[self.tensor(used)], weights[:, used]
        return self.tensor(weights, self.wide) @ block.to(self.wide)

    def beside(self, block: torch.Tensor, vectors: list[Any], *, rounded: bool = False) -> torch.Tensor:
        dtype = block.dtype if rounded else self.wide
        return torch.cat([block.to(dtype), *(vector[None].to(dtype) for vector in vectors)])

    def with_origin(self, block: torch.Tensor) -> torch.Tensor:
        return torch.cat([block, torch.zeros_like(block[:1])])

    def take(self, block: torch.Tensor, rows: Integers) -> torch.Tensor:
        return block[self.tensor(rows)]

    def finite_rows(self, block: torch.Tensor) -> Any:
        return block.isfinite().all(dim=1)

    def zeros(self, width: int) -> Any:
        return torch.zeros(width, dtype=self.wide, device=self.device)

    def vector(self, values: Floats) -> Any:
        return self.tensor(values, self.wide)

    def store(self, vector: Any, out: Any) -> None:
        if isinstance(out, list):
            at = 0
            for piece in out:
                self.store(vector[at : at + len(piece)], piece)
                at += len(piece)
        else:
            out.copy_(vector)

    def matrix(self, block: torch.Tensor) -> Any:
        wide = torch.float64 if block.dtype == torch.float64 else torch.float32
        return block.to(wide, copy=True)


def _power_sums(gaps: torch.Tensor, p: float) -> torch.Tensor:
    """Sums of the p-th powers over the last axis; the maximum where p is infinite."""
    if np.isinf(p):
        return gaps.amax(dim=-1) if gaps.shape[-1] else gaps.new_zeros(gaps.shape[:-1])
    if p == 1.0:
        return gaps.sum(dim=-1)
    return (gaps.square() if p == 2.0 else gaps.pow(p)).sum(dim=-1)


def _mean(ordered: torch.Tensor) -> torch.Tensor:
    """The mean of sorted rows. Where their sum overflows the mean does not, and rounding must not leave the range."""
    k = len(ordered)
    total = ordered.sum(dim=0)
    careful = (ordered / k).sum(dim=0).clamp(ordered[0], ordered[-1])
    return torch.where(total.isfinite(), total / k, careful)


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
