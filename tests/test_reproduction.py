"""The page of the paper's figures: written from the kept curves, and every sentence a row."""

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from mixtailor.experiments import kept_curves, shipped, shipped_names

DOCS = Path(__file__).parent.parent / "docs"
pytestmark = pytest.mark.skipif(not (DOCS / "results").exists(), reason="the documentation is not installed")


@pytest.fixture(scope="module")
def page() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reproduction", DOCS / "reproduction.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_figure_and_sentence_is_on_the_page(page: ModuleType) -> None:
    assert set(page.ORDER) == set(shipped_names())
    text = page.sections()
    for name in shipped_names():
        assert f"`mixtailor reproduce {name}`" in text
        for claim in shipped(name).claims:
            assert f"| {claim.text} |" in text, claim.text


def test_every_picture_of_the_page_exists_and_none_is_left_over(page: ModuleType) -> None:
    linked = set(re.findall(r"\(figures/(paper-[^)]+\.svg)\)", page.sections()))
    assert linked == {path.name for path in (DOCS / "figures").glob("paper-*.svg")}, "python docs/reproduction.py"


def test_kept_runs_belong_to_their_figure() -> None:
    """A run of another panel or rule than the figure has would never be shown."""
    for path in (DOCS / "results").glob("*.json"):
        if path.stem in shipped_names():
            kept = kept_curves(shipped(path.stem), DOCS / "results")
            own = set(re.findall(r'"hash": "(\w+)"', path.read_text(encoding="utf-8")))
            assert own and own <= {run.hash for run in kept.runs}, path.name
            assert all(0 < run.records[-1]["round"] <= run.config["rounds"] for run in kept.runs)
