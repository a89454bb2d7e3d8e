"""Data sets of your own: arrays, tensors, `.npz`, CSV, folders of idx files, and objects named by their file."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mixtailor._checks import shown
from mixtailor._files import check_unpacked
from mixtailor._references import is_reference, loaded
from mixtailor.attacks import Attack
from mixtailor.simulation.data import Dataset
from mixtailor.simulation.files import DataError
from mixtailor.simulation.idx import read_idx

if TYPE_CHECKING:
    Array = np.ndarray[Any, np.dtype[Any]]

__all__ = ["as_dataset", "check_objects", "data_files", "is_own", "read_data"]

EVERY = 5  # of examples without a test part, every fifth of each label is for testing
LONGEST = 2**31  # bytes of a CSV file, which is read whole, and of packed arrays

# The names under which people store the four parts, or two that are to be divided.
_FOUR = (
    ("train_inputs", "train_labels", "test_inputs", "test_labels"),
    ("x_train", "y_train", "x_test", "y_test"),
    ("train_images", "train_labels", "test_images", "test_labels"),
    ("train_x", "train_y", "test_x", "test_y"),
)
_TWO = (("inputs", "labels"), ("x", "y"), ("data", "target"), ("data", "labels"), ("images", "labels"))
_LABELS = ("label", "labels", "target", "class", "y")


def is_own(name: str) -> bool:
    """Whether a text names a data set of your own: a file, a folder, or an object by its file.

    Examples
    --------
    >>> [is_own(name) for name in ("digits", "mine.py:data", "flowers.csv", "flowers.npz")]
    [False, True, True, True]
    """
    return is_reference(name) or Path(name).suffix in (".npz", ".csv") or ("/" in name or Path(name).is_dir())


def data_files(name: str) -> list[Path]:
    """The files that a data set of your own is read from, apart from Python files."""
    path = Path(name).expanduser()
    if is_reference(name) or not path.exists():
        return []
    return [path] if path.is_file() else sorted(item for item in path.iterdir() if item.is_file())


def read_data(name: str) -> Dataset:
    """A data set from a file, a folder or a reference.

    Parameters
    ----------
    name : str
        ``mine.py:data``: a `Dataset`, arrays as `as_dataset` takes them, or a function that returns either. A ``.npz``
        file with ``x_train, y_train, x_test, y_test`` (or ``train_inputs, ...``), or with ``x, y`` alone. A ``.csv``
        file with one line of names and one column of labels: that called label, target, class or y, else the last;
        its other columns are standardised. Labels that are fractions make it regression. A folder of idx files whose
        names contain train or t10k or test, and images or labels.

    Notes
    -----
    Where there is no test part, every fifth example (of each label, where labels are classes) is for testing.
    """
    path = Path(name).expanduser()
    if is_reference(name):
        given = loaded(name)
        return as_dataset(given() if callable(given) and not isinstance(given, Dataset) else given, name)
    if not path.exists():
        raise DataError(f"There is no data file or folder {name!r} in {Path.cwd()}. Give its path from there.")
    if path.is_dir():
        return _from_idx(path)
    if not path.is_file():  # a pipe would block for ever, a device would fill memory
        raise DataError(f"{shown(name)} is not a regular file.")
    return _from_csv(path) if path.suffix == ".csv" else _from_npz(path)


def as_dataset(given: Any, name: str = "data") -> Dataset:
    """A data set from what people have: a `Dataset`, or a tuple of arrays or tensors.

    Parameters
    ----------
    given : Dataset or tuple
        ``(inputs, labels)``, or ``(train_inputs, train_labels, test_inputs, test_labels)``. Inputs have any shape.
        Labels may be any whole numbers or words: they are numbered in their order. Fractions among them make it
        regression: they are standardised, by the training part, and the network needs one output.
    name : str
        What it is called in tables.

    Examples
    --------
    >>> data = as_dataset((np.eye(10, 3), np.array(["cat", "dog"] * 5)), "pets")
    >>> len(data), len(data.test_labels), data.classes, data.shape
    (8, 2, 2, (3,))
    >>> as_dataset((np.eye(10, 3), np.linspace(0, 1, 10)), "heights").regression
    True
    """
    if isinstance(given, Dataset):
        return given
    if not isinstance(given, (tuple, list)) or len(given) not in (2, 4):
        raise TypeError(
            f"{name}: data need to be a Dataset, or a tuple (inputs, labels) or (train_inputs, train_labels, "
            f"test_inputs, test_labels) of arrays or tensors, and are {type(given).__name__}."
        )
    parts = [_array(part) for part in given]
    return _divided(name, *parts) if len(parts) == 2 else _numbered(name, *parts)


def _array(part: Any) -> Array:
    return part.detach().cpu().numpy() if isinstance(part, torch.Tensor) else np.asarray(part)


def _divided(name: str, inputs: Array, labels: Array, **normal: Any) -> Dataset:
    """With every fifth example of each label for testing."""
    if labels.ndim != 1 or len(labels) != len(inputs):
        raise ValueError(
            f"{name}: each example needs one label, and inputs have shape {inputs.shape}, labels {labels.shape}."
        )
    testing = np.zeros(len(labels), bool)
    for label in [None] if _fractions(labels) else np.unique(labels):
        held = np.arange(len(labels)) if label is None else np.flatnonzero(labels == label)
        testing[held[EVERY - 1 :: EVERY]] = True
    if not testing.any():
        raise ValueError(
            f"{name}: every fifth example of a label is for testing, and no label has five. Give "
            "(train_inputs, train_labels, test_inputs, test_labels)."
        )
    return _numbered(name, inputs[~testing], labels[~testing], inputs[testing], labels[testing], **normal)


def _numbered(
    name: str, train_inputs: Array, train_labels: Array, test_inputs: Array, test_labels: Array, **normal: Any
) -> Dataset:
    """With labels 0 to classes - 1, or for regression with mean 0 and deviation 1."""
    train_labels, test_labels = train_labels.squeeze(), test_labels.squeeze()
    if _fractions(train_labels):
        shift, scale = train_labels.mean(), train_labels.std()
        numbers, classes = [(part - shift) / scale for part in (train_labels, test_labels)], 1
    else:
        known = np.unique(np.concatenate([train_labels.reshape(-1), test_labels.reshape(-1)]))
        numbers, classes = [np.searchsorted(known, part) for part in (train_labels, test_labels)], max(2, len(known))
    if train_inputs.dtype == np.uint8 and not normal:
        scaled = train_inputs.astype(np.float32) / 255.0
        normal = {"unit": 255.0, "mean": (float(scaled.mean()),), "deviation": (float(scaled.std()) or 1.0,)}
    return Dataset(
        name,
        classes,
        torch.from_numpy(np.ascontiguousarray(train_inputs)),
        torch.from_numpy(numbers[0]),
        torch.from_numpy(np.ascontiguousarray(test_inputs)),
        torch.from_numpy(numbers[1]),
        **normal,
    )


def _fractions(labels: Array) -> bool:
    """Whether labels are real numbers to meet, and no classes."""
    return labels.dtype.kind == "f" and not bool((labels == np.round(labels)).all())


def _from_npz(path: Path) -> Dataset:
    try:
        check_unpacked(path, max(LONGEST, path.stat().st_size))
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name.lower(): stored[name] for name in stored.files}
    except Exception as error:  # whatever a file holds that numpy did not write, or that it would have to run
        raise DataError(
            f"{path} cannot be read: {str(error).rstrip('.')}. It needs plain arrays, as numpy.savez writes them."
        ) from error
    for names in (*_FOUR, *_TWO):
        if set(names) <= set(arrays):
            return as_dataset([arrays[name] for name in names], path.stem)
    raise DataError(
        f"{path} holds {', '.join(sorted(arrays)) or 'no arrays'}. It needs x_train, y_train, x_test, y_test, or x and "
        "y, which are then divided."
    )


def _from_csv(path: Path) -> Dataset:
    if path.stat().st_size > LONGEST:
        raise DataError(f"{path} is larger than 2 GB. Store it as .npz.")
    with path.open(newline="", encoding="utf-8") as file:
        try:
            header, *lines = [line for line in csv.reader(file) if line]
        except (ValueError, csv.Error) as error:
            raise DataError(
                f"{path} needs a line of names and lines of numbers, separated by commas: {error}."
            ) from error
    names = [name.strip().lower() for name in header]
    place = next((names.index(name) for name in _LABELS if name in names), len(names) - 1)
    values = np.empty((len(lines), len(names) - 1), np.float64)
    labels = []
    for number, line in enumerate(lines):
        if len(line) != len(names):
            raise DataError(f"Line {number + 2} of {path} has {len(line)} columns, and the first has {len(names)}.")
        labels.append(line[place].strip())
        try:
            values[number] = [float(cell) for column, cell in enumerate(line) if column != place]
        except ValueError as error:
            raise DataError(f"Line {number + 2} of {path}: {error}. Columns but that of labels need numbers.") from None
    # The columns have units of their own; a constant one stays 0.
    deviation = values.std(0)
    values = (values - values.mean(0)) / np.where(deviation > 0, deviation, 1.0)
    return _divided(path.stem, values.astype(np.float32), _column(labels))


def _column(cells: list[str]) -> Array:
    """Labels as numbers where fractions are among them, else as words."""
    try:
        numbers = np.array(cells, np.float64)
    except ValueError:
        return np.array(cells)
    return numbers if _fractions(numbers) else np.array(cells)


def _from_idx(folder: Path) -> Dataset:
    found: dict[tuple[str, str], Path] = {}
    for path in sorted(item for item in folder.iterdir() if item.is_file()):
        words = path.name.lower()
        part = "train" if "train" in words else "test" if "t10k" in words or "test" in words else None
        kind = "images" if "images" in words else "labels" if "labels" in words else None
        if part is not None and kind is not None and "idx" in words:
            found.setdefault((part, kind), path)
    wanted = [(part, kind) for part in ("train", "test") for kind in ("images", "labels")]
    missing = [f"{part} {kind}" for part, kind in wanted if (part, kind) not in found]
    if missing:
        raise DataError(
            f"{folder} needs four idx files, with train or t10k and images or labels in their names, as in "
            f"train-images-idx3-ubyte. There are none for: {', '.join(missing)}."
        )
    arrays = [read_idx(found[which]) for which in wanted]
    images = [array[:, None] if array.ndim == 3 else array for array in arrays[::2]]
    if math.prod(images[0].shape) == 0:
        raise DataError(f"{folder} has no training examples.")
    return _numbered(folder.name, images[0], arrays[1], images[1], arrays[3])


def check_objects(attack: object, partition: object) -> None:
    """Text where an object is needed gets the sentence that says what to write."""
    if isinstance(attack, type) or (attack is not None and not isinstance(attack, Attack)):
        what = "mixtailor.attacks.Tailored(epsilon=0.1), for example"
        if isinstance(attack, str):
            what = f"mixtailor.attacks.make({attack!r})"
        elif isinstance(attack, type) and issubclass(attack, Attack):
            what = f"{attack.__name__}()"
        raise TypeError(f"A simulation needs its attack as an object and got {attack!r}. Write {what}.")
    if not callable(partition):
        raise TypeError(
            f"A simulation needs its partition as a function and got {partition!r}. Write "
            "mixtailor.simulation.dirichlet(alpha=0.3), for example."
        )
