"""What attacks that wrap another one share."""

from mixtailor._checks import refuse
from mixtailor.attacks.base import Attack

__all__ = ["check_inner"]


def check_inner(name: str, parameter: str, attack: object) -> None:
    """Whether an attack can be wrapped: one that acts on labels has done its work before any row exists."""
    if not isinstance(attack, Attack):
        raise TypeError(f"{name} needs {parameter}= as an attack and got {attack!r}.")
    if attack.on_labels:
        refuse(f"{name} needs an attack on updates, and {attack!r} acts on the data before there are any.")
