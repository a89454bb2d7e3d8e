"""Two small matrices that stand for their product, and what can be computed without forming it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from mixtailor._types import Floats

__all__ = ["Factors", "LowRank", "combined", "products", "truncated"]


class Factors(NamedTuple):
    """A matrix of low rank: ``left @ right``, with left (rows, r) and right (r, columns)."""

    left: Any
    right: Any

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of the product."""
        return int(self.left.shape[0]), int(self.right.shape[1])


LowRank = Mapping[str, Factors]


def products(updates: Sequence[LowRank]) -> Floats:
    r"""Inner products between updates, n x n, without forming a product of factors.

    .. math:: \langle B_i A_i, B_j A_j \rangle = \sum_{k, l} (B_i^T B_j)_{kl} (A_i A_j^T)_{kl}

    Ranks may differ between updates and between layers. Cost O((sum of ranks)^2 (rows + columns)) for each layer.

    Examples
    --------
    >>> thin = Factors(np.array([[1.0], [2.0]]), np.array([[3.0, 0.0, 4.0]]))
    >>> products([{"layer": thin}, {"layer": thin._replace(left=-thin.left)}])
    array([[ 125., -125.],
           [-125.,  125.]])
    """
    n = len(updates)
    total = np.zeros((n, n))
    for layer in updates[0]:
        lefts = np.concatenate([np.asarray(update[layer].left, np.float64) for update in updates], axis=1)
        rights = np.concatenate([np.asarray(update[layer].right, np.float64) for update in updates], axis=0)
        ranks = [update[layer].left.shape[1] for update in updates]
        starts = np.concatenate([[0], np.cumsum(ranks)[:-1]])
        both = (lefts.T @ lefts) * (rights @ rights.T)
        total += np.add.reduceat(np.add.reduceat(both, starts, axis=0), starts, axis=1)
    return (total + total.T) / 2.0


def combined(updates: Sequence[LowRank], weights: Floats) -> dict[str, Factors]:
    """The weighted sum, as stacked factors: its rank is the sum of the ranks. Zero weights take no part."""
    kept = [(update, weight) for update, weight in zip(updates, weights, strict=True) if weight != 0.0]
    if not kept:
        return {name: Factors(each.left[:, :1] * 0.0, each.right[:1] * 0.0) for name, each in updates[0].items()}
    return {
        name: Factors(
            np.concatenate([weight * np.asarray(update[name].left, np.float64) for update, weight in kept], axis=1),
            np.concatenate([np.asarray(update[name].right, np.float64) for update, _ in kept], axis=0),
        )
        for name in updates[0]
    }


def truncated(factors: Factors, rank: int) -> tuple[Factors, float]:
    """The nearest matrix of a rank, and the Frobenius norm of what is lost (Eckart and Young).

    Examples
    --------
    >>> both = Factors(np.eye(2), np.array([[3.0, 0.0, 0.0], [0.0, 4.0, 0.0]]))
    >>> nearest, lost = truncated(both, 1)
    >>> (nearest.left @ nearest.right).round(6) + 0.0
    array([[0., 0., 0.],
           [0., 4., 0.]])
    >>> round(lost, 6)
    3.0
    """
    first, upper = np.linalg.qr(np.asarray(factors.left, np.float64))
    second, lower = np.linalg.qr(np.asarray(factors.right, np.float64).T)
    turned, values, back = np.linalg.svd(upper @ lower.T)
    kept, root = values[:rank], np.sqrt(values[:rank])
    left, right = first @ turned[:, : len(kept)] * root, root[:, None] * (back[: len(kept)] @ second.T)
    return Factors(left, right), float(np.linalg.norm(values[rank:]))
