"""How much a run measures: everything, what fits a minute, or the least that shows that all of it runs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from benchmarks._machine import available_bytes
from benchmarks._pipe import ROOT

__all__ = ["PEERS", "Plan", "Size", "full", "quick", "tiny"]

PEERS = ROOT / ".venv-peers" / "bin" / "python"


@dataclass(frozen=True)
class Size:
    """n rows of d coordinates, of which f may be Byzantine: a fifth of them."""

    n: int
    d: int

    @property
    def f(self) -> int:
        return max(1, self.n // 5)

    def __str__(self) -> str:
        return f"({self.n}, {self.d:,})"


@dataclass(frozen=True)
class Plan:
    """What a run measures.

    Attributes
    ----------
    table : Size
        The size of the table, with every rule and the peers.
    small : Size
        The size at which the cost of a call itself shows.
    wide, widest : Size
        More rows, for how costs grow with n.
    many : tuple of Size
        Hundreds of rows, against Krum by a matrix product.
    rounds : int
        Samples of each contender.
    spend : float
        Seconds that one contender may take at one size.
    cold : tuple of str
        Rules whose first call, compiling, is measured.
    sharded : tuple of (int, int)
        How many ranks aggregate together, and how many coordinates.
    files : (int, int)
        How many files are aggregated, and how many coordinates each has.
    large : tuple of (int, int, bool)
        Thousands of updates: how many, of how many coordinates, and whether they are files.
    """

    table: Size
    small: Size
    wide: Size
    widest: Size
    rounds: int
    spend: float
    cold: tuple[str, ...]
    peers: Path | None = PEERS
    many: tuple[Size, ...] = ()
    sharded: tuple[tuple[int, int], ...] = ()
    files: tuple[int, int] = (20, 250_000)
    large: tuple[tuple[int, int, bool], ...] = ()


def _fitting(n: int, d: int) -> Size:
    """The size, or with as many coordinates as leave half of the free memory alone."""
    return Size(n, min(d, available_bytes() // 2 // (4 * n) // 1024 * 1024))


COLD = (
    "Comed",
    "TrimmedMean",
    "Meamed",
    "Krum",
    "GeometricMedian",
    "GeometricMedian p=3",
    "Bulyan",
    "NNM >> Comed",
    "CAF",
    "SMEA",
)


MANY = (Size(50, 1 << 19), Size(200, 1 << 18), Size(1000, 1 << 16))


def full() -> Plan:
    """Everything: the table takes six to eight minutes on two cores, and the files 22 GB of disk."""
    return Plan(
        Size(12, 1 << 20),
        Size(12, 21_840),
        Size(50, 1 << 20),
        _fitting(100, 11_000_000),
        9,
        2.0,
        COLD,
        many=MANY,
        sharded=tuple((ranks, d) for ranks in (4, 5, 6) for d in (1_000_000, 10_000_000)),
        files=(20, 250_000_000),
        large=((10_000, 100_000, False), (1_000, 1_000_000, True)),
    )


def quick() -> Plan:
    """A minute: fewer samples, and fewer coordinates where there are many rows."""
    return Plan(
        Size(12, 1 << 20),
        Size(12, 21_840),
        Size(50, 1 << 19),
        Size(100, 1 << 19),
        3,
        0.3,
        ("Comed", "Krum"),
        many=MANY,
        sharded=((4, 1_000_000),),
        files=(20, 2_500_000),
        large=((10_000, 1_000, False), (1_000, 100_000, True)),
    )


def tiny() -> Plan:
    """Seconds: shows that every claim is measured, and measures nothing worth reading."""
    return Plan(Size(12, 640), Size(12, 320), Size(14, 640), Size(16, 640), 1, 0.01, (), None, (Size(20, 640),))
