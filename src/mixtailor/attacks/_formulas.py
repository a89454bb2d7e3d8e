"""Points that several attacks are made of: signs, noise, constants, one coordinate; and lengths in n-space."""

import math
from typing import Any, Literal

import numpy as np

from mixtailor._types import Floats
from mixtailor.updates import Combination, Formula, Point, Updates
from mixtailor.updates.reader import values

__all__ = ["constant", "flat", "length", "mean_direction", "noise", "one_hot", "random_signs", "sign", "spread"]

CHUNK = 1 << 12
Kind = Literal["normal", "uniform"]


def sign(updates: Updates, point: Point) -> Formula:
    """-1, 0 or 1 in each coordinate."""
    # 0 * v carries the type: a tensor of truth values would become float32.
    return updates.formula(lambda _start, _stop, v: (v > 0) * 1.0 - (v < 0) * 1.0 + 0.0 * v, point)


def constant(updates: Updates, value: float) -> Formula:
    """The same number in each coordinate."""
    return updates.formula(lambda start, stop: updates.space.zeros(stop - start) + value)


def one_hot(updates: Updates, coordinate: int) -> Formula:
    """1 in one coordinate, 0 elsewhere."""

    def function(start: int, stop: int) -> Any:
        values = updates.space.zeros(stop - start)
        if start <= coordinate < stop:
            values[coordinate - start] = 1.0
        return values

    return updates.formula(function)


def noise(updates: Updates, seed: int, kind: Kind = "normal") -> Formula:
    """Independent numbers, standard normal or uniform in [0, 1), that depend on the seed and the coordinate alone.

    They are made again for every pass: nothing of size d is kept.
    """
    return updates.formula(lambda start, stop: updates.space.vector(_numbers(seed, kind, start, stop)))


def random_signs(updates: Updates, seed: int) -> Formula:
    """-1 or 1 in each coordinate, equally likely."""
    return updates.formula(
        lambda start, stop: updates.space.vector(np.where(_numbers(seed, "uniform", start, stop) < 0.5, -1.0, 1.0))
    )


def _numbers(seed: int, kind: Kind, start: int, stop: int) -> Floats:
    first, last = start // CHUNK, -(-stop // CHUNK)
    parts = []
    for chunk in range(first, max(last, first + 1)):
        # The counter's highest word is the chunk: streams that never meet.
        generator = np.random.Generator(np.random.Philox(key=seed, counter=[0, 0, 0, chunk]))
        parts.append(generator.standard_normal(CHUNK) if kind == "normal" else generator.random(CHUNK))
    return np.concatenate(parts)[start - first * CHUNK : stop - first * CHUNK]


def flat(updates: Updates, point: Point) -> Any:
    """All coordinates of a point in float64, in the array type of the updates, for an attacker's memory."""
    vector = updates.space.zeros(updates.d)

    def fill(start: int, stop: int) -> float:
        vector[start:stop] = values(point, start, stop)
        return 0.0

    updates.reader.collect(fill, updates.source.runs())
    return vector


def length(point: Point) -> float:
    """The Euclidean length of a point."""
    return math.sqrt(max(float(point.updates.inner(point)[0, 0]), 0.0))


def spread(honest: Updates) -> float:
    """The median distance between two of the rows; where they are all equal, the length of their mean."""
    between = honest.distances(2.0)[np.triu_indices(honest.n, 1)]
    middle = float(np.median(between)) if len(between) else 0.0
    return middle if middle > 0.0 else length(honest.mean())


def mean_direction(honest: Updates) -> Combination:
    """The mean of the rows, of length one; zero where it is zero."""
    size = length(honest.mean())
    return honest.combine(np.full(honest.n, 1.0 / (honest.n * size) if size > 0.0 else 0.0))
