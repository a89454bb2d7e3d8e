"""Which rows a rule selects, against exact arithmetic: every float is a fraction, and fractions do not round.

Sums of p-th powers of differences are exact for p = 1, 2 and 3, and so are maxima; roots of them, and the scores made
of these, are taken with 60 digits. Where two scores are equal, or closer than rounding can tell (a relative 1e-13),
either row is right.
"""

import itertools
import zlib
from collections.abc import Callable
from fractions import Fraction

import mpmath
import numpy as np
import pytest

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.kernels.selection import nearest as nearest_rows
from mixtailor.updates import Updates

NORMS = [1.0, 2.0, 3.0, float("inf")]
CLOSE = mpmath.mpf(10) ** -13
Rows = np.ndarray


def _subnormal(rng: np.random.Generator) -> Rows:
    """Squares of these vanish in float32; the rows are multiples of the least number."""
    return (rng.integers(-9, 10, size=(9, 3)) * np.finfo(np.float32).smallest_subnormal).astype(np.float32)


def _signed_zeros(rng: np.random.Generator) -> Rows:
    """-0.0 equals 0.0: such rows are at distance zero."""
    rows = rng.choice([0.0, -0.0], size=(9, 4)).astype(np.float32)
    rows[:, 0] += rng.integers(0, 3, size=9)
    return rows


def _cancellation(rng: np.random.Generator) -> Rows:
    """Rows that differ in the last digits of large numbers: a Gram matrix would lose them all."""
    base = rng.normal(size=5).astype(np.float32) * np.float32(1e6)
    steps = rng.integers(-4, 5, size=(9, 5))
    return (base + steps * np.spacing(base)).astype(np.float32)


def _half_sums(rng: np.random.Generator) -> Rows:
    """float16 rows whose squared distances overflow float16 many times over."""
    return (rng.normal(size=(9, 40)) * 20_000).clip(-65_000, 65_000).astype(np.float16)


def _equal(rng: np.random.Generator) -> Rows:
    """Several rows are the same, and one is far."""
    rows = np.repeat(rng.normal(size=(3, 4)), 3, axis=0).astype(np.float64)
    rows[4] += 1e6
    return rows[rng.permutation(9)]


def _far(rng: np.random.Generator) -> Rows:
    """float32 rows at 3e38 of both signs, whose difference float32 cannot hold, among rows of size one."""
    rows = rng.normal(size=(9, 3)).astype(np.float32)
    rows[1], rows[6] = np.float32(3e38), np.float32(-3e38)
    return rows


def _integers(rng: np.random.Generator) -> Rows:
    """Small whole numbers: many ties."""
    return rng.integers(-2, 3, size=(9, 3)).astype(np.float32)


INPUTS: dict[str, Callable[[np.random.Generator], Rows]] = {
    "subnormal": _subnormal,
    "signed zeros": _signed_zeros,
    "cancellation": _cancellation,
    "float16 sums": _half_sums,
    "equal": _equal,
    "1e38": _far,
    "ties": _integers,
}


def _distances(rows: Rows, p: float) -> list[list[mpmath.mpf]]:
    """l_p distances with 60 digits, from exact differences and exact sums of powers."""
    exact = [[Fraction(float(value)) for value in row] for row in rows]

    def distance(one: list[Fraction], other: list[Fraction]) -> mpmath.mpf:
        gaps = [abs(a - b) for a, b in zip(one, other, strict=True)]
        if p == float("inf"):
            return _wide(max(gaps))
        return mpmath.root(_wide(sum((gap ** int(p) for gap in gaps), Fraction(0))), int(p))

    with mpmath.workdps(60):
        return [[distance(one, other) for other in exact] for one in exact]


def _wide(number: Fraction) -> mpmath.mpf:
    return mpmath.mpf(number.numerator) / mpmath.mpf(number.denominator)


def _scores(between: list[list[mpmath.mpf]], left: list[int], neighbours: int, power: int = 2) -> dict[int, mpmath.mpf]:
    with mpmath.workdps(60):
        return {
            i: mpmath.fsum(value**power for value in sorted(between[i][j] for j in left if j != i)[:neighbours])
            for i in left
        }


def _no_worse(chosen: mpmath.mpf, best: mpmath.mpf) -> bool:
    return bool(chosen <= best * (1 + CLOSE))


def _cases() -> list[tuple[str, float, int]]:
    return list(itertools.product(INPUTS, NORMS, range(3)))


def _made(kind: str, seed: int) -> Rows:
    return INPUTS[kind](np.random.default_rng([zlib.crc32(kind.encode()), seed]))


@pytest.mark.parametrize(("kind", "p", "seed"), _cases())
def test_krum_selects_the_row_of_the_least_exact_score(kind: str, p: float, seed: int) -> None:
    rows = _made(kind, seed)
    scores = _scores(_distances(rows, p), list(range(9)), 9 - 2 - 2)
    result = mt.Krum(f=2, p=p).aggregate(rows)
    (chosen,) = result.selected
    assert _no_worse(scores[chosen], min(scores.values()))
    assert np.array_equal(result.update, rows[chosen])


@pytest.mark.parametrize(("kind", "p", "seed"), _cases())
def test_multi_krum_selects_the_rows_of_the_least_exact_scores(kind: str, p: float, seed: int) -> None:
    rows = _made(kind, seed)
    scores = _scores(_distances(rows, p), list(range(9)), 9 - 2 - 2)
    chosen = set(mt.MultiKrum(f=2, p=p).aggregate(rows).selected)
    assert len(chosen) == 7
    assert _no_worse(max(scores[row] for row in chosen), min(scores[row] for row in set(range(9)) - chosen))


@pytest.mark.parametrize(("kind", "p", "seed"), _cases())
def test_the_medoid_has_the_least_exact_sum(kind: str, p: float, seed: int) -> None:
    """A far row's share of the sum is common to all rows but for their own spread, and is left out where float64 has no
    digit left for that (beyond 1e12 median distances, in norms other than 2)."""
    rows = _made(kind, seed)
    between = _distances(rows, p)
    (chosen,) = mt.Medoid(p=p).aggregate(rows).selected
    near = [row for row in range(9) if p == 2.0 or np.abs(rows[row].astype(np.float64)).max() < 1e30]
    sums = _scores([[between[i][j] for j in range(9)] for i in range(9)], near, 8, 1)
    if p == 2.0:
        sums = _scores(between, list(range(9)), 8, 1)
        spread = mpmath.mpf(1) if kind == "1e38" else mpmath.mpf(0)
        assert sums[chosen] <= min(sums.values()) * (1 + CLOSE) or sums[chosen] - min(sums.values()) <= CLOSE * spread
    else:
        assert _no_worse(sums[chosen], min(sums.values()))


@pytest.mark.parametrize(("kind", "p", "seed"), _cases())
def test_bulyan_picks_by_exact_scores(kind: str, p: float, seed: int) -> None:
    """Each pick is a best one among the rows still left when it was made."""
    rows, f = _made(kind, seed), 1
    between, left = _distances(rows, p), list(range(9))
    picks = mt.Bulyan(f, p=p).aggregate(rows).selected
    assert len(picks) == len(set(picks)) == 9 - 2 * f
    for pick in picks:
        scores = _scores(between, left, max(1, len(left) - f - 2))
        assert _no_worse(scores[pick], min(scores.values()))
        left.remove(pick)


@pytest.mark.parametrize(("kind", "p", "seed"), _cases())
def test_nearest_neighbours_are_the_exact_ones(kind: str, p: float, seed: int) -> None:
    """What nearest-neighbour mixing takes the mean of."""
    rows = _made(kind, seed)
    between = _distances(rows, p)
    chosen = nearest_rows(Updates.arrived(receive(rows)).distances(p), 7)
    for row in range(9):
        taken = set(chosen[row].tolist())
        assert row in taken
        assert _no_worse(max(between[row][j] for j in taken), min(between[row][j] for j in set(range(9)) - taken))
