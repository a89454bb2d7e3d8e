"""A disk that is full: a small tmpfs in a namespace of its own where the system allows, else a limit on file sizes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
from collections.abc import Callable
from pathlib import Path

NEW_USER, NEW_MOUNTS, REMOUNT, PRIVATE = 0x10000000, 0x00020000, 32, (1 << 18) | (1 << 14)


def small(folder: Path, size: int) -> tuple[str, Callable[[], None]]:
    """Make the folder hold no more than `size` bytes, for this process; how that was done, and what makes room again.

    Call it in a forked child: the change ends with the process.
    """
    try:
        return "tmpfs", _tmpfs(folder, size)
    except OSError:
        return "RLIMIT_FSIZE", _limited(size)


def _tmpfs(folder: Path, size: int) -> Callable[[], None]:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> None:
        if getattr(libc, name)(*arguments):
            raise OSError(ctypes.get_errno(), name)

    user, group = os.getuid(), os.getgid()
    call("unshare", NEW_USER | NEW_MOUNTS)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
        Path("/proc/self", name).write_text(text)
    call("mount", b"none", b"/", None, PRIVATE, None)
    where = os.fsencode(folder)
    call("mount", b"none", where, b"tmpfs", 0, f"size={size}".encode())
    return lambda: call("mount", b"none", where, b"tmpfs", REMOUNT, b"size=64m")


def _limited(size: int) -> Callable[[], None]:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)  # a write beyond the limit is then an OSError
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))

    def room() -> None:
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))

    return room
