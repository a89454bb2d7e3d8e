"""The experiments that come with the package: the paper's figures and tables, the demonstration, the arena."""

from __future__ import annotations

from importlib.resources import files
from typing import TYPE_CHECKING

from mixtailor._checks import nearest
from mixtailor.experiments.errors import ConfigError
from mixtailor.experiments.experiment import Experiment

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

__all__ = ["ours", "shipped", "shipped_names", "source"]


def shipped_names() -> list[str]:
    """The names of the paper's figures and tables.

    Examples
    --------
    >>> "fig1" in shipped_names()
    True
    """
    return sorted(item.name.removesuffix(".toml") for item in _folder().iterdir() if item.name.endswith(".toml"))


def shipped(name: str) -> Experiment:
    """One of the paper's figures or tables."""
    return Experiment.parse(source(name), name)


def source(name: str) -> str:
    """The file of a figure or table, to read and to start one's own from."""
    if name not in shipped_names():
        raise ConfigError(f"The paper has no figure or table {name!r} here. {nearest(name, shipped_names())}")
    return (_folder() / f"{name}.toml").read_text(encoding="utf-8")


def ours(name: str) -> Experiment:
    """The demonstration or the arena."""
    text = (files("mixtailor.experiments") / f"{name}.toml").read_text(encoding="utf-8")
    return Experiment.parse(text, name)


def _folder() -> Traversable:
    return files("mixtailor.experiments") / "paper"
