r"""The p = 2 geometry of combinations of rows, in n-space.

A row of weights :math:`c` with sum zero stands for the vector :math:`\sum_i c_i x_i`, and inner products of two such
vectors follow from the squared distances :math:`D` alone: :math:`-\frac12 c^T D c'`. A row of weights with another sum
is made to have sum zero by the origin, one more point of the geometry.

Squared distances lose the honest rows once one row is far away, so all is expressed about a medoid of the rows that
take part, and where one of them is more than `FAR` times the median distance away, the inner products about the medoid
are accumulated from the differences themselves: one more reading, exact to rounding.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mixtailor.kernels.selection import distinct, median, medoid, products_about_medoid

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mixtailor.updates.base import Updates
    from mixtailor.updates.engine import Floats, Integers

__all__ = ["FAR", "distances", "distances_to", "known_distances_to", "median", "medoid", "products"]

# Rounding in D is relative to its largest entry: at 1e4 median distances 1e-16 * (1e4)^2, 1e-8 of the median's square.
FAR = 1e4

# A combination that differs from another by this much of a far row is as far from it, to all digits that count.
HEAVY = 1e-3

# A sum of which no more is left than this share of its terms has lost the digits that count.
CANCELLED = 1e-9

# Up to one far row in so many has its inner products accumulated alone, and not with those of all rows.
_FEW = 4

# Squares of distances beyond this overflow; such rows (float64 only) count as this far away.
_BEYOND = 1e150

# Below this 1 / distance overflows (float64 only).
_INVERTIBLE = 1e-300


class Centred(NamedTuple):
    """Inner products of some points of the root about one of them."""

    points: "Integers"  # rows of the root that take part; root.n stands for the origin
    middle: int  # which of them all is about
    products: "Floats"
    far: "np.ndarray[tuple[int], np.dtype[np.bool_]]"  # which of them are far from the medoid


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
    if far.any() and not origin and _FEW * far.sum() <= len(rows) and int(rows[middle]) not in root._products:
        lines = _lines(root, int(rows[middle]), rows[far])[:, rows]
        products[far], products[:, far] = lines, lines.T
    elif far.any():
        products = _accumulated(root, int(rows[middle]), origin)[np.ix_(points, points)]
    return Centred(points, middle, products, far)


def _lines(root: "Updates", about: int, which: "Integers") -> "Floats":
    """The inner products of a few rows with all, about one. Between the others, squared distances have the digits."""
    away = root.distances(2.0)[about]
    scales = np.where(away > _INVERTIBLE, away, 1.0)
    cosines = np.nan_to_num(root.gram_rows(about, 1.0 / scales, which), nan=0.0, posinf=0.0, neginf=0.0)
    capped = np.minimum(scales, _BEYOND)
    lines: Floats = cosines * capped[which][:, None] * capped[None, :]
    return lines


def _accumulated(root: "Updates", about: int, origin: bool) -> "Floats":
    """The inner products of all rows about one, from their differences; remembered by the root."""
    if about not in root._products or (origin and len(root._products[about]) == root.n):
        away = root.distances(2.0)[about]
        if origin:
            away = np.append(away, root.norms(2.0)[about])
        # In units of each row's own distance the products are cosines, and nothing over- or underflows on the way.
        # A distance that has no inverse has no square either: its row is the one that all is about.
        scales = np.where(away > _INVERTIBLE, away, 1.0)
        # Differences of rows beyond half of the largest number overflow: they count as at right angles, and no more.
        cosines = np.nan_to_num(root.gram(about, 1.0 / scales, origin=origin), nan=0.0, posinf=0.0, neginf=0.0)
        capped = np.minimum(scales, _BEYOND)
        root._products[about] = cosines * capped[:, None] * capped[None, :]
    return root._products[about]


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
    return known.products if known.middle == row else None


def products(root: "Updates", weights: "Floats") -> "Floats":
    """Inner products of the vectors ``weights @ rows``, where the weights of each row have sum zero, or the origin is
    what they are about."""
    points, used = _taking_part(root, weights)
    if not len(points):
        return np.zeros((len(weights), len(weights)))
    if points[0] == root.n:  # nothing but the origin
        return np.zeros((len(weights), len(weights)))
    return used @ centred(root, points).products @ used.T


def distances_to(root: "Updates", weights: "Floats", aim: "Floats") -> "Floats":
    """Distances of the combinations ``weights @ rows`` to the combination ``aim @ rows``."""
    points, differences = _taking_part(root, weights - aim)
    if not len(points):
        return np.zeros(len(weights))
    squares: Floats = ((differences @ centred(root, points).products) * differences).sum(axis=1)
    return np.sqrt(np.maximum(squares, 0.0))


def known_distances_to(known: "Mapping[float, Floats]", aim: "Floats") -> "Floats | None":
    r"""Distances of all rows to ``aim @ rows`` from the distances between rows that are known, by their norm.

    .. math:: \lVert x_i - \sum_j w_j x_j \rVert^2 = \sum_j w_j D_{ij} - \tfrac12 w^T D w, \quad \sum_j w_j = 1

    with squared distances D. Rows of weight zero do not take part, so a far one costs the others no digits.
    """
    used = np.nonzero(aim)[0]
    if len(used) == 1 and aim[used[0]] == 1.0 and known:
        to_row: Floats = next(iter(known.values()))[used[0]]
        return to_row
    if 2.0 not in known or not len(used) or abs(aim.sum() - 1.0) > 1e-9:
        return None
    weights = aim[used]
    squares = np.minimum(known[2.0][:, used], _BEYOND) ** 2
    found: Floats = np.sqrt(np.maximum(squares @ weights - weights @ squares[used] @ weights / 2, 0.0))
    return found


def distances(root: "Updates", weights: "Floats") -> "Floats | None":
    """Distances between the combinations ``weights @ rows``; None where far rows cancel in one of them, since squares
    have no digits of what is left: it has to be measured."""
    far = _heavy_far_rows(root, weights)
    answer = _distances(root, weights) if far is None else _distances_by_difference(root, weights, far)
    if answer is None:
        return None
    # Rows mixed alike are the same point, whatever rounding says.
    alike = distinct(weights)[1]
    answer[alike[:, None] == alike] = 0.0
    return answer


def _distances(root: "Updates", weights: "Floats") -> "Floats":
    points, used = _taking_part(root, weights - weights[:1])
    if not len(points):
        return np.zeros((len(weights), len(weights)))
    middle = centred(root, points)
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
    if not len(far) or 2 * len(far) >= len(rows):
        return None
    apart = np.abs(weights[:, None, far] - weights[None, :, far])
    return far if apart[apart > 0].min(initial=1.0) >= HEAVY else None


def _distances_by_difference(root: "Updates", weights: "Floats", far: "Integers") -> "Floats | None":
    touched = (weights[:, far] != 0.0).any(axis=1)
    answer = np.empty((len(weights), len(weights)))
    answer[np.ix_(~touched, ~touched)] = _distances(root, weights[~touched])
    squares = np.minimum(root.distances(2.0), _BEYOND) ** 2
    for row in np.nonzero(touched)[0]:
        apart = weights - weights[row]
        found = -0.5 * ((apart @ squares) * apart).sum(axis=1)
        size = np.abs(apart)
        if (found < CANCELLED * ((size @ squares) * size).sum(axis=1)).any():
            return None
        answer[row] = answer[:, row] = np.sqrt(np.maximum(found, 0.0))
    return answer
