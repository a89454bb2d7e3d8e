"""The filter of CAF, in the view where the updates spread most."""

from dataclasses import dataclass
from typing import ClassVar

from mixtailor.rules._spectra import filtered
from mixtailor.rules.base import Rule
from mixtailor.rules.caf import CAF, combined_by_mass
from mixtailor.rules.part import Asks
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Point, Updates

__all__ = ["ViewFilter"]


@dataclass(frozen=True)
class ViewFilter(Rule):
    r"""CAF over several views of the workers: each step filters in the view where they spread most.

    A `Memory` looks at the workers in several ways: by this round's updates, and by what their deviations added up to
    over many rounds. With :math:`\lambda_v` the top eigenvalue of the weighted covariance in view v and
    :math:`\tau_i` the squared deviation of worker i along its eigenvector,

    .. math:: v^* = \arg\max_v \lambda_v, \qquad c_i \leftarrow c_i \left(1 - \frac{\tau_i}{\max_j \tau_j}\right)

    while the weights have a sum above n - 2f. The result is the mean of this round's updates with the weights at which
    :math:`\max_v \lambda_v` was least. Needs ``n >= 2f + 1``. Cost O(n^3) for each view and step, besides the views.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.

    Examples
    --------
    Without a memory there is one view, and the rule is `CAF`.

    >>> ViewFilter(f=1)(np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 2.0], [3.0, 2.0], [9e9, 0.0]])).round(6)
    array([2., 2.])

    Notes
    -----
    The views could be added up, and CAF run on the sum. Then a view in which nothing is to be seen dilutes the others:
    where Byzantine identities change every round, the remembered views are noise. The largest eigenvalue does not
    suffer from that.

    References
    ----------
    .. [1] Allouah, Guerraoui, Stephan, "Towards Trustworthy Federated Learning with Untrusted Participants", ICML 2025.
       The filter is theirs; the views are ours.
    """

    f: int

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n^2 d + f n^3)"

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def asks(self) -> Asks:
        return Asks.distances(2)

    def decide(self, updates: Updates) -> Point:
        views = updates.views
        if views is None:
            return CAF(self.f).decide(updates)
        weights, iterations = filtered(views, self.f)
        return updates.combine(weights / weights.sum(), scores=weights, iterations=iterations)

    def takes_weights(self) -> bool:
        return True

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        views = updates.views
        if views is None:
            return CAF(self.f).decide_weighted(updates, weighting)
        return combined_by_mass(updates, views, weighting)
