"""When a result is released: at once, or at moments that do not show which rule was drawn."""

import math
import time
import warnings

__all__ = ["released"]


class released:  # lower case, to be read as a word
    """Leave this block, by a result or by an error, a whole number of `every` seconds after it was entered.

    None leaves at once. An interruption from the keyboard is not held back.
    """

    def __init__(self, every: float | None) -> None:
        self.every = every

    def __enter__(self) -> None:
        self.started = time.monotonic()

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self.every is not None and (kind is None or issubclass(kind, Exception)):
            _wait(self.started, self.every)


def _wait(started: float, every: float) -> None:
    spent = time.monotonic() - started
    periods = max(1, math.ceil(spent / every))
    if periods > 1:
        warnings.warn(
            f"An aggregation took {spent:.3g} s, longer than release_after = {every:g} s, and is released after "
            f"{periods * every:g} s: how many periods it took says something about the rule. Raise release_after.",
            RuntimeWarning,
            stacklevel=4,
        )
    # A sleep may end early, by the clock's grain.
    while (left := started + periods * every - time.monotonic()) > 0:
        time.sleep(left)
