"""How much of the files was read."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from mixtailor.updates.home import Home

__all__ = ["Readings", "watched"]


@dataclass
class Readings:
    """How often everything was read, counted run by run; `show` hears of each."""

    passes: float = 0.0
    show: Callable[[float], None] | None = None
    _lock: Any = field(default_factory=threading.Lock, repr=False)

    def add(self, share: float) -> None:
        """Another part of all coordinates was read."""
        with self._lock:  # runs are read by several threads
            self.passes += share
            if self.show is not None:
                self.show(self.passes)


def watched(home: Home, readings: Readings) -> Home:
    """The home, telling of every run that is read from it, and so will those that are made of fewer of its rows."""
    kind: Any = type(home)

    def block(self: Any, start: int, stop: int) -> Any:
        read = kind.block(self, start, stop)
        readings.add((stop - start) / max(self.d, 1))
        return read

    # A home of fewer rows is made by its own type, so what watches has to be part of the type.
    home.__class__ = type(f"Watched{kind.__name__}", (kind,), {"block": block})
    return home
