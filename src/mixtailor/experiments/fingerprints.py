"""What an object is, as a short text: the same in every process, another one where the object does something else."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["fingerprint"]


def fingerprint(item: object) -> str:
    """A digest of an object: of a function its code and what it closes over, of an array or a network its numbers.

    Examples
    --------
    >>> fingerprint(np.eye(2)) == fingerprint(np.eye(2)), fingerprint(np.eye(2)) == fingerprint(np.eye(3))
    (True, False)
    >>> fingerprint(lambda rows: rows[0]) == fingerprint(lambda rows: rows[1])
    False
    """
    digest = hashlib.sha256()
    for part in _parts(item, frozenset()):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:16]


def _parts(item: Any, inside: frozenset[int]) -> Iterable[bytes]:
    """The bytes that an object consists of; `inside` are the objects on the way to it, which may contain themselves."""
    if id(item) in inside:
        return
    inner = inside | {id(item)}
    if item is None or isinstance(item, (bool, int, float, complex, str, bytes)):
        yield f"{type(item).__name__} {item!r}".encode()
    elif isinstance(item, np.ndarray):
        yield f"array {item.dtype} {item.shape}".encode()
        yield np.ascontiguousarray(item).tobytes()
    elif hasattr(item, "detach"):
        tensor = item.detach().cpu()
        yield f"tensor {tensor.dtype}".encode()
        yield from _parts((tensor.float() if tensor.is_floating_point() else tensor).numpy(), inner)
    elif isinstance(item, Mapping):
        for key, value in item.items():
            yield from _several((key, value), inner)
    elif isinstance(item, (list, tuple)):
        yield f"{len(item)} items".encode()
        yield from _several(item, inner)
    elif isinstance(item, (set, frozenset)):
        yield from _several(sorted(item, key=repr), inner)
    elif isinstance(item, type):
        yield from _of_class(item, inner)
    elif isinstance(item, functools.partial):
        yield from _several((item.func, item.args, item.keywords), inner)
    elif isinstance(item, types.CodeType):
        yield item.co_code
        yield from _several((item.co_consts, item.co_names), inner)
    elif isinstance(item, types.FunctionType):
        cells = tuple(cell.cell_contents for cell in item.__closure__ or ())
        yield from _several((item.__code__, item.__defaults__, item.__kwdefaults__, cells), inner)
    elif isinstance(item, types.MethodType):
        yield from _several((item.__self__, item.__func__), inner)
    elif hasattr(item, "state_dict"):
        yield from _several((type(item), repr(item), dict(item.state_dict())), inner)
    else:
        yield from _of_object(item, inner)


def _several(items: Iterable[Any], inside: frozenset[int]) -> Iterable[bytes]:
    for item in items:
        yield from _parts(item, inside)


def _of_class(kind: type[Any], inside: frozenset[int]) -> Iterable[bytes]:
    """Its name, and the code of its methods where it is not of an installed package: that may be edited."""
    yield f"{kind.__module__}.{kind.__qualname__}".encode()
    if kind.__module__.partition(".")[0] in ("mixtailor", "torch", "numpy", "builtins"):
        return
    own = {key: value for key, value in vars(kind).items() if isinstance(value, (types.FunctionType, int, float, str))}
    yield from _parts({key: own[key] for key in sorted(own) if key not in ("__module__", "__firstlineno__")}, inside)


def _of_object(item: Any, inside: frozenset[int]) -> Iterable[bytes]:
    yield from _of_class(type(item), inside)
    if dataclasses.is_dataclass(item):
        yield from _several((getattr(item, field.name) for field in dataclasses.fields(item) if field.compare), inside)
    elif " at 0x" not in repr(item):
        yield repr(item).encode()
    else:
        yield from _parts(vars(item) if hasattr(item, "__dict__") else {}, inside)
