"""Archives and checkpoints that claim more than they are: memory and time stay within what the file's size allows."""

from __future__ import annotations

import copy
import io
import pickle
import struct
import time
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from campaigns import _cases
from campaigns._ledger import Tally
from campaigns.bytes.check import Reader
from campaigns.bytes.targets import GOOD, _written

SECONDS, PER_BYTE = 2.0, 2e-5  # of computing, at least and for each byte of the file


def case(folder: Path, index: int, rng: np.random.Generator, tally: Tally) -> str | None:
    """One bomb among sound files: a finite result, in the memory and time of its size."""
    name = list(BOMBS)[index % len(BOMBS)]
    target, make = BOMBS[name]
    data = make(rng)
    tally.count(bomb=name)
    reader = _reader(target)
    before = time.process_time()
    with reader:
        problem = reader.broken(data)
    spent = time.process_time() - before
    if problem is None and spent > SECONDS + PER_BYTE * len(data):
        problem = f"{spent:.1f} seconds for a file of {len(data):,} bytes"
    return None if problem is None else f"{name}: {problem}"


class _Again(Reader):
    """A reader that is used many times: starting one costs more than a case."""

    def __exit__(self, *_: object) -> None:
        import tracemalloc

        tracemalloc.stop()


@cache
def _reader(target: str) -> Reader:
    return _Again(target)


def _npy(header: bytes, data: bytes = b"") -> bytes:
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(header)) + header + data


def _described(shape: str) -> bytes:
    return b"{'descr': '<f4', 'fortran_order': False, 'shape': (%s), }" % shape.encode()


def _zipped(members: list[tuple[str, bytes]], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method, compresslevel=9) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return out.getvalue()


def _claims(rng: np.random.Generator) -> bytes:
    """A packed array of zeros, which its header truly promises."""
    size = int(rng.integers(1 << 16, 1 << 21))
    return _zipped(
        [("a.npy", _npy(_described(f"{size},"), bytes(4 * size))), ("b.npy", _npy(_described("4,"), bytes(16)))]
    )


def _lies(rng: np.random.Generator) -> bytes:
    size = int(rng.integers(1, 1 << 47))
    method = int(rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))
    return _zipped(
        [("a.npy", _npy(_described(f"{size},"), bytes(8))), ("b.npy", _npy(_described("4,"), bytes(16)))], method
    )


def _headers(rng: np.random.Generator) -> bytes:
    """Many arrays whose headers are long, costly to parse, and pack to nothing."""
    words = [b"'descr':'<f4',", b"'shape':(1,),", b" ", b"'shape':(1,1,1,1,1,1),"]
    filler = words[int(rng.integers(len(words)))] * int(rng.integers(1, 4000))
    header = b"{" + filler + b"'descr': '<f4', 'fortran_order': False, 'shape': (1,), }"
    return _zipped([(f"{k}.npy", _npy(header, bytes(4))) for k in range(int(rng.integers(1, 1000)))])


def _shared(rng: np.random.Generator) -> bytes:
    """Many names for the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", int(rng.choice([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED]))) as archive:
        archive.writestr("a.npy", _npy(_described("2,") + b" " * int(rng.integers(0, 60_000)), bytes(8)))
        for k in range(int(rng.integers(1, 2000))):
            other: Any = copy.copy(archive.filelist[0])
            other.filename = other.orig_filename = "b.npy" if k == 0 else f"{k}.npy"
            other.header_offset += int(rng.integers(3)) if rng.random() < 0.1 else 0
            archive.filelist.append(other)
    return out.getvalue()


def _empty(rng: np.random.Generator) -> bytes:
    return _zipped([(f"{k}.npy", b"") for k in range(int(rng.integers(1, 3000)))], zipfile.ZIP_STORED)


class _Called:
    def __init__(self, function: Any, *arguments: Any) -> None:
        self.function, self.arguments = function, arguments

    def __reduce__(self) -> tuple[Any, tuple[Any, ...]]:
        return self.function, self.arguments


def _checkpoint(content: bytes) -> bytes:
    """Our own checkpoint with another pickle."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(_written(".pt", GOOD[0]))) as old, zipfile.ZipFile(out, "w") as new:
        for member in old.namelist():
            new.writestr(member, content if member.endswith("/data.pkl") else old.read(member))
    return out.getvalue()


def _calls(rng: np.random.Generator) -> bytes:
    """Calls that torch allows, of sizes that it does not bound."""
    size = int(rng.integers(1 << 26, 1 << 33))
    value = [bytearray, set, complex][int(rng.integers(3))]
    call = _Called(value, size) if value is bytearray else _Called(value, ())
    return _checkpoint(pickle.dumps({f"{k}": call for k in range(int(rng.integers(1, 50)))}, protocol=2))


def _opcodes(rng: np.random.Generator) -> bytes:
    """One opcode many times: containers, marks, memories, tuples of tuples, numbers without end."""
    count = int(rng.integers(1, 100_000))
    repeated = [
        b"}", b"]", b"(", b")", b"\x8f", b"N", b"}q\x00", b"q\x00h\x00\x86", b"K\x01\x85", b"r\xff\xff\xff\x7f", b"2",
        b"ccollections\nOrderedDict\n)R", b"\x8a\xff" + bytes(255), b"X\xff\xff\xff\x7f",
        b"c__builtin__\nbytearray\nJ\xff\xff\xff\x7f\x85R",
    ]  # fmt: skip
    body = repeated[int(rng.integers(len(repeated)))]
    start, end = [(b"}K\x01", b"K\x01s."), (b"}K\x01", b"."), (b"(", b"t."), (b"}", b".")][int(rng.integers(4))]
    return _checkpoint(b"\x80\x02" + start + body * min(count, (1 << 17) // len(body)) + end)


def _tensors(rng: np.random.Generator) -> bytes:
    """Tensors whose shapes, strides and places are anything."""
    data = bytearray(_written(".pt", GOOD[0]))
    place = data.index(b"_rebuild_tensor_v2")
    for _ in range(int(rng.integers(1, 6))):
        at = place + int(rng.integers(200))
        data[at : at + 1] = [b"K", b"J", b"\xff", b"\x8a", b"M", b"R"][int(rng.integers(6))]
    return bytes(data)


BOMBS: dict[str, tuple[str, Callable[[np.random.Generator], bytes]]] = {
    "npz: truly large": ("npz", _claims),
    "npz: a header that lies": ("npz", _lies),
    "npz: long headers": ("npz", _headers),
    "npz: shared bytes": ("npz", _shared),
    "npz: many names": ("npz", _empty),
    "pt: calls": ("torch", _calls),
    "pt: opcodes": ("torch", _opcodes),
    "pt: tensors": ("torch", _tensors),
}


def campaign(count: int, seed: int, *, state: Path | None = None) -> dict[str, Any]:
    """So many cases."""
    return _cases.campaign("bombs", case, count, seed, state)


def repeat(seed: str) -> list[str]:
    """What one case breaks."""
    return _cases.repeat(case, seed)
