"""How much of the files was read."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Readings"]


@dataclass
class Readings:
    """How often everything was read, counted run by run; `show` is called for each."""

    passes: float = 0.0
    show: Callable[[float], None] | None = None
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def add(self, share: float) -> None:
        """Another part of all coordinates was read."""
        with self._lock:  # runs are read by several threads
            self.passes += share
            if self.show is not None:
                self.show(self.passes)
