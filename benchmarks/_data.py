"""Updates as a server gets them: small, heavy-tailed, with some rows tailored against the mean."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import numpy.typing as npt

__all__ = ["FAR", "SCALE", "Data", "gradients", "spread"]

SCALE = 1e-4
FAR = 1e30
TINY = 1e-26  # times SCALE: squares vanish in float32, and sixteenth powers in float64
_BANK = 1 << 20

Data = Literal["gradients", "far", "tiny"]
Rows = npt.NDArray[np.float32]


def gradients(n: int, d: int, f: int, data: Data = "gradients", seed: int = 2022) -> Rows:
    """n float32 rows of d coordinates: n - f honest ones and, in random places, f that lead against their mean.

    Honest rows share a direction and differ by Student's t with three degrees of freedom, all at about 1e-4. The f
    others are minus a tenth of the honest mean. "far" replaces one of these by 1e30 with random signs, and "tiny"
    scales all rows to 1e-30.
    """
    rng = np.random.default_rng(seed)
    # Drawing each entry would take minutes at the largest size: rows are stretches of one bank, each in its own order.
    bank = rng.standard_t(3, size=min(_BANK, max(4 * d, 64))).astype(np.float32) * np.float32(SCALE)
    rows: Rows = np.empty((n, d), np.float32)
    shared = _stretch(bank, d, rng) * np.float32(0.5)
    order = rng.permutation(n)
    honest = np.sort(order[f:])
    for row in honest:
        np.add(shared, _stretch(bank, d, rng), out=rows[row])
    if f:
        weights = np.zeros(n, np.float32)
        weights[honest] = -0.1 / len(honest)
        rows[order[:f]] = 0.0
        rows[order[:f]] = weights @ rows
    if data == "far" and f:
        rows[order[0]] = np.where(_stretch(bank, d, rng) < 0, np.float32(-FAR), np.float32(FAR))
    if data == "tiny":
        rows *= np.float32(TINY)
    return rows


def spread(rows: Rows) -> float:
    """The typical deviation of a coordinate: what differences between answers are measured in."""
    return float(np.median(np.abs(rows - np.median(rows, axis=0))))


def _stretch(bank: npt.NDArray[np.float32], d: int, rng: np.random.Generator) -> Any:
    """d entries of the bank, in pieces from random places, with random signs for each piece."""
    out = np.empty(d, np.float32)
    size = max(len(bank) // 4, 1)
    for start in range(0, d, size):
        piece = out[start : start + size]
        at = int(rng.integers(0, len(bank) - len(piece) + 1))
        np.multiply(bank[at : at + len(piece)], np.float32(rng.choice([-1.0, 1.0])), out=piece)
    return out
