"""MLflow's runs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from mixtailor._checks import MissingPackageError

__all__ = ["MLflow"]


class MLflow:
    """A run of an MLflow experiment, through a client of its own: no active run of yours is touched.

    Parameters
    ----------
    run : str, optional
        The name of the run; MLflow makes one up by default.
    experiment : str
        Made if it is not there.
    uri : str, optional
        The tracking server or store; ``MLFLOW_TRACKING_URI``, or else MLflow's default, by default.

    Notes
    -----
    A training run that is started again has a new run here. The package `mlflow-skinny` suffices for a tracking server;
    a local database needs `mlflow`.
    """

    def __init__(self, run: str | None = None, *, experiment: str = "mixtailor", uri: str | None = None) -> None:
        try:
            from mlflow.entities import Metric
            from mlflow.tracking import MlflowClient
        except ImportError as error:
            raise MissingPackageError("Logging to MLflow", "mlflow", "trackers") from error
        self._metric: Any = Metric
        self._client: Any = MlflowClient(tracking_uri=uri)
        known = self._client.get_experiment_by_name(experiment)
        place = self._client.create_experiment(experiment) if known is None else known.experiment_id
        self._run = self._client.create_run(place, run_name=run).info.run_id

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """All values in one request."""
        now = int(1000 * time.time())
        metrics = [self._metric(name, float(value), now, step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def close(self) -> None:
        """Mark the run as finished."""
        self._client.set_terminated(self._run)
