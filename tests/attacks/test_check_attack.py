"""`check_attack` passes what keeps the laws, and names the law that an attack breaks."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
from attacks.instances import every_attack

from mixtailor.attacks import Attack, Scene
from mixtailor.testing import LawError, check_attack
from mixtailor.updates import Point


@pytest.mark.parametrize("attack", every_attack(), ids=repr)
def test_every_attack_keeps_the_laws(attack: Attack) -> None:
    check_attack(attack, seeds=1)


@dataclass(frozen=True)
class Shift(Attack):
    """The honest mean, moved."""

    size: float = 3.0
    needs: ClassVar[str] = "the honest updates"

    def points(self, scene: Scene) -> Sequence[Point]:
        m = scene.honest.n
        return [scene.honest.combine(np.full(m, (1.0 - self.size) / m))] * scene.f


class TooMany(Shift):
    def points(self, scene: Scene) -> Sequence[Point]:
        return [scene.honest.mean()] * (scene.f + 1)


class OwnRandomness(Shift):
    def points(self, scene: Scene) -> Sequence[Point]:
        return [scene.honest.combine(np.random.default_rng().normal(size=scene.honest.n))] * scene.f


class Remembering(Shift):
    calls: ClassVar[list[int]] = []

    def points(self, scene: Scene) -> Sequence[Point]:
        self.calls.append(1)
        return [scene.honest.row(len(self.calls) % scene.honest.n)] * scene.f


class Writing(Shift):
    def __call__(self, honest: Any, f: int, **more: Any) -> Any:
        made = super().__call__(honest, f, **more)
        if isinstance(honest, list) and isinstance(honest[0], np.ndarray):
            honest[0][:] = 0.0
        return made


class Aliasing(Shift):
    def __call__(self, honest: Any, f: int, **more: Any) -> Any:
        made = super().__call__(honest, f, **more)
        return [made[0]] * f if isinstance(made, list) else made


class Changing(Shift):
    def __call__(self, honest: Any, f: int, **more: Any) -> Any:
        made = super().__call__(honest, f, **more)
        if isinstance(made, np.ndarray):
            return made * 2
        return [{k: 2 * v for k, v in row.items()} if isinstance(row, dict) else 2 * row for row in made]


class Wide(Shift):
    def __call__(self, honest: Any, f: int, **more: Any) -> Any:
        made = super().__call__(honest, f, **more)
        return made.astype(np.float64) if isinstance(made, np.ndarray) else made


class Careless(Shift):
    def _check_f(self, f: int) -> None:
        pass


class Unlike(Shift):
    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]  # as Python has it for a class with an `__eq__` of its own


def test_an_attack_of_ones_own_keeps_the_laws() -> None:
    check_attack(Shift(3.0))


@pytest.mark.parametrize(
    ("attack", "law"),
    [
        (TooMany(), "form"),
        (Wide(), "form"),
        (Writing(), "purity"),
        (Aliasing(), "purity"),
        (Changing(), "points"),
        (OwnRandomness(), "form"),
        (Remembering(), "form"),
        (Unlike(), "copies"),
        (Careless(), "refusals"),
    ],
    ids=lambda item: type(item).__name__ if isinstance(item, Attack) else item,
)
def test_a_broken_law_is_named(attack: Attack, law: str) -> None:
    with pytest.raises(LawError, match=f"breaks the law '{law}'"):
        check_attack(attack)


def test_a_class_in_place_of_an_attack_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Write check_attack\(Shift\(\)\)"):
        check_attack(Shift)  # type: ignore[arg-type]  # the mistake that is tested
