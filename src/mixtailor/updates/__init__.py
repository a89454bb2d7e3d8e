"""n updates as a rule sees them: queries, lazy views, points and their geometry. All numerics above the kernels."""

from mixtailor.kernels.columnwise import (
    Around,
    Deviation,
    Extreme,
    Median,
    Sign,
    Statistic,
    Trimmed,
    WeightedMedian,
    WeightedTrimmed,
)
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point
from mixtailor.updates.reader import Faulty
from mixtailor.updates.updates import Call, Updates

__all__ = [
    "Around",
    "Call",
    "Columns",
    "Combination",
    "Deviation",
    "Extreme",
    "Faulty",
    "Formula",
    "Given",
    "Median",
    "Point",
    "Sign",
    "Statistic",
    "Trimmed",
    "Updates",
    "WeightedMedian",
    "WeightedTrimmed",
]
