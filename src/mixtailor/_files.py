"""The one way this project replaces a file (written beside it, flushed to the disk, then renamed), and the one way it
reads a small one from outside: a regular file, no longer than it may be, and inside the folder that it belongs to."""

import contextlib
import os
import secrets
import stat
import zipfile
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO, BinaryIO

__all__ = ["atomic_write", "check_regular", "check_unpacked", "new_file", "read_bounded", "rename"]


@contextlib.contextmanager
def atomic_write(path: "str | PathLike[str]", *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a file that replaces `path` when the block ends without an error, and leaves no trace otherwise.

    A reader sees the old file or the complete new one, never a part of it, even if the process is killed or the power
    fails. Folders that are missing are created. A process that is killed may leave a hidden file beside `path`, whose
    name starts with a dot and the name of `path`.

    Parameters
    ----------
    path : path
        Where the file goes.
    mode : int
        Its permissions, less the umask.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "numbers")
    ...     with atomic_write(path) as file:
    ...         _ = file.write(b"123")
    ...         before = path.exists()
    ...     print(before, path.read_bytes())
    False b'123'
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        with new_file(beside, mode=mode) as file:
            yield file
        rename(beside, path)
    except BaseException:  # Ctrl-C too
        beside.unlink(missing_ok=True)
        raise


@contextlib.contextmanager
def new_file(path: "str | PathLike[str]", *, mode: int = 0o666) -> Iterator[BinaryIO]:
    """Open a file that must not exist yet; when the block ends, its content is on the disk, but its name may not be."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
    with os.fdopen(os.open(path, flags, mode), "wb") as file:
        yield file
        file.flush()
        os.fsync(file.fileno())


def rename(source: "str | PathLike[str]", target: "str | PathLike[str]") -> None:
    """Replace `target` by `source` in one step that survives a loss of power."""
    os.replace(source, target)
    if os.name == "posix":  # the new name is safe only once its folder is on the disk; Windows cannot flush a folder
        folder = os.open(os.path.dirname(os.path.abspath(target)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_bounded(path: "str | PathLike[str]", most: int, *, within: "str | PathLike[str] | None" = None) -> bytes:
    """The content of a regular file; a pipe, a device, or a file that is too long is refused with a sentence.

    A pipe would block for ever, and a device or a growing file would fill memory.

    Parameters
    ----------
    path : path
    most : int
        How many bytes it may have.
    within : path, optional
        A folder that the file must lie in. A link that leads out of it is refused: whoever made the folder could show
        a file of the reader's in what the reader makes of it.

    Examples
    --------
    >>> read_bounded("/dev/zero", 100)
    Traceback (most recent call last):
    ValueError: /dev/zero is not a regular file.
    """
    try:
        number = os.open(_checked(path, within), os.O_RDONLY | _FLAGS)
    except OSError as error:
        if within is None:
            raise
        raise ValueError(f"{_shown(path)} cannot be read: {error.strerror or error}.") from None
    try:
        if not stat.S_ISREG(os.fstat(number).st_mode):
            raise ValueError(f"{_shown(path)} is not a regular file.")
        parts, left = [], most + 1
        while left and (part := os.read(number, min(left, 1 << 24))):
            parts.append(part)
            left -= len(part)
    finally:
        os.close(number)
    if not left:
        raise ValueError(f"{_shown(path)} has more than the {most:,} bytes that such a file may have.")
    return b"".join(parts)


def check_unpacked(file: "str | PathLike[str] | IO[bytes]", most: int) -> None:
    """Refuse an archive whose members have more than `most` bytes, or are packed in a way that has no bound.

    zipfile unpacks bzip2 and lzma whole: 256 bytes of it can be gigabytes. numpy writes neither.

    Examples
    --------
    >>> import io, numpy
    >>> packed = io.BytesIO()
    >>> numpy.savez_compressed(packed, zeros=numpy.zeros(10**6))
    >>> check_unpacked(packed, 10**6)
    Traceback (most recent call last):
    ValueError: Its arrays have more than 1,000,000 bytes.
    """
    with zipfile.ZipFile(file) as archive:
        members = archive.infolist()
    if any(member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) for member in members):
        raise ValueError("It is packed in a way that numpy does not write.")
    if sum(member.file_size for member in members) > most:
        raise ValueError(f"Its arrays have more than {most:,} bytes.")


# A pipe would block; Windows would translate line ends.
_FLAGS = sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_BINARY"))


def _shown(path: "str | PathLike[str]") -> str:
    text = str(path)
    return text if text.isprintable() else ascii(text)[1:-1]  # a terminal would obey what is not printable


def _checked(path: "str | PathLike[str]", within: "str | PathLike[str] | None") -> str:
    """The path, without links where it has to lie in a folder."""
    if within is None:
        return os.fspath(path)
    real, folder = os.path.realpath(path), os.path.realpath(within)
    if os.path.commonpath([real, folder]) != folder:
        raise ValueError(f"{_shown(path)} leads out of {_shown(within)}, by a link. Put the file itself there.")
    return real


def check_regular(path: "str | PathLike[str]") -> None:
    """Refuse what exists and is no regular file; a new file may still be made there."""
    try:
        found = os.stat(path)
    except OSError:
        return
    if not stat.S_ISREG(found.st_mode):
        raise ValueError(f"{_shown(path)} is not a regular file.")
