"""Views of the workers: matrices of inner products that a rule can decide from."""

import numpy as np

from mixtailor._types import Floats
from mixtailor.kernels.selection import median

__all__ = ["embedded", "view_of"]


def view_of(sketches: Floats) -> Floats:
    """Inner products about the mean, with the median squared length as the unit, and nobody quieter than that.

    A diagonal entry below the median is raised to it, as if noise of its own had been added to that worker. Otherwise a
    few identical updates close to the mean would have the least spread of all subsets, and take all the weight.

    Examples
    --------
    >>> view_of(np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])).round(2)
    array([[ 1.6, -1.6,  0. ,  0. ],
           [-1.6,  1.6,  0. ,  0. ],
           [ 0. ,  0. ,  1. , -0.4],
           [ 0. ,  0. , -0.4,  1. ]])
    """
    # By a power of two, which rounds nothing: the squares of 1e200 would overflow, and those of 1e-200 vanish.
    _, exponent = np.frexp(np.abs(sketches).max(initial=0.0))
    small = np.ldexp(sketches, -exponent)
    centred = small - small.mean(axis=0)
    products: Floats = centred @ centred.T
    unit = median(np.diag(products))
    if unit <= 0.0:  # half of the workers are at the mean: those that are not stand out without limit
        unit = float(np.diag(products).max()) or 1.0
    products /= unit
    quiet = np.maximum(0.0, 1.0 - np.diag(products))
    products[np.diag_indices(len(products))] += quiet
    return products


def embedded(views: Floats) -> Floats:
    """Points whose inner products are the mean of the views: n rows of n coordinates, for rules that see distances."""
    values, vectors = np.linalg.eigh(views.mean(axis=0))
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
