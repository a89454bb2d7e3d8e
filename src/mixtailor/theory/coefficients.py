"""Coefficients beside Krum's own: Multi-Krum's, Blanchard's bound, and what it costs to state f too high."""

import math
from dataclasses import dataclass

from mixtailor._checks import check_count, check_f, refuse
from mixtailor.theory._needs import krum_rows
from mixtailor.theory.bounds import C, dimension_factor, krum_coefficient

__all__ = [
    "KrumBounds",
    "Overstated",
    "blanchard_factor",
    "compare_krum_bounds",
    "multi_krum_coefficient",
    "overstated_f",
]


def multi_krum_coefficient(n: int, f: int, m: int | None = None, d: int = 1, p: float = 2.0) -> float:
    r"""A coefficient kappa that holds for Multi-Krum, the mean of the m updates of least score, proved here.

    .. math:: \sqrt\kappa = \max_{z \le \min(f, m)} \frac{\sqrt{(m - z)(h - m + z)}}{m} \quad + \sqrt{\frac{z S}{m a}}
        + \frac zm \sqrt{\frac{h - a}{a}}, \qquad S = d^{|1 - 2/p|} \frac{2h(h - 2)}{h - 1}

    with h = n - f and a = n - 2f - 1, or `krum_coefficient`, whichever is smaller.

    Parameters
    ----------
    n, f : int
        Updates, and how many of them may be Byzantine.
    m : int, optional
        How many updates are averaged, at most n - f, which is the default.
    d : int
        Coordinates; they matter only where p is not 2.
    p : float
        The norm of the distances, 1 to infinity.

    Examples
    --------
    Averaging helps: with n = 12 and f = 2 the coefficient of Krum is 5.05.

    >>> round(multi_krum_coefficient(12, 2), 3), round(multi_krum_coefficient(12, 2, m=1), 3)
    (1.547, 5.055)

    Notes
    -----
    The proof. Let v be the mean squared distance of the h honest updates from their mean. The m least scores have a
    mean of at most S v, since that of all honest scores is no more (see `krum_coefficient`). An update k of score s is
    at most sqrt(s / a) away from the mean of a honest updates near it, and that mean at most sqrt((h - a) v / a) from
    the honest mean. First, averaging these distances over the chosen updates gives Krum's coefficient for every m.
    Second, let z of the chosen updates be Byzantine. The sum of the m - z honest ones is at most sqrt((m - z)(h - m +
    z) v) away from m - z times the honest mean. The z others have scores that sum to at most m S v, so that their
    distances sum to at most sqrt(z m S v / a) + z sqrt((h - a) v / a). Both parts are divided by m.

    Bareilles et al. [1]_ were the first to publish a coefficient for Multi-Krum, and a smaller one for Krum. Their
    formula is not this one, and is not known to this package.

    References
    ----------
    .. [1] Bareilles, Bouaziz, Fageot, El Mhamdi, "Byzantine Machine Learning: MultiKrum and an optimal notion of
       robustness", arXiv:2602.03899, 2026.
    """
    who = "multi_krum_coefficient"
    krum_rows(who, n, f)
    honest, near = n - f, n - 2 * f - 1
    count = honest if m is None else m
    check_count(who, "m", count)
    if count > honest:
        refuse(f"{who} needs m <= n - f = {honest}, since f of the rows may be anything, and got m = {count}.")
    score = dimension_factor(d, p) * 2.0 * honest * (honest - 2) / (honest - 1)

    def root(z: int) -> float:
        kept = math.sqrt((count - z) * (honest - count + z)) / count
        return kept + math.sqrt(z * score / (count * near)) + z / count * math.sqrt((honest - near) / near)

    split = max(root(z) for z in range(min(f, count) + 1)) ** 2
    return min(split, krum_coefficient(n, f, d, p))


def blanchard_factor(n: int, f: int) -> float:
    r"""The factor of the variance in the bound that Krum was published with.

    .. math:: \lVert E[U] - \nabla F \rVert^2 \le \eta^2(n, f) \, \sigma^2, \qquad
        \eta^2(n, f) = 2 \left( n - f + \frac{f (n - f - 2) + f^2 (n - f - 1)}{n - 2f - 2} \right)

    with :math:`\sigma^2 = E \lVert V - \nabla F \rVert^2`, over all coordinates.

    Examples
    --------
    >>> round(blanchard_factor(12, 2), 4)
    37.3333

    References
    ----------
    .. [1] Blanchard, El Mhamdi, Guerraoui, Stainer, "Machine Learning with Adversaries: Byzantine Tolerant Gradient
       Descent", NeurIPS 2017, Proposition 1.
    """
    krum_rows("blanchard_factor", n, f)
    return 2.0 * (n - f + (f * (n - f - 2) + f**2 * (n - f - 1)) / (n - 2 * f - 2))


@dataclass(frozen=True)
class KrumBounds:
    """Bounds on Krum's squared bias at p = 2 with equal workers, in units of sigma^2.

    Attributes
    ----------
    blanchard : float
        The one that Krum was published with.
    mixtailor : float
        The MixTailor paper's, 2 (1 + C(n, f)).
    proved : float
        `krum_coefficient`.
    """

    n: int
    f: int
    blanchard: float
    mixtailor: float
    proved: float

    @property
    def tighter_by(self) -> float:
        """By what factor the paper's bound is below the one that Krum was published with."""
        return self.blanchard / self.mixtailor

    def __str__(self) -> str:
        return (
            f"|E[U] - grad F|^2 / sigma^2 of Krum(p=2), n = {self.n}, f = {self.f}\n"
            f"  Blanchard et al. 2017      {self.blanchard:.4g}\n"
            f"  MixTailor, Theorem 1       {self.mixtailor:.4g}  (tighter by a factor of {self.tighter_by:.4g})\n"
            f"  proved                     {self.proved:.4g}"
        )


def compare_krum_bounds(n: int, f: int) -> KrumBounds:
    r"""The paper's remark that its bound is tighter than earlier ones at p = 2, as numbers.

    .. math:: 2 (1 + C(n, f)) = \frac{4 (n - f - 2)}{n - 2f - 2} \le \eta^2(n, f)

    Examples
    --------
    >>> print(compare_krum_bounds(12, 2))
    |E[U] - grad F|^2 / sigma^2 of Krum(p=2), n = 12, f = 2
      Blanchard et al. 2017      37.33
      MixTailor, Theorem 1       5.333  (tighter by a factor of 7)
      proved                     5.055

    Notes
    -----
    The remark also names the bound of the resampling paper (He, Karimireddy, Jaggi, 2020), whose constants are not
    known to this package.

    References
    ----------
    .. [1] Ramezani-Kebrya et al., "MixTailor", TMLR 2022, the remark after Theorem 1.
    """
    return KrumBounds(n, f, blanchard_factor(n, f), 2.0 * (1.0 + C(n, f)), krum_coefficient(n, f))


@dataclass(frozen=True)
class Overstated:
    """What a rule loses at least by tolerating more Byzantine updates than there are.

    Attributes
    ----------
    error : float
        The least worst-case squared error, in units of the honest variance, of a rule that tolerates `stated`.
    best : float
        The same for a rule that tolerates exactly f.
    """

    n: int
    f: int
    stated: int
    error: float
    best: float

    def __str__(self) -> str:
        return (
            f"n = {self.n}, f = {self.f}, stated as {self.stated}: at the worst, the squared error is at least "
            f"{self.error:.4g} times the honest variance ({self.best:.4g} with the true f)"
        )


def overstated_f(n: int, f: int, stated: int) -> Overstated:
    r"""The price of stating f too high.

    .. math:: \sup \frac{\lVert U - \bar x \rVert^2}{\frac{1}{n - f} \sum_i \lVert x_i - \bar x \rVert^2} \ge
        \frac{\hat f}{n - f - \hat f}

    for every rule with a finite coefficient for :math:`\hat f` Byzantine updates, when f of them are Byzantine, the
    mean and the sum being over the honest ones. It grows with :math:`\hat f` even where f = 0.

    Parameters
    ----------
    n, f : int
        Updates, and how many of them are Byzantine.
    stated : int
        The f that the rule was given, at least f and below n/2.

    Examples
    --------
    >>> print(overstated_f(20, 0, 4))
    n = 20, f = 0, stated as 4: at the worst, the squared error is at least 0.25 times the honest variance (0 with the
    true f)

    Notes
    -----
    The proof. Let n - :math:`\hat f` updates be 0 and :math:`\hat f` be 1. Those that are 0 may be the honest ones of a
    problem with :math:`\hat f` Byzantine updates, and have no variance, so that the rule returns 0. Let now the honest
    ones be those that are 1 and n - f - :math:`\hat f` of those that are 0. Their mean is
    :math:`\hat f / (n - f)`, which is the error, and dividing its square by their variance gives the bound. Chen et
    al. [1]_ prove it, and that it is reached up to a constant. Stating f too low has no finite price.

    References
    ----------
    .. [1] Chen, Zhang, Huang, "Trade-off in Estimating the Number of Byzantine Clients in Federated Learning",
       arXiv:2510.04432, 2025.
    """
    who = "overstated_f"
    check_count(who, "n", n)
    check_f(who, f)
    check_f(who, stated)
    if not f <= stated or not 2 * stated < n:
        refuse(f"{who} needs f <= stated < n/2 and got f = {f}, stated = {stated} and n = {n}.")
    return Overstated(n, f, stated, stated / (n - f - stated), f / (n - 2 * f))
