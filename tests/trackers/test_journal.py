"""The journal of a server: what is written, what is read back, what a page makes of it."""

from pathlib import Path

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.trackers import Journal, Tracker

NAMES = [f"client-{i}" for i in range(8)]


def kept(folder: Path) -> Journal:
    """Six rounds: one client sends NaN in two of them."""
    random, rule = np.random.default_rng(0), mt.MixTailor([mt.Krum(f=2), mt.Comed()], entropy=mt.SeededEntropy(3))
    journal = Journal(folder, title="A <b>server</b>")
    for round in range(1, 7):
        updates = random.normal(size=(8, 5))
        if round % 3 == 0:
            updates[7] = np.nan
        journal.round(round, rule.aggregate(updates, workers=NAMES), workers=NAMES)
        if round % 2 == 0:
            journal.log(round, {"train/accuracy": 0.1, "server/accuracy": round / 10, "loss": float("nan")})
    return journal


def test_it_is_a_tracker(tmp_path: Path) -> None:
    assert isinstance(Journal(tmp_path), Tracker)


def test_rounds_are_found_again(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    from mixtailor.experiments import Results

    kept(tmp_path)
    results = Results.load(tmp_path)
    (run,) = results.runs
    assert [record["accuracy"] for record in run.records] == [0.2, 0.4, 0.6]  # the server's own, not the clients'
    assert sum(sum(record["drawn"].values()) for record in run.records) == 6
    assert results.index["title"] == "A <b>server</b>"
    worst = results.index["server"]["workers"][0]
    assert (worst["worker"], worst["quarantined"], worst["rounds"]) == ("client-7", 2, 6) and worst["reason"]


def test_a_killed_server_leaves_half_a_line(tmp_path: Path) -> None:
    """The next journal in the folder goes on behind it, and the half is left out."""
    pytest.importorskip("torch")
    from mixtailor.experiments import Results

    kept(tmp_path)
    path = tmp_path / "journal.jsonl"
    with path.open("a") as file:
        file.write('{"round": 7, "wor')
    assert Results.load(tmp_path).index["server"]["rounds"] == 6
    Journal(tmp_path, title="again").round(7, None, workers=NAMES, absent=["client-1"])
    found = Results.load(tmp_path).index
    assert found["title"] == "again" and found["server"]["rounds"] == 7 and found["server"]["skipped"] == 1
    with path.open("a") as file:
        file.write('{"other": 1, "round": 3}\n')
    with pytest.raises(ValueError, match="is no line of a journal"):
        Results.load(tmp_path)


def test_the_page_of_a_server_claims_no_more_than_it_knows(tmp_path: Path) -> None:
    """Nobody knows who attacked: the page says who was quarantined, and names stay text."""
    pytest.importorskip("torch")
    pytest.importorskip("jinja2")
    from mixtailor.report import write

    kept(tmp_path)
    text = write(tmp_path).read_text()
    assert "No worker attacked" not in text and "Worst case" not in text
    assert "client-7" in text and "<b>server</b>" not in text


def test_no_name_stops_or_turns_the_page(tmp_path: Path) -> None:
    """A file name that is no text, and one that would show the words behind it backwards."""
    pytest.importorskip("torch")
    pytest.importorskip("jinja2")
    from mixtailor.experiments import Results
    from mixtailor.report.page import rendered

    names = ["w\udcff.npy", "w\u202egnp.npy", "<b>", "w\x1b[2J"]
    updates = np.ones((4, 3))
    updates[0] = np.nan
    journal = Journal(tmp_path)
    journal.round(1, mt.Comed().aggregate(updates, workers=names), workers=names, absent=["\u2066x"])
    journal.log(1, {"accuracy": 0.5})
    text = rendered(Results.load(tmp_path))
    text.encode()
    assert all(letter.isprintable() for letter in (tmp_path / "journal.jsonl").read_text() if letter != "\n")
    assert not {"\u202e", "\u2066", "\x1b"} & set(text) and "<b>" not in text.replace("<b>own</b>", "")
    with (tmp_path / "journal.jsonl").open("a") as file:  # as somebody else's program would write it
        file.write('{"round":2,"workers":["\\udcff"],"absent":[],"quarantined":{"\\udcff":"\\udcff"}}\n')
    rendered(Results.load(tmp_path)).encode()


def test_long_names_and_reasons_are_cut(tmp_path: Path) -> None:
    """Clients have a say in both."""
    journal = Journal(tmp_path)
    journal.round(1, None, workers=["x" * 10_000], quarantined={"x" * 10_000: "y" * 10_000})
    assert (tmp_path / "journal.jsonl").stat().st_size < 1000


def test_a_special_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").symlink_to("/dev/zero")
    with pytest.raises(ValueError, match="not a regular file"):
        Journal(tmp_path)
