"""Lists of updates in memory: arrays, state dicts, lists of layers, nested as the sender likes."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from mixtailor._checks import refuse
from mixtailor._types import Array
from mixtailor.intake.arrays import discrete_result, flattened, in_memory, is_array, is_torch, read, restored
from mixtailor.intake.arrival import Arrival
from mixtailor.intake.digests import digest_of
from mixtailor.intake.layout import Path, Structure, each_read, named, settle
from mixtailor.kernels.space import BFLOAT16
from mixtailor.storage.converted import Converted
from mixtailor.storage.kinds import Kind, Unfit
from mixtailor.storage.layers import Layers, Matrix, flat_rows
from mixtailor.storage.rows import Rows

__all__ = ["Leaves", "leaves_of", "of_leaves", "of_matrix", "structure_of"]

_DEPTH = 64
_NODES = 1 << 16


@final
@dataclass
class Leaves:
    """The arrays of updates of one structure, and how a result for their coordinates becomes an update again."""

    kinds: dict[Path, Kind]  # of each array, by path, in the type that most updates have
    template: int  # an update of the form that most have
    arrays: dict[Path, list[Any]]  # of the sound updates, by path
    received: tuple[int, ...]  # the index of each sound update
    uniform: bool = False  # all arrays of a path are of one library and type

    def __post_init__(self) -> None:
        if list(self.kinds) == [()] and self.kinds[()].discrete:
            # A single array of integers is an update of integers, not a counter.
            self.kinds = {(): self.kinds[()].as_floats()}
        # The arrays that coordinates are counted over, and those of counters and flags.
        self.paths: list[Path] = []
        self.counters: list[Path] = []
        for path, kind in self.kinds.items():
            (self.counters if kind.discrete else self.paths).append(path)

    @classmethod
    def settled(cls, rows: "list[Structure | None]", faults: dict[int, str]) -> "Leaves":
        """From the structures of all updates; the faults of those that differ from most are noted."""
        kinds, template = settle(rows, faults)
        sound = [row for row in rows if row is not None]
        arrays = {path: [row.arrays[path] for row in sound] for path in kinds}
        return cls(kinds, template, arrays, tuple(index for index, row in enumerate(rows) if row is not None))

    @classmethod
    def of_one_structure(cls, updates: Sequence[Any]) -> "Leaves | None":
        """From updates that all have the structure of the first, type by type; None where one has not."""
        try:
            first = structure_of(updates[0])
            arrays = {path: [array] for path, array in first.arrays.items()}
            for update in updates[1:]:
                if not _joins(update, updates[0], first, arrays):
                    return None
        except Exception:  # what is wrong, and with which update, is found when each is read carefully
            return None
        return cls(first.kinds, 0, arrays, tuple(range(len(updates))), uniform=True) if first.kinds else None

    def storage(self) -> Rows:
        """The arrays in memory, read where they are."""
        storages = [self._rows(path) for path in self.paths]
        return storages[0] if len(storages) == 1 else Layers(storages, len(self.received))

    def _rows(self, path: Path) -> Matrix | Converted:
        kind, column = self.kinds[path], self.arrays[path]
        arrays: list[Array]
        if self.uniform and is_torch(column[0]) and kind.dtype != BFLOAT16:
            arrays = [tensor.numpy() if not tensor.is_neg() else tensor.resolve_neg().numpy() for tensor in column]
        else:
            arrays = [in_memory(array) for array in column]
        return flat_rows(arrays, kind.dtype)

    def parts(self, result: Any) -> dict[Path, Any]:
        """The flat result of each array."""
        return dict(zip(self.paths, [result] if len(self.paths) == 1 else result, strict=True))

    def counted(self, left: Sequence[int], whole: Callable[[Any], Any]) -> dict[Path, Any]:
        """The flat result of each array of counters or flags, from the updates that remain."""
        if not self.counters:
            return {}
        found, place = {}, {index: at for at, index in enumerate(self.received)}
        for path in self.counters:
            rows = [whole(self.arrays[path][place[index]]) for index in left]
            found[path] = discrete_result(self.kinds[path], [row for row in rows if row is not None])
        return found

    def flatten(self, reference: Any) -> Any:
        """An update from outside as one flat vector."""
        if self.paths == [()]:
            return flattened(self.kinds[()], reference)
        try:
            arrays = structure_of(reference).arrays
        except TypeError as error:
            raise TypeError(f"The reference needs the layers of one update and is {error}.") from None
        missing = [path for path in self.paths if path not in arrays]
        if missing:
            refuse(f"The reference needs the layers of one update and lacks {named(missing[0])}.")
        return np.concatenate([np.empty(0), *(flattened(self.kinds[path], arrays[path]) for path in self.paths)])


def structure_of(item: Any) -> Structure:
    """The arrays of one update; raises `Unfit` for what is not an update."""
    row = Structure()
    _walk(item, (), row, [_NODES])
    return row


def _walk(item: Any, path: Path, row: Structure, left: list[int]) -> None:
    left[0] -= 1  # containers that contain one another many times would never end
    if len(path) > _DEPTH or left[0] < 0:
        raise Unfit(f"nested beyond {_DEPTH} levels or {_NODES} parts")
    if is_array(item):
        row.kinds[path], row.arrays[path] = read(item)
    elif isinstance(item, Mapping):
        row.form.append((path, type(item)))
        for key, value in item.items():
            _walk(value, (*path, key), row, left)
    elif isinstance(item, (list, tuple)):
        if item and all(type(value) in (int, float) for value in item):
            row.kinds[path], row.arrays[path] = read(np.asarray(item, np.float64))
            return
        row.form.append((path, type(item)))
        for index, value in enumerate(item):
            _walk(value, (*path, index), row, left)
    elif isinstance(item, (bool, int, float)):
        row.kinds[path], row.arrays[path] = read(np.asarray(item))
    else:
        name = "None" if item is None else type(item).__name__
        raise Unfit(f"not an update (it holds {name} where arrays are needed{_instead(item)})")


def _instead(item: object) -> str:
    """What to pass in place of a network, or of an iterator of its parameters, which can be read only once."""
    if hasattr(item, "state_dict"):
        return "; give its state_dict()"
    return "; give a list" if isinstance(item, Iterator) else ""


def _joins(update: Any, first: Any, structure: Structure, arrays: dict[Path, list[Any]]) -> bool:
    """Whether an update has exactly the structure of the first; its arrays are appended to those of the others.

    One loop without calls: with a thousand layers and fifty workers, this is what receiving costs.
    """
    for path, kind in structure.form:
        item: Any = update
        own: Any = first
        for key in path:
            item, own = item[key], own[key]
        same = list(item) == list(own) if issubclass(kind, Mapping) else len(item) == len(own)
        if not same or type(item) is not kind:
            return False
    for path, array in structure.arrays.items():
        item = update
        for key in path:
            item = item[key]
        if type(item) is np.ndarray:
            if type(array) is not np.ndarray or item.dtype != array.dtype or item.shape != array.shape:
                return False
        elif hasattr(item, "detach") and hasattr(array, "detach"):
            item = item.detach()
            if type(item) is not type(array) or item.dtype is not array.dtype or item.shape != array.shape:
                return False
            if item.device != array.device or item.layout is not array.layout:
                return False
        else:
            return False
        arrays[path].append(item)
    return True


def leaves_of(updates: Sequence[Any]) -> tuple[Leaves, dict[int, str]]:
    """The arrays of n updates, and what is wrong with those that differ from most."""
    leaves = Leaves.of_one_structure(updates)
    if leaves is not None:
        return leaves, {}
    rows, faults = each_read(updates, structure_of)
    return Leaves.settled(rows, faults), faults


def of_matrix(updates: Any, kind: Kind, storage: Rows) -> Arrival:
    """What arrived as one array, each row of it of a kind."""

    def restore(result: Any, _left: tuple[int, ...]) -> Any:
        return restored(kind, result)

    def flatten(reference: Any) -> Any:
        return storage.space.vector(flattened(kind, reference))

    def sent(index: int) -> bytes:
        return digest_of(updates[index])

    tensors = kind.library == "torch"
    return Arrival(storage, tuple(range(storage.n)), {}, storage.n, restore, flatten, tensors=tensors, sent=sent)


def of_leaves(updates: Sequence[Any], leaves: Leaves, faults: dict[int, str], storage: Rows) -> Arrival:
    """What arrived as a list of n arrays or nested containers of arrays."""

    def restore(result: Any, left: tuple[int, ...]) -> Any:
        counted = leaves.counted(left, lambda array: in_memory(array).reshape(-1))
        flat = {**leaves.parts(result), **counted}
        return _rebuilt(updates[leaves.template], {path: restored(leaves.kinds[path], flat[path]) for path in flat})

    def flatten(reference: Any) -> Any:
        return storage.space.vector(leaves.flatten(reference))

    def sent(index: int) -> bytes:
        return digest_of(updates[index])

    tensors = all(kind.library == "torch" for kind in leaves.kinds.values())
    return Arrival(storage, leaves.received, faults, len(updates), restore, flatten, tensors=tensors, sent=sent)


def _rebuilt(item: Any, results: dict[Path, Any], path: Path = ()) -> Any:
    """The template with the results in place of its arrays."""
    if path in results:
        return results[path]
    if isinstance(item, Mapping):
        pairs = {key: _rebuilt(value, results, (*path, key)) for key, value in item.items()}
        try:
            return type(item)(pairs)  # type: ignore[call-arg]  # OrderedDict and its like
        except TypeError:  # a mapping with a constructor of its own
            return pairs
    values = [_rebuilt(value, results, (*path, index)) for index, value in enumerate(item)]
    return type(item)(*values) if hasattr(item, "_fields") else type(item)(values)
