"""What came in, whatever its type: found a home, checked for shape, and how to give the answer back alike."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from mixtailor._checks import refuse
from mixtailor.updates import tree
from mixtailor.updates.arrays import Unfit, in_memory, is_array, is_torch, read
from mixtailor.updates.base import Call
from mixtailor.updates.copied import Copied, Held
from mixtailor.updates.dense import Dense, fits
from mixtailor.updates.home import Home

__all__ = ["Arrival", "receive"]


@dataclass
class Arrival:
    """Received updates.

    Attributes
    ----------
    home : Home
        The rows whose structure is sound.
    faults : dict
        Rows as received that are not of the shape that most have, and what is wrong with each.
    n : int
        How many rows were received.
    restore : callable
        A flat answer, and the home it was computed in, to what one worker would have sent.
    flatten : callable
        An update from outside (a reference) to a flat vector in the home's array type.
    """

    home: Home
    faults: dict[int, str]
    n: int
    restore: Callable[[Any, Home], Any]
    flatten: Callable[[Any], Any]


def receive(updates: Any) -> Arrival:
    """Give updates a home.

    Parameters
    ----------
    updates : array, tensor, or sequence
        An (n, ...) array or tensor, or a sequence of n arrays, state dicts, lists of layers, or paths of files.
    """
    if isinstance(updates, Home):
        known = getattr(updates, "arrival", None)
        return known or Arrival(updates, {}, updates.n, lambda answer, _home: answer, lambda vector: vector)
    if is_array(updates):
        return _matrix(updates)
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
    if 2 * sum(isinstance(item, (str, PathLike)) for item in updates) > len(updates):
        from mixtailor.updates import stored

        return stored.receive(updates)
    if all(isinstance(item, (int, float, complex)) for item in updates):
        refuse("Updates need n rows of d coordinates and got a flat list of numbers. Give a list of n lists or arrays.")
    return tree.receive(updates)


def _matrix(updates: Any) -> Arrival:
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
    if is_torch(raw) and raw.device.type != "cpu":
        from mixtailor.updates import device

        return device.matrix_arrival(raw, row)
    array = in_memory(raw)
    home: Home
    if array.dtype == row.dtype and fits(array[0]) and array.flags.aligned:
        home = Dense.of(array.reshape(n, row.size))
    else:
        home = Copied([Held(one, kind.bits) for one in array], row.dtype, row.bits, Call(), range(n))
    return Arrival(home, {}, n, lambda answer, _home: row.back(answer), row.flatten)
