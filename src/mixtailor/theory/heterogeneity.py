"""What no server can avoid where the data of honest workers differ."""

import math
from dataclasses import dataclass

from mixtailor._checks import check_count, check_f, check_rows
from mixtailor.theory._needs import at_least

__all__ = ["HeterogeneityBound", "heterogeneity_bound"]


@dataclass(frozen=True)
class HeterogeneityBound:
    """A squared gradient norm that no server can promise to go below.

    Attributes
    ----------
    proved : float
        ``G^2 f / (n - 2f)``, by the two worlds in `heterogeneity_bound`.
    published : float
        ``G^2 f / (4 (n - (2 + B^2) f))``; infinite where f is at or above the breakdown point ``n / (2 + B^2)``.
    """

    n: int
    f: int
    G: float
    B: float
    proved: float
    published: float

    @property
    def squared_gradient(self) -> float:
        """The larger of the two: both hold."""
        return max(self.proved, self.published)

    def __str__(self) -> str:
        return (
            f"|grad L|^2 that no server can promise to go below, n = {self.n}, f = {self.f}, G = {self.G:g}, "
            f"B = {self.B:g}: {self.squared_gradient:.6g}"
        )


def heterogeneity_bound(n: int, f: int, *, G: float, B: float = 0.0) -> HeterogeneityBound:
    r"""How small a gradient any server can promise where honest workers' gradients differ by G.

    .. math::
        \frac{1}{n - f} \sum_{i \in H} \lVert \nabla L_i - \nabla L_H \rVert^2
        \le G^2 + B^2 \lVert \nabla L_H \rVert^2 \quad \Rightarrow \quad \lVert \nabla L_H \rVert^2 \ge
        \max\left(\frac{f}{n - 2f}, \frac{f}{4 (n - (2 + B^2) f)}\right) G^2

    for some losses with this dissimilarity and some Byzantine workers, whatever the server does.

    Parameters
    ----------
    n, f : int
        Workers, and how many of them may be Byzantine; n > 2f.
    G, B : float
        The dissimilarity of the honest workers' gradients.

    Examples
    --------
    >>> print(heterogeneity_bound(12, 2, G=1.0))
    |grad L|^2 that no server can promise to go below, n = 12, f = 2, G = 1, B = 0: 0.25

    With B = 2, two of twelve are the breakdown point: nothing can be promised.

    >>> heterogeneity_bound(12, 2, G=1.0, B=2.0).squared_gradient
    inf

    Notes
    -----
    Proof of the first term. Let worker i have the loss :math:`(\theta - x_i)^2 / 2`, with f workers at -a, n - 2f at 0
    and f at a. Either the workers at a are Byzantine, or those at -a, and send what honest workers would: the server
    cannot know, and returns the same :math:`\theta`. The honest means are :math:`\mp f a / (n - f)`, so that in one of
    the two worlds :math:`\lvert \nabla L_H(\theta) \rvert \ge f a / (n - f)`. The honest variance is
    :math:`G^2 = a^2 f (n - 2f) / (n - f)^2` in both. The published term has a factor of 1/4 because its two worlds are
    not symmetric, and it grows with B.

    It is a statement about the worst losses with this G and B. On the losses of one training a server may do better,
    and an attacker may not find what would hold it there.

    References
    ----------
    .. [1] Allouah, Farhadkhani, Guerraoui, Gupta, Pinot, Stephan, "Fixing by Mixing: A Recipe for Optimal Byzantine ML
       under Heterogeneity", AISTATS 2023. B = 0.
    .. [2] Allouah, Guerraoui, Gupta, Pinot, Rizk, "Robust Distributed Learning: Tight Error Bounds and Breakdown Point
       under Data Heterogeneity", NeurIPS 2023. The form with B; we state it for the gradient.
    """
    check_count("heterogeneity_bound", "n", n)
    check_f("heterogeneity_bound", f)
    check_rows("heterogeneity_bound", "n >= 2f + 1", 2 * f + 1, n)
    square = at_least("heterogeneity_bound", "G", G, 0.0) ** 2
    ratio = at_least("heterogeneity_bound", "B", B, 0.0) ** 2
    left = n - (2.0 + ratio) * f
    return HeterogeneityBound(
        n=n,
        f=f,
        G=float(G),
        B=float(B),
        proved=square * f / (n - 2 * f),
        published=square * f / (4.0 * left) if left > 0.0 else math.inf,
    )
