"""What arrived: recognised, validated and named, and how a result returns to its shape, type and device."""

from mixtailor.intake.arrival import Arrival
from mixtailor.intake.compressed import quantised, sparse
from mixtailor.intake.receive import receive

__all__ = ["Arrival", "quantised", "receive", "sparse"]
