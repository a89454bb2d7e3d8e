r"""The p = 2 geometry of combinations of rows, in n-space.

A row of weights :math:`c` with sum zero stands for the vector :math:`\sum_i c_i x_i`, and inner products of two such
vectors follow from the squared distances :math:`D` alone: :math:`-\frac12 c^T D c'`. A row of weights with another sum
is made to have sum zero by the origin, one more point of the geometry.

Squared distances lose the honest rows once one row is far away, so all is expressed about a medoid of the rows that
take part, and where one of them is more than `FAR` times the median distance away, the inner products about the medoid
are accumulated from the differences themselves: one more reading, exact to rounding. Where squares are no float64
numbers (float64 rows only), inner products are in units of a median distance, and distances are measured.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mixtailor.kernels.selection import distinct, have_squares, median, medoid, products_about_medoid
from mixtailor.updates.points import only_row

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mixtailor.updates.base import Updates
    from mixtailor.updates.engine import Floats, Integers

__all__ = [
    "FAR",
    "distances",
    "distances_to",
    "known_distances_to",
    "median",
    "medoid",
    "products",
    "products_in_units",
]

# Rounding in D is relative to its largest entry: at 1e4 median distances 1e-16 * (1e4)^2, 1e-8 of the median's square.
FAR = 1e4

# A combination that differs from another by this much of a far row is as far from it, to all digits that count.
HEAVY = 1e-3

# A sum of which no more is left than this share of its terms has lost the digits that count.
CANCELLED = 1e-9

# Up to one far row in so many has its inner products accumulated alone, and not with those of all rows.
_FEW = 4

# Squares of distances beyond this overflow; rows (float64 only) that are so many units away count as this far away.
_BEYOND = 1e150

# Distances beyond this or below its inverse call for a unit: with all that is made of them, squares would be lost.
_SQUARABLE = 1e140

# Below this 1 / distance overflows (float64 only).
_INVERTIBLE = 1e-300


class Centred(NamedTuple):
    """Inner products of some points of the root about one of them.

    Where `lengths` are given, they are those of the differences over these lengths.
    """

    points: "Integers"  # rows of the root that take part; root.n stands for the origin
    middle: int  # which of them all is about
    products: "Floats"
    far: "np.ndarray[tuple[int], np.dtype[np.bool_]]"  # which of them are far from the medoid
    lengths: "Floats | None" = None

    def between(self, weights: "Floats", unit: float = 1.0) -> "Floats":
        """The inner products of the combinations by these weights, in squares of the unit."""
        if self.lengths is not None:
            with np.errstate(over="ignore"):
                weights = np.clip(weights * self.lengths / unit, -_BEYOND, _BEYOND)
        return weights @ self.products @ weights.T

    def in_units(self, weights: "Floats", away: "Floats") -> "tuple[Floats, float]":
        """The same in a unit near the median of some distances, and the unit; 1 where that has all digits."""
        unit = 1.0 if self.lengths is None else float(np.ldexp(0.5, np.frexp(median(away) or 1.0)[1]))
        return self.between(weights, unit), unit


def centred(root: "Updates", points: "Integers") -> Centred:
    """The inner products of `points` about a medoid of them; remembered by the root."""
    key = points.tobytes()
    if key not in root._centred:
        root._centred[key] = _about_medoid(root, points)
    return root._centred[key]


def _about_medoid(root: "Updates", points: "Integers") -> Centred:
    origin = bool(len(points)) and points[-1] == root.n
    rows = points[:-1] if origin else points
    between = root.distances(2.0)
    if len(rows) < root.n:
        between = between[np.ix_(rows, rows)]
    if origin:
        norms = root.norms(2.0)[rows]
        between = np.block([[between, norms[:, None]], [norms[None, :], np.zeros((1, 1))]])
    middle, products, far = products_about_medoid(between, len(rows), FAR, _BEYOND)
    if not have_squares(between[middle], _SQUARABLE):
        cosines, lengths = _cosines(root, int(rows[middle]), origin)
        return Centred(points, middle, cosines[np.ix_(points, points)], far, lengths[points])
    if far.any() and not origin and _FEW * far.sum() <= len(rows) and int(rows[middle]) not in root._products:
        lines = _lines(root, int(rows[middle]), rows[far])[:, rows]
        products[far], products[:, far] = lines, lines.T
    elif far.any():
        products = _accumulated(root, int(rows[middle]), origin)[np.ix_(points, points)]
    return Centred(points, middle, products, far)


def _lines(root: "Updates", about: int, which: "Integers") -> "Floats":
    """The inner products of a few rows with all, about one. Between the others, squared distances have the digits."""
    away = root.distances(2.0)[about]
    scales = np.maximum(away, _INVERTIBLE)
    capped = np.minimum(scales, _BEYOND)  # rows that take no part here may be as far away as they like
    lines: Floats = root.gram_rows(about, 1.0 / scales, which) * capped[which][:, None] * capped[None, :]
    return lines


def _accumulated(root: "Updates", about: int, origin: bool) -> "Floats":
    """The inner products of all rows about one, from their differences; remembered by the root."""
    if about not in root._products or (origin and len(root._products[about]) == root.n):
        cosines, lengths = _cosines(root, about, origin)
        capped = np.minimum(lengths, _BEYOND)
        root._products[about] = cosines * capped[:, None] * capped[None, :]
    return root._products[about]


def _cosines(root: "Updates", about: int, origin: bool) -> "tuple[Floats, Floats]":
    """The inner products of all rows about one, over their lengths, and the lengths.

    Nothing over- or underflows on the way. Lengths that have no inverse count as the least that has one.
    """
    away = root.distances(2.0)[about]
    if origin:
        away = np.append(away, root.norms(2.0)[about])
    lengths = np.maximum(away, _INVERTIBLE)
    cosines = root.gram(about, 1.0 / lengths, origin=origin)
    # Differences of rows beyond half of the largest number overflow: they count as at right angles to all others.
    return np.where(np.isfinite(cosines), cosines, np.eye(len(lengths))), lengths


def _taking_part(root: "Updates", weights: "Floats") -> "tuple[Integers, Floats]":
    """The points of non-zero weight, the origin last, and the weights on them."""
    # What a sum misses of zero up to rounding is rounding; the origin takes part where rows are not affine.
    missing = -weights.sum(axis=1)
    if np.abs(missing).max(initial=0.0) > 1e-12 * max(1.0, float(np.abs(weights).max(initial=0.0))):
        weights = np.column_stack([weights, missing])
    used = np.nonzero(weights.any(axis=0))[0]
    return used, weights[:, used]


def products_about(root: "Updates", rows: "Integers", row: int) -> "Floats | None":
    """The inner products of some rows of the root about one of them, by its place; None unless it is their medoid."""
    known = centred(root, rows)
    if known.middle != row:
        return None
    return known.products if known.lengths is None else known.between(np.eye(len(rows)))


def rows_about_medoid(root: "Updates", rows: "Integers") -> "tuple[int, Floats, float]":
    """The place of a medoid of some rows of the root, their inner products about it in squares of a unit, and that."""
    known = centred(root, rows)
    if known.lengths is None:
        return known.middle, known.products, 1.0
    return known.middle, *known.in_units(np.eye(len(rows)), root.distances(2.0)[rows[known.middle]][rows])


def products(root: "Updates", weights: "Floats") -> "Floats":
    """Inner products of the vectors ``weights @ rows``, where the weights of each row have sum zero, or the origin is
    what they are about."""
    points, used = _taking_part(root, weights)
    if not len(points) or points[0] == root.n:  # nothing but the origin
        return np.zeros((len(weights), len(weights)))
    return centred(root, points).between(used)


def products_in_units(root: "Updates", weights: "Floats", away: "Floats") -> "tuple[Floats, float]":
    """`products` in squares of a unit, and the unit: 1, or near the median of some distances that have no squares."""
    points, used = _taking_part(root, weights)
    if not len(points) or points[0] == root.n:
        return np.zeros((len(weights), len(weights))), 1.0
    return centred(root, points).in_units(used, away)


def distances_to(root: "Updates", weights: "Floats", aim: "Floats") -> "Floats | None":
    """Distances of the combinations ``weights @ rows`` to the combination ``aim @ rows``; None where they have to be
    measured, since squares are no float64 numbers."""
    points, differences = _taking_part(root, weights - aim)
    if not len(points):
        return np.zeros(len(weights))
    known = centred(root, points)
    if known.lengths is not None:
        return None
    squares: Floats = ((differences @ known.products) * differences).sum(axis=1)
    return np.sqrt(np.maximum(squares, 0.0))


def known_distances_to(known: "Mapping[float, Floats]", aim: "Floats") -> "Floats | None":
    r"""Distances of all rows to ``aim @ rows`` from the distances between rows that are known, by their norm.

    .. math:: \lVert x_i - \sum_j w_j x_j \rVert^2 = \sum_j w_j D_{ij} - \tfrac12 w^T D w, \quad \sum_j w_j = 1

    with squared distances D. Rows of weight zero do not take part, so a far one costs the others no digits.
    """
    row = only_row(aim)
    if row is not None and known:
        to_row: Floats = next(iter(known.values()))[row]
        return to_row
    used = np.nonzero(aim)[0]
    if 2.0 not in known or not len(used) or abs(aim.sum() - 1.0) > 1e-9:
        return None
    weights = aim[used]
    squares = np.minimum(known[2.0][:, used], _BEYOND) ** 2
    found: Floats = np.sqrt(np.maximum(squares @ weights - weights @ squares[used] @ weights / 2, 0.0))
    return found


def distances(root: "Updates", weights: "Floats") -> "Floats | None":
    """Distances between the combinations ``weights @ rows``; None where they have to be measured: where far rows cancel
    in one of them, squares have no digits of what is left, and where squares are no float64 numbers, none at all."""
    far = _heavy_far_rows(root, weights)
    answer = _distances(root, weights) if far is None else _distances_by_difference(root, weights, far)
    if answer is None:
        return None
    # Rows mixed alike are the same point, whatever rounding says.
    alike = distinct(weights)[1]
    answer[alike[:, None] == alike] = 0.0
    return answer


def _distances(root: "Updates", weights: "Floats") -> "Floats | None":
    points, used = _taking_part(root, weights - weights[:1])
    if not len(points):
        return np.zeros((len(weights), len(weights)))
    middle = centred(root, points)
    if middle.lengths is not None:
        return None
    inner = used @ middle.products @ used.T
    norms = np.diag(inner)
    squares = norms[:, None] + norms[None, :] - (inner + inner.T)  # symmetric to the bit, as distances must be
    # Two mixed rows that both hold a far row: only the difference of their weights says what cancels.
    touched = np.nonzero((used[:, middle.far] != 0.0).any(axis=1))[0]
    for row in touched:
        apart = used - used[row]
        squares[row] = squares[:, row] = ((apart @ middle.products) * apart).sum(axis=1)
    return np.sqrt(np.maximum(squares, 0.0))


def _heavy_far_rows(root: "Updates", weights: "Floats") -> "Integers | None":
    """The far rows that take part, where combinations hold them with a weight worth the name or not at all.

    Nearest-neighbour mixing and buckets are such. The far row then decides every distance that it has a part in, to all
    digits, so squared distances will do, and the reading that `_accumulated` costs is saved.
    """
    if np.abs(weights.sum(axis=1) - 1.0).max(initial=0.0) > 1e-12:
        return None
    rows = np.nonzero(weights.any(axis=0))[0]
    between = root.distances(2.0)
    if len(rows) < root.n:
        between = between[np.ix_(rows, rows)]
    away = between[medoid(between)]
    far = rows[away > FAR * median(away)]
    if not len(far) or 2 * len(far) >= len(rows) or not have_squares(away, _SQUARABLE):
        return None
    apart = np.abs(weights[:, None, far] - weights[None, :, far])
    return far if apart[apart > 0].min(initial=1.0) >= HEAVY else None


def _distances_by_difference(root: "Updates", weights: "Floats", far: "Integers") -> "Floats | None":
    touched = (weights[:, far] != 0.0).any(axis=1)
    answer = np.empty((len(weights), len(weights)))
    others = _distances(root, weights[~touched])
    if others is None:
        return None
    answer[np.ix_(~touched, ~touched)] = others
    squares = np.minimum(root.distances(2.0), _BEYOND) ** 2
    for row in np.nonzero(touched)[0]:
        apart = weights - weights[row]
        found = -0.5 * ((apart @ squares) * apart).sum(axis=1)
        size = np.abs(apart)
        if (found < CANCELLED * ((size @ squares) * size).sum(axis=1)).any():
            return None
        answer[row] = answer[:, row] = np.sqrt(np.maximum(found, 0.0))
    return answer
