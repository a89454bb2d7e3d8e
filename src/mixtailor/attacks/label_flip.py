"""Label flipping: data poisoning."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from mixtailor._checks import check_count, refuse
from mixtailor.attacks.base import Attack, Scene
from mixtailor.updates import Point

__all__ = ["LabelFlip"]


@dataclass(frozen=True)
class LabelFlip(Attack):
    r"""Byzantine workers train honestly, on wrong labels.

    .. math:: y' = C - 1 - y

    The attack changes the data: the training program passes the Byzantine workers' labels through `labels`. The updates
    that these workers then compute are sent unchanged.

    Parameters
    ----------
    classes : int
        C, the number of classes.

    Examples
    --------
    >>> LabelFlip(classes=10).labels(np.array([0, 3, 9]))
    array([9, 6, 0])

    Notes
    -----
    The weakest attack of this list, and the only one that needs no access to the updates. `own` must be the updates
    computed on flipped labels.

    References
    ----------
    .. [1] Allen-Zhu, Ebrahimianghazani, Li, Alistarh, "Byzantine-Resilient Non-Convex Stochastic Gradient Descent",
       ICLR 2021.
    """

    classes: int = field(default=10, kw_only=True)

    needs: ClassVar[str] = "its own data"
    alone: ClassVar[bool] = True
    on_labels: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_count("LabelFlip", "classes", self.classes, 2)

    def labels(self, labels: Any) -> Any:
        """The flipped labels, in the array type that they came in."""
        return self.classes - 1 - labels

    def points(self, scene: Scene) -> Sequence[Point]:
        if scene.own is None:
            refuse("LabelFlip needs own=, the rows that the Byzantine workers computed on flipped labels.")
        return [scene.own.row(i) for i in range(scene.f)]
