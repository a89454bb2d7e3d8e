"""What the attacker knows: wrappers that limit what an attack is given. ``Sees(4) | KnowsPool() | attack``."""

import copy
import dataclasses
from abc import ABC
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, overload

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.attacks.base import Attack, Scene
from mixtailor.mixing import MixTailor, SeededEntropy
from mixtailor.rules import Rule
from mixtailor.rules.request import Request
from mixtailor.updates import Point

__all__ = [
    "Informed",
    "Knowledge",
    "KnowsDraw",
    "KnowsPool",
    "KnowsProbabilities",
    "Levels",
    "Oblivious",
    "Sees",
    "SeesAll",
]


class Knowledge(ABC):  # noqa: B024  # every level limits one of two things and leaves the other
    """What an attacker knows, of the updates and of the server. ``knowledge | attack`` is an attack.

    Laws: `seen` gives no more than the scene holds; `known` changes nothing of an attack but its target. An attack that
    is given no level sees all honest updates and knows of its target what the target object holds.
    """

    def seen(self, scene: Scene, attack: Attack) -> Scene:
        """The scene, as far as this attacker sees it."""
        return scene

    def known(self, target: Rule, scene: Scene) -> Rule:
        """The target, as far as this attacker knows it."""
        return target

    @overload
    def __or__(self, other: "Knowledge") -> "Levels": ...
    @overload
    def __or__(self, other: Attack) -> "Informed": ...
    def __or__(self, other: "Knowledge | Attack") -> "Levels | Informed":
        if isinstance(other, Attack):
            return Informed(self, other)
        if isinstance(other, Knowledge):
            return Levels(self, other)
        return NotImplemented


@dataclass(frozen=True)
class Levels(Knowledge):
    """Two levels together; made by ``|``."""

    first: Knowledge
    second: Knowledge

    def seen(self, scene: Scene, attack: Attack) -> Scene:
        return self.second.seen(self.first.seen(scene, attack), attack)

    def known(self, target: Rule, scene: Scene) -> Rule:
        return self.second.known(self.first.known(target, scene), scene)

    def __repr__(self) -> str:
        return f"{self.first!r} | {self.second!r}"


@dataclass(frozen=True)
class SeesAll(Knowledge):
    """The updates of all workers: the omniscient attacker, and what an attack has without a level."""


@dataclass(frozen=True)
class Sees(Knowledge):
    r"""The updates of k workers, its own among them; for the others it takes the mean of those k.

    .. math:: x_1, \ldots, x_k, \bar x, \ldots, \bar x \qquad \bar x = \frac1k \sum_{i \le k} x_i

    Parameters
    ----------
    k : int
        How many updates are known: the f own ones, and the first k - f honest ones.

    Examples
    --------
    With f = 1 and k = 2 the attacker takes the mean of its own and the first honest update, 1.0, for the third.

    >>> from mixtailor.attacks import Tailored
    >>> (Sees(2) | Tailored(epsilon=1.0))(np.array([[2.0], [9.0]]), f=1, own=np.array([[0.0]]))
    array([[-1.5]])

    References
    ----------
    .. [1] Ramezani-Kebrya, Tabrizian, Faghri, Popovski, "MixTailor: Mixed Gradient Aggregation for Robust Learning
       Against Tailored Attacks", TMLR 2022, the appendix on partial knowledge.
    """

    k: int

    def __post_init__(self) -> None:
        check_count("Sees", "k", self.k)

    def seen(self, scene: Scene, attack: Attack) -> Scene:
        if scene.own is None:
            refuse(f"{self!r} needs own=, the f correct rows of the Byzantine workers: they are the first of the k.")
        f, honest = scene.f, scene.honest.n
        if not f <= self.k <= scene.n:
            refuse(f"{self!r} needs f <= k <= n, since k counts the own rows, and got f = {f} and n = {scene.n}.")
        known = np.zeros(scene.n)
        known[: self.k - f] = known[honest:] = 1.0 / self.k
        weights = np.tile(known, (honest, 1))
        weights[: self.k - f] = np.eye(scene.n)[: self.k - f]
        return dataclasses.replace(scene, honest=scene.everyone().mix(weights))


@dataclass(frozen=True)
class Oblivious(Knowledge):
    """Nothing but the attacker's own correct updates, which it takes for the honest ones.

    An attack that tries a target needs n - f updates to try it with: for it, the others are the mean of its own, as
    with ``Sees(k=f)``.

    Examples
    --------
    >>> from mixtailor.attacks import Tailored
    >>> (Oblivious() | Tailored(epsilon=1.0))(np.array([[2.0], [9.0]]), f=1, own=np.array([[5.0]]))
    array([[-5.]])
    """

    def seen(self, scene: Scene, attack: Attack) -> Scene:
        if scene.own is None:
            refuse("Oblivious needs own=, the f correct rows of the Byzantine workers: there is nothing else it sees.")
        if getattr(attack, "target", None) is not None:
            return Sees(scene.f).seen(scene, attack)
        return dataclasses.replace(scene, honest=scene.own)


@dataclass(frozen=True)
class KnowsPool(Knowledge):
    """The rules of the server's pool, but not their probabilities: it takes them for equally likely."""

    def known(self, target: Rule, scene: Scene) -> Rule:
        return MixTailor(target.rules) if isinstance(target, MixTailor) else target


@dataclass(frozen=True)
class KnowsProbabilities(Knowledge):
    """The rules of the pool and their probabilities, but not the draw: what an attack has without a level."""


@dataclass(frozen=True)
class KnowsDraw(Knowledge):
    """The rule that will be drawn this round, from a seed that leaked.

    What the randomness is worth is the difference that this makes. The target must be the server's own MixTailor, with
    a `SeededEntropy`: the attacker copies its state, and the server's draws are not touched.

    Examples
    --------
    >>> from mixtailor import Comed, Krum, MixTailor, SeededEntropy
    >>> server = MixTailor([Krum(f=1), Comed()], entropy=SeededEntropy(7))
    >>> KnowsDraw.draw(server, 5) == server.aggregate(np.arange(10.0).reshape(5, 2)).rule
    True
    """

    def known(self, target: Rule, scene: Scene) -> Rule:
        return self.draw(target, scene.n) if isinstance(target, MixTailor) else target

    @staticmethod
    def draw(target: MixTailor, n: int) -> Rule:
        """The rule that the target will draw next for n updates."""
        if target.audit is not None or not isinstance(target.entropy, SeededEntropy):
            refuse(
                f"KnowsDraw needs a target whose seed can leak, a MixTailor with entropy=SeededEntropy(seed), and got "
                f"one that draws from {'an audit trail' if target.audit is not None else target.entropy!r}."
            )
        arrival: Any = None  # a draw reads nothing of what arrived
        twin = MixTailor(target.rules, target.probabilities, copy.deepcopy(target.entropy))
        return twin.plan(arrival, Request(), n).rule


@dataclass(frozen=True)
class Informed(Attack):
    """An attack with a level of knowledge; made by ``|``."""

    knowledge: Knowledge
    attack: Attack

    needs: ClassVar[str] = "what its level of knowledge gives"

    def begin(self) -> Any:
        return self.attack.begin()

    def least_f(self) -> int:
        return self.attack.least_f()

    def least_rows(self) -> int:
        return self.attack.least_rows()

    def needs_own(self) -> bool:
        return True

    def points(self, scene: Scene) -> Sequence[Point]:
        seen = self.knowledge.seen(scene, self.attack)
        attack, target = self.attack, getattr(self.attack, "target", None)
        if isinstance(target, Rule):
            known = self.knowledge.known(target, scene)
            attack = attack if known is target else dataclasses.replace(attack, target=known)  # type: ignore[type-var]  # a dataclass
        if attack.remembers and seen.state is None:
            seen = dataclasses.replace(seen, state=attack.begin())
        return attack.points(seen)

    def __repr__(self) -> str:
        return f"{self.knowledge!r} | {self.attack!r}"
