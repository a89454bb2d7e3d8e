"""Weights & Biases."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from mixtailor._checks import MissingPackageError

__all__ = ["WeightsAndBiases"]


class WeightsAndBiases:
    """A run of Weights & Biases, beside any other that is open.

    Parameters
    ----------
    run : str, optional
        The name of the run; W&B makes one up by default.
    project : str
        The project that the run belongs to.
    folder : path, optional
        Where it keeps its files.
    **options
        Everything else that `wandb.init` takes, such as ``mode="offline"``.

    Notes
    -----
    Tested against a stand-in that has `init`, `log` and `finish`, and not against the service.
    """

    def __init__(
        self,
        run: str | None = None,
        *,
        project: str = "mixtailor",
        folder: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        try:
            import wandb
        except ImportError as error:
            raise MissingPackageError("Logging to Weights & Biases", "wandb", "trackers") from error
        where = None if folder is None else os.fspath(folder)
        self._run: Any = wandb.init(project=project, name=run, dir=where, reinit="create_new", **options)

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """All values at one step."""
        self._run.log({name: float(value) for name, value in values.items()}, step=step)

    def close(self) -> None:
        """Send what is left."""
        self._run.finish()
