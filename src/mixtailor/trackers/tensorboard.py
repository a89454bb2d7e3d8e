"""TensorBoard's event files, without torch or TensorFlow."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from mixtailor._checks import MissingPackageError

__all__ = ["TensorBoard"]


class TensorBoard:
    """An event file in a folder, which ``tensorboard --logdir FOLDER`` shows.

    Parameters
    ----------
    folder : path
        Created if it does not exist. Each tracker writes a file of its own, so a run that resumes continues its curves.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        try:
            from tensorboard.compat.proto.event_pb2 import Event
            from tensorboard.compat.proto.summary_pb2 import Summary
            from tensorboard.summary.writer.event_file_writer import EventFileWriter
        except ImportError as error:
            raise MissingPackageError("Writing for TensorBoard", "tensorboard", "trackers") from error
        self._event: Any = Event
        self._summary: Any = Summary
        self._writer: Any = EventFileWriter(os.fspath(folder))

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """A point on each curve."""
        points = [self._summary.Value(tag=name, simple_value=float(value)) for name, value in values.items()]
        self._writer.add_event(self._event(wall_time=time.time(), step=step, summary=self._summary(value=points)))

    def close(self) -> None:
        """Write what is left."""
        self._writer.close()
