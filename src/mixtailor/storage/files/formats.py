"""What files hold and where, read strictly: nothing in a file is ever executed.

Headers are parsed here, and not by the libraries that write them, because a file may come from an attacker: sizes are
checked against the file before anything is allocated, and Python objects are refused before anything could unpickle
them.
"""

import ast
import json
import os
import re
import struct
import sys
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, final

import numpy as np

from mixtailor.kernels.space import BFLOAT16
from mixtailor.storage.files import checkpoints, folders
from mixtailor.storage.files.opened import Archive, CompressedArray, File, FileArray, PlainArray, Unreadable, readable
from mixtailor.storage.kinds import Kind, Unfit

__all__ = ["SUFFIXES", "Header", "contents", "npy_header"]

SUFFIXES = (".npy", ".npz", ".safetensors", *checkpoints.SUFFIXES)

_NPY_HEADER = 1 << 12  # 64 axes of 15 digits take a quarter of it
_SAFETENSORS_HEADER = 100 << 20
_NUMBER = re.compile(r"[<>|=]?(?:f(?:2|4|8|12|16)|[iu](?:1|2|4|8)|b1|c\d+)")
_SAFETENSORS: dict[str, Any] = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": BFLOAT16, "BOOL": "|b1",
    "I8": "|i1", "I16": "<i2", "I32": "<i4", "I64": "<i8", "U8": "|u1", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip


def contents(path: "str | PathLike[str]", most_files: int | None = None) -> dict[tuple[object, ...], FileArray]:
    """The arrays of a file: by name in its order, or the one array without a name that `.npy` or a saved tensor is.

    A folder of Hugging Face, or the index of a model in several files, has the arrays of all its files, `most_files` of
    them at most.
    """
    whole = folders.main_file(Path(os.fspath(path)))
    if whole.name.endswith(folders.INDEX):
        return folders.sharded(whole, contents, most_files)
    suffix = whole.suffix.lower()
    if suffix not in SUFFIXES:
        raise Unreadable(f"{whole.name!r} is not one of {', '.join(SUFFIXES)}")
    file = File(whole)
    if suffix == ".npy":
        return {(): _npy(file)}
    if suffix in checkpoints.SUFFIXES:
        return _checkpoint(file)
    return _npz(file) if suffix == ".npz" else _safetensors(file)


# .npy


@final
@dataclass(frozen=True)
class Header:
    """What an `.npy` array says of itself; `size` is how many bytes come before the data."""

    kind: Kind
    dtype: "np.dtype[Any]"
    size: int

    @property
    def total(self) -> int:
        """How many bytes there must be in all."""
        return self.size + self.kind.size * self.dtype.itemsize


def _npy(file: File) -> FileArray:
    header = npy_header(lambda offset, count: file.read(offset, count), file.size)
    if header.total != file.size:
        raise Unreadable(f"it has {file.size} bytes where its header promises {header.total} ({file.name})")
    return PlainArray(file, header.kind, header.dtype, header.size)


def npy_header(read: Callable[[int, int], bytes], limit: int) -> Header:
    """The header at the start of what `read` reads; `limit` is how many bytes there are."""
    start = read(0, min(12, limit))
    if len(start) < 12 or start[:6] != b"\x93NUMPY":
        raise Unreadable("no .npy array")  # its first bytes are not shown: a link may lead to a file of ours
    version = start[6]
    if version not in (1, 2, 3):
        raise Unreadable(f"an .npy array of unknown version {version}")
    skip, length = (
        (10, int.from_bytes(start[8:10], "little")) if version == 1 else (12, int.from_bytes(start[8:12], "little"))
    )
    if length > min(_NPY_HEADER, limit - skip):
        raise Unreadable(f"an .npy array whose header claims {length} bytes")
    try:
        fields = ast.literal_eval(read(skip, length).decode("utf-8" if version == 3 else "latin-1").strip())
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        raise Unreadable("an .npy array whose header is no description") from None
    if not isinstance(fields, dict) or set(fields) != {"descr", "fortran_order", "shape"}:
        raise Unreadable("an .npy array whose header is no description")
    descr, shape, by_columns = fields["descr"], fields["shape"], fields["fortran_order"]
    if isinstance(descr, str) and "O" in descr:
        raise Unreadable("it holds pickled Python objects, which are never loaded")
    if not isinstance(descr, str) or not _NUMBER.fullmatch(descr):
        raise Unfit(f"of type {str(descr)[:40]!r} where real numbers are needed")
    if not isinstance(shape, tuple) or not _is_shape(shape) or not isinstance(by_columns, bool):
        raise Unreadable("an .npy array whose header is no description")
    try:
        dtype = np.dtype(descr)
    except TypeError:
        raise Unfit(f"of type {descr!r}, which this machine does not have") from None
    return Header(_kind(dtype, shape, by_columns=by_columns and len(shape) > 1), dtype, skip + length)


def _is_shape(shape: Any) -> bool:
    return len(shape) <= 64 and all(type(length) is int and 0 <= length < 1 << 48 for length in shape)


def _kind(dtype: "np.dtype[Any]", shape: tuple[int, ...], *, by_columns: bool = False) -> Kind:
    if dtype.kind == "c":
        raise Unfit("of complex numbers where real numbers are needed")
    native = np.dtype(np.float64) if dtype.kind == "f" and dtype.itemsize > 8 else dtype.newbyteorder("=")
    return Kind("stored", native, shape, by_columns=by_columns)


# .npz


@final
@dataclass(frozen=True)
class _Member:
    """One file of an archive, and where its bytes are, compressed or not."""

    info: zipfile.ZipInfo
    start: int
    stop: int

    @property
    def packed(self) -> bool:
        return self.info.compress_type != zipfile.ZIP_STORED


def _members(file: File) -> tuple[Archive, list[_Member]]:
    """The files of an archive. None may share bytes with another: it would unpack to more than it holds."""
    with readable(file):
        archive = Archive(file)
        found = [_member(file, info) for info in archive.zip.infolist()]
    end, names = 0, set()
    for member in sorted(found, key=lambda one: one.info.header_offset):
        if member.info.header_offset < end:
            raise Unreadable(f"its members overlap ({file.name})")
        if member.info.filename in names:
            raise Unreadable(f"it holds {member.info.filename[:80]!r} twice ({file.name})")
        end = member.stop
        names.add(member.info.filename)
    return archive, found


def _member(file: File, info: zipfile.ZipInfo) -> _Member:
    """Where a member's bytes are; all of them are in the file, and under the name that its directory has."""
    local = file.read(info.header_offset, 30)
    length, extras = struct.unpack("<HH", local[26:30])
    if local[:4] != b"PK\x03\x04" or length > 1 << 10:
        raise Unreadable(f"its directory points beside {info.filename[:80]!r} ({file.name})")
    own = file.read(info.header_offset + 30, length)
    if own.decode("utf-8" if info.flag_bits & 0x800 else "cp437", errors="replace") != info.orig_filename:
        raise Unreadable(f"its directory points beside {info.filename[:80]!r} ({file.name})")
    if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):  # others unpack to any size in one call
        raise Unreadable(f"{info.filename[:80]!r} is packed in a way that numpy does not write ({file.name})")
    start = info.header_offset + 30 + length + extras
    member = _Member(info, start, start + info.compress_size)
    if member.stop > file.size or (not member.packed and info.compress_size != info.file_size):
        raise Unreadable(f"it ends before its data do ({file.name})")
    return member


def _npz(file: File) -> dict[tuple[object, ...], FileArray]:
    found: dict[tuple[object, ...], FileArray] = {}
    left = file.size  # headers are text that is parsed: no more of it in all than the file has bytes, once unpacked
    archive, members = _members(file)
    for member in members:
        name = member.info.filename
        if not name.endswith(".npy") or member.info.flag_bits & 1:
            raise Unreadable(f"it holds {name[:80]!r}, which is no plain .npy array ({file.name})")
        header = npy_header(partial(_read, archive, member), min(member.info.file_size, left))
        left -= header.size
        if header.total != member.info.file_size:
            raise Unreadable(
                f"{name[:80]!r} has {member.info.file_size} bytes where its header promises {header.total} "
                f"({file.name})"
            )
        if member.packed:
            part: FileArray = CompressedArray(archive, header.kind, header.dtype, header.size, member.info)
        else:
            part = PlainArray(file, header.kind, header.dtype, member.start + header.size)
        found[name.removesuffix(".npy"),] = part
    return found


def _read(archive: Archive, member: _Member, offset: int, count: int) -> bytes:
    if member.packed:
        return archive.read(member.info, offset, offset + count)
    return archive.file.read(member.start + offset, count)


# Torch checkpoints


def _checkpoint(file: File) -> dict[tuple[object, ...], FileArray]:
    if file.size < 4 or file.read(0, 4) != b"PK\x03\x04":
        raise Unreadable(f"no checkpoint of torch.save since version 1.6; load it and save it again ({file.name})")
    _, members = _members(file)
    if any(member.packed for member in members):
        raise Unreadable(f"compressed, which checkpoints of torch.save are not ({file.name})")
    order = next((member for member in members if member.info.filename.endswith("/byteorder")), None)
    if order is not None and file.read(order.start, min(order.stop - order.start, 8)) != sys.byteorder.encode():
        raise Unreadable(f"saved on a machine of another byte order ({file.name})")
    return checkpoints.state(file, {one.info.filename: (one.start, one.stop - one.start) for one in members})


# .safetensors


def _safetensors(file: File) -> dict[tuple[object, ...], FileArray]:
    if file.size < 8:
        raise Unreadable(f"too short for a .safetensors file ({file.name})")
    length = int.from_bytes(file.read(0, 8), "little")
    if length > min(_SAFETENSORS_HEADER, file.size - 8):
        raise Unreadable(f"its header claims {length} bytes of {file.size} ({file.name})")
    try:
        fields = json.loads(file.read(8, length).decode("utf-8"), object_pairs_hook=folders.once)
    except (ValueError, RecursionError):
        raise Unreadable(f"its header is no description of tensors ({file.name})") from None
    if not isinstance(fields, dict):
        raise Unreadable(f"its header is no description of tensors ({file.name})")
    fields.pop("__metadata__", None)
    end = 8 + length
    found: dict[tuple[object, ...], FileArray] = {
        (name,): _tensor(file, name, entry, end) for name, entry in fields.items()
    }
    for first, last in sorted((part.offset, part.end) for part in found.values()):
        if first != end:
            raise Unreadable(f"its tensors overlap or leave gaps ({file.name})")
        end = last
    if end != file.size:
        raise Unreadable(f"it has {file.size} bytes where its header promises {end} ({file.name})")
    return found


def _tensor(file: File, name: str, entry: Any, start: int) -> FileArray:
    if not isinstance(entry, dict) or set(entry) != {"dtype", "shape", "data_offsets"}:
        raise Unreadable(f"its header is no description of tensors ({file.name})")
    shape, span, dtype = entry["shape"], entry["data_offsets"], entry["dtype"]
    if not isinstance(dtype, str) or dtype not in _SAFETENSORS:
        raise Unfit(f"of type {str(dtype)[:40]!r} where real numbers are needed ({name[:80]!r})")
    if not isinstance(shape, list) or not _is_shape(shape) or not isinstance(span, list) or len(span) != 2:
        raise Unreadable(f"its header is no description of tensors ({file.name})")
    own = np.dtype(_SAFETENSORS[dtype])
    kind = _kind(own, tuple(shape))
    if not all(type(place) is int and place >= 0 for place in span) or span[1] - span[0] != kind.size * own.itemsize:
        raise Unreadable(f"{name[:80]!r} does not have the bytes that its shape needs ({file.name})")
    return PlainArray(file, kind, own, start + span[0])
