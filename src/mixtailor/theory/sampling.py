"""How many Byzantine rows to expect when clients are sampled."""

from mixtailor._checks import check_count, check_f, check_fraction, refuse

__all__ = ["f_for_sampling", "sampling_failure"]

# The tail is a float: a `failure` that equals it on paper must count as reached.
ROUNDING = 1e-9


def sampling_failure(population: int, byzantine: int, sampled: int, f: int) -> float:
    r"""The probability that a round samples more than f Byzantine clients.

    .. math:: P(X > f), \qquad X \sim \mathrm{Hypergeometric}(N, K, m)

    with N clients, K of them Byzantine, and m of them sampled without replacement.

    Examples
    --------
    Five of ten clients are Byzantine and five are drawn: all five are Byzantine once in C(10, 5) = 252 draws.

    >>> round(1 / sampling_failure(10, 5, 5, f=4))
    252
    """
    who = "sampling_failure"
    _check(who, population, byzantine, sampled)
    check_f(who, f)
    if f >= min(byzantine, sampled):
        return 0.0
    if f < byzantine + sampled - population:
        return 1.0
    # scipy.stats takes most of a second to load, which `import mixtailor` must not pay.
    from scipy.stats import hypergeom

    return float(hypergeom.sf(f, population, byzantine, sampled))


def f_for_sampling(population: int, byzantine: int, sampled: int, failure: float = 1e-6, *, rounds: int = 1) -> int:
    r"""The f to declare when each round samples some of the clients.

    .. math:: f = \min \{ k : P(X > k) \le \delta / T \}, \qquad X \sim \mathrm{Hypergeometric}(N, K, m)

    Assumes that clients are drawn uniformly without replacement, by somebody whom the adversary does not control.

    Parameters
    ----------
    population, byzantine, sampled : int
        N clients, K of them Byzantine, m sampled each round.
    failure : float
        The probability delta that may be left for more than f Byzantine clients. 0 asks for certainty.
    rounds : int
        T, the rounds that share `failure` (by the union bound); with 1 it is the failure of one round.

    Examples
    --------
    With a tenth of 1,000 clients Byzantine, 50 sampled clients hold five of them on average. Seventeen have to be
    declared if no more than one round in a million may hold more.

    >>> f_for_sampling(1000, 100, 50)
    17
    >>> f_for_sampling(1000, 100, 1000)
    100

    Notes
    -----
    Most rules need more than 2f rows; where this f is not below half of `sampled`, sample more clients.

    References
    ----------
    .. [1] Allouah et al., "Byzantine-Robust Federated Learning: Impact of Client Subsampling and Local Updates",
       ICML 2024.
    """
    who = "f_for_sampling"
    _check(who, population, byzantine, sampled)
    check_fraction(who, "failure", failure)
    check_count(who, "rounds", rounds)
    allowed = failure / rounds * (1.0 + ROUNDING)
    # The tail falls as f grows, and is 0 at the upper end: bisection keeps `high` among the f that do.
    low, high = -1, min(byzantine, sampled)
    while high - low > 1:
        middle = (low + high) // 2
        if sampling_failure(population, byzantine, sampled, middle) <= allowed:
            high = middle
        else:
            low = middle
    return high


def _check(who: str, population: int, byzantine: int, sampled: int) -> None:
    check_count(who, "population", population)
    check_count(who, "byzantine", byzantine, 0)
    check_count(who, "sampled", sampled)
    for name, value in (("byzantine", byzantine), ("sampled", sampled)):
        if value > population:
            refuse(f"{who} needs {name} <= population and got {name} = {value} of {population} clients.")
