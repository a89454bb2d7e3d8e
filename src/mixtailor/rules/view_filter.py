"""The filter of CAF, in the view where the updates stand out most."""

from dataclasses import dataclass, field
from typing import ClassVar

from mixtailor._checks import check_positive
from mixtailor._types import Floats
from mixtailor.rules._spectra import Filtered, filtered, filtered_each
from mixtailor.rules.base import Rule
from mixtailor.rules.caf import CAF, combined_by_mass
from mixtailor.rules.part import Asks
from mixtailor.rules.weighting import Weighting
from mixtailor.updates import Point, Updates

__all__ = ["ViewFilter", "above_noise"]

_ENOUGH = 2.0  # pairs of bounds from 1.5 to 3 differ little on digits, seeds 0 to 7: docs/memory.md
_ROUNDING = 1e-9  # where views spread less than this, in units of the usual squared length, only rounding does


@dataclass(frozen=True)
class ViewFilter(Rule):
    r"""CAF over several views of the workers, which removes only outliers above the noise of a view.

    A `Memory` has several views of the workers: the updates of this round, and the sums of their deviations over many
    rounds. Views differ in their noise, so each is measured by itself first: its level :math:`\ell_v` is the top
    eigenvalue that `CAF` leaves in this view alone. With :math:`\lambda_v` the top eigenvalue of the weighted
    covariance in view v and :math:`\tau_i` the squared deviation of worker i along its eigenvector,

    .. math:: v^* = \arg\max_v \frac{\lambda_v}{\ell_v}, \qquad
              c_i \leftarrow c_i \left(1 - \frac{\tau_i}{\max_j \tau_j}\right)

    while :math:`\lambda_{v^*} > b \, \ell_{v^*}` and the weights have a sum above n - 2f. The result is the mean of
    this round's updates with the last weights, or, if none is within that bound, with those that came closest to it.
    Needs ``n >= 2f + 1``. Cost O(n^3) for each view and step, besides the views.

    Parameters
    ----------
    f : int
        How many updates may be Byzantine.
    bound : float
        b above: how many times its level a view may spread before the filter removes anybody.

    Examples
    --------
    Without a memory there is one view, and the rule is `CAF`.

    >>> ViewFilter(f=1)(np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 2.0], [3.0, 2.0], [9e9, 0.0]])).round(6)
    array([2., 2.])

    Notes
    -----
    `CAF` removes the f workers that deviate most even if all are honest. Byzantine updates close to the mean then get
    more weight: four of twelve got 50 to 60 % of the weight. Among honest workers the top eigenvalue falls by a factor
    of about two when the farthest are removed, so that with a smaller factor no worker is removed, and all workers have
    the same weight.

    An alternative is to add up the views and run CAF on the sum. Then a view without information hides the others: if
    Byzantine workers change their names every round, the remembered views are noise.

    References
    ----------
    .. [1] Allouah, Guerraoui, Stephan, "Towards Trustworthy Federated Learning with Untrusted Participants", ICML 2025.
       The filter is theirs; the views are ours.
    """

    f: int
    bound: float = field(default=_ENOUGH, kw_only=True)

    requirement: ClassVar[str] = "n >= 2f + 1"
    cost: ClassVar[str] = "O(n^2 d + f n^3)"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_positive("ViewFilter", "bound", self.bound)

    def min_rows(self) -> int:
        return 2 * self.f + 1

    def asks(self) -> Asks:
        return Asks.distances(2)

    def decide(self, updates: Updates) -> Point:
        views = updates.views
        if views is None:
            return CAF(self.f).decide(updates)
        weights, _, iterations = above_noise(views, self.f, bound=self.bound)
        return updates.combine(weights / weights.sum(), scores=weights, iterations=iterations)

    def takes_weights(self) -> bool:
        return True

    def decide_weighted(self, updates: Updates, weighting: Weighting) -> Point:
        views = updates.views
        if views is None:
            return CAF(self.f).decide_weighted(updates, weighting)
        mass = weighting.relative
        return combined_by_mass(updates, above_noise(views, weighting.share * mass.sum(), mass, bound=self.bound), mass)


def above_noise(
    views: Floats, f: float, mass: Floats | None = None, slack: float = 1.0, bound: float = _ENOUGH
) -> Filtered:
    """The filter over several views, in units of what it leaves in each of them alone, times the slack."""
    alone = filtered_each(views[:, None], f, mass=mass)
    return filtered(views, f, [max(slack * found.spread, _ROUNDING) for found in alone], bound, mass)
