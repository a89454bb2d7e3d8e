"""Trackers by the names that the command line has for them."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

from mixtailor._checks import MissingPackageError, nearest, refuse
from mixtailor.trackers.base import Tracker
from mixtailor.trackers.mlflow import MLflow
from mixtailor.trackers.tensorboard import TensorBoard
from mixtailor.trackers.wandb import WeightsAndBiases

__all__ = ["TRACKERS", "check_tracker", "open_tracker"]

TRACKERS: dict[str, Callable[[Path, str], Tracker]] = {
    "tensorboard": lambda folder, run: TensorBoard(folder / "tensorboard"),
    "mlflow": lambda folder, run: MLflow(run),
    "wandb": lambda folder, run: WeightsAndBiases(run, folder=folder),
}


def check_tracker(name: str) -> None:
    """Refuse a name that there is not, or whose package is not installed, before hours of training."""
    if name not in TRACKERS:
        refuse(f"There is no tracker {name!r}. {nearest(name, list(TRACKERS))}")
    if importlib.util.find_spec(name) is None:
        raise MissingPackageError(f"The tracker {name!r}", name, "trackers")


def open_tracker(name: str, folder: str | os.PathLike[str], run: str) -> Tracker:
    """A tracker for one run.

    Parameters
    ----------
    name : {"tensorboard", "mlflow", "wandb"}
        Which tracker.
    folder : path
        The run's own; files go there where the tracker has any.
    run : str
        What the run is called.

    Examples
    --------
    >>> open_tracker("tensorbord", ".", "first")
    Traceback (most recent call last):
    ValueError: There is no tracker 'tensorbord'. Did you mean 'tensorboard'?
    """
    check_tracker(name)
    return TRACKERS[name](Path(folder), run)
