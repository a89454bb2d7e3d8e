"""What the kernel tests share: matrices of every nasty kind, laid out in memory in several ways, and how to compare."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import naive
import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

NORMS = [*(float(p) for p in range(1, 17)), 2.5, math.inf]
# A kernel may be compiled for each norm: where nothing new depends on the norm, a few of them do
FEW_NORMS = [1.0, 2.0, 2.5, 3.0, 7.0, 16.0, math.inf]
FINITE_NORMS = [p for p in FEW_NORMS if math.isfinite(p)]
TYPES = (np.float32, np.float64)

# Where a distance may part from exact arithmetic: 1e-5 is promised for float32
TOLERANCE = {np.dtype(np.float32): 1e-5, np.dtype(np.float64): 1e-12}

# Edges of vector registers and of tiles are where loops go wrong
WIDTHS = [
    1,
    2,
    3,
    7,
    8,
    9,
    15,
    16,
    17,
    31,
    33,
    63,
    64,
    65,
    127,
    255,
    256,
    257,
    511,
    512,
    513,
    1023,
    1025,
    2047,
    2049,
    8193,
]


def searches(examples: int) -> Callable[[Any], Any]:
    """Settings of a hypothesis test; the first call compiles, so there is no deadline."""
    return settings(
        max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
    )


@dataclass
class Rows:
    """A matrix and where its rows lie; NaN lies all around them, so that a kernel that reads too far is found out."""

    matrix: NDArray[Any]
    layout: str = "matrix"
    addresses: NDArray[np.intp] = field(init=False)
    memory: list[NDArray[Any]] = field(init=False)

    def __post_init__(self) -> None:
        n, d = self.matrix.shape
        if self.layout == "matrix":
            buffers = [np.full((n * d + 32), np.nan, self.matrix.dtype)]
            runs = [buffers[0][16 + i * d : 16 + (i + 1) * d] for i in range(n)]
        elif self.layout == "padded":
            buffers = [np.full((n, d + 5), np.nan, self.matrix.dtype)]
            runs = [buffers[0][i, 2 : 2 + d] for i in range(n)]
        elif self.layout == "backwards":
            buffers = [np.full((n + 2, d + 3), np.nan, self.matrix.dtype)]
            runs = [buffers[0][n - i, 1 : 1 + d] for i in range(n)]
        else:
            buffers = [np.full(d + 17 + i, np.nan, self.matrix.dtype) for i in range(n)]
            runs = [buffer[i % 9 + 1 : i % 9 + 1 + d] for i, buffer in enumerate(buffers)]
        for run, row in zip(runs, self.matrix, strict=True):
            run[:] = row
        self.memory = [*buffers, *runs]
        self.addresses = np.array([run.__array_interface__["data"][0] for run in runs], np.intp)

    @property
    def like(self) -> NDArray[Any]:
        return np.empty(0, self.matrix.dtype)

    @property
    def width(self) -> int:
        return int(self.matrix.shape[1])

    @property
    def block(self) -> tuple[NDArray[np.intp], NDArray[Any], int]:
        """The first three arguments of every kernel."""
        return self.addresses, self.like, self.width

    @property
    def tolerance(self) -> float:
        return TOLERANCE[self.matrix.dtype]


def make(kind: str, n: int, d: int, dtype: type, rng: np.random.Generator) -> NDArray[Any]:
    """An (n, d) matrix of the named kind, all of it finite."""
    info = np.finfo(dtype)
    normal = rng.normal(size=(n, d))
    signs = rng.choice([-1.0, 1.0], size=(n, d))
    if kind == "mixed":
        return (signs * 10.0 ** rng.uniform(-30, 30, size=(n, d))).astype(dtype)
    if kind == "scaled rows":
        return (normal * 10.0 ** rng.uniform(-30, 30, size=(n, 1))).astype(dtype)
    if kind == "one far row":
        normal[rng.integers(n)] *= 10.0 ** rng.uniform(4, 37)
    elif kind == "ties":
        return rng.integers(-2, 3, size=(n, d)).astype(dtype)
    elif kind == "duplicates":
        return normal[rng.integers(0, max(1, n // 3), size=n)].astype(dtype)
    elif kind == "near":
        normal = 1 + 1e-4 * normal
    elif kind == "offset":
        normal = 1e6 + normal
    elif kind == "denormal":
        return (rng.integers(-9, 10, size=(n, d)) * info.smallest_subnormal).astype(dtype)
    elif kind == "huge":
        return (rng.uniform(0.4, 0.49, size=(n, d)) * signs * float(info.max)).astype(dtype)
    elif kind == "largest":
        return (signs * float(np.finfo(np.float32).max)).astype(dtype)
    elif kind == "zeros":
        return (signs * 0.0).astype(dtype)
    return normal.astype(dtype)


KINDS = [
    *("normal", "mixed", "scaled rows", "one far row", "ties", "duplicates", "near", "offset"),
    *("denormal", "huge", "largest", "zeros"),
]


@st.composite
def rows(
    draw: st.DrawFn, kinds: list[str] | None = None, max_n: int = 64, max_d: int = 10_000, dtypes: Any = TYPES
) -> Rows:
    """Rows of any size, kind, dtype and layout."""
    n = draw(st.integers(1, max_n))
    d = draw(st.one_of(st.sampled_from([w for w in WIDTHS if w <= max_d]), st.integers(1, max_d)))
    dtype = draw(st.sampled_from(dtypes))
    kind = draw(st.sampled_from(kinds or KINDS))
    layout = draw(st.sampled_from(["matrix", "padded", "backwards", "apart"]))
    return Rows(make(kind, n, d, dtype, random(draw)), layout)


@st.composite
def faulty_rows(draw: st.DrawFn, max_n: int = 12, max_d: int = 3_000) -> tuple[Rows, list[int]]:
    """Rows of which at least one has a NaN or an infinity somewhere, and which ones those are."""
    good = draw(rows(["normal", "ties", "mixed", "zeros"], max_n, max_d))
    n, d = good.matrix.shape
    faulty = sorted(draw(st.sets(st.integers(0, n - 1), min_size=1, max_size=3)))
    for i in faulty:
        where = draw(st.one_of(st.sampled_from([0, d - 1]), st.integers(0, d - 1)))
        good.matrix[i, where] = draw(st.sampled_from([np.nan, -np.nan, np.inf, -np.inf]))
    return Rows(good.matrix, good.layout), faulty


def random(draw: st.DrawFn) -> np.random.Generator:
    """Numbers from a drawn seed: hypothesis chooses the shape of the case, numpy fills it."""
    return np.random.default_rng(draw(st.integers(0, 2**32 - 1)))


def assert_sums_agree(sums: NDArray[np.float64], exact: naive.Wide, p: float, tolerance: float) -> None:
    """Sums of p-th powers give the same distance, as far as float64 can hold them; outside they saturate, never lie."""
    assert sums.dtype == np.float64 and sums.shape == exact.shape
    assert not np.isnan(sums).any() and (sums >= 0).all()
    assert (sums[exact == 0] == 0).all()
    # Terms below 1e-308 are lost one by one, so a sum counts as representable only well above
    inside = (exact >= 1e-280) & (exact <= 1e308)
    root = 1.0 if math.isinf(p) else 1 / p
    ratios = (naive.wide(sums[inside]) / exact[inside]) ** np.longdouble(root)
    assert ratios.size == 0 or np.abs(ratios - 1).max() <= tolerance, f"off by {np.abs(ratios - 1).max()} at p = {p}"
    assert np.isinf(sums[exact > 1.8e308]).all()
    assert (sums[(exact < 1e-280)] < 1e-279).all()


def guarded(shape: tuple[int, ...], dtype: Any) -> tuple[NDArray[Any], Callable[[], bool]]:
    """An array to write to, and whether what lies around it is as it was."""
    size = math.prod(shape)
    memory = np.full(size + 64, 12345.0, dtype)
    return memory[32 : 32 + size].reshape(shape), lambda: bool(
        (memory[:32] == 12345).all() and (memory[32 + size :] == 12345).all()
    )
