"""The direction in which rows spread most, in n-space: what CAF and DnC look at."""

from typing import NamedTuple

import numpy as np

from mixtailor._types import Floats
from mixtailor.updates import Updates

__all__ = ["Spread", "filtered", "largest_spread", "products_about_medoid"]

_LANCZOS_FROM = 100  # rows; below, all eigenvalues cost less than importing the iteration


class Spread(NamedTuple):
    """How rows spread along the top eigenvector of their weighted covariance."""

    eigenvalue: float
    projections: Floats  # of the rows on the direction, from the medoid, in any unit and either sign
    centre: float  # of the weighted mean, in the same unit

    @property
    def deviations(self) -> Floats:
        """How far each row is from the weighted mean along the direction."""
        return np.abs(self.projections - self.centre)


def products_about_medoid(updates: Updates) -> Floats:
    """Inner products from a row that fewer than half of the rows cannot move, so that near rows keep their digits."""
    return updates.about_medoid()[1]


def largest_spread(products: Floats, weights: Floats) -> Spread:
    r"""The top of the spectrum of :math:`\sum_i w_i (x_i - \mu)(x_i - \mu)^T / \sum_i w_i`, about the weighted mean.

    The n x n matrix of inner products of the rows :math:`\sqrt{w_i / \sum w} (x_i - \mu)` has the same non-zero
    eigenvalues, and its eigenvectors hold the weights on these rows that make the directions. The projections are taken
    from the medoid and not from the mean, which a far row takes along with it.
    """
    share = weights / weights.sum()
    root = np.sqrt(share)
    mixed = products @ share
    centred = products - mixed[:, None] - mixed[None, :] + share @ mixed
    eigenvalue, vector = _top(root[:, None] * centred * root[None, :])
    direction = root * vector
    projections = products @ (direction - share * direction.sum())
    return Spread(eigenvalue, projections, float(share @ projections))


def filtered(views: Floats, f: int) -> tuple[Floats, int]:
    """The weights in [0, 1] that the covariance-bound agnostic filter leaves, and the number of its iterations.

    Parameters
    ----------
    views : array
        Inner products of the rows, V x n x n. Each iteration looks at the view whose top eigenvalue is largest, and
        the weights are taken at which that eigenvalue was least; with one view, this is CAF.
    f : int
        How many rows may be Byzantine: the weights keep a sum of about n - 2f.
    """
    n = views.shape[-1]
    weights = np.ones(n)
    best, least, iterations = weights, np.inf, 0
    while True:
        spread = max((largest_spread(view, weights) for view in views), key=lambda found: found.eigenvalue)
        if spread.eigenvalue < least:
            best, least = weights, spread.eigenvalue
        deviations = np.where(weights > 0.0, spread.deviations, 0.0)
        if weights.sum() <= n - 2 * f or deviations.max() == 0.0:
            return best, iterations
        iterations += 1
        weights = weights * (1.0 - (deviations / deviations.max()) ** 2)
        # With fewer full weights, Byzantine rows might have them all, or one cluster of honest rows might. Equal rows
        # deviate equally, by rounding alone, and would all lose their weight at once.
        if not weights.any() or weights.sum() < max(f + 1, n - 2 * f - 0.5) * weights.max():
            return best, iterations


def _top(matrix: Floats) -> tuple[float, Floats]:
    """The largest eigenvalue and its eigenvector."""
    largest = float(np.abs(matrix).max())
    if largest == 0.0:
        return 0.0, np.zeros(len(matrix))
    unit = matrix / largest
    if len(matrix) >= _LANCZOS_FROM:
        from scipy.sparse.linalg import ArpackNoConvergence, eigsh

        try:  # started at the row that spreads most: the same result each time
            values, vectors = eigsh(unit, k=1, which="LA", v0=unit[:, int(np.argmax(np.diag(unit)))])
        except ArpackNoConvergence:
            values, vectors = np.linalg.eigh(unit)
    else:
        values, vectors = np.linalg.eigh(unit)
    return max(0.0, float(values[-1])) * largest, vectors[:, -1]
