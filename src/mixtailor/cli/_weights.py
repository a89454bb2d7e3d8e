"""The weights of files, from a JSON object or a CSV of names and numbers."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from mixtailor._checks import listing, refuse, shown
from mixtailor._files import read_bounded

__all__ = ["read_weights"]

_MOST = 1 << 24  # bytes: names and numbers of some hundred thousand files


def read_weights(path: Path, files: Sequence[Path]) -> list[float]:
    """The weight of each file, by its name, or by its path as given on the command line where names repeat."""
    table = _table(path, read_bounded(path, _MOST))
    repeated = {name for name in (file.name for file in files) if sum(other.name == name for other in files) > 1}
    keys = [str(file) if str(file) in table or file.name in repeated else file.name for file in files]
    missing = [key for key in keys if key not in table]
    if missing:
        refuse(f"{shown(path)} has no weight for {listing(map(shown, missing))}. It needs one for each file, by name.")
    unknown = [name for name in table if name not in keys]
    if unknown:
        refuse(f"{shown(path)} has weights for {listing(map(shown, unknown))}, which are not among the files.")
    return [table[key] for key in keys]


def _table(path: Path, content: bytes) -> Mapping[str, float]:
    try:
        text = content.decode("utf-8-sig")
        if path.suffix.lower() == ".csv":
            rows = [row for row in csv.reader(io.StringIO(text)) if row]
            if rows and len(rows[0]) == 2 and not _is_number(rows[0][1]):
                rows = rows[1:]  # the headings
            pairs = [(name.strip(), float(value)) for name, value in rows]
        else:
            pairs = json.loads(text, object_pairs_hook=lambda pairs: [(name, _number(value)) for name, value in pairs])
            if not isinstance(pairs, list) or not all(isinstance(pair, tuple) for pair in pairs):
                raise ValueError
    except (ValueError, TypeError, OverflowError, RecursionError, csv.Error):
        refuse(f"{shown(path)} needs a JSON object of numbers by file name, or a CSV with a name and a number a line.")
    table = dict(pairs)
    if len(table) < len(pairs):
        refuse(f"{shown(path)} has two weights for one name.")
    return table


def _number(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError
    return float(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
