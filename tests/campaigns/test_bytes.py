"""Damaged files in short form, by the plain mutator; what it found; and that it would find it again."""

from pathlib import Path

import pytest

from campaigns.bytes import run
from campaigns.bytes.check import Reader
from campaigns.bytes.fuzz_all import fuzzed
from campaigns.bytes.targets import TARGETS, Target
from mixtailor.experiments import Experiment
from mixtailor.experiments.errors import ConfigError


@pytest.mark.parametrize("name", TARGETS)
def test_the_short_form_finds_nothing(name: str) -> None:
    """The whole files of the corpus are read, and a hundred damaged ones are refused with a sentence, or read."""
    tally = run._block(name, 1, 0, 100)
    assert (tally.tried, tally.failures) == (100, [])
    with Reader(name) as reader:
        assert [reader.broken(whole) for whole in run.corpus(name)] == [None] * len(run.corpus(name))


@pytest.mark.parametrize("name", ["toml", "npz", "safetensors", "audit"])
def test_a_short_run_of_the_fuzzer_finds_nothing(name: str) -> None:
    """atheris goes where the code leads it; the seed makes a short run the same each time."""
    pytest.importorskip("atheris")
    found = fuzzed(name, "-runs=500", "-seed=1", seconds=600.0)
    assert not found["failures"] and found["tried"] >= 500


@pytest.mark.parametrize("name", TARGETS)
def test_the_corpus_is_what_our_writers_write(name: str) -> None:
    """As many files as there are ways to write one."""
    assert len(run.corpus(name)) == len(TARGETS[name].whole())


@pytest.mark.parametrize("name", TARGETS)
def test_a_whole_file_is_not_refused(name: str, tmp_path: Path) -> None:
    """A reader that refuses everything would break no other promise."""
    for whole in run.corpus(name):
        path = tmp_path / TARGETS[name].file
        path.write_bytes(whole)
        TARGETS[name].read(path)


def _greedy(path: Path) -> None:
    bytearray(100 << 20)


def _wordless(path: Path) -> None:
    raise ValueError("no")


def _other(path: Path) -> None:
    raise KeyError("a")


@pytest.mark.parametrize("read", [_greedy, _wordless, _other])
def test_a_broken_reader_is_found(read: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGETS, "idx", Target("x", read, (ValueError,), lambda: [b"a"]))  # type: ignore[arg-type]  # a stand-in
    assert len(run._block("idx", 0, 0, 3).failures) == 3


def test_a_damaged_file_repeats() -> None:
    assert run.damaged("npz", 3, 14) == run.damaged("npz", 3, 14)
    assert run.repeat("npz:3:14") == []


# What the campaign found.


def test_deeply_nested_toml_is_refused() -> None:
    with pytest.raises(ConfigError, match="nested too deeply"):
        Experiment.parse("a = " + "[" * 5000 + "]" * 5000)


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(ConfigError, match="is not valid TOML"):
        Experiment.parse("a = " + "9" * 5000)


def test_a_sweep_of_more_runs_than_anybody_waits_for_is_refused() -> None:
    """A file of a kilobyte can ask for ten thousand million runs."""
    lists = ", ".join(f"{key} = {list(range(1, 101))}" for key in ("seed", "rounds", "batch", "n", "evaluate_every"))
    with pytest.raises(ConfigError, match=r"make 10,000,000,000 runs, and 100,000 are the most"):
        Experiment.parse(f'title = "x"\nrun = {{rule = "comed", {lists}}}').expanded()
