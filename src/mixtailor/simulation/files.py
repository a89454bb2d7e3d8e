"""Reading the bytes of a data file, gzipped or not, never taking more memory than its size allows."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import stat
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["Content", "DataError"]

GROWTH = 64  # MNIST and CIFAR-10 grow 2 to 6-fold; deflate could grow 1032-fold
FLOOR = 2**20  # small files of equal bytes, as tests have them, may grow more


class DataError(ValueError):
    """A data file that cannot be used, and why."""

    __module__ = "mixtailor.simulation"  # the name under which tracebacks and pickles refer to it


class Content:
    """The content of one file, read from front to end by a reader that says how many bytes it needs.

    Whether a file is gzipped is decided by its first bytes, not by its name. What a reader asks for is compared with
    what the file can hold *before* memory is taken: the rest of the file if it is plain, 64 times its size if it is
    gzipped.

    Parameters
    ----------
    path : path
        A regular file.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "letters.gz")
    ...     _ = path.write_bytes(gzip.compress(b"abcdef"))
    ...     with Content(path) as content:
    ...         print(bytes(content.take(6)), content.finish()[:8])
    b'abcdef' bef57ec7
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        if not self.path.is_file():
            raise DataError(f"{self.path} is not a regular file.")
        try:
            # A pipe or a device would block or never end; the open file itself says what it is.
            flags = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))
            number = os.open(self.path, os.O_RDONLY | flags)
            found = os.fstat(number)
            if not stat.S_ISREG(found.st_mode):
                os.close(number)
                raise DataError(f"{self.path} is not a regular file.")
            self._file, self.size = os.fdopen(number, "rb"), found.st_size
            self.gzipped = self._file.read(2) == b"\x1f\x8b"
            self._file.seek(0)
        except OSError as error:
            raise DataError(f"{self.path} cannot be read: {error.strerror or error}.") from error
        self._stream: gzip.GzipFile | io.BufferedReader = (
            gzip.GzipFile(fileobj=self._file) if self.gzipped else self._file
        )
        self._left = max(FLOOR, GROWTH * self.size) if self.gzipped else self.size
        self._taken = 0
        self._sha256 = hashlib.sha256()

    def take(self, count: int) -> bytearray:
        """The next `count` bytes, or a `DataError` that says how many there were."""
        if count > self._left:
            if self.gzipped:
                raise DataError(
                    f"{self.path} announces {self._taken + count:,} bytes, more than a gzipped file of {self.size:,} "
                    f"bytes may hold here ({GROWTH} times its size). It is damaged or made to fill memory."
                )
            raise self._truncated(count, self._left)
        buffer = bytearray(count)
        view, filled = memoryview(buffer), 0
        try:
            while filled < count:
                # Pieces, because a damaged gzip file should fail at the damage and not after everything else.
                got = self._stream.readinto(view[filled : filled + 2**20])
                if not got:
                    raise self._truncated(count, filled)
                filled += got
        except (EOFError, zlib.error, OSError) as error:
            raise self._damaged(error) from error
        self._sha256.update(buffer)
        self._left -= count
        self._taken += count
        return buffer

    def finish(self) -> str:
        """Check that nothing follows (and gzip's own checksum), and return the SHA-256 of all that was taken."""
        try:
            more = self._stream.read(1)
        except (EOFError, zlib.error, OSError) as error:
            raise self._damaged(error) from error
        if more:
            raise DataError(f"{self.path} is longer than the {self._taken:,} bytes that it should have. Get it again.")
        return self._sha256.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._file.close()

    def _truncated(self, count: int, found: int) -> DataError:
        return DataError(
            f"{self.path} is truncated: {self._taken + count:,} bytes are needed and it ends after "
            f"{self._taken + found:,}. Get it again."
        )

    def _damaged(self, error: Exception) -> DataError:
        return DataError(f"{self.path} is damaged: it cannot be decompressed ({error}). Get it again.")
