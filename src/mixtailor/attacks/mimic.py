"""Mimic."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.attacks._formulas import flat, length
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.memory import Memory
from mixtailor.updates import Combination, Point, Updates

__all__ = ["Mimic"]


@dataclass(frozen=True)
class Mimic(Attack):
    r"""All Byzantine workers copy one honest worker: the one that deviates most.

    .. math:: b = x_{i^*}, \qquad i^* = \arg\max_i | z^T (x_i - \mu) |

    with z the direction in which the honest updates vary most. Every update is a correct one, so that no rule can
    detect the attack. If the workers' data differ, the data of one worker count f + 1 times.

    Parameters
    ----------
    worker : int, optional
        Always copy this honest worker, instead of the one that deviates most.
    rounds : int
        With a state, z is estimated over this number of rounds, and then the same worker is copied in all later rounds.

    Examples
    --------
    >>> Mimic()(np.array([[1.0, 0.0], [1.1, 0.0], [5.0, 0.0]]), f=1)
    array([[5., 0.]])

    Notes
    -----
    Without a state, z is the first principal direction of this round's updates, in n-space. With one, z is the running
    mean of one step of the power iteration a round, in the manner of Oja, the components along it are added up, and the
    order of the workers must stay the same.

    References
    ----------
    .. [1] Karimireddy, He, Jaggi, "Byzantine-Robust Learning on Heterogeneous Datasets via Bucketing", ICLR 2022.
    """

    worker: int | None = field(default=None, kw_only=True)
    rounds: int = field(default=50, kw_only=True)

    needs: ClassVar[str] = "the honest updates"

    def __post_init__(self) -> None:
        if self.worker is not None:
            check_count("Mimic", "worker", self.worker, 0)
        check_count("Mimic", "rounds", self.rounds)

    def begin(self) -> Any:
        return Memory()

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, memory = scene.honest, scene.state
        if self.worker is not None:
            if self.worker >= honest.n:
                refuse(f"{self!r} needs an honest row of that place and got {honest.n} honest rows.")
            chosen = self.worker
        elif memory is None:
            chosen = int(np.argmax(np.abs(_principal(honest))))
        else:
            chosen = self._learnt(honest, memory)
        return [honest.row(chosen, worker=chosen)] * scene.f

    def _learnt(self, honest: Updates, memory: Memory) -> int:
        notes = memory.notes
        if memory.round >= self.rounds:
            return int(notes["worker"])
        centred = np.eye(honest.n) - 1.0 / honest.n
        old: np.ndarray[Any, Any] = _principal(honest)
        if "direction" in notes:
            old = centred @ honest.dots(honest.given(notes["direction"]))
        pushed = _unit(honest.combine(centred @ old))
        if "direction" in notes:
            share = memory.round / (memory.round + 1.0)
            frame = honest.beside(honest.given(notes["direction"]))
            pushed = frame.combine(np.append((1.0 - share) * pushed.weights, share))
        notes["direction"] = flat(honest, pushed)
        scores = centred @ honest.dots(honest.given(notes["direction"]))
        notes["scores"] = scores + notes.get("scores", 0.0)
        notes["worker"] = int(np.argmax(np.abs(notes["scores"])))
        memory.round += 1
        return int(notes["worker"])


def _unit(point: Combination) -> Combination:
    size = length(point)
    return point.updates.combine(point.weights / size) if size > 0.0 else point


def _principal(honest: Updates) -> "np.ndarray[Any, np.dtype[np.float64]]":
    """The rows' components along the direction in which they vary most."""
    values, vectors = np.linalg.eigh(honest.products(honest.mean()))
    components: np.ndarray[Any, np.dtype[np.float64]] = vectors[:, -1] * np.sqrt(max(float(values[-1]), 0.0))
    return components
