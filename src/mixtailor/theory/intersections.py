"""Whether one tailored attack can break both Krum and the coordinate-wise median."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import check_count, check_f, check_norm, check_rows, refuse
from mixtailor.theory._needs import Floats, an_array, at_least, more_than

__all__ = ["LambdaIntersection", "comed_lambda_bound", "krum_lambda_bound", "lambda_intersection"]

NOTE = (
    "the paper asks for x >= 1 - 1/sqrt(d), which has the sign of 1/sqrt(d) wrong: at x = 1 the lower bound is 0 "
    "and the two sets meet"
)


def krum_lambda_bound(
    honest: ArrayLike,
    f: int,
    *,
    direction: ArrayLike | None = None,
    reference: ArrayLike | None = None,
    p: float = 2.0,
    power: int = 2,
) -> float:
    r"""The largest lambda for which Krum can select ``reference - lambda direction``, sent by all f Byzantine workers.

    .. math:: \lVert s \rVert \lambda \le \left( \frac{1}{n - 2f - 1}
        \min_i \sum_{l \in \Gamma_i} D(x_l, x_i)^2 \right)^{1/2} + m, \qquad m = \max_i D(x_i, x_0)

    over the honest updates i, with :math:`\Gamma_i` the n - f - 2 honest updates nearest to i, s the direction, x_0 the
    reference. For a direction of signs :math:`\lVert s \rVert_2 = \sqrt d`, which gives the O(1/sqrt(d)) of the paper.

    Parameters
    ----------
    honest : array of shape (n - f, d)
        The honest updates.
    f : int
        How many identical updates the adversary sends, at least 1.
    direction : array of d numbers, optional
        s; the signs of the honest mean where not given, as Fang et al. have it. The honest mean itself gives the bound
        on the lambda of the tailored attack.
    reference : array of d numbers, optional
        x_0, from where the attack departs: the model that the server sent, or the origin for gradients.
    p : float
        Krum's norm; all lengths are taken in it.
    power : int
        2 for Krum, 1 for the variant that sums distances without squaring them.

    Examples
    --------
    Three honest updates on a line, at 1, 2 and 3, and one Byzantine update: the least sum of squares is 1, over n - 2f
    - 1 = 1, and the farthest update is 3 away from the origin.

    >>> krum_lambda_bound([[1.0], [2.0], [3.0]], f=1)
    4.0

    Notes
    -----
    Derived here in the form of Fang et al.'s Theorem 1: the f - 1 copies cost the chosen update nothing, so n - 2f - 1
    of its neighbours are honest; each of these is at least ``lambda |s| - max D(x_i, x_0)`` away; and the score is at
    most the least score of an honest update, which is at most the one over honest updates alone. Implementations of
    their attack use the form for unsquared distances (``power=1``), which bounds that variant's lambda. It bounds
    lambda from above: a lambda below it need not succeed.

    References
    ----------
    .. [1] Fang et al., "Local Model Poisoning Attacks to Byzantine-Robust Federated Learning", USENIX Security 2020.
    """
    who = "krum_lambda_bound"
    rows = an_array(who, "honest", honest, 2)
    check_f(who, f)
    check_count(who, "f", f)
    check_norm(who, p)
    if power not in (1, 2):
        refuse(f"{who} needs power = 2, or 1 for distances that are not squared, and got {power}.")
    n, d = rows.shape[0] + f, rows.shape[1]
    check_rows(who, "n >= 2f + 2, where n = honest rows + f", 2 * f + 2, n)
    start: Floats = np.zeros(d) if reference is None else an_array(who, "reference", reference, 1)
    way: Floats = np.sign(rows.mean(axis=0)) if direction is None else an_array(who, "direction", direction, 1)
    if start.size != d or way.size != d:
        refuse(f"{who} needs {d} coordinates in reference and direction and got {start.size} and {way.size}.")
    length = float(np.linalg.norm(way, p))
    if length == 0.0:
        refuse(f"{who} needs a direction that is not zero.")
    apart = np.array([np.linalg.norm(rows - row, p, axis=1) for row in rows])
    nearest = np.sort(apart, axis=1)[:, 1 : n - f - 1] ** power
    least = float(nearest.sum(axis=1).min())
    farthest = float(np.linalg.norm(rows - start, p, axis=1).max())
    return (math.pow(least / (n - 2 * f - 1), 1.0 / power) + farthest) / length


def comed_lambda_bound(n: int, f: int, *, sigma: float, largest_entry: float) -> float:
    r"""The order of the lambda that an attack on the coordinate-wise median needs at least.

    .. math:: \lambda = \Omega(|1 - x|), \qquad x = \frac{\hat\sigma}{\sqrt{n - f - 1} \, \lVert \bar g \rVert_\infty}

    Parameters
    ----------
    n, f : int
        Updates, and how many of them are Byzantine.
    sigma : float
        The standard deviation of the honest workers' gradients in a coordinate.
    largest_entry : float
        The largest entry of the mean honest gradient, in absolute value.

    Examples
    --------
    >>> comed_lambda_bound(12, 2, sigma=3.0, largest_entry=0.5)
    1.0

    Notes
    -----
    The constant behind Omega is not known; it is taken as 1, as the paper does where it compares the two bounds.
    The paper calls sigma "coordinate-wise variance"; only a standard deviation has the unit of the gradient.

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, appendix on alternative attack design.
    .. [2] Xie et al., "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product Manipulation", UAI 2020.
    """
    return abs(1.0 - _noise("comed_lambda_bound", n, f, sigma, largest_entry))


@dataclass(frozen=True)
class LambdaIntersection:
    """Whether some lambda is small enough for Krum and large enough for comed.

    Attributes
    ----------
    x : float
        ``sigma / (sqrt(n - f - 1) |g|_inf)``.
    lower, upper : float
        The least lambda against comed and the largest against Krum, both up to constants.
    empty : bool
        ``lower > upper``: no lambda breaks both.
    stated : bool
        Whether the paper's inequality, ``x >= 1 - 1/sqrt(d)``, holds.
    note : str
        Why the two may differ.
    """

    x: float
    lower: float
    upper: float
    empty: bool
    stated: bool
    note: str

    def __str__(self) -> str:
        verdict = (
            "no lambda breaks both" if self.empty else f"lambda in [{self.lower:.4g}, {self.upper:.4g}] may break both"
        )
        return (
            f"{verdict}: comed needs lambda >= {self.lower:.4g}, Krum lambda <= {self.upper:.4g} (x = {self.x:.4g})\n"
            f"  the paper's inequality says {'empty' if self.stated else 'nothing'}; {self.note}"
        )


def lambda_intersection(
    n: int, f: int, d: int, *, sigma: float, largest_entry: float, upper: float | None = None
) -> LambdaIntersection:
    r"""Whether the lambdas that break Krum and those that break comed have nothing in common.

    .. math:: |1 - x| > \frac{1}{\sqrt d}, \qquad x = \frac{\hat\sigma}{\sqrt{n - f - 1} \, \lVert \bar g \rVert_\infty}

    Parameters
    ----------
    n, f, d : int
        Updates, Byzantine updates, coordinates.
    sigma, largest_entry : float
        As in `comed_lambda_bound`.
    upper : float, optional
        Krum's bound in full, `krum_lambda_bound` with the honest mean as direction; 1/sqrt(d) where not given.

    Examples
    --------
    At x = 1 every lambda reaches comed, so the sets meet, though the paper's inequality holds.

    >>> result = lambda_intersection(12, 2, 100, sigma=1.5, largest_entry=0.5)
    >>> result.x, result.empty, result.stated
    (1.0, False, True)
    >>> print(lambda_intersection(12, 2, 100, sigma=3.0, largest_entry=0.5))
    no lambda breaks both: comed needs lambda >= 1, Krum lambda <= 0.1 (x = 2)
      the paper's inequality says empty; the paper asks for x >= 1 - 1/sqrt(d), which has the sign of 1/sqrt(d) ...

    Notes
    -----
    Both bounds are orders of magnitude, and the lambda of Fang et al. multiplies a vector of signs, that of Xie et al.
    the mean gradient: emptiness by 1/sqrt(d) is a hint, not a proof.

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, appendix on alternative attack design.
    """
    who = "lambda_intersection"
    check_count(who, "d", d)
    x = _noise(who, n, f, sigma, largest_entry)
    width = 1.0 / math.sqrt(d)
    most = width if upper is None else at_least(who, "upper", upper, 0.0)
    lower = abs(1.0 - x)
    return LambdaIntersection(x=x, lower=lower, upper=most, empty=lower > most, stated=x >= 1.0 - width, note=NOTE)


def _noise(who: str, n: int, f: int, sigma: float, largest_entry: float) -> float:
    check_f(who, f)
    check_count(who, "n", n)
    check_rows(who, "n >= f + 2, so that n - f - 1 > 0", f + 2, n)
    spread = at_least(who, "sigma", sigma, 0.0)
    return spread / (math.sqrt(n - f - 1) * more_than(who, "largest_entry", largest_entry, 0.0))
