"""FLARE's models, arrays by name: read where they are, in memory or in files that the server has put them in."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from mixtailor._checks import refuse, shown
from mixtailor._types import Array
from mixtailor.engines.statistics import arrays_by_role
from mixtailor.intake.arrays import in_memory, is_array, read, restored
from mixtailor.intake.layout import named
from mixtailor.storage import Rows
from mixtailor.storage.converted import ArraySource, Converted, Source
from mixtailor.storage.files.formats import contents
from mixtailor.storage.kinds import Kind, Unfit, recast
from mixtailor.storage.layers import Layers, Matrix, flat_rows

__all__ = ["Model", "parts_of", "result_of", "rows_of", "unchanged", "whole"]

_DOUBLE, _SINGLE = np.dtype(np.float64), np.dtype(np.float32)


@final
@dataclass(frozen=True)
class Model:
    """The model that sites were sent.

    Attributes
    ----------
    kinds : dict
        What each array looks like.
    values : dict
        Its entries, in place.
    floats, counts : list of str
        The arrays of real numbers, which rules work on, and those of whole numbers and truth values.
    statistics : list of str
        Arrays of real numbers that no rule works on. They are among neither of both.
    """

    kinds: dict[str, Kind]
    values: dict[str, Array]
    floats: list[str]
    counts: list[str]
    statistics: list[str]

    @classmethod
    def of(cls, params: Any, statistics: Collection[str] = ()) -> "Model":
        """The model in these parameters; one that is no model is the job's mistake. `statistics` are names of them."""
        if not isinstance(params, Mapping) or not params:
            refuse(f"The FLARE adapter needs a model of arrays by name and got {_what(params)}.")
        kinds: dict[str, Kind] = {}
        values: dict[str, Array] = {}
        for name, item in params.items():
            try:
                kind, raw = read(item if is_array(item) else _number(item))
            except Unfit as error:
                refuse(f"The FLARE adapter needs a model of arrays by name, and {named((name,))} is {error}.")
            kinds[name], values[name] = kind, in_memory(raw)
        real = {name: not kind.discrete for name, kind in kinds.items()}
        return cls(kinds, values, *arrays_by_role(real, statistics))


@final
class _Offloaded(Source):
    """A tensor that the server has written to a file of its own while it received it.

    The file is opened for each range: a site has a file for each tensor, more than a process may hold open. Nobody but
    the server writes there, so that what is read twice is not compared.
    """

    in_memory: ClassVar[bool] = False

    def __init__(self, path: str, key: str) -> None:
        array = contents(path).get((key,))
        if array is None:
            raise Unfit(f"without the tensor {shown(key)!r} in its file")
        self._path, self._key, self.kind = path, key, array.kind
        self.dtype, self.size = array.dtype, array.size

    def run(self, start: int, stop: int) -> Array:
        return contents(self._path)[(self._key,)].run(start, stop)


def parts_of(params: Any, model: Model) -> dict[str, Source]:
    """The arrays of an update, which must be those of the model in name, shape and kind."""
    if not isinstance(params, Mapping):
        raise Unfit(f"{_what(params)} where arrays by name are needed")
    for name in params:
        if name not in model.kinds:
            raise Unfit(f"with an extra {named((name,))}")
    parts = {}
    for name, own in model.kinds.items():
        if name not in params:
            raise Unfit(f"without {named((name,))}")
        try:
            source, kind = _source(params[name])
        except Unfit as error:
            raise Unfit(f"{error} ({named((name,))})") from None
        if kind.shape != own.shape:
            raise Unfit(f"of shape {kind.shape} where the model has {own.shape} ({named((name,))})")
        if kind.discrete != own.discrete:
            raise Unfit(f"of type {kind.name} where the model has {own.name} ({named((name,))})")
        parts[name] = source
    return parts


def _source(item: Any) -> tuple[Source, Kind]:
    if type(item).__name__ == "_LazyRef":  # FLARE has no public name for it; it says where the tensor is
        found = _Offloaded(item.file_path, item.key)
        return found, found.kind
    kind, raw = read(item if is_array(item) else _number(item))
    return ArraySource(in_memory(raw)), kind


def rows_of(sites: list[dict[str, Source]], model: Model, *, differences: bool) -> Rows:
    """The updates and, after them, their base: the model, or zeros where differences were sent."""
    layers: list[Matrix | Converted] = []
    for name in model.floats:
        own, kind = model.values[name], model.kinds[name]
        base = np.zeros(own.shape, own.dtype) if differences else own
        sources = [*(site[name] for site in sites), ArraySource(base)]
        # Differences of half precision are kept in float32: rounded to half again, small updates vanish.
        dtype = _DOUBLE if kind.dtype == _DOUBLE else _SINGLE
        if all(isinstance(source, ArraySource) for source in sources):
            arrays = [source.array for source in sources if isinstance(source, ArraySource)]
            layers.append(flat_rows(arrays, dtype))
        else:
            layers.append(Converted(sources, dtype))
    return layers[0] if len(layers) == 1 else Layers(layers, len(sites) + 1)


def result_of(model: Model, update: Mapping[str, Array], *, differences: bool) -> dict[str, Any] | None:
    """What FLARE is given, in the types of the model: the next one, or the difference to it; None if it is not finite.

    Parameters
    ----------
    model : Model
    update : mapping
        The aggregated difference of each array, flat; of counters and statistics, their next values.
    differences : bool
        Whether FLARE adds the result to the model.
    """
    found, learnt = {}, set(model.floats)
    for name, kind in model.kinds.items():
        flat = update[name]
        if not kind.discrete:
            if not differences and name in learnt:
                flat = recast(model.values[name].reshape(-1), flat.dtype) + flat
            flat = recast(flat, kind.dtype)
            if not np.isfinite(recast(flat, _DOUBLE if kind.dtype == _DOUBLE else _SINGLE)).all():
                return None
        found[name] = restored(kind, flat)
    return found


def unchanged(model: Model, *, differences: bool) -> dict[str, Any]:
    """What FLARE is given where the model stays as it was."""
    flat = {name: values.reshape(-1) for name, values in model.values.items()}
    return {
        name: restored(kind, np.zeros_like(flat[name]) if differences else flat[name].copy())
        for name, kind in model.kinds.items()
    }


def whole(source: Source) -> Array:
    """All coordinates of an array."""
    return source.run(0, source.size).reshape(-1)


def _number(item: Any) -> Any:
    if isinstance(item, (bool, int, float)):
        try:
            return np.asarray(item)
        except OverflowError:
            pass
    raise Unfit(f"{_what(item)} where an array of numbers is needed")


def _what(item: object) -> str:
    return "nothing" if item is None else f"an object of type {shown(type(item).__name__)}"
