"""The one module that imports numba: typed decorators, and rows found by their address.

numba types itself in part, and differently from version to version; here all of it is `Any`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

from mixtailor.kernels.compiling import WATCH

__all__ = [
    "address_of",
    "cgutils",
    "config",
    "copy",
    "helper",
    "inlined",
    "intrinsic",
    "ir",
    "kernel",
    "llvm",
    "run_at",
    "special_kernel",
    "types",
]

numba: Any = importlib.import_module("numba")
types: Any = numba.types
config: Any = importlib.import_module("numba.core.config")
cgutils: Any = importlib.import_module("numba.core.cgutils")
intrinsic: Any = importlib.import_module("numba.extending").intrinsic
llvm: Any = importlib.import_module("llvmlite.binding")
ir: Any = importlib.import_module("llvmlite.ir")
carray: Any = numba.carray
events: Any = importlib.import_module("numba.core.event")


class _Events(events.Listener):  # type: ignore[misc]  # Any
    """Passes numba's compilations on, nested ones included."""

    def on_start(self, event: Any) -> None:
        WATCH.begin(event.data["dispatcher"].py_func)

    def on_end(self, event: Any) -> None:
        WATCH.end()


events.register("numba:compile", _Events())

P = ParamSpec("P")
R = TypeVar("R")


@functools.cache
def _stamp() -> str:
    """The state of all kernel sources: numba looks at the one file that holds a function, not at those it calls."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    facts = [(file.name, status.st_mtime_ns, status.st_size) for file in files for status in [file.stat()]]
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _compiled(function: Callable[P, R], **options: bool) -> Callable[P, R]:
    options = {"no_cfunc_wrapper": True, **options}
    dispatcher = numba.njit(cache=True, nogil=True, error_model="numpy", **options)(function)
    index: Any = getattr(getattr(dispatcher, "_cache", None), "_cache_file", None)
    if hasattr(index, "_source_stamp"):  # numba's own, private; without it only a developer would see old kernels
        index._source_stamp = _stamp()
    if all(hasattr(index, name) for name in ("save", "_data_name_pattern", "_load_index", "_save_index", "_save_data")):
        index.save = functools.partial(_save, index)
    return cast("Callable[P, R]", dispatcher)


def _save(index: Any, key: Any, data: Any) -> None:
    """Keep compiled code on disk, in a file that is named after its key.

    numba numbers the files of a function. Two processes that compile it at the same time, for different types, both
    take the first free number: the index then leads to code for the other type, which fails with "can't unbox array".
    With names from keys, the worst is that one process's entry is lost from the index, and compiled again.
    """
    digest = hashlib.sha256(repr(key).encode()).hexdigest()[:16]
    name = index._data_name_pattern.replace("{number:d}", digest)
    index._save_data(name, data)  # first, so that the index names no file that is not there yet
    index._save_index({**index._load_index(), key: name})


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on the first call with a dtype, keep the result on disk, run without the GIL.

    There is no fast-math: its `nnan` and `ninf` delete the very tests that find a faulty row, and its reordering undoes
    exact steps. Where the order of a sum may change, the code says so itself.
    """
    return _compiled(function)


def helper(function: Callable[P, R]) -> Callable[P, R]:
    """A `kernel` that only kernels call: nothing is compiled to call it from Python."""
    return _compiled(function, no_cpython_wrapper=True)


def inlined(function: Callable[P, R]) -> Callable[P, R]:
    """A few lines for kernels alone, compiled as part of whoever calls them: a function of its own takes a tenth of a
    second, whatever it does."""
    return cast("Callable[P, R]", numba.njit(nogil=True, error_model="numpy", inline="always")(function))


def _name(function: Any, constants: tuple[int, ...]) -> None:
    label = "_".join(str(constant).replace("-", "minus") for constant in constants)
    function.__name__ = function.__qualname__ = f"{function.__name__}_{label}"


def special_kernel(*constants: int) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """A `kernel` that is compiled for some constants, which its function has as free variables.

    The constants become part of its name: numba tells compiled functions apart by name and a running number, and the
    numbers of different processes, which share the disk, are the same.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        _name(function, constants)
        return kernel(function)

    return decorate


_kept: list[Any] = []  # code that is called by its address must not be collected


def address_of(function: Callable[..., None], signature: str, *constants: int) -> int:
    """Where the compiled code of a function without a result begins, for kernels that call it by that address.

    What differs from kernel to kernel is compiled like this, by itself, and everything around it once for all. The
    signature is numba's, of integers and float64 alone: ``"void(intp, float64)"``.
    """
    _name(function, constants)
    dispatcher: Any = _compiled(function, no_cpython_wrapper=True, no_cfunc_wrapper=False)
    dispatcher.compile(signature)
    _kept.append(dispatcher)
    (found,) = dispatcher.overloads.values()
    return int(found.library.get_pointer_to_function(found.fndesc.llvm_cfunc_wrapper_name))


@intrinsic  # type: ignore[untyped-decorator]  # Any
def _pointer(typingctx: Any, address: Any, like: Any) -> Any:
    """An integer as a pointer to elements of `like`'s dtype: kernels take addresses, so rows may lie anywhere."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

    return types.CPointer(like.dtype)(types.intp, like), generate


@inlined
def run_at(address: Any, like: Any, start: Any, count: Any) -> Any:
    """`count` elements from `start` on, of the row that begins at `address`, as an array."""
    return carray(_pointer(address + start * like.itemsize, like), (count,))


@inlined
def copy(source: Any, target: Any, count: Any) -> None:
    """Copy the first `count` numbers of a run.

    Not by assigning a slice: with each of these numba compiles the wording of an error, which takes two seconds.
    """
    for c in range(count):
        target[c] = source[c]
