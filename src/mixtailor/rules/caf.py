"""The covariance-bound agnostic filter."""

from dataclasses import dataclass
from typing import ClassVar

from mixtailor._types import Floats
from mixtailor.rules._spectra import Filtered, filtered, products_about_medoid
from mixtailor.rules.base import Rule
from mixtailor.rules.part import Asks
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Point, Updates

__all__ = ["CAF", "combined_by_mass"]


@dataclass(frozen=True)
class CAF(Rule):
    r"""The covariance-bound agnostic filter: a mean that gives less weight to outliers along the widest direction.

    Weights :math:`c_i` start at 1, and while their sum exceeds n - 2f, with :math:`\mu` the weighted mean and v the top
    eigenvector of the weighted covariance,

    .. math:: c_i \leftarrow c_i \left(1 - \frac{\tau_i}{\max_j \tau_j}\right),
       \qquad \tau_i = \langle x_i - \mu, v \rangle^2

    The result is the weighted mean for which the top eigenvalue was smallest; the last weights are also considered.
    Needs ``n >= 2f + 1``. Cost O(n^2 d), and at most n spectra of n x n matrices.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.

    Examples
    --------
    >>> CAF(f=1)(np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 2.0], [3.0, 2.0], [9e9, 0.0]])).round(6)
    array([2., 2.])

    Notes
    -----
    The maximum is over the updates that still have weight: otherwise an update that is far out and has no weight any
    more would prevent all others from losing weight. Other libraries use the maximum over all updates, and approximate
    v by one step of the power method from a random vector; here v is exact up to rounding, so that no randomness is
    used. If two directions have the same variance, it is not defined which one is used.

    The published algorithm does not evaluate the weights that end its loop. With one Byzantine update more than f,
    these may be the only weights that exclude all Byzantine updates, so they are evaluated here. The guarantee becomes:
    for any weights whose sum is s times the largest of them, s > f, and whose weighted covariance has the top
    eigenvalue :math:`\lambda`,

    .. math:: \lVert \mu - \mu_H \rVert \le (\sqrt{\lambda} + \sqrt{\lambda_H}) \sqrt{\frac{n - s}{s - f}}

    with the mean :math:`\mu_H` and the top eigenvalue :math:`\lambda_H` of the n - f honest updates. This is ours: the
    normalised weights and the uniform distribution on the honest updates share a mass of at least (s - f)/(n - f), and
    the mean of a part of mass m is within :math:`\sqrt{\lambda (1 - m)/m}` of the mean of the whole. Weights with s
    below f + 1 or n - 2f - 1/2 are not used: with fewer, one cluster of honest updates might have all the weight.

    With `weights=` an update of weight 3 is three equal ones, and f becomes the Byzantine part of the weight; in the
    two limits above, 1 and 1/2 are one and half of the mean weight.

    The published guarantee bounds the error by the top eigenvalue of the honest covariance, which is sharper than by
    the variance; no coefficient in terms of the latter is published.

    References
    ----------
    .. [1] Allouah, Guerraoui, Stephan, "Towards Trustworthy Federated Learning with Untrusted Participants", ICML 2025.
    """

    f: int

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n^2 d + f n^3)"

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def asks(self) -> Asks:
        return Asks.distances(2)

    def decide(self, updates: Updates) -> Point:
        products = products_about_medoid(updates)
        weights, _, iterations = filtered(products[None], self.f)
        return updates.combine(weights / weights.sum(), scores=weights, iterations=iterations)

    def takes_weights(self) -> bool:
        return True

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        products, mass = updates.about_weighted_medoid(weighting.mass)[1], weighting.relative
        return combined_by_mass(updates, filtered(products[None], weighting.share * mass.sum(), mass=mass), mass)


def combined_by_mass(updates: Updates, found: Filtered, mass: Floats) -> Point:
    """What a filter leaves of updates that count by their mass."""
    held = found.weights * mass
    return updates.combine(held / held.sum(), scores=found.weights, iterations=found.iterations)
