"""Flower's arrays, read in place and written without a second copy."""

import io
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord

from mixtailor._checks import refuse
from mixtailor._types import Array as Values
from mixtailor.engines.statistics import arrays_by_role
from mixtailor.intake.layout import named
from mixtailor.storage.files.formats import Header, npy_header
from mixtailor.storage.kinds import Unfit

__all__ = ["Model", "shown", "view", "written"]

_STYPE = "numpy.ndarray"
# What numpy writes in front of an array of few axes; longer headers are read again each time.
_USUAL_HEADER = 128


def shown(text: object, limit: int = 160) -> str:
    """What a client wrote, in one line of bounded length that a log can hold."""
    line = " ".join(str(text).split())
    line = "".join(letter if letter.isprintable() else "?" for letter in line[: limit + 1])
    return line if len(line) <= limit else line[:limit] + "..."


def view(array: Array) -> Values:
    """The entries of a Flower array, in place; `Unfit` where the bytes are not what they should be.

    Nothing but the bytes is believed: type and shape are those of the header inside them, never what the message says
    beside them, and nothing is ever unpickled.
    """
    if array.stype != _STYPE:
        raise Unfit(f"of array type {shown(array.stype, 40)!r} where {_STYPE!r} is needed")
    data = array.data
    header = _usual(data[:_USUAL_HEADER]) if len(data) >= _USUAL_HEADER else None
    if header is None:
        header = npy_header(lambda offset, count: data[offset : offset + count], len(data))
    if header.total != len(data):
        raise Unfit(f"unreadable: an array of {len(data)} bytes whose header promises {header.total}")
    if not header.kind.size:
        return np.empty(header.kind.shape, header.dtype)
    flat = np.frombuffer(data, header.dtype, header.kind.size, header.size)
    return flat.reshape(header.kind.shape, order="F" if header.kind.by_columns else "C")


@lru_cache(maxsize=1024)  # a layer has the same header from every client, and parsing costs more than a small layer
def _usual(start: bytes) -> Header | None:
    """The header of an array that begins with these bytes; None where it does not end in them."""
    try:
        return npy_header(lambda offset, count: start[offset : offset + count], len(start))
    except Unfit:
        return None


def written(values: Values) -> Array:
    """A Flower array of these entries."""
    values = np.asarray(values, order="C")
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": np.lib.format.dtype_to_descr(values.dtype), "fortran_order": False, "shape": values.shape}
    )
    data = b"".join([header.getvalue(), values.reshape(-1).view(np.uint8).data])
    return Array(str(values.dtype), values.shape, _STYPE, data)


@dataclass(frozen=True)
class Model:
    """The model that clients were sent.

    Attributes
    ----------
    record : ArrayRecord
    arrays : dict
        The entries of each array, in place.
    floats, counts : list of str
        The arrays of real numbers, which rules work on, and those of whole numbers and truth values.
    statistics : list of str
        Arrays of real numbers that no rule works on. They are among neither of both.
    """

    record: ArrayRecord
    arrays: dict[str, Values]
    floats: list[str]
    counts: list[str]
    statistics: list[str]

    @classmethod
    def of(cls, record: ArrayRecord, statistics: Collection[str] = ()) -> "Model":
        """The model in a record; one that is no model is the caller's mistake. `statistics` are names of them."""
        arrays: dict[str, Values] = {}
        for name, array in record.items():
            try:
                arrays[name] = view(array)
            except Unfit as error:
                refuse(f"The model needs arrays of numbers, and {named((name,))} is {error}.")
        real = {name: values.dtype.kind == "f" for name, values in arrays.items()}
        floats, counts, apart = arrays_by_role(real, statistics)
        for name in (*floats, *apart):
            if not np.isfinite(arrays[name]).all():
                refuse(f"The model needs finite entries, and {named((name,))} holds NaN or infinity.")
        return cls(record, arrays, floats, counts, apart)

    def with_values(self, values: dict[str, Any]) -> ArrayRecord:
        """A record of these entries, in the order, types and shapes of the model."""
        record = ArrayRecord()
        for name, own in self.arrays.items():
            record[name] = written(np.asarray(values.pop(name)).astype(own.dtype, copy=False).reshape(own.shape))
        return record
