"""Clipping lengths to a radius."""

import numpy as np

from mixtailor._types import Floats

__all__ = ["clip_factors"]


def clip_factors(lengths: Floats, radius: float) -> Floats:
    """``min(1, radius / length)``, and 1 for length 0: what brings vectors of these lengths to the radius at most."""
    longer = lengths > radius
    return np.where(longer, radius / np.where(longer, lengths, 1.0), 1.0)
