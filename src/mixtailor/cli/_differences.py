"""Files as differences to a base model: subtracted run by run as they are read, and added back to the answer."""

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from mixtailor._checks import refuse
from mixtailor.updates.arrays import Array, Unfit, recast
from mixtailor.updates.base import Call
from mixtailor.updates.engine import Integers
from mixtailor.updates.files import Packed, Part
from mixtailor.updates.formats import contents
from mixtailor.updates.home import Home
from mixtailor.updates.receive import Arrival
from mixtailor.updates.stored import Stored, StoredTree, receive

__all__ = ["receive_differences"]

_RUN = 1 << 20


class Shifted(Stored):
    """Rows of files less a base, in float32 or float64.

    Differences of half precision are kept in float32: rounded to half again, small updates of large weights would
    vanish.
    """

    base: Part

    @classmethod
    def of(cls, rows: Stored, base: Part) -> "Shifted":
        shifted = cls(rows.rows, rows.tile, False, Call(), rows.received)
        shifted.base = base
        return shifted

    def _run(self, index: int, start: int, stop: int) -> Array:
        return self._less(index, super()._run(index, start, stop), self.base.run(start, stop))

    def _pick(self, index: int, which: Integers) -> Array:
        return self._less(index, super()._pick(index, which), self.base.coordinates(which))

    def _less(self, index: int, own: Array, base: Array) -> Array:
        row = recast(own, self.rows[index].bits, self.dtype)
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is found and named by the pass
            difference: Array = row - recast(base, self.base.bits, self.dtype)
        return difference

    def _typed(self, index: int, run: Array) -> Array:
        return run  # by `_less` already

    def only(self, rows: Sequence[int]) -> "Shifted":
        kept = super().only(rows)
        assert isinstance(kept, Shifted)
        kept.base = self.base
        return kept


def receive_differences(paths: Sequence["str | PathLike[str]"], base: "str | PathLike[str]") -> Arrival:
    """Give a home to what n files differ from a base by; the answer is the base plus the aggregated difference.

    Counters and flags take no part in differences: they are answered as without a base.
    """
    arrival = receive(paths)
    whole = arrival.home
    leaves = whole.leaves if isinstance(whole, StoredTree) else [whole]
    stored = [leaf for leaf in leaves if isinstance(leaf, Stored)]
    held = _base_parts(base, stored, contents(paths[whole.received[0]]))
    shifted = [Shifted.of(leaf, part) for leaf, part in zip(stored, held, strict=True)]
    home: Home = shifted[0] if len(shifted) == 1 else StoredTree(shifted, Call(), whole.received)

    def restore(answer: Any, left: Home) -> Any:
        parts = [answer] if len(shifted) == 1 else answer
        back = [_added(part, own, leaf) for part, own, leaf in zip(parts, held, stored, strict=True)]
        return arrival.restore(back[0] if len(shifted) == 1 else back, left)

    def flatten(reference: Any) -> Any:
        own = [recast(part.run(0, part.size), part.bits, np.dtype(np.float64)) for part in held]
        return arrival.flatten(reference) - np.concatenate(own)

    return Arrival(home, arrival.faults, arrival.n, restore, flatten)


def _place(part: Part) -> tuple[object, ...]:
    """What tells the arrays of one file apart."""
    member = part.member.filename if isinstance(part, Packed) else None
    return part.offset, member, part.kind.shape, part.dtype.str


def _base_parts(path: "str | PathLike[str]", leaves: Sequence[Stored], first: dict[Any, Part]) -> list[Part]:
    """The base's array for each leaf, checked for name, shape and finiteness."""
    name = Path(path).name
    try:
        known = contents(path)
    except Unfit as error:
        raise ValueError(f"The base needs to be a file that can be read, and {name} is {error}.") from None
    names = {_place(part): title for title, part in first.items()}
    found = []
    for leaf in leaves:
        title = names[_place(leaf.rows[0])]
        shown = f"the array {title[0]!r}" if title else "one array without a name"
        part = known.get(title)
        if part is None:
            refuse(f"The base needs the arrays that the files have, and {name} is without {shown}.")
        kind = leaf.rows[0].kind
        if (part.kind.shape, part.kind.by_columns) != (kind.shape, kind.by_columns):
            refuse(
                f"The base needs {shown} in shape {kind.shape} and in the files' order; {name} has {part.kind.shape}."
            )
        if not all(_finite(part, start) for start in range(0, part.size, _RUN)):
            refuse(f"The base needs finite entries only, and {shown} of {name} holds NaN or infinity.")
        found.append(part)
    return found


def _finite(part: Part, start: int) -> bool:
    run = part.run(start, min(start + _RUN, part.size))
    return bool(np.isfinite(recast(run, part.bits, np.dtype(np.float64))).all())


def _added(difference: Array, base: Part, leaf: Stored) -> Array:
    """The base plus the difference, in the type that the files have; in place, run by run."""
    for start in range(0, base.size, _RUN):
        stop = min(start + _RUN, base.size)
        difference[start:stop] += recast(base.run(start, stop), base.bits, difference.dtype)
    return recast(difference, False, leaf.dtype, leaf.bits)
