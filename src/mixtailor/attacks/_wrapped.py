"""What attacks that wrap another one share."""

from dataclasses import dataclass
from typing import Any, ClassVar

from mixtailor._checks import refuse
from mixtailor.attacks.base import Attack
from mixtailor.attacks.memory import Memory

__all__ = ["Wrapping", "check_inner"]


def check_inner(name: str, parameter: str, attack: object) -> None:
    """Whether an attack can be wrapped: one that acts on labels has done its work before any row exists."""
    if not isinstance(attack, Attack):
        raise TypeError(f"{name} needs {parameter}= as an attack and got {attack!r}.")
    if attack.on_labels:
        refuse(f"{name} needs an attack on updates, and {attack!r} acts on the data before there are any.")


@dataclass(frozen=True)
class Wrapping(Attack):
    """An attack that runs another one, and needs what that needs. Abstract: `points` is left."""

    attack: Attack

    remembers: ClassVar[bool] = True

    def begin(self) -> Any:
        return Memory(notes={"attack": self.attack.begin()})

    def least_f(self) -> int:
        return self.attack.least_f()

    def least_rows(self) -> int:
        return self.attack.least_rows()

    def needs_own(self) -> bool:
        return self.attack.needs_own()
