"""The direction in which rows spread most, in n-space: what CAF and DnC look at."""

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mixtailor._types import Floats
from mixtailor.updates import Updates

__all__ = ["Filtered", "Spread", "filtered", "largest_eigenvalue", "largest_spread", "products_about_medoid"]

_LANCZOS_FROM = 100  # rows; below, all eigenvalues cost less than importing the iteration
_STEPS, _CLOSED = 8, 1e-11  # of our own steps before ARPACK's, and what is left of a unit vector in a closed space


class Spread(NamedTuple):
    """How rows spread along the top eigenvector of their weighted covariance."""

    eigenvalue: float
    projections: Floats  # of the rows on the direction, from the medoid, in any unit and either sign
    centre: float  # of the weighted mean, in the same unit
    vector: Floats  # the eigenvector: weights on the rows, times the roots of their shares

    @property
    def deviations(self) -> Floats:
        """How far each row is from the weighted mean along the direction."""
        return np.abs(self.projections - self.centre)


def products_about_medoid(updates: Updates) -> Floats:
    """Inner products from a row that fewer than half of the rows cannot move, so that near rows keep their digits."""
    return updates.about_medoid()[1]


def largest_spread(products: Floats, weights: Floats, start: Floats | None = None) -> Spread:
    r"""The top of the spectrum of :math:`\sum_i w_i (x_i - \mu)(x_i - \mu)^T / \sum_i w_i`, about the weighted mean.

    The n x n matrix of inner products of the rows :math:`\sqrt{w_i / \sum w} (x_i - \mu)` has the same non-zero
    eigenvalues, and its eigenvectors hold the weights on these rows that make the directions. The projections are taken
    from the medoid and not from the mean, which a far row takes along with it. `start` is a direction to begin the
    search with, as weights on the rows.
    """
    share = weights / weights.sum()
    root = np.sqrt(share)
    mixed = products @ share
    if len(products) < _LANCZOS_FROM:
        centred = products - mixed[:, None] - mixed[None, :] + share @ mixed
        eigenvalue, vector = _top(root[:, None] * centred * root[None, :])
    else:
        eigenvalue, vector = _top_of_many(products, root, mixed, float(share @ mixed), start)
    direction = root * vector
    projections = products @ (direction - share * direction.sum())
    return Spread(eigenvalue, projections, float(share @ projections), vector)


class Filtered(NamedTuple):
    """What a filter leaves."""

    weights: Floats  # in [0, 1]
    spread: float  # the top eigenvalue at these weights, in levels
    iterations: int


def filtered(
    views: Floats, f: float, levels: Sequence[float] = (), enough: float = 0.0, mass: Floats | None = None
) -> Filtered:
    """The weights that the covariance-bound agnostic filter leaves.

    Parameters
    ----------
    views : array
        Inner products of the rows, V x n x n. Each iteration looks at the view whose top eigenvalue is largest, and
        the weights are taken at which that eigenvalue was least; with one view, this is CAF.
    f : int or float
        How many updates may be Byzantine, or how much of the mass: the weights keep a sum of about n - 2f.
    levels : sequence of float
        The unit of each view's eigenvalue; 1 by default.
    enough : float
        The filter stops where the largest eigenvalue, in these units, is no more than this.
    mass : array, optional
        How much each row counts, of mean 1; as so many equal rows would.
    """
    units = levels or [1.0] * len(views)
    mass = np.ones(views.shape[-1]) if mass is None else mass
    n = float(mass.sum())
    weights = np.where(mass > 0.0, 1.0, 0.0)
    best, least, iterations = weights, np.inf, 0
    starts: list[Floats | None] = [None] * len(views)
    while True:
        held = weights * mass
        spreads = [largest_spread(view, held, start) for view, start in zip(views, starts, strict=True)]
        starts = [found.vector for found in spreads]
        sizes = [_in_units(found.eigenvalue, unit) for found, unit in zip(spreads, units, strict=True)]
        size, spread = max(zip(sizes, spreads, strict=True), key=lambda pair: pair[0])
        if size < least:
            best, least = weights, size
        deviations = np.where(held > 0.0, spread.deviations, 0.0)
        if size <= enough or held.sum() <= n - 2 * f or deviations.max() == 0.0:
            return Filtered(best, least, iterations)
        iterations += 1
        weights = weights * (1.0 - (deviations / deviations.max()) ** 2)
        # With fewer full weights, Byzantine rows might have them all, or one cluster of honest rows might. Equal rows
        # deviate equally, by rounding alone, and would all lose their weight at once.
        if not weights.any() or (weights * mass).sum() < max(f + 1, n - 2 * f - 0.5) * weights.max():
            return Filtered(best, least, iterations)


def _in_units(eigenvalue: float, unit: float) -> float:
    """Where the rows of a view do not spread at all without the farthest ones, any spread is beyond all units."""
    if unit > 0.0:
        return eigenvalue / unit
    return np.inf if eigenvalue > 0.0 else 0.0


def largest_eigenvalue(matrix: Floats) -> float:
    """The largest eigenvalue of a symmetric matrix, to rounding."""
    if len(matrix) >= _LANCZOS_FROM and matrix.any():
        from scipy.sparse.linalg import ArpackNoConvergence, eigsh

        begin = matrix[:, int(np.diag(matrix).argmax())]
        with contextlib.suppress(ArpackNoConvergence):
            return float(eigsh(matrix, k=1, which="LA", v0=begin, return_eigenvectors=False)[-1])
    return float(np.linalg.eigvalsh(matrix)[-1])


def _top(matrix: Floats) -> tuple[float, Floats]:
    """The largest eigenvalue and its eigenvector."""
    largest = float(np.abs(matrix).max())
    if largest == 0.0:
        return 0.0, np.zeros(len(matrix))
    values, vectors = np.linalg.eigh(matrix / largest)
    return max(0.0, float(values[-1])) * largest, vectors[:, -1]


def _top_of_many(
    products: Floats, root: Floats, mixed: Floats, square: float, start: Floats | None
) -> tuple[float, Floats]:
    """As `_top`, of the centred matrix, which is not formed: the iteration takes products with vectors alone."""
    from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

    n, spreads = len(products), root * root * (np.diag(products) - 2.0 * mixed + square)
    largest = float(spreads.max())
    if largest <= 0.0:
        return 0.0, np.zeros(n)

    def times(vector: Floats) -> Floats:
        weighted = root * vector.ravel()
        total = weighted.sum()
        moved: Floats = products @ weighted - mixed * total + (square * total - mixed @ weighted)
        return root * moved / largest

    # From the row that spreads most, the same each time: a start that is orthogonal to the direction never finds it.
    begin = np.zeros(n) if start is None else start.copy()
    begin[int(spreads.argmax())] += 1.0
    value, begin, exact = _krylov(times, begin)
    if exact:  # ARPACK does not converge on the identity, which is the view of equal updates
        return max(0.0, value) * largest, begin
    try:
        values, vectors = eigsh(LinearOperator((n, n), times, dtype=np.float64), k=1, which="LA", v0=begin, tol=1e-12)
    except ArpackNoConvergence:
        values, vectors = np.linalg.eigh(np.stack([times(row) for row in np.eye(n)]))
    return max(0.0, float(values[-1])) * largest, vectors[:, -1]


def _krylov(times: Callable[[Floats], Floats], begin: Floats) -> tuple[float, Floats, bool]:
    """The top eigenpair in the space of ``begin, A begin, A^2 begin, ...``, and whether that space is A's own.

    It is where A has few different eigenvalues. Otherwise it stops after a few steps, and the vector is a good start.
    """
    basis, images = [begin / np.linalg.norm(begin)], []
    while True:
        images.append(times(basis[-1]))
        vectors = np.stack(basis)
        values, mixtures = np.linalg.eigh(_symmetric(vectors @ np.stack(images).T))
        rest = images[-1] - vectors.T @ (vectors @ images[-1])
        rest -= vectors.T @ (vectors @ rest)  # once more: after one pass rounding may be all that is left
        size, found = float(np.linalg.norm(rest)), vectors.T @ mixtures[:, -1]
        if size <= _CLOSED or len(basis) == _STEPS:
            return float(values[-1]), found, size <= _CLOSED
        basis.append(rest / size)


def _symmetric(matrix: Floats) -> Floats:
    halves: Floats = (matrix + matrix.T) / 2.0
    return halves
