"""What workers send: honest rows of many sizes, and Byzantine ones that hold anything."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

DTYPES = (np.float32, np.float32, np.float64, np.float64, np.float16)
# Honest float64 rows are of a size that can be squared; a row beyond 1e140 is a fault to rules that measure lengths.
LEAST, LARGEST, BEYOND = 1e-138, 1e139, 1e140


@dataclass(frozen=True)
class Input:
    """Rows, and which are Byzantine.

    Attributes
    ----------
    rows : array
        (n, d), in the type that workers send.
    byzantine : tuple of int
        The Byzantine rows.
    faulty : tuple of int
        Those that prove it: an entry is not finite.
    kind, attack : str
        How honest and Byzantine rows were made.
    """

    rows: Any
    byzantine: tuple[int, ...]
    faulty: tuple[int, ...]
    kind: str
    attack: str

    @property
    def honest(self) -> list[int]:
        return [row for row in range(len(self.rows)) if row not in self.byzantine]

    @property
    def beyond(self) -> set[int]:
        """Rows that a rule may name, and need not."""
        wide = np.abs(self.rows.astype(np.float64)).max(axis=1, initial=0.0)
        return {int(row) for row in np.nonzero(wide > BEYOND)[0]}


def made(rng: np.random.Generator, n: int, f: int) -> Input:
    """An input of n rows, of which at most f are Byzantine."""
    dtype = DTYPES[rng.integers(len(DTYPES))]
    d = int(rng.choice([1, 2, 3, rng.integers(4, 12), rng.integers(12, 51)]))
    kind, honest = _honest(rng, n, d, dtype)
    liars = int(rng.integers(f + 1)) if rng.random() < 0.2 else f
    byzantine = np.sort(rng.choice(n, size=liars, replace=False))
    rows = honest.copy()
    attack = "none"
    if liars:
        truthful = np.delete(honest, byzantine, axis=0)
        attack = ATTACKS[rng.integers(len(ATTACKS))]
        for row in byzantine:
            own = ATTACKS[rng.integers(len(ATTACKS))] if attack == "each another" else attack
            with np.errstate(all="ignore"):
                rows[row] = _lie(own, rng, truthful if len(truthful) else honest, dtype)
    faulty = tuple(int(row) for row in byzantine if not np.isfinite(rows[row]).all())
    return Input(rows, tuple(int(row) for row in byzantine), faulty, kind, attack)


def cast(values: Any, dtype: Any) -> Any:
    """In the type that workers send; what it cannot hold becomes its largest number."""
    largest = np.finfo(dtype).max
    with np.errstate(over="ignore"):
        return np.nan_to_num(np.asarray(values, np.float64), nan=0.0, posinf=largest, neginf=-largest).clip(
            -float(largest), float(largest)
        ).astype(dtype)  # fmt: skip


KINDS = (
    "normal", "normal", "normal", "far from zero", "integers", "equal", "two clusters", "near copies", "subnormal",
    "largest", "sparse", "heavy tails", "signed zeros", "one away",
)  # fmt: skip


def _honest(rng: np.random.Generator, n: int, d: int, dtype: Any) -> tuple[str, Any]:
    """Honest rows, all finite."""
    kind = KINDS[rng.integers(len(KINDS))]
    info = np.finfo(dtype)
    least, largest = max(float(info.smallest_subnormal), LEAST), min(float(info.max), LARGEST)
    noise = rng.normal(size=(n, d))
    match kind:
        case "normal":
            low, high = np.log10(max(float(info.tiny), LEAST)) + 4, np.log10(largest) - 4
            values = noise * 10.0 ** (rng.uniform(low, high) if rng.random() < 0.5 else rng.uniform(-3, 2))
        case "far from zero":
            values = rng.normal(size=d) * 10.0 ** rng.uniform(0, 4) + noise
        case "integers":
            values = rng.integers(-2, 3, size=(n, d))
        case "equal":
            values = np.tile(rng.normal(size=d), (n, 1))
        case "two clusters":
            values = 1e-3 * noise + np.where(rng.random(n) < 0.5, 1.0, 0.0)[:, None]
        case "near copies":
            base = cast(rng.normal(size=d), dtype)
            steps = rng.integers(-1, 2, size=(n, d))
            up, down = np.nextafter(base, info.max, dtype=dtype), np.nextafter(base, info.min, dtype=dtype)
            return kind, np.where(steps > 0, up, np.where(steps < 0, down, base)).astype(dtype)
        case "subnormal":
            return kind, (rng.integers(-50, 51, size=(n, d)) * least).astype(dtype)
        case "largest":
            return kind, cast(rng.choice([-1.0, 1.0], size=(n, d)) * largest * rng.uniform(0.5, 1.0), dtype)
        case "sparse":
            values = np.where(rng.random((n, d)) < 0.15, noise, 0.0)
        case "heavy tails":
            values = np.clip(noise / np.abs(rng.normal(size=(n, d))) ** 2, -1e4, 1e4)
        case "signed zeros":
            values = rng.choice([0.0, -0.0], size=(n, d))
            values[:, 0] += rng.integers(0, 2, size=n)
        case _:
            values = noise.copy()
            values[rng.integers(n)] += 10.0 ** rng.uniform(1, 4)
    return kind, cast(values, dtype)


ATTACKS = (
    "NaN", "infinity", "one NaN", "one infinity", "largest", "alternating largest", "half the largest", "1e30", "zero",
    "minus zero", "least", "copy", "near copy", "minus mean", "little lie", "inflated", "mirror", "beyond the edge",
    "random bits", "far", "very far", "one far coordinate", "each another",
)  # fmt: skip


def _lie(attack: str, rng: np.random.Generator, honest: Any, dtype: Any) -> Any:
    """One Byzantine row."""
    d, info = honest.shape[1], np.finfo(dtype)
    known = honest.astype(np.float64)
    mean, spread = (np.nan_to_num(value) for value in (known.mean(axis=0), known.std(axis=0)))
    largest, where = float(info.max), rng.integers(d)
    one = honest[rng.integers(len(honest))].copy()
    match attack:
        case "NaN" | "infinity":
            return np.full(d, np.nan if attack == "NaN" else rng.choice([np.inf, -np.inf]), dtype)
        case "one NaN" | "one infinity":
            one[where] = np.nan if attack == "one NaN" else rng.choice([np.inf, -np.inf])
            return one
        case "largest" | "half the largest":
            return cast(np.full(d, rng.choice([-1, 1]) * largest / (1 if attack == "largest" else 2)), dtype)
        case "alternating largest":
            return cast(np.where((np.arange(d) + rng.integers(2)) % 2, largest, -largest), dtype)
        case "1e30":
            return cast(np.full(d, rng.choice([-1, 1]) * 1e30), dtype)
        case "zero" | "minus zero":
            return np.full(d, 0.0 if attack == "zero" else -0.0, dtype)
        case "least":
            return np.full(d, info.smallest_subnormal, dtype)
        case "copy":
            return one
        case "near copy":
            one[where] = np.nextafter(one[where], info.max if rng.random() < 0.5 else info.min, dtype=dtype)
            return one
        case "minus mean":
            return cast(-rng.choice([0.1, 1.0, 10.0, 1e4]) * mean, dtype)
        case "little lie":
            return cast(mean - rng.uniform(0.2, 2.5) * spread, dtype)
        case "inflated":
            return cast(one.astype(np.float64) * 10.0 ** rng.uniform(1, 12), dtype)
        case "mirror":  # as far from a third row as that is from another: ties
            return cast(2 * known[rng.integers(len(known))] - one.astype(np.float64), dtype)
        case "beyond the edge":
            edge = known.max(axis=0) if rng.random() < 0.5 else known.min(axis=0)
            return cast(edge + rng.choice([-1e-6, 1e-6, 0.1, 1.0]) * spread, dtype)
        case "random bits":
            return np.frombuffer(rng.bytes(d * info.bits // 8), dtype).copy()
        case "far" | "very far":
            size = 10.0 ** (rng.uniform(1, 6) if attack == "far" else rng.uniform(6, 40))
            return cast(mean + size * (spread.max() or 1.0) * rng.normal(size=d), dtype)
        case "one far coordinate":
            one[where] = cast(rng.choice([-1, 1]) * 10.0 ** rng.uniform(1, 38), dtype)
            return one
    return one  # "each another" drew itself again
