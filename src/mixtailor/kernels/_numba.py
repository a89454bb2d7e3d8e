"""The one door to numba: typed decorators, and rows found by their address.

numba ships no types for its decorators, so the untyped calls are made here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import numba
from numba import types
from numba.extending import intrinsic

P = ParamSpec("P")
R = TypeVar("R")

# `nnan` and `ninf` are left out on purpose: with them LLVM deletes the very tests that find a faulty row.
REORDER = frozenset({"reassoc", "contract", "nsz", "arcp"})


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile for the rows' dtype on the first call, keep the result on disk, run without the GIL."""
    return cast(
        "Callable[P, R]", numba.njit(cache=True, nogil=True, fastmath=set(REORDER), error_model="numpy")(function)
    )


def exact_kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Like `kernel`, with every operation in the order in which it was written."""
    return cast("Callable[P, R]", numba.njit(cache=True, nogil=True, error_model="numpy")(function))


@intrinsic  # type: ignore[untyped-decorator]  # numba has no types
def _pointer(typingctx: Any, address: Any, like: Any) -> Any:
    """An integer as a pointer to elements of `like`'s dtype: kernels take addresses, so rows may lie anywhere."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.intp, like), generate


@exact_kernel
def run_at(address: Any, like: Any, start: Any, count: Any) -> Any:
    """`count` elements from `start` on, of the row that begins at `address`, as an array."""
    return numba.carray(_pointer(address + start * like.itemsize, like), (count,))
