"""`receive`: recognise what arrived, whatever its type, and check its structure."""

from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from mixtailor._checks import refuse
from mixtailor.intake.arrays import in_memory, is_array, read
from mixtailor.intake.arrival import Arrival
from mixtailor.intake.files import receive_files
from mixtailor.intake.trees import leaves_of, of_leaves, of_matrix
from mixtailor.kernels.space import addresses_of
from mixtailor.storage.converted import ArraySource, Converted
from mixtailor.storage.kinds import Unfit
from mixtailor.storage.layers import Matrix, fits
from mixtailor.storage.rows import Rows

__all__ = ["receive"]


def receive(updates: Any) -> Arrival:
    """Recognise updates and check their structure; nothing is read yet.

    Parameters
    ----------
    updates : array, tensor, sequence or Arrival
        An (n, ...) array or tensor, or a sequence of n arrays, state dicts, lists of layers, or paths of files.
    """
    if isinstance(updates, Arrival):
        return updates
    if is_array(updates):
        return _receive_matrix(updates)
    if isinstance(updates, (str, bytes, PathLike)):
        refuse(f"Updates need one item for each worker and got a single path or string, {updates!r}. Give a list.")
    if isinstance(updates, Mapping):
        refuse(
            "Updates need one item for each worker and got a single mapping. Give a list of n state dicts, and the "
            "workers' names as workers=."
        )
    if not isinstance(updates, Sequence) and isinstance(updates, Iterable):
        updates = list(updates)
    if not isinstance(updates, Sequence):
        raise TypeError(
            "Updates need an (n, d) array or tensor, or a list of n arrays, state dicts, layer lists or file paths, "
            f"and got {type(updates).__name__}."
        )
    if not len(updates):
        refuse("Updates need at least one row and got none.")
    if 2 * sum([isinstance(item, (str, PathLike)) for item in updates]) > len(updates):
        return receive_files(updates)
    if isinstance(updates[0], (int, float, complex)) and all(isinstance(k, (int, float, complex)) for k in updates):
        refuse("Updates need n rows of d coordinates and got a flat list of numbers. Give a list of n lists or arrays.")
    leaves, faults = leaves_of(updates)
    for path in leaves.paths:
        if leaves.kinds[path].elsewhere:
            from mixtailor.intake.device import layers_on_device  # loads torch

            return of_leaves(updates, leaves, faults, layers_on_device(leaves))
    return of_leaves(updates, leaves, faults, leaves.storage())


def _receive_matrix(updates: Any) -> Arrival:
    """An (n, ...) array of any library: its rows, in place."""
    try:
        kind, raw = read(updates)
    except Unfit as error:
        raise TypeError(f"Updates need an (n, d) array of real numbers, and this one is {error}.") from None
    if len(kind.shape) < 2:
        refuse(f"Updates need n rows of d coordinates, an (n, d) array, and got shape {kind.shape}.")
    n, row = kind.shape[0], kind.row
    if not n:
        refuse(f"Updates need at least one row and got none (shape {kind.shape}).")
    if kind.elsewhere:
        from mixtailor.intake.device import matrix_on_device  # loads torch

        return of_matrix(updates, row, matrix_on_device(raw, row))
    array = in_memory(raw) if kind.library == "torch" else raw
    storage: Rows
    if array.dtype == row.dtype and fits(array[0]) and array.flags.aligned:
        matrix = array.reshape(n, row.size)
        storage = Matrix(matrix, addresses_of(matrix))
    else:
        storage = Converted([ArraySource(one) for one in array], row.dtype)
    return of_matrix(updates, row, storage)
