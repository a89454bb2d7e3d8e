"""Rows in files, read range by range, so that they may exceed memory."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar, final

import numpy as np

from mixtailor._types import Array, Integers
from mixtailor.storage.files.opened import CHANGED, CompressedArray, FileArray, Unreadable
from mixtailor.storage.rows import RUN_ENTRIES, Broken, run_width, split
from mixtailor.storage.strided import Converted

__all__ = ["FileRows"]


@final
class FileRows(Converted):
    """One array of n files. Extra memory is a range of all rows."""

    in_memory: ClassVar[bool] = False
    sources: list[FileArray]  # type: ignore[assignment]  # the sources are parts of files here

    def __init__(self, sources: Sequence[FileArray], dtype: "np.dtype[Any]", bits: bool) -> None:
        super().__init__(sources, dtype, bits)
        # A compressed file is unpacked from its beginning, so its ranges come in order.
        self.ordered = any(isinstance(part, CompressedArray) for part in sources)

    def runs(self, rows: int | None = None) -> list[tuple[int, int]]:
        if rows is not None:
            return super().runs(rows)
        return split(0, self.d, run_width(self.n, RUN_ENTRIES))

    def read(self, row: int, start: int, stop: int) -> Array:
        try:
            return super().read(row, start, stop)
        except Unreadable as error:
            raise Broken([row], str(error)) from None

    def pick(self, row: int, which: Integers) -> Array:
        try:
            return super().pick(row, which)
        except Unreadable as error:
            raise Broken([row], str(error)) from None

    def row_bytes(self, row: int) -> Iterable[Any]:
        try:
            yield from super().row_bytes(row)
        except Broken as error:  # a digest covers this, and the rule's own readings put the row in quarantine
            yield error.reason.encode()

    def changed(self) -> Mapping[int, str]:
        return {row: CHANGED for row, part in enumerate(self.sources) if part.file.changed()}
