"""What the trail keeps on disk: a log that only grows, a secret that only its owner reads, a lock for one writer."""

from __future__ import annotations

import json
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mixtailor._files import atomic_write, new_file, rename
from mixtailor.mixing.audit.entries import LONGEST_LINE, is_text
from mixtailor.mixing.audit.merkle import is_hash

if sys.platform != "win32":
    import fcntl

SECRET_FORMAT = "mixtailor secret 1"
LONGEST_SECRET = 4096  # bytes of the file, the name of the run among them


class LongLineError(ValueError):
    """A line is longer than any that the trail writes."""


def lines_of(path: str) -> Iterator[bytes]:
    """The lines of a regular file, each with its newline; only a half-written last one comes without.

    A line is never read beyond the longest that an entry may have, and a pipe or a device is refused: it could feed a
    reader for ever.
    """
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a regular file.")
        while line := file.readline(LONGEST_LINE + 1):
            if len(line) > LONGEST_LINE:
                raise LongLineError(f"is longer than the {LONGEST_LINE} bytes that an entry may have")
            yield line


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte and wait until the disk has them."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    os.fsync(descriptor)


@dataclass(frozen=True)
class Secret:
    """The secret of one run, and whether it may have been revealed already."""

    run: str
    value: bytes = field(repr=False)
    revealed: bool

    def encode(self) -> bytes:
        """The content of the secret file."""
        found = {"format": SECRET_FORMAT, "run": self.run, "secret": self.value.hex(), "revealed": self.revealed}
        return json.dumps(found).encode("ascii") + b"\n"


def read_secret(path: str) -> Secret:
    """Read a secret file that nobody else can read."""
    with open(path, "rb") as file:
        mode = os.fstat(file.fileno()).st_mode
        if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
            raise PermissionError(
                f"The secret {path} can be read by others (mode {stat.S_IMODE(mode):04o}), and whoever reads it knows "
                f"every draw. If nobody has, `chmod 600 {path}`; else start a new run."
            )
        data = file.read(LONGEST_SECRET + 1)
    try:
        found = json.loads(data.decode("ascii")) if len(data) <= LONGEST_SECRET else None
    except (ValueError, RecursionError):
        found = None
    if (
        not isinstance(found, dict)
        or set(found) != {"format", "run", "secret", "revealed"}
        or found["format"] != SECRET_FORMAT
        or not is_text(found["run"])
        or not is_hash(found["secret"])
        or type(found["revealed"]) is not bool
    ):
        raise ValueError(f"{path} is not the secret of an audit trail, or is damaged.")
    return Secret(found["run"], bytes.fromhex(found["secret"]), found["revealed"])


def create(path: str, secret: Secret, line: bytes) -> None:
    """Write the files of a new run: its secret, and a log of one line. Neither may exist."""
    for left in (path, path + ".secret"):
        if os.path.lexists(left):
            raise FileExistsError(f"{left} exists. Resume that run, or start this one under another name.")
    # The secret takes its name last: whatever a crash leaves before that is not yet a run, or is a whole one.
    waiting = Path(path + ".secret.new")
    waiting.unlink(missing_ok=True)
    with new_file(waiting, mode=0o600) as file:
        file.write(secret.encode())
    with atomic_write(path) as file:
        file.write(line)
    rename(waiting, path + ".secret")


def replace_end(path: str, size: int, line: bytes) -> None:
    """Put a line in the place of all that follows the first `size` bytes.

    In one step, so that no crash can drop a half-written line without the record of it.
    """
    with open(path, "rb") as file:
        whole = file.read(size)
        mode = os.fstat(file.fileno()).st_mode & 0o777
    with atomic_write(path, mode=mode) as replacement:
        replacement.write(whole + line)


class Lock:
    """One writer at a time, across processes; the operating system lets go when the process ends.

    On Windows, which has no `flock`, nothing keeps a second writer away.
    """

    def __init__(self, path: str) -> None:
        self._pid = os.getpid()
        self._descriptor: int | None = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if sys.platform != "win32":
            try:
                fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._close()
                raise RuntimeError(
                    f"Another audit trail has {path} locked. A log has one writer: close or release the other first."
                ) from None

    def release(self) -> None:
        """Let go. In a forked child only its own handle is closed: the lock stays with the parent."""
        if self._descriptor is not None and sys.platform != "win32" and os.getpid() == self._pid:
            fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
