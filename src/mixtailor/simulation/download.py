"""Getting a published file from the network: bounded, checked, and there all at once or not at all."""

from __future__ import annotations

import hashlib
import urllib.error
import urllib.parse
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from mixtailor._files import atomic_write
from mixtailor.simulation.files import DataError

if TYPE_CHECKING:
    from collections.abc import Callable

    Progress = Callable[[str, int, int], None]

__all__ = ["fetch"]

PIECE = 2**16
PATIENCE = 30.0  # seconds without a byte


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
        with urllib.request.urlopen(url, timeout=PATIENCE) as response, atomic_write(target) as file:
            while piece := response.read(PIECE):
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
