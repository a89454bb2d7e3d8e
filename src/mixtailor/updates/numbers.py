"""Updates that are known by the numbers between them alone: distances, inner products, norms.

`Updates.seen` makes `Updates` of them. All queries of a rule use these numbers. What reads a coordinate raises
`NeedsCoordinates`, so a rule gets either the numbers that the updates themselves would give, or none.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NoReturn, final

import numpy as np

from mixtailor._checks import check_norm, refuse
from mixtailor._types import Floats
from mixtailor.kernels.selection import median
from mixtailor.kernels.space import NUMBA
from mixtailor.storage.rows import Rows

__all__ = ["NeedsCoordinates", "Numbers", "Unseen", "distances_of"]

# Numbers that were computed in float32, or by fixed-point arithmetic, miss symmetry and definiteness by less than this.
TOLERANCE = 1e-6


@final
class NeedsCoordinates(Exception):  # a signal to the rule's caller, who words it for the user
    """What was asked does not follow from the numbers that are known; the message says what it would take."""


@final
class Unseen(Rows):
    """n updates of which nobody here has a coordinate."""

    ordered, in_memory = True, False

    def __init__(self, n: int) -> None:
        # More coordinates than a rule would ever sample: a rule that draws some must not mistake these for all.
        self.n, self.d, self.space, self.single = n, 1 << 40, NUMBA, False

    @property
    def largest(self) -> float:
        return float(np.finfo(np.float64).max)

    def runs(self, rows: int | None = None) -> list[tuple[int, int]]:
        return [(0, 0)]

    def only(self, rows: Sequence[int]) -> "Unseen":
        return Unseen(len(rows))

    def _unseen(self, *_given: Any, **_named: Any) -> NoReturn:
        raise NeedsCoordinates("the coordinates of the updates")

    block = coordinates = new = copy_row = _unseen


@final
class Numbers:
    """Numbers between n updates, checked: distances by norm and inner products, n x n, and Euclidean norms."""

    def __init__(self, distances: Mapping[float, Any], products: Any = None, norms: Any = None) -> None:
        given = [value for value in (*distances.values(), products, norms) if value is not None]
        if not given:
            refuse("weights() needs numbers between the updates: distances=, products= or norms=.")
        n = self.n = len(np.atleast_1d(np.asarray(given[0])))
        self.distances: dict[float, Floats] = {}
        for p, between in distances.items():
            check_norm("weights()", p)
            self.distances[float(p)] = _symmetric_distances(_checked("distances=", between, (n, n)))
        self.products = None if products is None else _symmetric_products(_checked("products=", products, (n, n)))
        self.norms = None if norms is None else _checked("norms=", norms, (n,))
        if self.norms is not None and (self.norms < 0.0).any():
            refuse(f"norms= needs numbers that are not negative, and update {int(self.norms.argmin())} has another.")
        self._by_products = products is not None and 2.0 not in self.distances
        if self.products is not None:
            self.sound(self.products)
            if self.norms is None:
                self.norms = np.sqrt(np.diag(self.products))
            if 2.0 not in self.distances:
                self.distances[2.0] = distances_of(self.products)

    @staticmethod
    def sound(products: Floats) -> None:
        """Refuse inner products that no vectors have, beyond rounding."""
        largest = float(np.diag(products).max(initial=0.0))
        if largest == 0.0:
            return
        shifted = products / largest
        shifted.flat[:: len(shifted) + 1] += TOLERANCE
        try:
            np.linalg.cholesky(shifted)
        except np.linalg.LinAlgError:
            refuse(
                "These numbers are inner products or Euclidean distances of no vectors: an eigenvalue is below "
                f"-{TOLERANCE:g} of the largest inner product. Rules that compare distances alone, such as Krum, take "
                "any distances."
            )

    def inner(self) -> Floats:
        """Inner products about the origin."""
        if self.products is not None:
            return self.products
        norms, squares = self.lengths(2.0), self._squares()
        return np.asarray((norms[:, None] ** 2 + norms[None, :] ** 2 - squares) / 2)

    def about(self, row: int, *, origin: bool) -> Floats:
        """Inner products about one of the updates, with the origin as last row.

        Distances have the digits of near updates beside far ones: inner products serve where no distances are given.
        """
        if self._by_products:
            inner = np.pad(self.inner(), (0, 1)) if origin else self.inner()
            return np.asarray(inner - inner[row][:, None] - inner[row][None, :] + inner[row, row])
        squares = self._squares()
        if origin:
            norms = self.lengths(2.0) ** 2
            squares = np.block([[squares, norms[:, None]], [norms, np.zeros(1)]])
        return np.asarray((squares[row][:, None] + squares[row][None, :] - squares) / 2)

    def _squares(self) -> Floats:
        if 2.0 not in self.distances:
            self.missing([2.0])
        return np.asarray(self.distances[2.0] ** 2)

    def lengths(self, p: float) -> Floats:
        """The norms of the updates."""
        if p != 2.0 or self.norms is None:
            raise NeedsCoordinates("the norms of the updates (norms=)")
        return self.norms

    @staticmethod
    def missing(norms: Sequence[float]) -> NoReturn:
        """Say which distances are not known."""
        wanted = ", ".join(f"{p:g}: ..." for p in norms)
        raise NeedsCoordinates(f"distances in another norm than those given (distances={{{wanted}}})")


def _checked(name: str, value: Any, shape: tuple[int, ...]) -> Floats:
    found = np.array(value, np.float64)
    if found.shape != shape or not shape[0]:
        wanted = " x ".join("n" for _ in shape)
        refuse(f"{name} needs {wanted} numbers, here of shape {shape}, and got shape {found.shape}.")
    bad = np.argwhere(~np.isfinite(found))
    if len(bad):
        refuse(f"{name} needs finite numbers, and that at {tuple(bad[0].tolist())} is {found[tuple(bad[0])]}.")
    return found


def _symmetric_distances(between: Floats) -> Floats:
    if (between < 0.0).any():
        place = np.unravel_index(between.argmin(), between.shape)
        refuse(f"distances= needs numbers that are not negative, and that at {tuple(map(int, place))} is.")
    usual = median(between.ravel()) if len(between) > 2 else 0.0
    if (np.diag(between) > TOLERANCE * between.max(initial=0.0)).any():
        refuse("distances= needs zeros on the diagonal: no update is away from itself.")
    _check_symmetric("distances=", between, TOLERANCE * (np.maximum(between, between.T) + usual))
    even = between / 2 + between.T / 2  # halves first: a sum may overflow
    even.flat[:: len(even) + 1] = 0.0
    return np.asarray(even)


def _symmetric_products(inner: Floats) -> Floats:
    squares = np.diag(inner)
    if (squares < 0.0).any():
        refuse(f"products= needs no negative number on the diagonal, and update {int(squares.argmin())} has one.")
    lengths = np.sqrt(squares)
    _check_symmetric("products=", inner, TOLERANCE * (lengths[:, None] * lengths[None, :]))
    return np.asarray(inner / 2 + inner.T / 2)


def _check_symmetric(name: str, matrix: Floats, allowed: Floats) -> None:
    apart = np.abs(matrix - matrix.T) > allowed
    if apart.any():
        i, j = (int(place) for place in np.argwhere(apart)[0])
        refuse(f"{name} needs a symmetric matrix, and has {matrix[i, j]:g} at {i, j} and {matrix[j, i]:g} at {j, i}.")


def distances_of(products: Floats) -> Floats:
    """The distances between rows that have these inner products."""
    squares = np.diag(products)
    found = np.sqrt(np.maximum(squares[:, None] + squares[None, :] - 2 * products, 0.0))
    found.flat[:: len(found) + 1] = 0.0
    return np.asarray(found)
