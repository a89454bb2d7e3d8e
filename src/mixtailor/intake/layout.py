"""The layers of a model: each array by its path, and the structure that most workers share."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, final

from mixtailor._checks import refuse
from mixtailor.kernels.space import BFLOAT16
from mixtailor.storage.files.opened import OutOfFilesError
from mixtailor.storage.kinds import Kind, Unfit

__all__ = ["Path", "Structure", "each_read", "named", "settle"]

Path = tuple[object, ...]
T = TypeVar("T")


@final
@dataclass
class Structure:
    """One worker's update, array by array."""

    kinds: dict[Path, Kind] = field(default_factory=dict)
    arrays: dict[Path, Any] = field(default_factory=dict)  # or what reads them
    form: list[tuple[Path, type]] = field(default_factory=list)  # the containers on the way: the result is made of such


def each_read(items: Sequence[Any], read_one: Callable[[Any], T]) -> tuple[list[T | None], dict[int, str]]:
    """What each update is read as, None where it cannot be read, and what is wrong with those."""
    rows: list[T | None] = []
    faults: dict[int, str] = {}
    for index, item in enumerate(items):
        try:
            rows.append(read_one(item))
        except Unfit as error:
            faults[index] = str(error)
            rows.append(None)
        except OutOfFilesError:
            raise
        except Exception as error:  # what a worker sent may fail in any way, and only this worker is at fault
            faults[index] = f"not an update ({type(error).__name__}: {_short(error)})"
            rows.append(None)
    return rows, faults


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 160 else text[:160] + "..."


def settle(rows: list[Structure | None], faults: dict[int, str]) -> tuple[dict[Path, Kind], int]:
    """The structure that most updates share: the kind of each array, in the type that most have, and such an update.

    Those of another structure become None, and what is wrong with them is noted.
    """
    signatures = [None if row is None else _signature(row.kinds) for row in rows]
    tally = Counter(signature for signature in signatures if signature is not None)
    if not tally:
        raise TypeError(f"Updates need arrays of real numbers in every row, and row 0 is {faults[0]}.")
    (most, count), *others = tally.most_common()
    if others and others[0][1] == count:
        one, other = signatures.index(most), signatures.index(others[0][0])
        apart = _difference(rows[other].kinds, rows[one].kinds, f"update {one} has")  # type: ignore[union-attr]  # signed
        refuse(
            f"Updates need one structure that most of them have, and {count} of {len(rows)} have each of two: update "
            f"{other} is {apart}."
        )
    if not most:
        refuse("Updates need at least one array in every row and hold none.")
    sound = {index: row for index, row in enumerate(rows) if row is not None and signatures[index] == most}
    form = Counter(_form(row) for row in sound.values()).most_common(1)[0][0]
    template = next(index for index, row in sound.items() if _form(row) == form)
    kinds = {path: _usual([row.kinds[path] for row in sound.values()]) for path in sound[template].kinds}
    for index, row in enumerate(rows):
        if row is not None and signatures[index] != most:
            faults[index] = _difference(row.kinds, kinds)
            rows[index] = None
    return kinds, template


def _signature(kinds: dict[Path, Kind]) -> frozenset[tuple[Path, tuple[int, ...], bool, bool, Any]]:
    return frozenset((path, kind.shape, kind.discrete, kind.by_columns, kind.labels) for path, kind in kinds.items())


def _form(row: Structure) -> tuple[object, ...]:
    return (*row.form, *row.kinds)


def _usual(kinds: list[Kind]) -> Kind:
    """The kind that most updates have; the wider type of two that equally many have, whichever came first."""
    first = kinds[0]
    if all(kind is first for kind in kinds):
        return first
    counted = Counter(kinds)
    # bfloat16 has fewer digits than float16, and both take two bytes.
    return max(counted, key=lambda kind: (counted[kind], kind.dtype.itemsize, kind.dtype != BFLOAT16))


def _difference(kinds: dict[Path, Kind], usual: dict[Path, Kind], others: str = "most have") -> str:
    """How the structure of an update differs from that of most."""
    for path, kind in usual.items():
        if path not in kinds:
            return f"without {_layer(path)}"
        own = kinds[path]
        if own.shape != kind.shape:
            return f"of shape {_short_shape(own.shape)} where {others} {_short_shape(kind.shape)}{_where(path)}"
        if own.discrete != kind.discrete:
            return f"of type {own.name} where {others} {kind.name}{_where(path)}"
        if own.by_columns != kind.by_columns:
            return f"stored by {'columns' if own.by_columns else 'rows'} where most are not{_where(path)}"
        if own.labels != kind.labels:
            return f"with other labels, or in another order, than {others}{_where(path)}"
    extra = [path for path in kinds if path not in usual]
    return f"with an extra array, {_layer(extra[0])}" if extra else "of another structure"


def _layer(path: Path) -> str:
    """A layer in a sentence: a name such as "a" alone would read as a word."""
    return f"the layer {named(path)!r}" if path else "the array"


def _short_shape(shape: tuple[int, ...]) -> str:
    return str(shape) if len(shape) <= 8 else f"({', '.join(map(str, shape[:8]))}, ... {len(shape)} axes)"


def _where(path: Path) -> str:
    return f" ({named(path)})" if path else ""


def named(path: Path) -> str:
    """The path of a layer as people write it, printable whatever a worker sent."""
    words = [key if isinstance(key, str) and key.isprintable() else repr(key) for key in path]
    text = ".".join(words)
    return (text if len(text) <= 80 else text[:80] + "...") or "the array"
