"""The arrays of an `.npz` file that a run left, read strictly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mixtailor.storage.files.formats import contents
from mixtailor.storage.files.opened import CompressedArray, FileArray

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["read_arrays"]


def read_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The arrays by name. A header that claims more than the file holds is refused before memory is taken, and so is a
    compressed array, which could claim anything: runs write none.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "two.npz")
    ...     np.savez(path, one=np.arange(3), other=np.ones((1, 2)))
    ...     read_arrays(path)
    {'one': array([0, 1, 2]), 'other': array([[1., 1.]])}
    """
    parts = {str(name[0]): part for name, part in contents(path).items()}
    packed = [name for name, part in parts.items() if isinstance(part, CompressedArray)]
    if packed:
        raise ValueError(f"{packed[0][:80]!r} is compressed, which arrays of a run never are")
    return {name: _whole(part) for name, part in parts.items()}


def _whole(part: FileArray) -> np.ndarray[Any, Any]:
    if not part.size:
        return np.empty(part.kind.shape, part.dtype)
    return part.run(0, part.size).reshape(part.kind.shape, order="F" if part.kind.by_columns else "C").copy()
