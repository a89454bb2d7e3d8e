"""What the workers sent, wherever it lives."""

from mixtailor.updates.base import Call, Faulty, Updates
from mixtailor.updates.home import Home
from mixtailor.updates.points import Columns, Combination, Formula, Given, Point
from mixtailor.updates.receive import receive
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

__all__ = [
    "AroundMedian",
    "AroundTrimmed",
    "Call",
    "Columns",
    "Combination",
    "Deviation",
    "Extreme",
    "Faulty",
    "Formula",
    "Given",
    "Home",
    "Median",
    "Point",
    "Sign",
    "Statistic",
    "Trimmed",
    "Updates",
    "receive",
]
