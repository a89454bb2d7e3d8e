"""Entries that are no numbers, or beyond all measure."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from mixtailor._checks import refuse
from mixtailor.attacks.base import Attack, Scene
from mixtailor.updates import Point

__all__ = ["NonFinite"]


@dataclass(frozen=True)
class NonFinite(Attack):
    r"""NaN, infinity, or the largest number that the updates' type holds.

    .. math:: b_{ij} \in \{ \mathrm{NaN}, \infty, -\infty, \text{largest} \}

    Parameters
    ----------
    value : {"nan", "inf", "-inf", "huge"}
        The value to send. "huge" is finite, so that it is not quarantined.
    everywhere : bool
        In all coordinates, or in the first alone, the others being those of the correct update.

    Examples
    --------
    >>> NonFinite("inf", everywhere=False)(np.array([[1.0, 2.0], [3.0, 4.0]]), f=1)
    array([[inf,  3.]])

    Notes
    -----
    One NaN makes an average NaN and the order of a sort undefined: several published rules return NaN, or the Byzantine
    update. In layers of several types, "huge" is the largest number of the narrowest.
    """

    value: Literal["nan", "inf", "-inf", "huge"] = "nan"
    everywhere: bool = field(default=True, kw_only=True)

    needs: ClassVar[str] = "nothing, or its own update"
    alone: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.value not in ("nan", "inf", "-inf", "huge"):
            refuse(f"NonFinite needs value='nan', 'inf', '-inf' or 'huge' and got {self.value!r}.")

    def points(self, scene: Scene) -> Sequence[Point]:
        honest = scene.honest
        entry = honest.largest if self.value == "huge" else float(self.value)

        def spoilt(start: int, _stop: int, row: Any) -> Any:
            values = 0.0 + row  # a copy: what is written to must be nobody's
            if self.everywhere:
                values[:] = entry
            elif start == 0 and len(values):
                values[0] = entry
            return values

        return [honest.formula(spoilt, scene.own_row(i)) for i in range(scene.f)]
