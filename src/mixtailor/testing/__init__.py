"""Our laws, for authors of rules and attacks elsewhere."""

from mixtailor.rules.base import Rule
from mixtailor.rules.plain import as_rule
from mixtailor.testing.attack_laws import ATTACK_LAWS, Attacking, Battle
from mixtailor.testing.laws import LAWS, Case, LawError, named
from mixtailor.testing.robustness import Worst, climb, excess

__all__ = [
    "ATTACK_LAWS",
    "LAWS",
    "Case",
    "LawError",
    "Worst",
    "check_attack",
    "check_rule",
    "climb",
    "excess",
]


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


def check_attack(attack: Attacking, *, seeds: int = 2) -> None:
    """Run every law of attacks; raise a `LawError` that names the first one broken.

    Parameters
    ----------
    attack : Attack
        An instance, with the parameters to try it with.
    seeds : int
        How many inputs to try each law on.

    Examples
    --------
    >>> from mixtailor.attacks import Tailored
    >>> from mixtailor.testing import check_attack
    >>> check_attack(Tailored(epsilon=0.1))
    """
    if isinstance(attack, type):
        raise TypeError(f"check_attack needs an attack and got a class. Write check_attack({attack.__name__}()).")
    for law, check in ATTACK_LAWS.items():
        for seed in range(seeds):
            with named(law, attack):
                check(Battle(attack, seed=seed))
