"""Rows under attack, and a call whose randomness a test knows."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mixtailor.storage import Matrix
from mixtailor.updates import Call, Updates

FAR = (1e4, 1e8, 1e12, 1e20, 1e38)  # spreads of the honest rows; the last one is the end of float32


def attacked(
    far: float, *, n: int = 11, outliers: int = 1, d: int = 40, seed: int = 0, dtype: Any = np.float32
) -> NDArray[Any]:
    """Honest rows of spread 1 about 1, and, at places among them, outliers that many spreads away in one direction."""
    random = np.random.default_rng(seed)
    rows = 1 + random.normal(size=(n, d)) / np.sqrt(d)
    direction = random.normal(size=d)
    rows[1 : 2 * outliers : 2] = far * direction / np.linalg.norm(direction)
    converted: NDArray[Any] = rows.astype(dtype)
    return converted


def seen(rows: NDArray[Any], seed: int = 0) -> Updates:
    """The rows, as a rule sees them, with the randomness of `default_rng(seed)`."""
    return Updates.of(Matrix.of(rows), Call(np.random.default_rng(seed)))
