"""One digest of everything that a worker sent: types, shapes, names, the cut into layers, and every value.

Each part is written as one letter for its kind, its length, and its bytes, so that no two different things share a
digest: 1, 1.0, True and an array of one entry have four. Arrays of numpy, torch and other libraries with the same type,
shape and entries have the same one.
"""

import hashlib
import os
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np

from mixtailor.intake.arrays import is_array, is_torch
from mixtailor.storage.files.opened import File, Unreadable

__all__ = ["digest_of", "file_digest"]

_DEPTH = 64
_NODES = 1 << 16


def digest_of(update: Any) -> bytes:
    """The SHA-256 of an update in memory, whatever it is: an array, layers in containers, or anything else.

    Parameters
    ----------
    update : array, tensor, mapping, sequence or anything else
        As the worker sent it. Of an object of an unknown type, its type alone is covered.

    Examples
    --------
    >>> digest_of(np.array([1.0, 2.0])) == digest_of(np.array([1, 2]))
    False
    >>> digest_of([np.zeros(2), np.zeros(3)]) == digest_of([np.zeros(3), np.zeros(2)])
    False
    """
    hasher = hashlib.sha256(b"mixtailor update 1\n")
    _write(update, hasher, 0, [_NODES])
    return hasher.digest()


def file_digest(path: "str | os.PathLike[str]", most: int | None = None) -> bytes:
    """The SHA-256 of a file's bytes, as `sha256sum` prints it; of what is no regular file, that it cannot be read.

    Of a file longer than `most` bytes, the digest covers these and the length.
    """
    try:
        file = File(path)
    except Unreadable:
        return hashlib.sha256(b"mixtailor file that cannot be read 1\n").digest()
    return file.digest(file.size if most is None else most)


def _part(hasher: Any, kind: bytes, *fields: bytes) -> None:
    hasher.update(kind)
    for field in fields:
        hasher.update(struct.pack(">Q", len(field)))
        hasher.update(field)


def _write(item: Any, hasher: Any, depth: int, left: list[int]) -> None:
    left[0] -= 1
    if depth > _DEPTH or left[0] < 0:  # containers that contain one another would never end
        _part(hasher, b"X")
    elif item is None or isinstance(item, bool):
        _part(hasher, b"N" if item is None else b"Y" if item else b"Z")
    elif is_array(item):
        _write_array(item, hasher, depth, left)
    elif isinstance(item, int):
        _part(hasher, b"I", int(item).to_bytes(item.bit_length() // 8 + 1, "big", signed=True))
    elif isinstance(item, float):
        _part(hasher, b"F", struct.pack(">d", item))
    elif isinstance(item, complex):
        _part(hasher, b"C", struct.pack(">dd", item.real, item.imag))
    elif isinstance(item, str):
        _part(hasher, b"S", item.encode("utf-8", "surrogatepass"))
    elif isinstance(item, (bytes, bytearray)):
        _part(hasher, b"B", bytes(item))
    elif isinstance(item, Mapping):
        pairs = list(item.items())
        _part(hasher, b"M", struct.pack(">Q", len(pairs)))
        for key, value in pairs:
            _write(key, hasher, depth + 1, left)
            _write(value, hasher, depth + 1, left)
    elif isinstance(item, (list, tuple)):
        _part(hasher, b"L" if isinstance(item, list) else b"T", struct.pack(">Q", len(item)))
        for value in item:
            _write(value, hasher, depth + 1, left)
    else:
        _write_unknown(item, hasher)


def _write_unknown(item: Any, hasher: Any) -> None:
    _part(hasher, b"O", f"{type(item).__module__}.{type(item).__qualname__}".encode("utf-8", "surrogatepass"))


def _write_array(item: Any, hasher: Any, depth: int, left: list[int]) -> None:
    try:
        name, array = _in_memory(item)
    except Exception:  # what a worker sent may fail in any way
        _write_unknown(item, hasher)
        return
    shape = ",".join(map(str, array.shape)).encode()
    if array.dtype.hasobject:
        _part(hasher, b"P", shape)
        for value in array.reshape(-1).tolist():
            _write(value, hasher, depth + 1, left)
        return
    _part(hasher, b"A", name.encode(), shape, struct.pack(">Q", array.nbytes))
    hasher.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def _in_memory(item: Any) -> "tuple[str, np.ndarray[Any, np.dtype[Any]]]":
    """The name of an array's type, and its entries in memory, the lowest byte first."""
    if is_torch(item):
        import torch

        tensor = item.detach().resolve_conj().resolve_neg().cpu().contiguous()
        # Flattened first, since a tensor without axes cannot be seen as bytes.
        octets = tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else np.empty(0, np.uint8)
        width = tensor.element_size()
        return str(tensor.dtype).removeprefix("torch."), octets.view(f"V{width}").reshape(tuple(tensor.shape))
    if isinstance(item, np.ma.MaskedArray):
        raise TypeError("a masked array has two arrays")
    array = np.asarray(item) if hasattr(item, "__array__") else np.from_dlpack(item)
    if array.dtype.fields is not None:
        return repr(array.dtype.descr), array
    return array.dtype.name, array.astype(array.dtype.newbyteorder("<"), copy=False)
