"""The one way this project replaces a file: written beside it, flushed to the disk, then renamed."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import BinaryIO

__all__ = ["atomic_write", "new_file", "rename"]


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
