"""Rows in files, read range by range, so that they may exceed memory."""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, final

from mixtailor.storage.files.opened import CHANGED, FileArray
from mixtailor.storage.rows import RUN_ENTRIES, Broken, run_width, split
from mixtailor.storage.strided import Converted

__all__ = ["FileRows"]


@final
class FileRows(Converted):
    """One array of n files. Extra memory is a range of all rows."""

    in_memory: ClassVar[bool] = False
    sources: list[FileArray]  # type: ignore[assignment]  # the sources are parts of files here

    def runs(self, rows: int | None = None) -> list[tuple[int, int]]:
        if rows is not None:
            return super().runs(rows)
        return split(0, self.d, run_width(self.n, RUN_ENTRIES))

    def row_bytes(self, row: int) -> Iterable[Any]:
        try:
            yield from super().row_bytes(row)
        except Broken as error:  # a digest covers this, and the rule's own readings put the row in quarantine
            yield error.reason.encode()

    def changed(self) -> Mapping[int, str]:
        return {row: CHANGED for row, part in enumerate(self.sources) if part.file.changed()}
