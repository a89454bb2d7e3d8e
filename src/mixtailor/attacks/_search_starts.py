"""Simple attacks as the starts of a search."""

import dataclasses
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from mixtailor._checks import listing, refuse
from mixtailor._types import Floats
from mixtailor.attacks._formulas import flat
from mixtailor.attacks._frame import Frame, frame_of
from mixtailor.attacks.alie import ALIE
from mixtailor.attacks.base import Attack, Scene
from mixtailor.attacks.decoy import Decoy
from mixtailor.attacks.mimic import Mimic
from mixtailor.attacks.min_max import MinMax
from mixtailor.attacks.tailored import Tailored
from mixtailor.attacks.twin_outliers import TwinOutliers
from mixtailor.attacks.zero import Zero
from mixtailor.updates import Combination, Point

__all__ = ["SIMPLE", "Start", "moved", "started"]

SIMPLE: tuple[Attack, ...] = (
    *(Tailored(epsilon) for epsilon in (0.1, 0.5, 1.0, 10.0)),
    *(ALIE(z) for z in (0.5, 1.5)),
    Zero(),
    MinMax(),
    Mimic(),
    TwinOutliers(distance=1e3),
    Decoy(distance=1e3),
)


@dataclass(frozen=True, eq=False)
class Start:
    """The rows of a simple attack, as weights in a frame."""

    name: str
    rows: Floats


def started(
    scene: Scene, attacks: Sequence[Attack], count: int, reference: Point | None = None
) -> tuple[Frame, list[Start], Combination | None]:
    """A frame that holds the rows of all the attacks and a reference, those rows, and the reference in the frame.

    Attacks that need more Byzantine updates than there are, are left out.
    """
    rows: list[tuple[str, Sequence[Point]]] = []
    for attack in attacks:
        if scene.f < attack.least_f():
            continue
        own = dataclasses.replace(scene, state=attack.begin())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that a formula gives no attack is no matter to a search
            rows.append((repr(attack), attack.points(own)))
    if not rows:
        refuse(f"None of {listing(attacks)} can start a search with f = {scene.f}. Give other starts.")
    wanted = [point for _, points in rows for point in points]
    wanted += [] if reference is None else [reference]
    extra = list(dict.fromkeys(point for point in wanted if not _inside(point, scene)))
    # Computed once: a search asks for them in every pass of every candidate.
    frame = frame_of(scene, count, [scene.honest.given(flat(scene.honest, point)) for point in extra])
    first = frame.updates.n - len(extra)
    place = {id(point): first + k for k, point in enumerate(extra)}
    eye = np.eye(frame.updates.n)

    def weights(point: Point) -> Floats:
        return eye[place[id(point)]] if id(point) in place else frame.weights_of(point)

    starts = [Start(name, np.stack([weights(point) for point in points])) for name, points in rows]
    return frame, starts, None if reference is None else frame.updates.combine(weights(reference))


def _inside(point: Point, scene: Scene) -> bool:
    return isinstance(point, Combination) and point.updates is scene.honest


def moved(frame: Frame, base: Floats, member: "np.ndarray[tuple[int], np.dtype[np.intp]]", theta: Floats) -> Floats:
    """The rows of a start, each group stretched about the honest mean and moved in the frame's directions."""
    steps = theta.reshape(-1, len(frame.directions) + 1)[member]
    stretch = np.exp(np.clip(steps[:, :1], -20.0, 20.0))
    rows: Floats = frame.centre + stretch * (base - frame.centre) + frame.unit * steps[:, 1:] @ frame.directions
    return rows
