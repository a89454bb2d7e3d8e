"""How many Byzantine rows to expect when clients are sampled."""

from mixtailor._checks import check_count, check_f, check_fraction, refuse
from mixtailor.theory._needs import at_least

__all__ = ["f_for_sampling", "least_sample", "local_error", "sampling_failure"]

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
    Most rules need more than 2f updates; where this f is not below half of `sampled`, sample more clients.

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


def least_sample(population: int, byzantine: int, failure: float = 1e-6, *, rounds: int = 1) -> int:
    r"""The fewest clients to sample so that a robust rule can be used in all rounds.

    .. math:: \min \{ m : f(m) < m / 2 \}, \qquad f(m) = \min \{ k : P(X > k) \le \delta / T \}

    where f(m) is `f_for_sampling`. A sample of fewer clients holds, in some round, as many Byzantine clients as honest
    ones, and no rule helps.

    Parameters
    ----------
    population, byzantine : int
        N clients, K < N/2 of them Byzantine.
    failure : float
        The probability delta that some round may fail with.
    rounds : int
        T.

    Examples
    --------
    A tenth of 1,000 clients is Byzantine; over 500 rounds, all but one training run in a hundred succeed.

    >>> least_sample(1000, 100, failure=0.01, rounds=500)
    17

    Notes
    -----
    Allouah et al. [1]_ give such a threshold through the Kullback-Leibler divergence of Bernoulli variables, which
    bounds the tail from above; this one uses the tail itself, and is never larger than one that rests on a bound.

    References
    ----------
    .. [1] Allouah et al., "Byzantine-Robust Federated Learning: Impact of Client Subsampling and Local Updates",
       ICML 2024.
    """
    who = "least_sample"
    _check(who, population, byzantine, 1)
    if 2 * byzantine >= population:
        refuse(f"{who} needs fewer than half of the clients Byzantine and got {byzantine} of {population}.")
    for sampled in range(1, population + 1):
        if 2 * f_for_sampling(population, byzantine, sampled, failure, rounds=rounds) < sampled:
            return sampled
    raise AssertionError("all clients together are an honest majority")


def local_error(kappa: float, sigma: float, delta: float, *, steps: int = 1) -> float:
    r"""What Byzantine clients can cost a round in which the others make several local steps.

    .. math:: E \lVert U - \bar V \rVert^2 \le \kappa \left( \frac{\sigma^2}{K} + \Delta^2 \right)

    in units of one step's gradient: clients send the mean of the gradients of K local steps. Local steps average the
    noise and not what clients differ in, so that Byzantine clients can hide behind less.

    Parameters
    ----------
    kappa : float
        The rule's coefficient.
    sigma, delta : float
        Noise and heterogeneity, as `estimate` gives them.
    steps : int
        K.

    Examples
    --------
    >>> local_error(0.5, sigma=4.0, delta=1.0), local_error(0.5, sigma=4.0, delta=1.0, steps=16)
    (8.5, 1.0)

    Notes
    -----
    This holds where the local learning rate is so small that a client's gradients in its K steps are independent draws
    at one model. The mean of K of them has the variance sigma^2 / K, so the expected variance of what honest clients
    send is at most sigma^2 / K + Delta^2. The drift of larger local steps adds to it. The error that Allouah et al.
    [1]_ find for FedRo has this form, kappa (sigma^2 / K + Delta^2) up to constants, beside terms that vanish as the
    learning rates do.

    References
    ----------
    .. [1] Allouah et al., "Byzantine-Robust Federated Learning: Impact of Client Subsampling and Local Updates",
       ICML 2024.
    """
    who = "local_error"
    check_count(who, "steps", steps)
    noise, apart = at_least(who, "sigma", sigma, 0.0), at_least(who, "delta", delta, 0.0)
    return at_least(who, "kappa", kappa, 0.0) * (noise**2 / steps + apart**2)


def _check(who: str, population: int, byzantine: int, sampled: int) -> None:
    check_count(who, "population", population)
    check_count(who, "byzantine", byzantine, 0)
    check_count(who, "sampled", sampled)
    for name, value in (("byzantine", byzantine), ("sampled", sampled)):
        if value > population:
            refuse(f"{who} needs {name} <= population and got {name} = {value} of {population} clients.")
