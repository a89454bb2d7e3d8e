"""Whether the clients that a round samples may hold more Byzantine ones than the rule tolerates."""

import logging

from mixtailor.rules.base import Rule
from mixtailor.theory.sampling import f_for_sampling, sampling_failure

__all__ = ["FAILURE", "warn_of_sampling"]

_log = logging.getLogger("flwr.mixtailor")
FAILURE = 1e-6


def warn_of_sampling(rule: Rule, byzantine: int | None, population: int, sampled: int) -> None:
    """Log a warning where a round may hold more than f Byzantine clients with a probability above `FAILURE`.

    Parameters
    ----------
    rule : Rule
    byzantine : int or None
        How many of all clients may be Byzantine; None, and it is the share that f is of the sample.
    population, sampled : int
        How many clients are connected, and how many a round asks.
    """
    f = rule.tolerates(sampled)
    byzantine = -(-f * population // sampled) if byzantine is None else min(byzantine, population)
    needed = f_for_sampling(population, byzantine, sampled, FAILURE)
    if f < needed:
        _log.warning(
            "With %d of %d clients Byzantine and %d sampled, a round holds more than f = %d of them with "
            "probability %.2g. f = %d would keep that below %g (f_for_sampling). Raise f, or sample more clients.",
            byzantine,
            population,
            sampled,
            f,
            sampling_failure(population, byzantine, sampled, f),
            needed,
            FAILURE,
        )
