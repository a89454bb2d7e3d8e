"""Our laws, for authors of rules elsewhere."""

from mixtailor.rules.base import Rule, as_rule
from mixtailor.testing.laws import LAWS, Case, LawError, named
from mixtailor.testing.robustness import Worst, climb, excess

__all__ = ["LAWS", "Case", "LawError", "Worst", "check_rule", "climb", "excess"]


def check_rule(rule: Rule, *, seeds: int = 2) -> None:
    """Run every law that the rule does not declare off; raise a `LawError` that names the first one broken.

    Parameters
    ----------
    rule : Rule
        An instance, with the parameters to try it with.
    seeds : int
        How many inputs to try each law on.

    Examples
    --------
    >>> from mixtailor import Krum
    >>> from mixtailor.testing import check_rule
    >>> check_rule(Krum(f=1))
    """
    rule = as_rule(rule)
    for law, check in LAWS.items():
        if law in rule.missing_laws():
            continue
        for seed in range(seeds):
            with named(law, rule):
                check(rule, Case.of(rule, seed=seed))
