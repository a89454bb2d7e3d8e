"""One file, read: refused with a sentence or taken, in bounded time and memory."""

from __future__ import annotations

import shutil
import tempfile
import tracemalloc
import warnings
from pathlib import Path

from campaigns.bytes.targets import TARGETS
from campaigns.rows.case import MEMORY

FLOOR, GROWTH = 24 << 20, 80  # bytes that a reader may take at least, and as many times the file's size


class Reader:
    """Reads damaged files in a folder of its own, with every allocation counted."""

    def __init__(self, name: str) -> None:
        self.target = TARGETS[name]
        self.folder = Path(tempfile.mkdtemp(prefix="bytes-", dir=MEMORY if MEMORY.is_dir() else None))
        self.path = self.folder / self.target.file
        for whole in self.target.whole():  # what is imported, compiled and kept belongs to no file
            self.broken(whole)

    def __enter__(self) -> Reader:
        tracemalloc.start(1)
        return self

    def __exit__(self, *_: object) -> None:
        tracemalloc.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def broken(self, data: bytes) -> str | None:
        """What is wrong with how these bytes were read; None if nothing is."""
        self.path.write_bytes(data)
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        problem = self._read()
        taken = tracemalloc.get_traced_memory()[1] - before
        if taken > FLOOR + GROWTH * len(data):
            return f"{taken:,} bytes of memory for a file of {len(data):,}"
        return problem

    def _read(self) -> str | None:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                warnings.simplefilter("ignore", UserWarning)
                self.target.read(self.path)
        except self.target.refuses as refusal:
            plain = type(refusal).__name__ in ("JSONDecodeError", "UnicodeDecodeError")
            if plain or not str(refusal).endswith((".", "?")):
                return f"no sentence: {type(refusal).__name__}: {refusal}"
        except Exception as error:  # nothing else was promised
            return f"{type(error).__name__}: {error}"
        return None
