"""Compressed updates as they arrive: top-k sparse ones, and 8-bit ones with scales."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mixtailor._checks import check_count, refuse
from mixtailor.intake.arrival import Arrival
from mixtailor.intake.digests import digest_of
from mixtailor.intake.layout import each_read
from mixtailor.storage.compressed import QuantisedSource, SparseSource
from mixtailor.storage.converted import Converted, Source
from mixtailor.storage.kinds import Unfit

__all__ = ["quantised", "sparse"]


def sparse(updates: Sequence[tuple[Any, Any]], d: int) -> Arrival:
    """Updates that are zero but for some coordinates, as after top-k sparsification. Every rule takes the result.

    They are expanded to float32 range by range, so that nothing of size n x d is made. The aggregate is a dense float32
    vector. An update that does not have this form is removed and named.

    Parameters
    ----------
    updates : sequence of (indices, values)
        For each worker which coordinates it sends, each once, in any order, and their values.
    d : int
        How many coordinates an update has.

    Examples
    --------
    >>> import mixtailor as mt
    >>> sent = [([0, 2], [1.0, 3.0]), ([2, 0], [3.0, 1.0]), ([0], [1.0]), ([1], [9e9]), ([0, 7], [1.0, 1.0])]
    >>> result = mt.TrimmedMean(f=1).aggregate(sparse(sent, d=4))
    >>> result.update
    array([1. , 0. , 1.5, 0. ], dtype=float32)
    >>> print(result)
    TrimmedMean(f=1) on 5 updates
      quarantined  row 4: coordinate 7, and there are 4
    """

    def read(update: Any) -> Source:
        indices, values = _pair(update)
        if indices.dtype.kind not in "iu" and indices.size:
            raise Unfit(f"indices of type {indices.dtype}")
        if indices.shape != values.shape:
            raise Unfit(f"{indices.size:,} indices and {values.size:,} values")
        indices = indices.astype(np.intp, copy=False)
        if indices.size and not 0 <= indices.min() <= indices.max() < d:
            outside = int(indices.min() if indices.min() < 0 else indices.max())
            raise Unfit(f"coordinate {outside}, and there are {d:,}")
        if (np.diff(indices) <= 0).any():
            order = np.argsort(indices, kind="stable")
            indices, values = indices[order], values[order]
            if (np.diff(indices) == 0).any():
                raise Unfit("a coordinate twice")
        return SparseSource(indices, _numbers(values), d)

    check_count("sparse", "d", d)
    return _arrival(updates, read)


def quantised(updates: Sequence[tuple[Any, Any]], d: int, group: int) -> Arrival:
    """Updates of 8-bit integers, times a scale for each group of coordinates. Every rule takes the result.

    They are expanded to float32 range by range, so that nothing of size n x d is made. The aggregate is a dense float32
    vector. An update that does not have this form is removed and named.

    Parameters
    ----------
    updates : sequence of (codes, scales)
        For each worker d integers of type int8, and a scale for each group.
    d : int
        How many coordinates an update has.
    group : int
        How many consecutive coordinates share a scale; the last group may have fewer.

    Examples
    --------
    >>> import mixtailor as mt
    >>> codes = np.array([[1, 2, 3], [1, 2, 4], [127, 0, 0]], np.int8)
    >>> mt.Comed()(quantised([(row, [0.5, 2.0]) for row in codes], d=3, group=2))
    array([0.5, 1. , 6. ], dtype=float32)
    """
    groups = -(-d // max(1, group))

    def read(update: Any) -> Source:
        codes, scales = _pair(update)
        if codes.dtype != np.int8:
            raise Unfit(f"codes of type {codes.dtype}")
        if codes.shape != (d,) or scales.shape != (groups,):
            raise Unfit(f"{codes.size:,} codes and {scales.size:,} scales, and there are {d:,} and {groups:,}")
        return QuantisedSource(codes, _numbers(scales), group)

    check_count("quantised", "d", d)
    check_count("quantised", "group", group)
    return _arrival(updates, read)


def _pair(update: Any) -> tuple[Any, Any]:
    try:
        first, second = (np.asarray(part) for part in update)
    except (ValueError, TypeError):
        raise Unfit("not a pair of arrays") from None
    if first.ndim != 1 or second.ndim != 1:
        raise Unfit("arrays of more than one dimension" if first.ndim and second.ndim else "not a pair of arrays")
    return first, second


def _numbers(values: Any) -> Any:
    if values.dtype.kind not in "fiu":
        raise Unfit(f"numbers of type {values.dtype}")
    with np.errstate(over="ignore"):  # beyond float32 is infinite, which a pass finds
        return np.ascontiguousarray(values, np.float32)


def _arrival(updates: Sequence[Any], read: Callable[[Any], Source]) -> Arrival:
    rows, faults = each_read(updates, read)
    sound = {index: row for index, row in enumerate(rows) if row is not None}
    if not sound:
        why = f"and update 0 is {faults[0]}" if faults else "and there is none"
        refuse(f"Updates need a sound one among them, {why}.")
    storage = Converted(list(sound.values()), np.dtype(np.float32))

    def flatten(reference: Any) -> Any:
        return np.asarray(reference, np.float64)

    def sent(index: int) -> bytes:
        return digest_of(updates[index])

    return Arrival(storage, tuple(sound), faults, len(updates), lambda flat, _: flat, flatten, sent=sent)
