"""Updates as integers: secret sharing computes in the ring of 64-bit integers."""

import math
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from mixtailor._checks import check_count, check_positive, refuse
from mixtailor._types import Floats

__all__ = ["FRACTION", "LONGEST", "PROJECTED", "PROJECTIONS", "Encoding"]

LONGEST = 1 << 24  # the norm of an encoded update, in units, at most
FRACTION = 30  # bits of a weight behind the point: sums of weighted updates stay below 2^54 weights

# A client whose integers are too large could make sums wrap around, so that a far update seems near. After the shares
# are fixed, each update is projected on random directions with entries -1, 0, 0 or 1, equally likely, and each
# projection must be within PROJECTED. docs/engines/private.md proves what follows.
PROJECTIONS = 64
PROJECTED = 8 * LONGEST


@final
@dataclass(frozen=True)
class Encoding:
    """Fixed-point integers for updates of a public largest norm. Clients, parties and readers of results share it.

    Longer updates are clipped by their clients; a client that does not is removed. The error of a coordinate is at most
    half a unit, ``radius / 2^24`` or so.

    Parameters
    ----------
    radius : float
        The largest Euclidean norm of an update.
    d : int
        The number of coordinates.

    Examples
    --------
    >>> encoding = Encoding(radius=10.0, d=3)
    >>> encoding.decode(encoding.encode(np.array([3.0, 0.0, 4.0]))).round(6)
    array([3., 0., 4.])
    >>> encoding.decode(encoding.encode(np.array([300.0, 0.0, 400.0]))).round(5)
    array([6., 0., 8.])
    """

    radius: float
    d: int

    def __post_init__(self) -> None:
        check_positive("Encoding", "radius", self.radius)
        check_count("Encoding", "d", self.d)

    @property
    def unit(self) -> float:
        """The length of one unit. Rounding may lengthen a vector by sqrt(d)/2 units, which are kept free."""
        return float(self.radius) / (LONGEST - math.ceil(math.sqrt(self.d) / 2) - 1)

    def encode(self, update: Any) -> "np.ndarray[Any, np.dtype[np.int64]]":
        """The integers of one update, clipped to the radius."""
        values = np.asarray(update, np.float64).ravel()
        if values.shape != (self.d,):
            refuse(f"This encoding is for updates of {self.d} coordinates and got one of {values.size}.")
        if not np.isfinite(values).all():
            refuse("An update that is not finite cannot be shared.")
        largest = np.abs(values).max(initial=0.0)
        length = float(np.linalg.norm(values / largest)) * largest if largest > 0.0 else 0.0
        clipped = values * min(1.0, self.radius / length) if length > 0.0 else values
        return np.asarray(np.rint(clipped / self.unit), np.int64)

    def decode(self, values: Any, divisor: float = 1.0) -> Floats:
        """The vector of these integers, divided by a number."""
        return np.asarray(values, np.int64).astype(np.float64) * (self.unit / divisor)
