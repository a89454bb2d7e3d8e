"""What the pickle of a checkpoint describes, read without unpickling: nothing is imported, called or allocated.

`torch.load(..., weights_only=True)` calls what a pickle names, from a list that torch considers safe. `bytearray` is
on it, so that a file of a kilobyte takes as much memory as it likes. Here the opcodes are read one by one
(`pickletools.genops`, which only disassembles), and a call becomes a note of what would be called. Every opcode makes
at most one small object, so memory is bounded by the length of the pickle.
"""

import pickletools
from collections.abc import Callable
from typing import Any, NamedTuple, final

__all__ = ["Call", "Mapped", "Name", "NoOutline", "Opaque", "Refused", "Stored", "outline"]

_PLAIN = frozenset({
    "NONE", "NEWTRUE", "NEWFALSE", "BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4", "BINFLOAT", "FLOAT",
    "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE", "BINSTRING", "SHORT_BINSTRING", "STRING", "BINBYTES",
    "SHORT_BINBYTES", "BINBYTES8",
})  # fmt: skip
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_PUT, _GET = ("BINPUT", "LONG_BINPUT", "PUT"), ("BINGET", "LONG_BINGET", "GET")
_MARK = object()
# Names that may be in a checkpoint of tensors and plain values. They are looked at here and never looked up.
_HARMLESS = frozenset({
    "collections.OrderedDict", "torch.Size", "torch.device", "torch.serialization._get_layout", "_codecs.encode",
    "__builtin__.set", "__builtin__.complex", "__builtin__.bytearray", "__builtin__.frozenset",
    *(f"torch._utils._rebuild_{what}" for what in (
        "parameter", "parameter_with_state", "tensor_v2", "tensor_v3", "sparse_tensor", "qtensor", "nested_tensor",
        "meta_tensor_no_storage",
    )),
})  # fmt: skip


class NoOutline(ValueError):
    """These bytes are no pickle as `torch.save` writes it."""


class Refused(ValueError):
    """The pickle names a Python object that no checkpoint of tensors needs."""


@final
class Name(NamedTuple):
    """Something that would be imported."""

    path: str


@final
class Call(NamedTuple):
    """Something that would be called."""

    path: str
    arguments: tuple[Any, ...]


@final
class Stored(NamedTuple):
    """The numbers of a tensor: a member of the archive."""

    kind: str
    key: str


@final
class Opaque:
    """A list or a set: what it holds does not matter."""

    __slots__ = ()


@final
class Mapped:
    """A mapping: the entries whose names are text, and another name if there is one."""

    __slots__ = ("entries", "other")

    def __init__(self) -> None:
        self.entries: dict[str, Any] | None = None  # most of them stay empty
        self.other: Any = None

    def put(self, key: Any, value: Any) -> None:
        """One entry. Other keys are not hashed: tuples of tuples would take for ever."""
        if isinstance(key, str):
            self.entries = {} if self.entries is None else self.entries
            self.entries[key] = value
        else:
            self.other = key if isinstance(key, int) else type(key).__name__


def outline(data: bytes) -> Any:
    """What a pickle describes: text, numbers, tuples, and the notes of this module for everything else."""
    reader = _Reader()
    try:
        for opcode, argument, _ in pickletools.genops(data):
            if opcode.name == "STOP":
                return reader.stack.pop()
            reader.take(opcode.name, argument)
    except Refused:
        raise
    except Exception as error:  # a damaged pickle makes the disassembler or the stack fail in any way
        raise NoOutline(" ".join(str(error).split())[:100]) from None
    raise NoOutline("it has no end")


@final
class _Reader:
    """The stack of a pickle, and what it remembers."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def take(self, name: str, argument: Any) -> None:
        """One opcode."""
        if name in _PLAIN:
            self.stack.append(_CONSTANTS.get(name, argument))
        elif name in _PUT:
            self.memory[argument] = self.stack[-1]
        elif name in _GET:
            self.stack.append(self.memory[argument])
        elif name in _STEPS:
            _STEPS[name](self)
        elif name == "GLOBAL":
            self.stack.append(_named(argument))
        elif name != "PROTO":
            raise NoOutline(f"the opcode {name}, which torch.save does not write")

    def since_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while self.stack[place] is not _MARK:  # an IndexError at the bottom
            place -= 1
            if place < 0:
                raise NoOutline("no mark")
        found = self.stack[place + 1 :]
        del self.stack[place:]
        return found

    def gather(self, count: int) -> None:
        items = self.stack[len(self.stack) - count :]
        if len(items) != count:
            raise NoOutline("a tuple of too little")
        del self.stack[len(self.stack) - count :]
        self.stack.append(tuple(items))

    def put(self, items: list[Any]) -> None:
        mapping = self.stack[-1]
        if isinstance(mapping, Mapped):
            for key, value in zip(items[::2], items[1::2], strict=True):
                mapping.put(key, value)

    def call(self) -> None:
        arguments, function = self.stack.pop(), self.stack.pop()
        if not isinstance(function, Name) or not isinstance(arguments, tuple):
            raise NoOutline("a call of nothing that has a name")
        new = function.path == "collections.OrderedDict" and not arguments
        self.stack.append(Mapped() if new else Call(function.path, arguments))

    def stored(self) -> None:
        match self.stack.pop():
            case ("storage", Name(path), str(key), str(), int()):
                self.stack.append(Stored(path, key))
            case _:
                raise NoOutline("numbers that are no storage")


def _named(argument: str) -> Name:
    path = argument.replace(" ", ".", 1)
    own = path.removeprefix("torch.storage.").removeprefix("torch.")  # types and storages
    if path not in _HARMLESS and not (own != path and own.isidentifier()):
        raise Refused("".join(letter if letter.isprintable() else " " for letter in path[:80]))
    return Name(path)


_STEPS: dict[str, Callable[[_Reader], Any]] = {
    "MARK": lambda reader: reader.stack.append(_MARK),
    "EMPTY_TUPLE": lambda reader: reader.stack.append(()),
    "EMPTY_LIST": lambda reader: reader.stack.append(Opaque()),
    "EMPTY_SET": lambda reader: reader.stack.append(Opaque()),
    "EMPTY_DICT": lambda reader: reader.stack.append(Mapped()),
    "TUPLE": lambda reader: reader.stack.append(tuple(reader.since_mark())),
    "TUPLE1": lambda reader: reader.gather(1),
    "TUPLE2": lambda reader: reader.gather(2),
    "TUPLE3": lambda reader: reader.gather(3),
    "APPEND": lambda reader: reader.stack.pop(),
    "APPENDS": lambda reader: reader.since_mark(),
    "SETITEM": lambda reader: reader.put([reader.stack.pop(-2), reader.stack.pop()]),
    "SETITEMS": lambda reader: reader.put(reader.since_mark()),
    "BUILD": lambda reader: reader.stack.pop(),  # attributes of an OrderedDict: a state dict has its `_metadata`
    "REDUCE": _Reader.call,
    "BINPERSID": _Reader.stored,
}
