"""Views of the workers: matrices of inner products that a rule can decide from."""

import numpy as np

from mixtailor._types import Floats
from mixtailor.kernels.selection import median
from mixtailor.kernels.weighted import median_of
from mixtailor.rules._spectra import largest_spread

__all__ = ["embedded", "telling", "view_of"]

# How much more than this round's view a remembered one must show to the filter. Chosen on digits, seeds 0 and 1: at 1
# the noise of the past decides where Byzantine identities change every round, at 1.8 slow attackers are found too late.
_MORE = 1.3


def view_of(sketches: Floats, mass: Floats | None = None) -> Floats:
    """Inner products about the mean, with the median squared length as the unit, and nobody quieter than that.

    With a mass for each worker, mean and median are by mass.

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
    centred = small - (small.mean(axis=0) if mass is None else mass @ small / mass.sum())
    products: Floats = centred @ centred.T
    unit = median(np.diag(products)) if mass is None else median_of(np.diag(products), mass)
    if unit <= 0.0:  # half of the workers are at the mean: those that are not stand out without limit
        unit = float(np.diag(products).max()) or 1.0
    products /= unit
    quiet = np.maximum(0.0, 1.0 - np.diag(products))
    products[np.diag_indices(len(products))] += quiet
    return products


def telling(views: Floats, mass: Floats | None = None) -> tuple[Floats, Floats]:
    """The views that a filter should look at, and the view in which workers spread most.

    Where workers have no steady habits, remembered deviations are noise, and to filter by them would protect whoever
    sticks out in this round. So beside this round's view, which is the first, a remembered one counts only where its
    top eigenvalue is 1.3 times this round's.

    Examples
    --------
    Two workers stick out in the second view, nobody in the third.

    >>> noise = np.eye(6)
    >>> steady = noise + 9.0 * np.outer([1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0])
    >>> kept, widest = telling(np.stack([noise, steady, noise]))
    >>> len(kept), bool((widest == steady).all())
    (2, True)
    """
    mass = np.ones(views.shape[-1]) if mass is None else mass
    spreads = np.array([largest_spread(view, mass).eigenvalue for view in views])
    counts = spreads > _MORE * spreads[0]
    counts[0] = True
    return views[counts], views[int(spreads.argmax())]


def embedded(view: Floats) -> Floats:
    """Points whose inner products are a view: n rows of n coordinates, for rules that see distances."""
    values, vectors = np.linalg.eigh(view)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
