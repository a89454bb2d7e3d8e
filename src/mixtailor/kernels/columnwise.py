"""Columnwise statistics by name: what a `Columns` point computes from each column of its updates."""

from dataclasses import dataclass

__all__ = [
    "Around",
    "Deviation",
    "Extreme",
    "Median",
    "Sign",
    "Statistic",
    "Trimmed",
    "WeightedMedian",
    "WeightedTrimmed",
]


@dataclass(frozen=True)
class Statistic:
    """A function of one column of n values, applied to all columns alike. Abstract; the final ones are below."""


@dataclass(frozen=True)
class Median(Statistic):
    """The middle value; with n even, the mean of the two middle ones."""


@dataclass(frozen=True)
class Trimmed(Statistic):
    """The mean of what is left without the `trim` smallest and the `trim` largest values."""

    trim: int


@dataclass(frozen=True)
class WeightedMedian(Statistic):
    """The value at half of the mass of the rows; the mean of two where that lies between them."""

    mass: tuple[float, ...]


@dataclass(frozen=True)
class WeightedTrimmed(Statistic):
    """The mean of what is left without the `trim` of mass that is smallest and largest."""

    mass: tuple[float, ...]
    trim: float


@dataclass(frozen=True)
class Around(Statistic):
    """The mean of the `keep` values nearest to the median, or to the trimmed mean; of two equal windows the lower."""

    keep: int
    trim: int | None = None


@dataclass(frozen=True)
class Sign(Statistic):
    """The sign of the sum of the signs: -1, 0 or 1."""


@dataclass(frozen=True)
class Deviation(Statistic):
    """The standard deviation: squares about the mean, over ``n - ddof``."""

    ddof: int = 0


@dataclass(frozen=True)
class Extreme(Statistic):
    """The smallest value, or the largest."""

    largest: bool
