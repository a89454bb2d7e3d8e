"""Learning-rate schedules: what the learning rate is multiplied by in each round."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["RATES", "Constant", "Cosine", "Inverse", "Rate", "Steps"]


class Rate(ABC):
    """A factor for every round, a function of the round's number and of how many there are, and of nothing else."""

    @abstractmethod
    def __call__(self, round: int, rounds: int) -> float:
        """The factor in a round, which is 0 to ``rounds - 1``."""


@dataclass(frozen=True)
class Constant(Rate):
    """The same rate throughout.

    Examples
    --------
    >>> Constant()(7, 10)
    1.0
    """

    def __call__(self, round: int, rounds: int) -> float:
        return 1.0


@dataclass(frozen=True)
class Steps(Rate):
    """Multiplied by `factor` at each of the given shares of the run.

    Examples
    --------
    >>> [Steps((0.5, 0.75))(round, 100) for round in (0, 50, 80)]
    [1.0, 0.1, 0.010000000000000002]
    """

    at: tuple[float, ...] = (0.5, 0.75)
    factor: float = 0.1

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", tuple(self.at))
        if not all(0 < share < 1 for share in self.at) or not self.factor > 0:
            raise ValueError(
                f"A stepped rate needs shares of the run between 0 and 1 and a factor above 0; got {self.at} and "
                f"{self.factor}."
            )

    def __call__(self, round: int, rounds: int) -> float:
        return float(self.factor ** sum(round >= share * rounds for share in self.at))


@dataclass(frozen=True)
class Cosine(Rate):
    r"""Half a cosine from 1 down to `floor`.

    .. math:: c + (1 - c) \frac{1 + \cos(\pi t / T)}{2}

    Examples
    --------
    >>> [round(Cosine()(t, 100), 3) for t in (0, 50, 100)]
    [1.0, 0.5, 0.0]

    References
    ----------
    .. [1] Loshchilov, Hutter, "SGDR: Stochastic Gradient Descent with Warm Restarts", ICLR 2017.
    """

    floor: float = 0.0

    def __post_init__(self) -> None:
        if not 0 <= self.floor <= 1:
            raise ValueError(f"A cosine rate needs 0 <= floor <= 1 and got {self.floor}.")

    def __call__(self, round: int, rounds: int) -> float:
        return self.floor + (1 - self.floor) * (1 + math.cos(math.pi * round / rounds)) / 2


@dataclass(frozen=True)
class Inverse(Rate):
    r"""One over a growing number: the sum diverges and that of the squares does not, as convergence proofs ask.

    .. math:: \frac{1}{1 + t / h}

    Examples
    --------
    >>> Inverse(half=100)(100, 1_000)
    0.5
    """

    half: float = 1_000.0

    def __post_init__(self) -> None:
        if not self.half > 0:
            raise ValueError(f"An inverse rate needs half > 0, the round at which it is one half, and got {self.half}.")

    def __call__(self, round: int, rounds: int) -> float:
        return 1.0 / (1.0 + round / self.half)


RATES: Mapping[str, type[Rate]] = {"constant": Constant, "steps": Steps, "cosine": Cosine, "inverse": Inverse}
