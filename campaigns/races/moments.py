"""A change before one chosen read of a file. Every read of an aggregation can be that one: nothing is left to luck.

The bytes of each first reading are kept. The result has to be, to the bit, that of a file which always had these bytes,
or that of a round to which this worker sent a broken file, and then it is named.
"""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from safetensors.numpy import save_file

import mixtailor as mt
from campaigns._ledger import Tally
from mixtailor._files import rename
from mixtailor.intake.files import receive_files
from mixtailor.storage.files.opened import File

FORMS = (".npy", ".npz", ".packed.npz", ".safetensors", ".pt", "an adapter", "shards")
N = 9
_PUNCH = 0x02 | 0x01  # FALLOC_FL_PUNCH_HOLE and FALLOC_FL_KEEP_SIZE
_READ = File._read_at


def written(path: Path, row: np.ndarray) -> Path:
    """A row in a file, or in a folder, by its name; the file of it that a worker may change."""
    third = len(row) // 3
    parts = {"a": row[:third], "b": row[third:], "steps": np.full(3, 7)}
    if path.name.endswith("shards"):
        path.mkdir()
        save_file({"a": parts["a"], "steps": parts["steps"]}, path / "model-1.safetensors")
        save_file({"b": parts["b"]}, path / "model-2.safetensors")
        table = {name: f"model-{2 if name == 'b' else 1}.safetensors" for name in parts}
        (path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
        return path / f"model-{1 + len(row) % 2}.safetensors"
    if path.name.endswith("an adapter"):
        path.mkdir()
        path = path / "adapter_model.safetensors"
    if path.name.endswith(".npy"):
        np.save(path, row)
    elif path.name.endswith(".packed.npz"):
        np.savez_compressed(path, **parts)  # type: ignore[arg-type]  # numpy takes the names for its own options
    elif path.name.endswith(".npz"):
        np.savez(path, **parts)  # type: ignore[arg-type]  # as above
    elif path.name.endswith(".safetensors"):
        save_file(parts, path)
    else:
        torch.save({name: torch.from_numpy(values.copy()) for name, values in parts.items()}, path)
    return path


@dataclass
class Watched:
    """The reads of one file: how many, the bytes of the first reading of each place, and what happens before some."""

    path: Path
    happens: Mapping[int, Callable[[], None]] = field(default_factory=dict)
    reads: int = 0

    def __post_init__(self) -> None:
        self.inode, self.lock = os.stat(self.path).st_ino, threading.Lock()
        self.content = np.frombuffer(self.path.read_bytes(), np.uint8).copy()
        self.seen = np.zeros(len(self.content), bool)

    def read(self, file: File, offset: int, count: int) -> bytes:
        """In the place of the method of `File` that asks the system for bytes."""
        if os.fstat(file._number).st_ino != self.inode:
            return _READ(file, offset, count)
        with self.lock:
            self.reads += 1
            self.happens.get(self.reads, lambda: None)()
            data = _READ(file, offset, count)
            new = ~self.seen[offset : offset + len(data)]
            self.content[offset : offset + len(data)][new] = np.frombuffer(data, np.uint8)[new]
            self.seen[offset : offset + len(data)] = True
            return data

    @contextmanager
    def watching(self) -> Iterator[None]:
        watched = self

        def read(file: File, offset: int, count: int) -> bytes:
            return watched.read(file, offset, count)

        with patch.object(File, "_read_at", read):
            yield


def case(folder: Path, rule: Any, rng: np.random.Generator, tally: Tally) -> str | None:
    """One change before one read of a worker's file, or of the base."""
    form, change = FORMS[int(rng.integers(len(FORMS)))], list(CHANGES)[int(rng.integers(len(CHANGES)))]
    d, target = int(rng.integers(3000, 20_000)), int(rng.integers(N))
    based, audited = bool(rng.random() < 0.4), bool(rng.random() < 0.3)
    rows = rng.standard_normal((N + 1, d)).astype(np.float32)
    rows[target] = np.delete(rows[:N], target, axis=0).mean(axis=0)  # every rule likes it
    names = [folder / f"{k}{form}" for k in range(N + 1)]
    files = [written(path, row) for path, row in zip(names, rows, strict=True)]
    if based and rng.random() < 0.4:
        target = N
    base = names[N] if based else None

    def aggregated(paths: list[Path], base: Path | None) -> tuple[mt.Aggregation, list[bytes | None]]:
        arrival = receive_files(paths, base=base)
        digests = arrival.digests() if audited else []
        return rule.aggregate(arrival, entropy=mt.SeededEntropy(1)), digests

    with (dry := Watched(files[target])).watching():
        aggregated(names[:N], base)
    moment = int(rng.integers(1, dry.reads + 1))
    with CHANGES[change](files[target], rng) as steps:
        watched = Watched(files[target], {moment + place: step for place, step in enumerate(steps)})
        what = (
            f"{rule!r}, {form}, {change} before read {moment} of {dry.reads} of {'the base' if target == N else target}"
        )
        tally.count(change=change, changed="the base" if target == N else "an update")
        try:
            with watched.watching():
                result, digests = aggregated(names[:N], base)
        except ValueError as error:
            if target != N or "The base needs to be a file that can be read" not in str(error):
                return f"{what}: {error}"
            tally.count(came="the base was refused")
            return None
    named = [one.row for one in result.quarantined]
    if named not in ([], [target]):
        return f"{what}: {named} is named"
    tally.count(came="named" if named else "as first read")
    files[target].unlink(missing_ok=True)
    files[target].write_bytes(b"" if named else watched.content.tobytes())
    expected, _ = aggregated(names[:N], base)
    covered = audited and not named and target < N and form.startswith(".")  # a digest of one file
    if covered and digests[target] != sha256(watched.content.tobytes()).digest():
        return f"{what}: the digest is of other bytes"
    return None if _same(result.update, expected.update) else f"{what}: another result than of what was first read"


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    return bool(np.asarray(one).tobytes() == np.asarray(other).tobytes())


Steps = list[Callable[[], None]]
Change = Callable[[Path, np.random.Generator], Any]


@contextmanager
def _mapped(path: Path, rng: np.random.Generator, *, back: bool = False) -> Iterator[Steps]:
    """Through pages that were dirty before: no time of the file tells of it."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        for place in range(0, len(pages), 512):
            pages[place] = pages[place]
        start, stop = _span(len(pages), rng)
        old, new = pages[start:stop], _other(rng, stop - start)

        def write(content: bytes) -> Callable[[], None]:
            return lambda: pages.__setitem__(slice(start, stop), content)

        yield [write(new), write(old)] if back else [write(new)]


def _span(size: int, rng: np.random.Generator) -> tuple[int, int]:
    """Somewhere: in the header, in the numbers, or at the end."""
    start = [int(rng.integers(min(size, 200))), int(rng.integers(size)), max(0, size - int(rng.integers(1, 300)))]
    first = start[int(rng.integers(3))]
    return first, min(size, first + int(rng.integers(1, 5000)))


def _other(rng: np.random.Generator, count: int) -> bytes:
    values = [np.nan, np.inf, 1e9, 0.5][int(rng.integers(4))]
    numbers = np.full(count // 4 + 1, values, np.float32).tobytes()[:count]
    return numbers if rng.random() < 0.5 else rng.bytes(count)


def _done(change: Callable[[Path, np.random.Generator], Any]) -> Change:
    """A change that is made at one go."""

    @contextmanager
    def steps(path: Path, rng: np.random.Generator) -> Iterator[Steps]:
        yield [lambda: change(path, rng)]

    return steps


def _overwritten(path: Path, rng: np.random.Generator) -> None:
    start, stop = _span(path.stat().st_size, rng)
    with path.open("r+b") as file:
        file.seek(start)
        file.write(_other(rng, stop - start))


def _regrown(path: Path, rng: np.random.Generator) -> None:
    size = path.stat().st_size
    os.truncate(path, int(rng.integers(size)))
    os.truncate(path, size)


def _grown(path: Path, rng: np.random.Generator) -> None:
    with path.open("ab") as file:
        file.write(rng.bytes(int(rng.integers(1, 10_000))))


def _punched(path: Path, rng: np.random.Generator) -> None:
    """A hole in the file; where the system makes none, zeros."""
    size = path.stat().st_size
    start, length = int(rng.integers(size)), int(rng.integers(1, size))
    with path.open("r+b") as file:
        made = ctypes.CDLL(None).fallocate
        made.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
        if made(file.fileno(), _PUNCH, start, length):
            file.seek(start)
            file.write(bytes(min(length, size - start)))


def _replaced(path: Path, rng: np.random.Generator) -> None:
    other = path.with_name("other")
    other.write_bytes(rng.bytes(1000))
    rename(other, path)


def _piped(path: Path, _rng: np.random.Generator) -> None:
    path.unlink()
    os.mkfifo(path)


CHANGES: dict[str, Change] = {
    "changed through a map": _mapped,
    "changed through a map, and back": lambda path, rng: _mapped(path, rng, back=True),
    "overwritten": _done(_overwritten),
    "cut": _done(lambda path, rng: os.truncate(path, int(rng.integers(path.stat().st_size)))),
    "cut and grown again": _done(_regrown),
    "grown": _done(_grown),
    "a hole punched": _done(_punched),
    "replaced": _done(_replaced),
    "removed": _done(lambda path, _rng: path.unlink()),
    "a pipe in its place": _done(_piped),
}
