"""What all tests share: repeatable hypothesis, `np` in doctests, and skips where optional packages are missing."""

import importlib.util
import os
from collections.abc import Generator
from typing import Any

import hypothesis
import numpy as np
import pytest

# The same examples at each run, so that a failure is the change's own. HYPOTHESIS_PROFILE=exploring draws new ones.
hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None)
hypothesis.settings.register_profile("exploring", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))

# The packages of the extras, by the names that they are imported under. What needs one that is not installed is
# skipped, so that the base package can be tested without them; one that is installed and fails to load is an error.
OPTIONAL = (
    "torch", "safetensors", "typer", "rich", "jinja2", "matplotlib", "tensorboard", "mlflow", "wandb", "sklearn",
    "pydantic", "joblib", "flwr", "distributed", "atheris", "transformers", "accelerate", "lightning",
    "nvflare", "torchft", "peft",
)  # fmt: skip
MISSING = frozenset(name for name in OPTIONAL if importlib.util.find_spec(name) is None)


def missing_package(error: BaseException | None) -> str | None:
    """The optional package that is not installed and that this error, or one it comes from, is about."""
    while error is not None:
        if isinstance(error, ImportError) and (error.name or "").partition(".")[0] in MISSING:
            return (error.name or "").partition(".")[0]
        error = error.__cause__ or error.__context__
    return None


def pytest_report_header() -> list[str]:
    return [f"not installed, and what needs it is skipped: {', '.join(sorted(MISSING))}"] if MISSING else []


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """A module that cannot be imported for want of an optional package is skipped, not an error."""
    report = yield
    if report.outcome == "failed" and MISSING:
        call: Any = getattr(report, "call", None)
        name = missing_package(call.excinfo.value if call is not None and call.excinfo is not None else None)
        if name is not None:
            report.outcome, report.result = "skipped", []
            report.longrepr = (str(collector.path), 0, f"Skipped: needs {name}, which is not installed")
    return report


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: "pytest.CallInfo[None]"
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """The same for a test that imports such a package itself, or calls what does."""
    report = yield
    if report.outcome == "failed" and MISSING and call.excinfo is not None:
        error = call.excinfo.value
        name = missing_package(getattr(error, "exc_info", (None, error))[1])  # a doctest carries what it met
        if name is not None:
            report.outcome = "skipped"
            report.longrepr = (str(item.path), 0, f"Skipped: needs {name}, which is not installed")
    return report


@pytest.fixture(autouse=True)
def _numpy_in_doctests(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace["np"] = np
