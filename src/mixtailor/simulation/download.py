"""Getting a published file from the network: bounded, checked, and there all at once or not at all."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from mixtailor.simulation.files import DataError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import BinaryIO

    Progress = Callable[[str, int, int], None]

__all__ = ["fetch", "written_whole"]

PIECE = 2**16
PATIENCE = 30.0  # seconds without a byte


@contextlib.contextmanager
def written_whole(target: Path) -> Iterator[BinaryIO]:
    """A file to write that takes the name `target` when everything has been written, and leaves nothing otherwise.

    Examples
    --------
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(Path(folder, "numbers")) as file:
    ...         _ = file.write(b"123")
    ...         before = Path(folder, "numbers").exists()
    ...     print(before, Path(folder, "numbers").read_bytes())
    False b'123'
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            if hasattr(os, "fchmod"):
                os.fchmod(handle, 0o666 & ~_umask())  # a temporary file is its owner's alone; the result need not be
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """What new files may not be; asking means setting it."""
    found = os.umask(0o022)
    os.umask(found)
    return found


def fetch(url: str, target: Path, *, size: int, sha256: str | None, progress: Progress | None = None) -> None:
    """Download `url` to `target`.

    Parameters
    ----------
    url : str
        An http or https address.
    target : Path
        Where the file goes. It appears when it is complete and checked, never before.
    size : int
        How many bytes it has. A server that sends more is not listened to.
    sha256 : str or None
        What its SHA-256 must be; None where the caller checks the content.
    progress : callable, optional
        Called as ``progress(name, bytes_done, bytes_in_all)``.
    """
    if urllib.parse.urlsplit(url).scheme not in {"http", "https"}:
        raise DataError(f"Only http and https addresses are downloaded, not {url}.")
    digest, done = hashlib.sha256(), 0
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer, written_whole(target) as file:
            while piece := answer.read(PIECE):
                done += len(piece)
                if done > size:
                    raise DataError(f"{url} sends more than the {size:,} bytes that were published.")
                file.write(piece)
                digest.update(piece)
                if progress is not None:
                    progress(target.name, done, size)
            if done < size:
                raise DataError(f"{url} ended after {done:,} of {size:,} bytes.")
            if sha256 is not None and digest.hexdigest() != sha256:
                raise DataError(f"{url} has SHA-256 {digest.hexdigest()} and {sha256} was published.")
    except urllib.error.URLError as error:
        raise DataError(f"{url} cannot be reached: {error.reason}.") from error
    except (OSError, HTTPException) as error:
        raise DataError(f"{url} could not be downloaded to {target}: {error}.") from error
