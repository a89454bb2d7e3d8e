"""The game between the server, who draws a rule, and the adversary, who picks an attack."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from mixtailor._checks import check_count, refuse
from mixtailor.theory._needs import Floats, an_array

__all__ = ["Solution", "no_regret", "payoff", "solve"]


@dataclass(frozen=True)
class Solution:
    """Optimal play of both sides of a zero-sum game.

    Attributes
    ----------
    probabilities : tuple of float
        The row player's mixture; it guarantees `value` against every column.
    value : float
        What the row player gets at least, by that mixture.
    responses : tuple of float
        The column player's mixture; against it no row gets more than `value` + `gap`.
    gap : float
        How far the two guarantees are apart; zero up to rounding.
    """

    probabilities: tuple[float, ...]
    value: float
    responses: tuple[float, ...]
    gap: float

    def __str__(self) -> str:
        def mixture(shares: tuple[float, ...]) -> str:
            played = [f"{i}: {share:.4g}" for i, share in enumerate(shares) if share > 0.0]
            return ", ".join(played[:12]) + (f" and {len(played) - 12} more" if len(played) > 12 else "")

        return (
            f"value {self.value:.6g} (gap {self.gap:.1e})\n"
            f"  rows     {mixture(self.probabilities)}\n"
            f"  columns  {mixture(self.responses)}"
        )


def solve(payoffs: ArrayLike) -> Solution:
    r"""Solve a zero-sum game: rows maximise the payoff, columns minimise it.

    .. math:: v = \max_{p} \min_j \sum_i p_i A_{ij} = \min_{q} \max_i \sum_j A_{ij} q_j

    A linear program in p and v; its dual variables are the column player's mixture.

    Parameters
    ----------
    payoffs : array of shape (rules, attacks)
        What the row player gets.

    Examples
    --------
    Matching pennies has no pure optimum.

    >>> print(solve([[1.0, -1.0], [-1.0, 1.0]]))
    value 0 (gap 0.0e+00)
      rows     0: 0.5, 1: 0.5
      columns  0: 0.5, 1: 0.5

    Notes
    -----
    The payoffs are shifted and scaled to [0, 1] first, since a solver's tolerances are absolute: payoffs of size 1e-9
    would all look alike. Where several mixtures are optimal, one with few rules comes back (a vertex). `value` is
    what the mixture returned guarantees, computed from the payoffs, not the solver's own figure.

    References
    ----------
    .. [1] von Neumann, "Zur Theorie der Gesellschaftsspiele", Mathematische Annalen 100, 1928.
    .. [2] Huangfu and Hall, "Parallelizing the dual revised simplex method", Math. Prog. Comp. 10, 2018 (HiGHS).
    """
    matrix = an_array("solve", "payoffs", payoffs, 2)
    rows, columns = matrix.shape
    low, high = float(matrix.min()), float(matrix.max())
    # Halves are taken first: the range of finite payoffs may overflow.
    spread = (high / 2.0 - low / 2.0) or 1.0
    unit = (matrix / 2.0 - low / 2.0) / spread
    # scipy.optimize is loaded here so that `import mixtailor` does not pay for it.
    from scipy.optimize import linprog

    result = linprog(
        np.append(np.zeros(rows), -1.0),
        A_ub=np.hstack([-unit.T, np.ones((columns, 1))]),
        b_ub=np.zeros(columns),
        A_eq=np.append(np.ones(rows), 0.0)[None, :],
        b_eq=[1.0],
        bounds=[(0.0, None)] * rows + [(None, None)],
        method="highs",
    )
    if not result.success or result.x is None:
        raise RuntimeError(f"The linear program of the {rows} x {columns} game was not solved: {result.message}")
    mine = _mixture(np.asarray(result.x[:rows], dtype=np.float64))
    theirs = _mixture(-np.asarray(result.ineqlin.marginals, dtype=np.float64))
    value = float((mine @ matrix).min())
    return Solution(
        probabilities=tuple(map(float, mine)),
        value=value,
        responses=tuple(map(float, theirs)),
        gap=max(0.0, float((matrix @ theirs).max()) - value),
    )


def no_regret(payoffs: ArrayLike, steps: int = 500) -> Solution:
    r"""Play a zero-sum game against oneself, both sides by exponential weights, and average what they played.

    .. math:: p_i^{t+1} \propto p_i^t e^{\eta (A q^t)_i}, \qquad q_j^{t+1} \propto q_j^t e^{-\eta' (A^\top p^t)_j}

    Parameters
    ----------
    payoffs : array of shape (rules, attacks)
        What the row player gets.
    steps : int
        T.

    Examples
    --------
    >>> found = no_regret([[3.0, -1.0], [-2.0, 1.0]], steps=20_000)
    >>> [round(share, 2) for share in found.probabilities], round(found.value, 1)
    ([0.43, 0.57], 0.1)

    Notes
    -----
    With rates of sqrt(8 log(m) / T) over the range of the payoffs, the gap is at most the range times
    (sqrt(log m) + sqrt(log k)) / sqrt(2T), for m rules and k attacks. `solve` is exact; this one spreads its
    probabilities over all rules that are nearly as good, and changes little where payoffs do.

    References
    ----------
    .. [1] Freund, Schapire, "Adaptive Game Playing Using Multiplicative Weights", Games and Economic Behavior 29, 1999.
    """
    matrix = an_array("no_regret", "payoffs", payoffs, 2)
    check_count("no_regret", "steps", steps)
    low, high = float(matrix.min()), float(matrix.max())
    spread = (high / 2.0 - low / 2.0) or 1.0
    unit = (matrix / 2.0 - low / 2.0) / spread
    rates = [np.sqrt(8.0 * np.log(max(count, 2)) / steps) for count in unit.shape]
    mine, theirs = np.zeros(unit.shape[0]), np.zeros(unit.shape[1])  # logarithms of weights
    played, answered = np.zeros_like(mine), np.zeros_like(theirs)
    for _ in range(steps):
        p, q = _softmax(mine), _softmax(theirs)
        played, answered = played + p, answered + q
        mine, theirs = mine + rates[0] * (unit @ q), theirs - rates[1] * (p @ unit)
    played, answered = played / steps, answered / steps
    value = float((played @ matrix).min())
    gap = max(0.0, float((matrix @ answered).max()) - value)
    return Solution(tuple(map(float, played)), value, tuple(map(float, answered)), gap)


def _softmax(logarithms: Floats) -> Floats:
    weights: Floats = np.exp(logarithms - logarithms.max())
    shares: Floats = weights / weights.sum()
    return shares


def _mixture(weights: Floats) -> Floats:
    shares: Floats = np.where(weights > 1e-12, weights, 0.0)
    scaled: Floats = shares / shares.sum()
    return scaled


def payoff(products: ArrayLike, update_norms: ArrayLike, gradient_norms: ArrayLike) -> Floats:
    r"""What a result U is worth to the server where the true gradient is g.

    .. math:: \frac{\langle U, g \rangle}{\lVert g \rVert \max(\lVert U \rVert, \lVert g \rVert)} \in [-1, 1]

    It is 1 for the gradient itself, the cosine for longer results, and smaller for shorter ones.

    Parameters
    ----------
    products, update_norms, gradient_norms : array
        ``U . g``, ``|U|`` and ``|g|``, of shapes that broadcast.

    Examples
    --------
    The gradient, twice the gradient, half of it, none of it, and its opposite.

    >>> payoff([4.0, 8.0, 2.0, 0.0, -4.0], [2.0, 4.0, 1.0, 0.0, 2.0], 2.0)
    array([ 1. ,  1. ,  0.5,  0. , -1. ])

    Notes
    -----
    With ``U . g / |g|^2`` instead, a rule with long results would win by length alone. The payoff looks one step
    ahead: attacks that do harm over many rounds, each of which looks harmless, are not seen by it.
    """
    dots: Floats = np.asarray(products, dtype=np.float64)
    lengths: Floats = np.asarray(update_norms, dtype=np.float64)
    scales: Floats = np.asarray(gradient_norms, dtype=np.float64)
    for name, values in (("products", dots), ("update_norms", lengths), ("gradient_norms", scales)):
        if not np.isfinite(values).all():
            refuse(f"payoff needs finite {name}, and {int(np.count_nonzero(~np.isfinite(values)))} are not.")
    if (scales <= 0.0).any():
        refuse("payoff needs |g| > 0: where the gradient is zero no result descends. Leave such states out.")
    if (lengths < 0.0).any():
        refuse(f"payoff needs |U| >= 0 and got {float(lengths.min()):g}.")
    # One division after the other, since the product of the two norms may overflow.
    worth: Floats = np.asarray(dots / scales / np.maximum(lengths, scales), dtype=np.float64)
    if (np.abs(dots / scales) > lengths * (1.0 + 1e-6)).any():
        refuse("payoff needs |U . g| <= |U| |g| (Cauchy and Schwarz), and got products larger than that.")
    clipped: Floats = np.clip(worth, -1.0, 1.0)
    return clipped
