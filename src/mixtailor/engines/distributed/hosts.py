"""What ranks report of where they run: whether they compute the same bits, and which of them share a host."""

import os
import platform
import uuid
from collections.abc import Iterable
from functools import cache
from hashlib import sha256
from importlib.metadata import version

from llvmlite import binding  # type: ignore[import-untyped]  # ships no types

__all__ = ["computing", "host"]

# How many threads a library splits a sum among, and which instructions it may use.
_SETTINGS = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_CORETYPE",
    "NPY_DISABLE_CPU_FEATURES",
)


@cache
def computing() -> int:
    """A number of 63 bits for all that decides the last bit of a sum: processor, libraries and their settings."""
    facts = [
        platform.platform(),
        platform.python_version(),
        binding.get_host_cpu_name(),
        binding.get_host_cpu_features().flatten(),
        str(os.cpu_count()),
        *(version(library) for library in ("mixtailor", "numpy", "scipy", "numba", "torch")),
        *(os.environ.get(setting, "") for setting in _SETTINGS),
    ]
    return _number(facts)


@cache
def host() -> int:
    """A number of 63 bits for the machine this process runs on, the same for all its processes."""
    return _number([platform.node(), str(uuid.getnode())])


def _number(facts: Iterable[str]) -> int:
    return int.from_bytes(sha256("\n".join(facts).encode()).digest()[:8], "big") >> 1
