"""What an object is, as a short text: the same in every process, another one where the object does something else."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from mixtailor.intake.arrays import is_torch

__all__ = ["fingerprint"]

_PLAIN = (bool, int, float, complex, str, bytes)
_INSTALLED = ("mixtailor", "torch", "numpy", "scipy", "builtins", "dataclasses", "functools", "typing", "abc")
_UNIMPORTANT = ("__module__", "__qualname__", "__doc__", "__firstlineno__")


def fingerprint(item: object) -> str:
    """A digest of an object: of a function its code and what it uses, of an array or a network its numbers.

    What a function uses is what it closes over, its defaults, and the constants, functions and classes of its own
    module that it names. Other modules that it imports are not looked into.

    Examples
    --------
    >>> fingerprint(np.eye(2)) == fingerprint(np.eye(2)), fingerprint(np.eye(2)) == fingerprint(np.eye(3))
    (True, False)
    >>> fingerprint(lambda rows: rows[0]) == fingerprint(lambda rows: rows[1])
    False
    """
    digest = hashlib.sha256()
    for part in _Walk().parts(item):
        digest.update(len(part).to_bytes(8, "little") + part)
    return digest.hexdigest()[:16]


class _Walk:
    """One way through an object. Functions, classes and other objects that it meets again are only counted."""

    def __init__(self) -> None:
        self._seen: dict[int, tuple[int, Any]] = {}  # by identity; the objects stay, so that no other takes their place

    def parts(self, item: Any) -> Iterator[bytes]:
        """The bytes that an object consists of."""
        if item is None or isinstance(item, _PLAIN):
            yield f"{type(item).__name__} {item!r}".encode()
        elif isinstance(item, np.ndarray):
            yield f"array {item.dtype} {item.shape}".encode()
            yield np.ascontiguousarray(item).tobytes()
        elif is_torch(item):
            tensor = item.detach().cpu()
            yield f"tensor {tensor.dtype}".encode()
            # numpy has no bfloat16, and float32 holds all of its numbers.
            yield from self.parts((tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy())
        elif isinstance(item, Mapping):
            yield from self.several(part for pair in item.items() for part in pair)
        elif isinstance(item, (list, tuple)):
            yield f"{len(item)} items".encode()
            yield from self.several(item)
        elif isinstance(item, (set, frozenset)):
            yield from self.several(sorted(item, key=repr))
        elif isinstance(item, functools.partial):
            yield from self.several((item.func, item.args, item.keywords))
        elif isinstance(item, types.CodeType):
            yield item.co_code
            yield from self.several((item.co_consts, item.co_names))
        elif isinstance(item, types.MethodType):
            yield from self.several((item.__self__, item.__func__))
        elif isinstance(item, property):
            yield from self.several((item.fget, item.fset))
        elif isinstance(item, (classmethod, staticmethod)):
            yield from self.parts(item.__func__)
        elif id(item) in self._seen:
            yield f"once more {self._seen[id(item)][0]}".encode()
        else:
            self._seen[id(item)] = (len(self._seen), item)
            yield from self._met(item)

    def several(self, items: Iterable[Any]) -> Iterator[bytes]:
        """The bytes of objects, one after the other."""
        for item in items:
            yield from self.parts(item)

    def _met(self, item: Any) -> Iterator[bytes]:
        if isinstance(item, types.FunctionType):
            cells = tuple(cell.cell_contents for cell in item.__closure__ or ())
            used = {name: value for name, value in sorted(_globals(item).items()) if _belongs(value, item.__module__)}
            yield from self.several((item.__code__, item.__defaults__, item.__kwdefaults__, cells, used))
        elif isinstance(item, type):
            yield f"{item.__module__}.{item.__qualname__}".encode()
            if item.__module__.partition(".")[0] not in _INSTALLED:
                kinds = (types.FunctionType, property, classmethod, staticmethod, *_PLAIN)
                own = {name: value for name, value in vars(item).items() if isinstance(value, kinds)}
                yield from self.parts({name: own[name] for name in sorted(own) if name not in _UNIMPORTANT})
                yield from self.several(item.__bases__)
        elif hasattr(item, "state_dict"):
            yield from self.several((type(item), repr(item), dict(item.state_dict())))
        elif dataclasses.is_dataclass(item):
            fields = [field.name for field in dataclasses.fields(item) if field.compare]
            yield from self.several((type(item), {name: getattr(item, name) for name in fields}))
        elif " at 0x" not in repr(item):
            yield from self.several((type(item), repr(item)))
        else:
            yield from self.several((type(item), getattr(item, "__dict__", {})))


def _globals(function: types.FunctionType) -> dict[str, Any]:
    """What a function names of its module, in nested functions too; nothing of an installed package."""
    if str(function.__module__).partition(".")[0] in _INSTALLED:
        return {}
    found: dict[str, Any] = {}
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        found |= {name: function.__globals__[name] for name in code.co_names if name in function.__globals__}
        codes += [constant for constant in code.co_consts if isinstance(constant, types.CodeType)]
    return found


def _belongs(value: Any, module: str) -> bool:
    """Whether it is a constant, or a function or class of the same module."""
    if isinstance(value, (types.FunctionType, type)):
        return value.__module__ == module
    return isinstance(value, (*_PLAIN, tuple, list, dict, set, frozenset, np.ndarray)) or is_torch(value)
