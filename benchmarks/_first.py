"""First calls in a process of its own: ``python -m benchmarks._first TASK N [TASK N ...]``.

Prints the seconds of each first call, in order, after that of an empty cached function; each on rows of its own.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

from benchmarks import _own
from benchmarks._data import gradients
from benchmarks._empty import empty

__all__ = ["main"]

D = 21_840  # enough for the kernels that are generated for a number of rows


def main() -> None:
    """Time what the arguments name."""
    warnings.simplefilter("ignore")
    seconds = [_first(empty)]
    names, counts = sys.argv[1::2], [int(count) for count in sys.argv[2::2]]
    for name, n in zip(names, counts, strict=True):
        rows = gradients(n, D, 2)
        seconds.append(_first(_own.tasks(n, 2)[name](rows)))
    print(json.dumps(seconds))


def _first(call: object) -> float:
    assert callable(call)
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
