"""The direction in which rows spread most, in n-space: what CAF and DnC look at."""

import contextlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from mixtailor._types import Floats, Integers
from mixtailor.updates import Updates

__all__ = [
    "Filtered",
    "Spread",
    "filtered",
    "filtered_each",
    "largest_eigenvalue",
    "largest_spread",
    "largest_spreads",
    "products_about_medoid",
]

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
        found, vector = _tops(root[:, None] * centred * root[None, :])
        eigenvalue = float(found)
    else:
        eigenvalue, vector = _top_of_many(products, root, mixed, float(share @ mixed), start)
    direction = root * vector
    projections = products @ (direction - share * direction.sum())
    return Spread(eigenvalue, projections, float(share @ projections), vector)


def largest_spreads(views: Floats, weights: Floats) -> Floats:
    """The eigenvalues of `largest_spread` for several matrices of inner products, V x n x n."""
    if len(weights) >= _LANCZOS_FROM:
        return np.array([largest_spread(view, weights).eigenvalue for view in views])
    share = weights / weights.sum()
    return _centred_tops(views, share, np.sqrt(share))[0]


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
        The unit of each view's eigenvalue, above 0; 1 by default.
    enough : float
        The filter stops where the largest eigenvalue, in these units, is no more than this.
    mass : array, optional
        How much each row counts, of mean 1; as so many equal rows would.
    """
    return filtered_each(views[None], f, np.array([levels]) if len(levels) else None, enough, mass)[0]


def filtered_each(
    groups: Floats, f: float, levels: Floats | None = None, enough: float = 0.0, mass: Floats | None = None
) -> list[Filtered]:
    """As `filtered`, for each of several groups of views, B x V x n x n, side by side: small problems cost their calls.

    Levels are B x V.
    """
    units = np.ones(groups.shape[:2]) if levels is None else levels
    mass = np.ones(groups.shape[-1]) if mass is None else mass
    n = float(mass.sum())
    weights = np.tile(np.where(mass > 0.0, 1.0, 0.0), (len(groups), 1))
    best, least, iterations = weights.copy(), np.full(len(groups), np.inf), np.zeros(len(groups), int)
    starts: dict[tuple[int, int], Floats] = {}
    live = np.arange(len(groups))  # the groups whose filters have not stopped
    while True:
        held = weights[live] * mass
        sizes, deviations = _widest(groups, live, held, units[live], starts)
        better = live[sizes < least[live]]
        best[better], least[live] = weights[better], np.minimum(sizes, least[live])
        deviations = np.where(held > 0.0, deviations, 0.0)
        farthest = deviations.max(axis=1)
        going = (sizes > enough) & (held.sum(axis=1) > n - 2 * f) & (farthest > 0.0)
        live = live[going]
        iterations[live] += 1
        lower = weights[live] * (1.0 - (deviations[going] / farthest[going, None]) ** 2)
        weights[live] = lower
        # With fewer full weights, Byzantine rows might have them all, or one cluster of honest rows might. Equal rows
        # deviate equally, by rounding alone, and would all lose their weight at once.
        most = lower.max(axis=1, initial=0.0)
        live = live[(most > 0.0) & ((lower * mass).sum(axis=1) >= max(f + 1, n - 2 * f - 0.5) * most)]
        if not len(live):
            found = zip(best, least.tolist(), iterations.tolist(), strict=True)
            return [Filtered(*one) for one in found]


def _widest(
    groups: Floats, live: Integers, weights: Floats, units: Floats, starts: dict[tuple[int, int], Floats]
) -> tuple[Floats, Floats]:
    """Of each group that is live the largest eigenvalue in units, and how far its rows are from their mean along it."""
    if groups.shape[-1] < _LANCZOS_FROM and len(live) * groups.shape[1] > 1:
        views = groups[live]
        share = weights / weights.sum(axis=1, keepdims=True)
        root = np.sqrt(share)
        values, vectors = _centred_tops(views, share[:, None], root[:, None])
        sizes = values / units
        rows, chosen = np.arange(len(live)), sizes.argmax(axis=1)
        direction = root * vectors[rows, chosen]
        direction -= share * direction.sum(axis=1, keepdims=True)
        projections = (views[rows, chosen] @ direction[:, :, None])[:, :, 0]
        deviations = np.abs(projections - (share * projections).sum(axis=1, keepdims=True))
        return sizes[rows, chosen], deviations
    found = []
    for place, group in enumerate(live.tolist()):
        spreads = [largest_spread(view, weights[place], starts.get((group, k))) for k, view in enumerate(groups[group])]
        starts.update({(group, k): spread.vector for k, spread in enumerate(spreads)})
        sizes = np.array([spread.eigenvalue for spread in spreads]) / units[place]
        chosen = int(sizes.argmax())
        found.append((sizes[chosen], spreads[chosen].deviations))
    return np.array([size for size, _ in found]), np.array([away for _, away in found])


def largest_eigenvalue(matrix: Floats) -> float:
    """The largest eigenvalue of a symmetric matrix, to rounding."""
    if len(matrix) >= _LANCZOS_FROM and matrix.any():
        from scipy.sparse.linalg import ArpackNoConvergence, eigsh

        begin = matrix[:, int(np.diag(matrix).argmax())]
        with contextlib.suppress(ArpackNoConvergence):
            return float(eigsh(matrix, k=1, which="LA", v0=begin, return_eigenvectors=False)[-1])
    return float(np.linalg.eigvalsh(matrix)[-1])


def _centred_tops(products: Floats, share: Floats, root: Floats) -> tuple[Floats, Floats]:
    """The tops of weighted covariances, from inner products: shares of the weight, and their roots, (..., n)."""
    shares = share[..., None]
    mixed = products @ shares
    centred = products - mixed - mixed.swapaxes(-1, -2) + shares.swapaxes(-1, -2) @ mixed
    return _tops(centred * (root[..., :, None] * root[..., None, :]))


def _tops(matrices: Floats) -> tuple[Floats, Floats]:
    """The largest eigenvalue of each matrix, no less than zero, and its eigenvector."""
    largest = np.abs(matrices).max(axis=(-2, -1))
    values, vectors = np.linalg.eigh(matrices / np.where(largest > 0.0, largest, 1.0)[..., None, None])
    return np.maximum(0.0, values[..., -1]) * largest, vectors[..., -1]


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
