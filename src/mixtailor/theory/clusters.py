"""How many rules a pool really has: rules with similar results are broken alike."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import refuse
from mixtailor.theory._needs import Floats, an_array, at_least, probabilities_for

__all__ = ["EffectiveSize", "cluster_products", "cluster_results"]


@dataclass(frozen=True)
class EffectiveSize:
    """How many clusters the results of a pool's rules form.

    Attributes
    ----------
    rules : int
        M, the rules of the pool.
    clusters : int
        Groups of rules with similar results in at least half of the states.
    labels : tuple of int
        The cluster of each rule, numbered in the order of the rules.
    largest_share : float
        The probability of drawing from the likeliest cluster.
    ratio : float
        1 / `largest_share`: the M/q that is left when an attack breaks that cluster.
    diversity : float
        The exponential of the entropy of the clusters' probabilities: as many equally likely rules.
    per_state : tuple of int
        The clusters at each state by itself.
    tolerance : float
        How near results are that count as alike, relative to the scale of the state.
    """

    rules: int
    clusters: int
    labels: tuple[int, ...]
    largest_share: float
    ratio: float
    diversity: float
    per_state: tuple[int, ...]
    tolerance: float

    def __str__(self) -> str:
        mean = sum(self.per_state) / len(self.per_state)
        return (
            f"{self.rules} rules form {self.clusters} clusters (results within {self.tolerance:g} of the scale), "
            f"{mean:.3g} in a single state on average\n"
            f"  breaking the likeliest cluster leaves M/q = {self.ratio:.3g}; "
            f"the draw is as diverse as {self.diversity:.3g} equal rules"
        )


def cluster_results(
    results: ArrayLike,
    *,
    probabilities: ArrayLike | None = None,
    tolerance: float = 0.1,
    scales: ArrayLike | None = None,
) -> EffectiveSize:
    r"""Cluster the rules of a pool by their results.

    .. math:: D_{ab} = \mathrm{median}_s \frac{\lVert U_a(s) - U_b(s) \rVert}{\mathrm{scale}(s)}

    Complete linkage at `tolerance`: the results of two rules of a cluster are within `tolerance` of each other in at
    least half of the states.

    Parameters
    ----------
    results : array of shape (states, rules, d)
        The result of each rule at each state.
    probabilities : array of M numbers, optional
        How often each rule is drawn; uniform where not given.
    tolerance : float
        How near is alike.
    scales : array of S numbers, optional
        The length that counts as 1 at each state: the honest spread, or ``|grad F|``. Where not given, the median of
        the results' norms, which a minority of broken rules cannot move.

    Examples
    --------
    Three rules with similar results, and one with another.

    >>> print(cluster_results([[[1.0, 0.0], [1.0, 0.01], [1.01, 0.0], [0.0, 1.0]]]))
    4 rules form 2 clusters (results within 0.1 of the scale), 2 in a single state on average
      breaking the likeliest cluster leaves M/q = 1.33; the draw is as diverse as 1.75 equal rules

    Notes
    -----
    Rules with similar results at these states, under these attacks, may differ at others. The count depends on
    `tolerance`: look at more than one.
    """
    who = "cluster_results"
    vectors = an_array(who, "results", results, 3)
    # From differences, not from inner products: nearly equal results are the ones that matter.
    distances = np.array(
        [[np.linalg.norm(state - result, axis=1) for result in state] for state in vectors], dtype=np.float64
    )
    return _cluster(who, distances, np.linalg.norm(vectors, axis=2), probabilities, tolerance, scales)


def cluster_products(
    products: ArrayLike,
    *,
    probabilities: ArrayLike | None = None,
    tolerance: float = 0.1,
    scales: ArrayLike | None = None,
) -> EffectiveSize:
    r"""Cluster the rules of a pool by the inner products of their results.

    .. math:: \lVert U_a - U_b \rVert^2 = G_{aa} + G_{bb} - 2 G_{ab}

    As `cluster_results`, for results too long to keep. Distances below 1e-8 of the results' norms drown in rounding.

    Parameters
    ----------
    products : array of shape (states, rules, rules)
        ``U_a . U_b`` at each state.
    probabilities, tolerance, scales
        As in `cluster_results`.

    Examples
    --------
    >>> cluster_products([[[1.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0]]]).labels
    (0, 0, 1)
    """
    who = "cluster_products"
    gram = an_array(who, "products", products, 3)
    if gram.shape[1] != gram.shape[2]:
        refuse(f"{who} needs one square matrix for each state and got the shape {gram.shape}.")
    squares = np.diagonal(gram, axis1=1, axis2=2)
    if squares.min() < 0.0 or not np.allclose(gram, gram.swapaxes(1, 2), rtol=1e-9, atol=1e-9 * float(squares.max())):
        refuse(f"{who} needs inner products, which are symmetric with a diagonal that is not negative.")
    squared = squares[:, :, None] + squares[:, None, :] - (gram + gram.swapaxes(1, 2))
    distances = np.sqrt(np.maximum(squared, 0.0))
    return _cluster(who, distances, np.sqrt(squares), probabilities, tolerance, scales)


def _cluster(
    who: str,
    distances: Floats,
    norms: Floats,
    probabilities: ArrayLike | None,
    tolerance: float,
    scales: ArrayLike | None,
) -> EffectiveSize:
    near = at_least(who, "tolerance", tolerance, 0.0)
    states, rules = norms.shape
    shares = probabilities_for(who, rules, probabilities)
    if scales is None:
        units = np.median(norms, axis=1)
    else:
        units = an_array(who, "scales", scales, 1)
        if units.size != states or units.min() <= 0.0:
            refuse(f"{who} needs one scale above zero for each of the {states} states.")
    relative = distances / np.where(units > 0.0, units, 1.0)[:, None, None]
    labels = _labels(np.median(relative, axis=0), near)
    masses = np.bincount(labels, weights=shares)
    present = masses[masses > 0.0]
    return EffectiveSize(
        rules=rules,
        clusters=int(labels.max()) + 1,
        labels=tuple(int(label) for label in labels),
        largest_share=float(masses.max()),
        ratio=1.0 / float(masses.max()),
        diversity=math.exp(-math.fsum(present * np.log(present))),
        per_state=tuple(int(_labels(state, near).max()) + 1 for state in relative),
        tolerance=near,
    )


def _labels(distances: Floats, tolerance: float) -> "np.ndarray[tuple[int], np.dtype[np.intp]]":
    if len(distances) == 1:
        return np.zeros(1, dtype=np.intp)
    # scipy.cluster is loaded here so that `import mixtailor` does not pay for it.
    from scipy.cluster.hierarchy import fcluster, linkage

    above = distances[np.triu_indices(len(distances), 1)]
    raw = fcluster(linkage(above, method="complete"), t=tolerance, criterion="distance")
    _, first, inverse = np.unique(raw, return_index=True, return_inverse=True)
    # Numbered by the first rule of each cluster.
    labels: np.ndarray[tuple[int], np.dtype[np.intp]] = np.argsort(np.argsort(first))[inverse].astype(np.intp)
    return labels
