"""Pipes, devices, endless files and links that lead out of a folder: refused with a sentence, and nothing hangs."""

import io
import json
import os
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import mixtailor as mt
from mixtailor._files import read_bounded
from mixtailor.experiments import Experiment
from mixtailor.experiments.results import Results
from mixtailor.simulation.own import read_data
from mixtailor.simulation.records import Records

pytestmark = pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


SPECIAL: dict[str, Callable[[Path], None]] = {
    "a pipe": lambda path: os.mkfifo(path),
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a terminal's device": lambda path: path.symlink_to("/dev/full"),
    "a folder": lambda path: path.mkdir(),
    "a huge file of holes": _sparse,
    "a link outside": lambda path: path.symlink_to("/etc/passwd"),
}


def experiment(folder: Path) -> Path:
    """The folder of an experiment with one run that failed and one that did not."""
    entries = [
        {"panel": "p", "rule": "krum", "attack": "a", "setting": "", "hash": name, "config": {"seed": 0, "rounds": 1}}
        for name in ("aaaa", "bbbb")
    ]
    home = folder / "demo"
    home.mkdir()
    (home / "experiment.json").write_text(json.dumps({"title": "t", "entries": entries}))
    for name in ("aaaa", "bbbb"):
        (folder / "runs" / name).mkdir(parents=True)
    (folder / "runs" / "aaaa" / "error.txt").write_text("it failed")
    records = [{"round": round, "accuracy": 0.5, "rule_seconds": {}, "drawn": {}} for round in (0, 1)]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "runs" / "bbbb" / "metrics.jsonl").write_text(lines)
    return home


@pytest.fixture(autouse=True)
def _patience() -> Iterator[None]:
    """A pipe would hold the suite for ever."""
    before = signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def _hangs(*_: object) -> None:
    raise TimeoutError("it hangs")


def errors_of(home: Path) -> list[str]:
    return [entry["error"] for entry in Results.load(home).missing]


def test_a_whole_experiment_is_read(tmp_path: Path) -> None:
    assert errors_of(experiment(tmp_path)) == ["it failed"]


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", ["demo/experiment.json", "runs/bbbb/metrics.jsonl", "runs/aaaa/error.txt"])
def test_an_experiment_of_special_files(name: str, kind: str, tmp_path: Path) -> None:
    """Whoever made the folder gets a sentence, and nothing of ours in the report."""
    home = experiment(tmp_path)
    (tmp_path / name).unlink()
    SPECIAL[kind](tmp_path / name)
    words = {"a huge file of holes": "bytes that such a file may have", "a link outside": "leads out of"}
    words |= {"a device": "leads out of", "a terminal's device": "leads out of"}
    with pytest.raises(ValueError, match=words.get(kind, "is not a regular file.")):
        Results.load(home)


def single(folder: Path) -> Path:
    """The folder of one simulation."""
    (folder / "one").mkdir()
    record = {"round": 1, "accuracy": 0.5, "drawn": {"Krum(f=1)": 1}, "selected": {}, "byzantine": {}}
    (folder / "one" / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    told = {"config": {"seed": 0, "rounds": 1, "n": 3, "byzantine": 0}, "rule": "Krum", "attack": "none"}
    (folder / "one" / "simulation.json").write_text(json.dumps(told))
    return folder / "one"


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize("name", ["simulation.json", "metrics.jsonl"])
def test_a_simulation_of_special_files(name: str, kind: str, tmp_path: Path) -> None:
    """A pipe in place of the description hung, and a device filled memory."""
    home = single(tmp_path)
    assert Results.load(home).runs
    (home / name).unlink()
    SPECIAL[kind](home / name)
    with pytest.raises(ValueError, match=r"no simulation\.json|leads out of|such a file may have|not a regular file"):
        Results.load(home)


@pytest.mark.parametrize("name", ["simulation.json", "metrics.jsonl", "journal.jsonl"])
def test_no_file_of_ours_lands_in_the_page_of_a_simulation(name: str, tmp_path: Path) -> None:
    home = single(tmp_path)
    (home / "journal.jsonl").write_text(json.dumps({"title": "t"}) + "\n")
    if name == "journal.jsonl":
        (home / "metrics.jsonl").unlink()
    (home / name).rename(tmp_path / "ours")
    (home / name).symlink_to(tmp_path / "ours")
    if name != "journal.jsonl":
        (home / "journal.jsonl").unlink()
    with pytest.raises(ValueError, match=r"no simulation\.json|leads out of"):
        Results.load(home)


def test_a_run_s_folder_may_not_be_a_link(tmp_path: Path) -> None:
    home = experiment(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "error.txt").write_text("secret")
    for path in (tmp_path / "runs" / "aaaa").iterdir():
        path.unlink()
    (tmp_path / "runs" / "aaaa").rmdir()
    (tmp_path / "runs" / "aaaa").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ValueError, match="leads out of"):
        Results.load(home)


@pytest.mark.parametrize("kind", [kind for kind in SPECIAL if kind != "a link outside"])
def test_an_experiment_s_toml(kind: str, tmp_path: Path) -> None:
    SPECIAL[kind](tmp_path / "x.toml")
    with pytest.raises(ValueError, match=r"is not a regular file\.|such a file may have\."):
        Experiment.read(tmp_path / "x.toml")


@pytest.mark.parametrize("kind", ["a pipe", "a device", "a folder", "a huge file of holes"])
def test_the_records_that_a_run_goes_on_with(kind: str, tmp_path: Path) -> None:
    SPECIAL[kind](tmp_path / "metrics.jsonl")
    with pytest.raises(ValueError, match=r"is not a regular file\.|bytes that records may have\."):
        Records(tmp_path / "metrics.jsonl")


def test_a_file_may_have_as_many_bytes_as_it_may(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert read_bounded(path, 5) == b"12345" and read_bounded(path, 5, within=tmp_path) == b"12345"
    (tmp_path / "link").symlink_to(path)
    assert read_bounded(tmp_path / "link", 5, within=tmp_path) == b"12345"
    with pytest.raises(ValueError, match="more than the 4 bytes"):
        read_bounded(path, 4)
    with pytest.raises(OSError, match="No such file"):
        read_bounded(tmp_path / "none", 4)


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
@pytest.mark.parametrize("kind", ["a pipe", "a device", "a huge file of holes"])
def test_data_of_ones_own_are_regular_files(kind: str, suffix: str, tmp_path: Path) -> None:
    """A pipe in place of a CSV file blocked for ever, and a device was read without end."""
    SPECIAL[kind](tmp_path / f"x{suffix}")
    with pytest.raises(ValueError, match=r"is not a regular file\.|is larger than|cannot be read"):
        read_data(str(tmp_path / f"x{suffix}"))


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_arrays_packed_without_a_bound_are_refused(
    method: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As data and as the state of a memory; a state that is packed at all is none that was saved."""
    path, array = tmp_path / "x.npz", io.BytesIO()
    np.save(array, np.zeros(1000))
    with zipfile.ZipFile(path, "w", method) as archive:
        archive.writestr("x.npy", array.getvalue())
        archive.writestr("y.npy", array.getvalue())
    with pytest.raises(ValueError, match=r"It is packed in a way that numpy does not write\. It needs plain arrays"):
        read_data(str(path))
    opened: list[object] = []
    monkeypatch.setattr(np, "load", lambda *given, **_options: opened.append(given))
    for _ in range(2):
        with pytest.raises(ValueError, match="is not the state of a memory"):
            mt.recommended(f=1).load(path)
        np.savez_compressed(path, state=np.zeros(10_000, np.uint8))
    assert not opened, "nothing is unpacked"
