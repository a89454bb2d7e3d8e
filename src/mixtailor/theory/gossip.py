"""When workers without a server can agree: the graph between them, and who is Byzantine."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import refuse
from mixtailor.theory._needs import Floats, an_array

__all__ = ["GossipCondition", "fiedler_vector", "gossip_condition", "spectral_gap"]


@dataclass(frozen=True)
class GossipCondition:
    """What a graph and its Byzantine workers allow.

    Attributes
    ----------
    byzantine_neighbours : int
        b, the most Byzantine neighbours that an honest worker has.
    connectivity : float
        The second smallest eigenvalue of the Laplacian of the honest workers' graph; 0 if that falls apart.
    gap : float
        The spectral gap of Metropolis weights on the honest workers' graph: how much of a disagreement one round of
        averaging removes.
    possible : bool
        Whether connectivity > 2b; see `gossip_condition`.
    majority : bool
        Whether every honest worker has more honest than Byzantine updates, itself included: what a rule needs.
    """

    byzantine_neighbours: int
    connectivity: float
    gap: float
    possible: bool
    majority: bool

    def __str__(self) -> str:
        verdict = "holds" if self.possible else "fails"
        return (
            f"{verdict}: connectivity {self.connectivity:.4g}, needs more than 2b = {2 * self.byzantine_neighbours}\n"
            f"  spectral gap {self.gap:.4g}; honest majority at every worker: {'yes' if self.majority else 'no'}"
        )


def gossip_condition(graph: ArrayLike, byzantine: Collection[int] = ()) -> GossipCondition:
    r"""Whether the honest workers of a graph can agree.

    .. math:: \mu_2(L_H) > 2b, \qquad b = \max_{i \in H} |B \cap N(i)|

    with the Laplacian L of the graph between the honest workers.

    Parameters
    ----------
    graph : array
        n x n, symmetric, of zeros and ones.
    byzantine : collection of int
        The indices of the Byzantine workers.

    Examples
    --------
    A complete graph of ten with two Byzantine workers, and a ring.

    >>> print(gossip_condition(np.ones((10, 10)) - np.eye(10), [0, 1]))
    holds: connectivity 8, needs more than 2b = 4
      spectral gap 1; honest majority at every worker: yes
    >>> ring = np.roll(np.eye(10), 1, axis=1) + np.roll(np.eye(10), -1, axis=1)
    >>> gossip_condition(ring, [0]).possible
    False

    Notes
    -----
    Where connectivity is 2b, there are graphs on which nobody can decide. Take three complete graphs A, B and C of
    equal size, and join each two of them so that every worker has b neighbours in each of the others. If C is
    Byzantine, the honest workers' graph has connectivity 2b. A worker of A sees b neighbours of B and b of C, and the
    same if it was B that is Byzantine: it would have to agree with both. The condition says nothing about sufficiency;
    [1]_ has rules that come near it. A graph that falls apart without its Byzantine workers has connectivity 0.

    References
    ----------
    .. [1] Gaucher, Dieuleveut, Hendrikx, "Unified Breakdown Analysis for Byzantine Robust Gossip", ICML 2025.
    .. [2] He, Karimireddy, Jaggi, "Byzantine-Robust Decentralized Learning via ClippedGossip", arXiv 2202.01545, 2022.
    """
    edges, honest = _checked("gossip_condition", graph, byzantine)
    lost = sorted(set(range(len(edges))) - set(honest))
    against = edges[np.ix_(honest, lost)].sum(axis=1) if lost else np.zeros(len(honest))
    among = edges[np.ix_(honest, honest)]
    most = int(against.max(initial=0.0))
    values = np.linalg.eigvalsh(np.diag(among.sum(axis=1)) - among)
    connectivity = max(float(values[1]), 0.0) if len(values) > 1 else 0.0
    connectivity = 0.0 if connectivity < 1e-9 else connectivity
    majority = bool((among.sum(axis=1) + 1 > against).all())
    return GossipCondition(most, connectivity, spectral_gap(among), connectivity > 2 * most + 1e-9, majority)


def spectral_gap(graph: ArrayLike) -> float:
    r"""One less the second largest absolute eigenvalue of the graph's Metropolis weights.

    .. math:: W_{ij} = \frac{1}{1 + \max(d_i, d_j)}, \qquad 1 - \max(|\lambda_2|, |\lambda_n|)

    Examples
    --------
    >>> round(spectral_gap(np.ones((5, 5)) - np.eye(5)), 6)
    1.0
    """
    edges, _ = _checked("spectral_gap", graph, ())
    degrees = edges.sum(axis=1)
    mixing = edges / (1.0 + np.maximum(degrees[:, None], degrees[None, :]))
    mixing[np.diag_indices(len(mixing))] = 1.0 - mixing.sum(axis=1)
    values = np.sort(np.abs(np.linalg.eigvalsh(mixing)))
    return max(float(1.0 - values[-2]), 0.0) if len(values) > 1 else 1.0


def fiedler_vector(graph: ArrayLike, byzantine: Collection[int] = ()) -> Floats:
    """The bottleneck of the honest workers' graph: one number for each worker, 0 for Byzantine ones.

    Its signs cut the honest workers into the two parts with the fewest edges between them, about.

    Examples
    --------
    >>> line = np.diag(np.ones(3), 1) + np.diag(np.ones(3), -1)
    >>> np.sign(fiedler_vector(line)) * np.sign(fiedler_vector(line)[0])
    array([ 1.,  1., -1., -1.])
    """
    edges, honest = _checked("fiedler_vector", graph, byzantine)
    among = edges[np.ix_(honest, honest)]
    found = np.zeros(len(edges))
    if len(honest) > 1:
        found[honest] = np.linalg.eigh(np.diag(among.sum(axis=1)) - among)[1][:, 1]
    return found


def _checked(who: str, graph: ArrayLike, byzantine: Collection[int]) -> tuple[Floats, list[int]]:
    edges = an_array(who, "graph", graph, 2)
    n = len(edges)
    if edges.shape != (n, n) or not np.isin(edges, (0.0, 1.0)).all():
        refuse(f"{who} needs an n x n graph of zeros and ones and got the shape {edges.shape}.")
    if not np.array_equal(edges, edges.T) or np.diag(edges).any():
        refuse(f"{who} needs a symmetric graph without edges from a worker to itself.")
    lost = set(byzantine)
    if not lost <= set(range(n)) or len(lost) == n:
        refuse(f"{who} needs Byzantine workers among 0 to {n - 1}, and an honest one.")
    return edges, [worker for worker in range(n) if worker not in lost]
