"""Folders of Hugging Face: an adapter, or a model, in one file or in several with an index.

Nothing in a folder is believed: the index may name files of that folder alone, and each of these files has to hold the
tensors that the index says, and no others.
"""

import json
import os
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path

from mixtailor._checks import shown
from mixtailor._files import read_bounded
from mixtailor.storage.files.opened import FileArray, Unreadable

__all__ = ["INDEX", "NAMES", "files_of", "is_model_folder", "main_file", "once", "sharded"]

INDEX = ".index.json"
# What a folder's weights are called, the first that is there: those of an adapter, and of a model, whole or in shards.
NAMES = (
    "adapter_model.safetensors",
    "adapter_model.bin",
    "model.safetensors",
    "model.safetensors" + INDEX,
    "pytorch_model.bin",
    "pytorch_model.bin" + INDEX,
)
_MOST = 64 << 20  # bytes of an index: names of some hundred thousand tensors


def is_model_folder(path: "str | PathLike[str]") -> bool:
    """Whether this is a folder with weights that have one of the usual names."""
    folder = Path(os.fspath(path))
    return main_file(folder) != folder


def main_file(path: Path) -> Path:
    """The file of a folder that holds its weights, or says which files do; the path itself where there is none."""
    return next((path / name for name in NAMES if (path / name).is_file()), path) if path.is_dir() else path


def files_of(path: "str | PathLike[str]") -> list[Path]:
    """All files that an update consists of: the file itself, or the weights in a folder and what its index names."""
    main = main_file(Path(os.fspath(path)))
    return [main, *_shards(main)] if main.name.endswith(INDEX) else [main]


def sharded(
    index: Path, contents: "Callable[[Path], Mapping[tuple[object, ...], FileArray]]", most_files: int | None = None
) -> "dict[tuple[object, ...], FileArray]":
    """The tensors of all files that an index names, `most_files` at most; `contents` reads one of them."""
    found: dict[tuple[object, ...], FileArray] = {}
    shards = _shards(index)
    if most_files is not None and len(shards) > most_files:
        raise Unreadable(f"its index names {len(shards)} files, far more than most have ({shown(index.name)})")
    for path, wanted in shards.items():
        inside = contents(path)
        if set(inside) != {(name,) for name in wanted}:
            raise Unreadable(f"{shown(path.name)} has other tensors than its index says")
        found.update(inside)
    return found


def _shards(index: Path) -> dict[Path, set[str]]:
    """The files that an index names, and the tensors that it says are in each."""
    files: dict[Path, set[str]] = {}
    try:
        table = json.loads(read_bounded(index, _MOST).decode("utf-8"), object_pairs_hook=once)["weight_map"]
        for tensor, name in table.items():
            # The name of a file, not a way out of the folder, nor another index.
            if Path(name).name != name or name.endswith(INDEX):
                raise ValueError(name)
            files.setdefault(index.parent / name, set()).add(tensor)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Unreadable(f"its index does not say which tensors are in which files ({shown(index.name)})") from None
    if not files:
        raise Unreadable(f"its index names no file ({shown(index.name)})")
    return files


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """An object of JSON in which no name stands twice."""
    if len({name for name, _ in pairs}) != len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)
