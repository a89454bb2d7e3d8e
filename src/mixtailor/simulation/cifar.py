"""The binary version of CIFAR-10."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mixtailor.simulation.files import Content, DataError

if TYPE_CHECKING:
    import os

    import numpy.typing as npt

__all__ = ["read_cifar", "read_cifar_with_digest"]

CLASSES = 10
SHAPE = (3, 32, 32)
RECORD = 1 + 3 * 32 * 32


def read_cifar(
    path: str | os.PathLike[str], *, records: int = 10_000
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    """Images ``(records, 3, 32, 32)`` and labels ``(records,)`` from one file of CIFAR-10's binary version.

    A record is 1 label byte and 3,072 pixel bytes, channel by channel, row by row. Only this version is read: the one
    for Python is a pickle, which can run code when it is opened.

    Parameters
    ----------
    path : path
        The file, gzipped or not.
    records : int
        How many records it must have; the published files have 10,000.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "two.bin")
    ...     _ = path.write_bytes(bytes([7] + [1] * 3072 + [9] + [2] * 3072))
    ...     images, labels = read_cifar(path, records=2)
    >>> images.shape, labels
    ((2, 3, 32, 32), array([7, 9], dtype=uint8))

    References
    ----------
    .. [1] Krizhevsky, "Learning Multiple Layers of Features from Tiny Images", 2009.
    """
    images, labels, _ = read_cifar_with_digest(path, records=records)
    return images, labels


def read_cifar_with_digest(
    path: str | os.PathLike[str], *, records: int
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8], str]:
    """Images, labels and the SHA-256 of the whole (uncompressed) content."""
    with Content(path) as content:
        rows = np.frombuffer(content.take(records * RECORD), np.uint8).reshape(records, RECORD)
        digest = content.finish()
    labels = rows[:, 0]
    if records and labels.max() >= CLASSES:
        wrong = int(np.argmax(labels >= CLASSES))
        raise DataError(
            f"{content.path} is not a CIFAR-10 file: record {wrong} has label {labels[wrong]}, and labels are 0 to "
            f"{CLASSES - 1}."
        )
    return rows[:, 1:].reshape(records, *SHAPE), labels.copy(), digest
