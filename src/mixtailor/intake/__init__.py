"""What arrived: recognised, validated and named, with the way back to its shape, type and device."""

from mixtailor.intake.arrival import Arrival
from mixtailor.intake.compressed import quantised, sparse
from mixtailor.intake.receive import receive

__all__ = ["Arrival", "quantised", "receive", "sparse"]
