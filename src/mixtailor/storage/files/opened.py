"""Files as rows: opened once, read by position and run by run, compressed ones as a stream.

What is read twice is the same bytes. Times say nothing: whoever keeps a file mapped can change it without a trace. So
every block is compared with the digest of its first reading.
"""

import contextlib
import errno
import hashlib
import os
import stat
import struct
import threading
import weakref
import zipfile
from abc import abstractmethod
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, Any, ClassVar, cast, final

import numpy as np

from mixtailor._checks import shown
from mixtailor._types import Array
from mixtailor.kernels.digests import block_digests
from mixtailor.storage.converted import Source
from mixtailor.storage.kinds import Kind, Unfit

__all__ = [
    "CHANGED",
    "Archive",
    "CompressedArray",
    "File",
    "FileArray",
    "OutOfFilesError",
    "PlainArray",
    "Unreadable",
    "readable",
]

CHANGED = "a file that was written to while it was read"
# Digests take 17 bytes for each block. A read covers whole blocks, so larger ones would be read too often.
BLOCK = 1 << 13
_CHUNK = 1 << 20
_MOST = 1 << 25  # bytes at once: zipfile asks for the whole directory, and a file of holes may claim to be one
_KEYS = np.frombuffer(os.urandom(2 * 2 * BLOCK), np.uint64).reshape(2, BLOCK // 4)  # two for each four bytes


class Unreadable(Unfit):
    """A file that cannot be read, or not as its name and header promise."""

    def __init__(self, what: str) -> None:
        super().__init__(f"unreadable: {what}")


@final
class OutOfFilesError(OSError):
    """This process may open no more files: a limit of the machine, and no fault of the worker whose turn it is."""


@final
class _Changed(Unreadable):
    """A file whose bytes are not those of their first reading."""

    def __init__(self) -> None:
        TypeError.__init__(self, CHANGED)


@final
class File:
    """An open file, read by position: from several threads at once, and never beyond its end.

    Reading instead of mapping, because whoever may write to the file could shorten it meanwhile, and touching a mapped
    page that no longer exists ends the process. What is read twice is the same bytes, or an error. It is closed when
    nobody reads it any more.
    """

    def __init__(self, path: "str | PathLike[str]") -> None:
        self.name = shown(Path(os.fspath(path)).name)
        try:
            # A pipe would block for ever; Windows would translate line ends.
            flags = (getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
            self._number = os.open(path, os.O_RDONLY | sum(flags))
        except OSError as error:
            if error.errno in (errno.EMFILE, errno.ENFILE):
                raise OutOfFilesError(
                    f"Updates need one open file each, or as many as an index names, and this process may open no more "
                    f"of them ({self.name}). Raise the limit: ulimit -n."
                ) from None
            raise Unreadable(f"{error.strerror or error} ({self.name})") from None
        except ValueError as error:  # a zero byte in the name
            raise Unreadable(f"{error}") from None
        self._lock, self._place = threading.Lock(), threading.Lock()
        weakref.finalize(self, os.close, self._number)
        self._stamp = os.fstat(self._number)
        self.size = self._stamp.st_size
        if not stat.S_ISREG(self._stamp.st_mode):
            raise Unreadable(f"{'a directory' if stat.S_ISDIR(self._stamp.st_mode) else 'not a file'} ({self.name})")
        # The system gives memory for these where they are written to: a file of holes takes no more than it is read.
        self._known = np.zeros(-(-self.size // BLOCK), np.bool_)
        self._digests = np.zeros((len(self._known), 2), np.uint64)
        self._lost: Unreadable | None = None  # why no byte of it is read any more

    def read(self, offset: int, count: int) -> bytes:
        """`count` bytes from `offset` on; fewer are an error."""
        return bytes(self.view(offset, count))

    def array(self, offset: int, size: int, dtype: "np.dtype[Any]") -> Array:
        """`size` numbers from `offset` on, where they were read to."""
        found: Array = np.frombuffer(self.view(offset, size * dtype.itemsize), dtype)
        return found if found.flags.aligned else found.copy()

    def digest(self, most: int) -> bytes:
        """The SHA-256 of its bytes, those that every other reading gets: a file that changes is not read again.

        Neither is one of more than `most` bytes, of which only these are covered, and its length. A file of holes
        costs whoever makes it nothing, and the reader as much as any other.
        """
        hasher, size = hashlib.sha256(), min(self.size, most)
        try:
            for start in range(0, size, _CHUNK):
                hasher.update(self.view(start, min(_CHUNK, size - start)))
        except Unreadable as error:
            self._lost = error
            return hashlib.sha256(b"mixtailor file that changed 1\n").digest()
        if self.size <= most:
            return hasher.digest()
        self._lost = Unreadable(f"it has {self.size} bytes, far more than most ({self.name})")
        long = b"mixtailor file that is too long 1\n" + struct.pack(">Q", self.size)
        return hashlib.sha256(long + hasher.digest()).digest()

    def changed(self) -> bool:
        """Whether somebody wrote to it since it was opened: what one pass saw, another did not."""
        now, then = os.fstat(self._number), self._stamp
        if (now.st_size, now.st_mtime_ns) != (then.st_size, then.st_mtime_ns):
            return True
        # Times can be set back, but not the time of doing so. A new file of the same name only takes this one's away.
        return now.st_ctime_ns != then.st_ctime_ns and now.st_nlink == then.st_nlink

    def view(self, offset: int, count: int) -> memoryview:
        """`count` bytes from `offset` on: those of the first reading, or an error."""
        if self._lost is not None:
            raise self._lost
        if not count:
            return memoryview(b"")
        if offset + count > self.size:
            raise Unreadable(f"it ends before its data do ({self.name})")
        first, last = offset // BLOCK, -(-(offset + count) // BLOCK)
        start, stop = first * BLOCK, min(last * BLOCK, self.size)
        data = self._read(start, stop - start)
        words = np.frombuffer(data + bytes(-len(data) % 4) if len(data) % 4 else data, np.uint32)
        found = block_digests(words, _KEYS)
        with self._lock:  # two threads may be the first to read a block, and see different ones
            known, digests = self._known[first:last], self._digests[first:last]
            if (digests[known] != found[known]).any():
                self._lost = _Changed()
                raise self._lost
            digests[:], known[:] = found, True
        return memoryview(data)[offset - start : offset - start + count]

    def _read(self, offset: int, count: int) -> bytes:
        parts = []
        while count:
            try:
                part = self._read_at(offset, count)
            except OSError as error:
                raise Unreadable(f"{error.strerror or error} ({self.name})") from None
            if not part:
                raise Unreadable(f"it ends before its data do ({self.name})")
            parts.append(part)
            offset, count = offset + len(part), count - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def _read_at(self, offset: int, count: int) -> bytes:
        if hasattr(os, "pread"):
            return os.pread(self._number, count, offset)
        with self._place:  # Windows has no pread: the position in the file is shared by all threads
            os.lseek(self._number, offset, os.SEEK_SET)
            return os.read(self._number, count)


@final
class _Reader:
    """What zipfile reads an archive from: a file with a place to read from, and no more of it at once than `_MOST`."""

    def __init__(self, file: File) -> None:
        self._file, self._at = file, 0

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._file.size}[whence]
        if self._at < 0:
            raise OSError("before the start of the file")  # as zipfile expects it
        return self._at

    def tell(self) -> int:
        return self._at

    def read(self, size: int = -1) -> bytes:
        left = max(0, self._file.size - self._at)
        count = min(left, _MOST, size if size >= 0 else left)
        self._at += count
        return self._file.read(self._at - count, count)


class FileArray(Source):
    """An array in a file: its type there, byte order included, and where its first byte is.

    Abstract: `PlainArray` or `CompressedArray`.
    """

    in_memory: ClassVar[bool] = False

    def __init__(self, file: File, kind: Kind, dtype: "np.dtype[Any]", offset: int) -> None:
        self.file, self.kind, self.offset = file, kind, offset
        self.dtype, self.size = dtype, kind.size

    @property
    def end(self) -> int:
        """Where its last byte is, and one more."""
        return self.offset + self.size * self.dtype.itemsize

    def run(self, start: int, stop: int) -> Array:
        found = self._run(start, stop)
        if self.file.changed():
            raise _Changed
        return found

    @abstractmethod
    def _run(self, start: int, stop: int) -> Array:
        """The coordinates on a range, of whatever the file holds now."""


@final
class PlainArray(FileArray):
    """An array that is in the file as it would be in memory."""

    def _run(self, start: int, stop: int) -> Array:
        width = self.dtype.itemsize
        return self.file.array(self.offset + start * width, stop - start, self.dtype)


@final
class Archive:
    """A zip file whose members are unpacked as streams: one member at a time, and no more than its last run is kept."""

    def __init__(self, file: File) -> None:
        self.file, self.zip = file, zipfile.ZipFile(cast("IO[bytes]", _Reader(file)))
        self._lock = threading.Lock()
        self._stream: tuple[str, IO[bytes], int] | None = None  # the member, what unpacks it, and how far it is
        self._last: tuple[str, int, int, bytes] | None = None

    def read(self, member: zipfile.ZipInfo, start: int, stop: int) -> bytes:
        """Bytes of a member, unpacked from its beginning where the stream is past them."""
        with self._lock:
            last = self._last
            if last is None or last[0] != member.filename or not last[1] <= start <= stop <= last[2]:
                last = self._last = (member.filename, start, stop, self._unpacked(member, start, stop))
            return last[3][start - last[1] : stop - last[1]]

    def _unpacked(self, member: zipfile.ZipInfo, start: int, stop: int) -> bytes:
        stream, self._stream = self._stream, None
        with readable(self.file):
            if stream is None or stream[0] != member.filename or stream[2] > start:
                stream = (member.filename, self.zip.open(member), 0)
            unpacked, at = stream[1], stream[2]
            while at < start:
                at += len(_exactly(unpacked, min(1 << 20, start - at)))
            data = _exactly(unpacked, stop - start)
            if stop == member.file_size and unpacked.read(1):  # asking beyond the end also compares the checksum
                raise Unreadable("it holds more than its header promises")
        self._stream = (member.filename, unpacked, stop)
        return data


@final
class CompressedArray(FileArray):
    """A compressed array: unpacked from its beginning in every pass, so that its ranges come in order."""

    ordered: ClassVar[bool] = True

    def __init__(
        self, archive: Archive, kind: Kind, dtype: "np.dtype[Any]", offset: int, member: zipfile.ZipInfo
    ) -> None:
        super().__init__(archive.file, kind, dtype, offset)
        self.archive, self.member = archive, member

    def _run(self, start: int, stop: int) -> Array:
        first, last = (self.offset + place * self.dtype.itemsize for place in (start, stop))
        return np.frombuffer(self.archive.read(self.member, first, last), self.dtype)


@contextlib.contextmanager
def readable(file: File) -> Iterator[None]:
    """What goes wrong inside an archive, in whatever way, makes the file unreadable."""
    try:
        yield
    except Unreadable:
        raise
    except Exception as error:  # a damaged archive makes zipfile and zlib fail in any way
        raise Unreadable(f"{error} ({file.name})") from None


def _exactly(stream: IO[bytes], count: int) -> bytes:
    """`count` bytes of a stream; fewer are an error."""
    parts = []
    while count:
        part = stream.read(count)
        if not part:
            raise EOFError("it ends before its data do")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
