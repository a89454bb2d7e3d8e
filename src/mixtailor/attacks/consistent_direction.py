"""One direction, pushed round after round."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import check_count, check_fraction, check_positive
from mixtailor.attacks._formulas import flat, length, random_signs, sign
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.memory import Memory
from mixtailor.updates import Point, Updates

__all__ = ["ConsistentDirection"]

# The 0.99 quantile of the standard normal: as far above half of the coordinates as chance goes in one run of 100.
_QUANTILE = 2.3263478740408408


@dataclass(frozen=True)
class ConsistentDirection(Attack):
    r"""A fixed random sign for each coordinate, with magnitudes from the last step of the server.

    .. math:: b = c \, \lVert a \rVert \, \frac{|r|}{\lVert r \rVert} \odot s, \qquad
              r = a - \frac{\lVert a \rVert}{\lVert b' \rVert} b'

    with the server's last result a, the last update b', and signs :math:`s \in \{-1, 1\}^d`. All f updates are equal.
    Attacks in another direction each round cancel out over the rounds; this one adds up. Every `period` rounds it
    compares the signs of the sum of the results with s. If no more of them agree than by chance, it reduces c, since a
    defence seems to remove the updates.

    Parameters
    ----------
    factor : float
        The first c, above 0.
    shrink : float
        The factor of c when the results do not follow s.
    least : float
        The smallest c.
    period : int
        Rounds between two comparisons.

    Examples
    --------
    >>> attack = ConsistentDirection()
    >>> state = attack.begin()
    >>> honest = np.random.default_rng(0).normal(size=(5, 8))
    >>> first = attack(honest, f=1, state=state, rng=1)
    >>> state.observe(honest.mean(axis=0))
    >>> second = attack(honest + 1.0, f=1, state=state, rng=2)
    >>> bool((np.sign(first) == np.sign(second)).all())
    True

    Notes
    -----
    This is PoisonedFL, whose attackers see nothing but the server's results. In the first round there is no result, and
    the honest mean is used. Pass each result to the state: ``state.observe(result)``. The state keeps two vectors of d
    numbers; the signs are computed from a key.

    References
    ----------
    .. [1] Xie, Fang, Gong, "Model Poisoning Attacks to Federated Learning via Multi-Round Consistency", CVPR 2025.
    """

    factor: float = field(default=8.0, kw_only=True)
    shrink: float = field(default=0.7, kw_only=True)
    least: float = field(default=0.5, kw_only=True)
    period: int = field(default=50, kw_only=True)

    needs: ClassVar[str] = "the server's results"
    remembers: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_positive("ConsistentDirection", "factor", self.factor)
        check_fraction("ConsistentDirection", "shrink", self.shrink)
        check_positive("ConsistentDirection", "least", self.least)
        check_count("ConsistentDirection", "period", self.period)

    def begin(self) -> Any:
        return Memory(notes={"factor": self.factor})

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, memory = scene.honest, scene.state
        notes = memory.notes
        if "seed" not in notes:
            notes["seed"] = int(scene.random.integers(1 << 63))
        signs = random_signs(honest, notes["seed"])
        result: Point = honest.mean()
        if memory.previous is not None:
            result = honest.given(scene.flat(memory.previous))
            self._look(honest, memory, result, signs)
        size = length(result)
        rest: Point = result
        if "row" in notes and notes["row_length"] > 0.0:
            frame = honest.beside(result, honest.given(notes["row"]))
            rest = frame.combine(np.append(np.zeros(honest.n), [1.0, -size / notes["row_length"]]))
        left = length(rest)
        times = notes["factor"] * size / left if left > 0.0 else 0.0
        row = honest.formula(lambda _a, _b, r, s: abs(r) * s * times, rest, signs, factor=notes["factor"])
        notes["row"], notes["row_length"] = flat(honest, row), abs(times) * left
        memory.round += 1
        return [row] * scene.f

    def _look(self, honest: Updates, memory: Memory, result: Point, signs: Point) -> None:
        """Add up the results, and every so often compare their signs with those that were pushed."""
        notes = memory.notes
        seen = flat(honest, result)
        notes["sum"] = seen if "sum" not in notes else notes["sum"] + seen
        notes["seen"] = notes.get("seen", 0) + 1
        if notes["seen"] < self.period:
            return
        balance = float(honest.inner(sign(honest, honest.given(notes["sum"])), signs)[0, 1])
        if balance < _QUANTILE * math.sqrt(honest.d):
            notes["factor"] = max(self.least, notes["factor"] * self.shrink)
        del notes["sum"], notes["seen"]
