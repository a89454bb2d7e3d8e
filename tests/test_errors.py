"""Errors that users meet have public names: in tracebacks, in pickles, and in the page on the public API."""

import importlib
import pickle
import pkgutil
import traceback
from pathlib import Path

import numpy as np
import pytest

import mixtailor as mt

pytest.importorskip("torch", reason="walks all modules, and some of them need torch")
pytest.importorskip("flwr", reason="walks all modules, and some of them need flwr")
PAGE = Path(__file__).resolve().parents[1] / "docs" / "api-stability.md"
# Always caught: of the audit log, told as a finding about the log; of a law that a rule breaks, told as a LawError.
INSIDE = {"EntryError", "LongLineError", "_BrokenError"}


def errors() -> list[type[Exception]]:
    """Every exception of the package that is named as one."""
    found = {}
    for module in pkgutil.walk_packages(mt.__path__, "mixtailor."):
        if not module.name.endswith("__main__"):
            try:
                members = vars(importlib.import_module(module.name))
            except mt.MissingPackageError:  # an engine whose package has an environment of its own
                continue
            for kind in members.values():
                if isinstance(kind, type) and issubclass(kind, Exception) and kind.__module__.startswith("mixtailor"):
                    found[kind.__qualname__] = kind
    return [kind for name, kind in sorted(found.items()) if name.endswith("Error") and name not in INSIDE]


@pytest.mark.parametrize("kind", errors(), ids=lambda kind: kind.__name__)
def test_errors_are_public(kind: type[Exception]) -> None:
    """The module that an error names exports it, that module is public, and the page lists it."""
    home = importlib.import_module(kind.__module__)
    assert kind.__name__ in home.__all__ and getattr(home, kind.__name__) is kind
    assert not any(part.startswith("_") for part in kind.__module__.split("."))
    assert f"`{kind.__module__}.{kind.__name__}`" in PAGE.read_text(encoding="utf-8")
    assert pickle.loads(pickle.dumps(kind)) is kind  # noqa: S301  # our own bytes


def test_a_traceback_names_what_to_catch() -> None:
    with pytest.raises(mt.FaultError) as caught:
        mt.Mean()(np.array([[1.0], [np.nan]]))
    last = traceback.format_exception(caught.value)[-1]
    assert last.startswith("mixtailor.FaultError: 1 of 2 updates is not finite")
    again = pickle.loads(pickle.dumps(caught.value))  # noqa: S301  # our own bytes
    assert type(again) is mt.FaultError and again.rows == (1,) and str(again) == str(caught.value)
