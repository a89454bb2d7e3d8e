"""One update of a worker as an `Inbox` keeps it: on disk, or as the running mean of what the worker sent."""

import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from mixtailor._checks import refuse
from mixtailor._files import atomic_write

__all__ = ["opened", "running_mean", "write"]

Array = np.ndarray[Any, np.dtype[Any]]


def write(path: Path, update: Any) -> None:
    """Write an array to a ``.npy`` file, or arrays by name to a ``.npz`` file."""
    named = isinstance(update, Mapping)
    arrays = {str(key): _plain(item) for key, item in (update if named else {"": update}).items()}
    with atomic_write(path, mode=0o600) as file:
        if named:
            _save_named(file, arrays)
        else:
            np.save(file, arrays[""], allow_pickle=False)


def opened(kept: Any) -> Any:
    """An update as it was put, from memory or from its file."""
    if not isinstance(kept, Path):
        return kept
    if kept.suffix == ".npy":
        return np.load(kept, allow_pickle=False)
    with np.load(kept, allow_pickle=False) as found:
        return {name: found[name] for name in found.files}


def running_mean(before: Any, update: Any, momentum: float) -> Any:
    """The next running mean of a worker's updates, or the update where there is none: other forms, or not finite.

    Integer leaves are those of the update.
    """
    mixed = _mixed(before, update, momentum)
    return update if mixed is None else mixed


def _mixed(before: Any, update: Any, momentum: float) -> Any:
    if isinstance(update, Mapping):
        if not isinstance(before, Mapping) or set(before) != set(update):
            return None
        leaves = {name: _mixed(before[name], item, momentum) for name, item in update.items()}
        return None if any(leaf is None for leaf in leaves.values()) else leaves
    if isinstance(update, list | tuple):
        if type(before) is not type(update) or len(before) != len(update):
            return None
        items = [_mixed(old, new, momentum) for old, new in zip(before, update, strict=True)]
        return None if any(item is None for item in items) else type(update)(items)
    if isinstance(before, np.ndarray) and hasattr(update, "detach"):  # a tensor that was kept on disk
        update = _plain(update)
    if getattr(before, "shape", None) != getattr(update, "shape", ()) or type(before) is not type(update):
        return None
    if not (update.is_floating_point() if hasattr(update, "is_floating_point") else update.dtype.kind == "f"):
        return update
    with np.errstate(over="ignore", invalid="ignore"):
        mixed = momentum * before + (1.0 - momentum) * update
        return mixed if bool((mixed - mixed == 0.0).all()) else None


def _save_named(file: BinaryIO, arrays: Mapping[str, Array]) -> None:
    """As `numpy.savez`, for arrays of any name: that of numpy takes "file" for its own argument."""
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED, allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)


def _plain(update: Any) -> Array:
    array = np.asarray(update.detach().cpu() if hasattr(update, "detach") else update)
    if array.dtype.kind not in "fiub":
        refuse(f"An inbox on disk needs updates as arrays of numbers, or such arrays by name, and got {array.dtype}.")
    return array
