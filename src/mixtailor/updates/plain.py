"""Plain callables from an (n, d) matrix to a d-vector."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mixtailor._checks import refuse
from mixtailor.intake.arrays import is_torch
from mixtailor.updates.points import Given
from mixtailor.updates.updates import Updates

__all__ = ["from_callable"]


def from_callable(updates: Updates, function: Callable[[Any], Any], name: str) -> Given:
    """The result of a callable on the matrix of all updates, checked. The matrix takes the memory of all updates."""
    storage, group = updates.reader.storage, updates.reader.group
    if not storage.in_memory:
        refuse(
            f"{name} needs all updates as one matrix in memory, and these are files. Use a rule of this package, or "
            "load the files yourself."
        )
    updates.reader.examine()
    matrix = updates.matrix()
    if updates.reader.arrival.tensors and not is_torch(matrix):
        import torch  # there already, since the updates are its tensors

        matrix = torch.from_numpy(matrix)
    vector = _checked(function(matrix), updates.d, name)
    if is_torch(vector) and vector.device.type == "cpu":
        vector = vector.double().numpy()
    if group.count > 1:
        start, stop = storage.span
        vector = group.agreed(np.asarray(vector.cpu() if is_torch(vector) else vector))[start:stop]
    return updates.given(updates.space.vector(vector))


def _checked(result: Any, d: int, name: str) -> Any:
    if is_torch(result):
        vector, real, finite = result.detach(), not result.is_complex(), bool(result.isfinite().all())
    else:
        vector = np.asarray(result)
        real = vector.dtype.kind in "fiub"
        finite = real and bool(np.isfinite(vector).all())
    if not real:
        raise TypeError(f"{name} needs to return real numbers and returned an array of {vector.dtype}.")
    if tuple(vector.shape) != (d,):
        refuse(f"{name} needs to return a vector of {d} coordinates and returned shape {tuple(vector.shape)}.")
    if not finite:
        refuse(f"{name} returned an update that is not finite, from finite rows.")
    return vector
