"""An attack whose updates differ from each other."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from mixtailor._checks import check_positive
from mixtailor.attacks._wrapped import Wrapping, check_inner
from mixtailor.attacks.base import Scene
from mixtailor.updates import Point

__all__ = ["Apart"]


@dataclass(frozen=True)
class Apart(Wrapping):
    r"""Another attack, with noise that makes its updates differ as honest ones do.

    .. math:: b_i = a_i + \sqrt{\frac{s}{h}} \sum_{j=1}^h z_{ij} (x_j - \mu), \qquad z_{ij} \sim N(0, 1)

    with the inner attack's updates a and the h honest updates x. In most attacks all Byzantine workers send the same
    update, and a server that compares updates can detect the copies (`SimilarityFilter`, `Memory`). Here two of them
    are about :math:`\sqrt{2 s}` honest deviations apart. The noise is a random combination of honest deviations, so
    that it lies where honest updates differ, and most of it cancels in a mean.

    Parameters
    ----------
    attack : Attack
        The attack to which the noise is added.
    share : float
        s, the variance of the noise as a share of the honest variance.

    Examples
    --------
    >>> from mixtailor.attacks import ALIE
    >>> honest = np.array([[1.0, 5.0], [3.0, 5.0], [2.0, 5.0]])
    >>> sent = Apart(ALIE(z=1.0))(honest, f=2, rng=0)
    >>> bool(sent[0, 0] != sent[1, 0]), sent[:, 1].tolist()
    (True, [5.0, 5.0])
    """

    share: float = field(default=0.35, kw_only=True)

    needs: ClassVar[str] = "the honest updates, and what the inner attack needs"

    def __post_init__(self) -> None:
        check_inner("Apart", "attack", self.attack)
        check_positive("Apart", "share", self.share)

    def points(self, scene: Scene) -> Sequence[Point]:
        honest, memory = scene.honest, scene.state
        drawn = scene.random.normal(size=(scene.f, honest.n)) * math.sqrt(self.share / honest.n)
        sent = self.attack.points(dataclasses.replace(scene, state=memory.notes["attack"]))
        frame = honest.beside(*sent)
        # The mean of the weights is taken off: they are on deviations from the mean.
        noise = drawn - drawn.mean(axis=1, keepdims=True)
        weights = np.concatenate([noise, np.eye(scene.f)], axis=1)
        return [frame.combine(row, **point.facts) for row, point in zip(weights, sent, strict=True)]
