"""What a tracker is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

__all__ = ["Tracker"]


@runtime_checkable
class Tracker(Protocol):
    """Somewhere that numbers go as training proceeds.

    Laws: steps never fall; the same step may be logged more than once; the code that opened a tracker closes it, once.

    Examples
    --------
    Anything with the two methods is one.

    >>> class Printed:
    ...     def log(self, step, values):
    ...         print(step, dict(values))
    ...
    ...     def close(self):
    ...         print("done")
    >>> isinstance(Printed(), Tracker)
    True
    """

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers by name, at a step."""

    def close(self) -> None:
        """Write what is left."""
