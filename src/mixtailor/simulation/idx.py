"""The idx format, in which MNIST was published."""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING

import numpy as np

from mixtailor.simulation.files import Content, DataError

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

__all__ = ["read_idx", "read_idx_with_digest"]

UNSIGNED_BYTES = 8  # the only element type that MNIST and its relatives use


def read_idx(path: str | os.PathLike[str]) -> npt.NDArray[np.uint8]:
    """An array of bytes from an idx file, gzipped or not.

    The format: two zero bytes, one byte for the element type (8 means unsigned bytes), one for the number of
    dimensions, each dimension as four bytes with the highest first, and the elements. The file must have exactly the
    size that its header says, which is checked before memory is taken.

    Parameters
    ----------
    path : path
        The file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "small-idx2-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6]))
    ...     read_idx(path)
    array([[1, 2, 3],
           [4, 5, 6]], dtype=uint8)

    References
    ----------
    .. [1] LeCun, Cortes, Burges, "The MNIST database of handwritten digits", 1998.
    """
    return read_idx_with_digest(path)[0]


def read_idx_with_digest(path: str | os.PathLike[str]) -> tuple[npt.NDArray[np.uint8], str]:
    """The array and the SHA-256 of the whole (uncompressed) content."""
    with Content(path) as content:
        zeros, kind, dimensions = struct.unpack(">HBB", content.take(4))
        if zeros:
            raise DataError(f"{content.path} is not an idx file: it should begin with two zero bytes.")
        if kind != UNSIGNED_BYTES:
            raise DataError(
                f"{content.path} holds elements of type {kind}; only unsigned bytes, type {UNSIGNED_BYTES}, are read."
            )
        shape = struct.unpack(f">{dimensions}I", content.take(4 * dimensions))
        elements = content.take(math.prod(shape))
        digest = content.finish()
    try:
        return np.frombuffer(elements, np.uint8).reshape(shape), digest
    except ValueError as error:  # an empty array whose other dimensions numpy cannot count
        raise DataError(f"{content.path} has a header with impossible dimensions {shape}.") from error
