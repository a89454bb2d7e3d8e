"""The one door to numba: typed decorators, and rows found by their address.

numba ships no types for its decorators, so the untyped calls are made here and nowhere else.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba import types
from numba.extending import intrinsic

__all__ = ["kernel", "run_at", "special_kernel"]

P = ParamSpec("P")
R = TypeVar("R")


@functools.cache
def _stamp() -> str:
    """The state of all kernel sources: numba looks at the one file that holds a function, not at those it calls."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    facts = [(file.name, status.st_mtime_ns, status.st_size) for file in files for status in [file.stat()]]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on the first call with a dtype, keep the result on disk, run without the GIL.

    There is no fast-math: its `nnan` and `ninf` delete the very tests that find a faulty row, and its reordering undoes
    exact steps. Where the order of a sum may change, the code says so itself.
    """
    dispatcher = numba.njit(cache=True, nogil=True, error_model="numpy")(function)
    index = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):  # numba's own, private; without it only a developer would see old kernels
        index._source_stamp = _stamp()
    return cast("Callable[P, R]", dispatcher)


def special_kernel(*constants: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A `kernel` that is compiled for some constants, which its function has as free variables.

    The constants become part of its name: numba tells compiled functions apart by name and a running number, and the
    numbers of different processes, which share the disk, are the same.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        label = "_".join(str(constant).replace("-", "minus") for constant in constants)
        function.__name__ = f"{function.__name__}_{label}"
        function.__qualname__ = function.__name__
        return kernel(function)

    return decorate


@intrinsic
def _pointer(typingctx: Any, address: Any, like: Any) -> Any:
    """An integer as a pointer to elements of `like`'s dtype: kernels take addresses, so rows may lie anywhere."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.intp, like), generate


@kernel
def run_at(address: Any, like: Any, start: Any, count: Any) -> Any:
    """`count` elements from `start` on, of the row that begins at `address`, as an array."""
    return numba.carray(_pointer(address + start * like.itemsize, like), (count,))
