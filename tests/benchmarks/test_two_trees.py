"""Two source trees are asked in turns."""

from pathlib import Path

import pytest

from benchmarks.two_trees import RULES, Tree, compare


class Told:
    """A tree whose times are given."""

    def __init__(self, *seconds: float) -> None:
        self._seconds = iter(seconds)

    def seconds(self, rule: str, n: int, d: int, calls: int) -> float:
        return next(self._seconds)


def test_the_ratio_is_of_one_turn() -> None:
    """The machine was three times as slow in the second turn: the ratio of medians would be 1.5."""
    old, new = Told(1.0, 3.0, 2.0), Told(2.0, 6.0, 3.0)
    assert compare(old, new, "Mean", (2, 3, 1), 3) == (2.0, 3.0, 2.0)


def test_a_tree_runs_the_source_that_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    package = tmp_path / "src" / "mixtailor"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("import time\ndef Mean():\n    return lambda rows: time.sleep(0.03)\n")
    tree = Tree(tmp_path / "src")
    assert 0.03 <= tree.seconds(RULES["Mean"], 2, 3, 1) < 3.0
    tree.close()
