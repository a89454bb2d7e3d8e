"""Where runs are executed side by side: the backends of joblib, and those that packages of clusters bring."""

import importlib

from mixtailor.experiments.errors import ConfigError

__all__ = ["register"]


def register(backend: str) -> None:
    """Register a backend with joblib; raises a `ConfigError` if it does not exist."""
    if backend in ("ray", "dask"):
        package = {"ray": "ray", "dask": "distributed"}[backend]
        try:
            if backend == "ray":
                importlib.import_module("ray.util.joblib").register_ray()
            else:
                importlib.import_module(package)  # joblib finds the client that was connected
        except ImportError as error:
            raise ConfigError(
                f'The backend "{backend}" needs `{package}`. Install it with: pip install {package}'
            ) from error
    elif backend == "threading":
        raise ConfigError(
            'The backend "threading" is of no use here: torch has one source of randomness for all threads, so that '
            'runs side by side would not repeat. Use "loky".'
        )
    elif backend not in ("loky", "multiprocessing", "sequential"):
        raise ConfigError(
            f"There is no backend {backend!r}. There are loky, multiprocessing, sequential, dask and ray."
        )
