"""The audit trail as a server uses it: what it writes before it answers, and what a crash leaves behind."""

from __future__ import annotations

import doctest
import hashlib
import hmac
import json
import os
import pickle
import shutil
import signal
import stat
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from mixtailor._version import __version__
from mixtailor.mixing.audit import AuditTrail, Draw, verify
from mixtailor.mixing.audit.derivation import drawn_index, preaggregation_key
from mixtailor.mixing.audit.entries import BEGINNING, Resumed, encode, hash_of
from mixtailor.mixing.audit.pools import check_shares
from mixtailor.mixing.audit.store import Lock
from mixtailor.mixing.entropy import weights_of

POOL = ["Krum(f=1)", "Comed()", "Comed()", "GeometricMedian()", "Bulyan(f=1)"]
LEVEL = 1e-6


def rows(round: int, workers: int = 5) -> dict[str, bytes]:
    """Digests of the rows of a round."""
    return {f"w{number}": hashlib.sha256(f"{round} {number}".encode()).digest() for number in range(workers)}


def entries(path: Path) -> list[dict[str, object]]:
    """The log as JSON."""
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the log of a test lives."""
    return tmp_path / "run.audit"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk, in tests that repeat thousands of writes and cut no power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def test_a_run_verifies(log: Path) -> None:
    """Commit, draw, close: the log and the published commitment are enough to repeat each draw and its key."""
    with AuditTrail.start(log, POOL, run="a run") as trail:
        published = trail.commitment
        draws = [trail.draw(rows(number), round=None, pool=POOL, probabilities=None) for number in range(20)]
        assert not trail.closed
    assert trail.closed and [draw.round for draw in draws] == list(range(20)) and not any(d.retry for d in draws)
    report = verify(log, commitment=published, pool=POOL)
    assert report.ok and report.closed and report.problems == () and report.notes == ()
    assert [(found.index, found.key) for found in report.draws] == [(draw.index, draw.key) for draw in draws]
    assert {len(draw.key) for draw in draws} == {32} and len({draw.key for draw in draws}) == 20
    assert (report.run, report.version, report.commitment) == ("a run", __version__, published)
    assert published == hashlib.sha256(log.read_bytes().splitlines(keepends=True)[0]).hexdigest()
    assert len({draw.index for draw in draws}) > 1
    assert str(report).splitlines()[0].endswith("holds: 20 draws repeated from the secret.")


def test_a_pool_of_one_rule_verifies(log: Path) -> None:
    with AuditTrail.start(log, ["a"], [1.0], needs=[3]) as trail:
        assert trail.draw(rows(0), pool=["a"], probabilities=[1.0]).index == 0
    assert verify(log, commitment=trail.commitment, pool=["a"], probabilities=[1.0]).ok


def test_the_commitment_covers_what_it_must(log: Path, tmp_path: Path) -> None:
    """Secret's hash, ordered pool, probabilities, version, run: each is in the first entry, the secret is not."""
    odds = [0.5, 0.2, 0.1, 0.1, 0.1]
    trail = AuditTrail.start(log, POOL, odds, run="a run", needs=[5, 1, 1, 1, 7])
    (first,) = entries(log)
    secret = json.loads((tmp_path / "run.audit.secret").read_text())["secret"]
    assert first["pool"] == POOL and first["probabilities"] == odds and first["needs"] == [5, 1, 1, 1, 7]
    assert first["run"] == "a run" and first["version"] == __version__ and first["kind"] == "commitment"
    assert first["secret_hash"] == hashlib.sha256(bytes.fromhex(secret)).hexdigest()
    trail.draw(rows(0, 7), pool=POOL, probabilities=odds)
    trail.release()
    assert secret not in log.read_text() and secret not in repr(trail) and len(secret) == 64


def test_the_draw_is_the_documented_formula(log: Path, tmp_path: Path) -> None:
    """Index and key follow from secret, run, round and root by HMAC-SHA256, here written out."""
    trail = AuditTrail.start(log, POOL[:4], run="r")
    draw = trail.draw(rows(0), round=6, pool=POOL[:4])
    trail.release()
    secret = bytes.fromhex(json.loads((tmp_path / "run.audit.secret").read_text())["secret"])
    root = bytes.fromhex(str(entries(log)[1]["root"]))

    def field(data: bytes) -> bytes:
        return len(data).to_bytes(8, "big") + data

    message = field(b"r") + field((6).to_bytes(8, "big")) + field(root)
    block = hmac.digest(secret, field(b"mixtailor audited draw 1") + message + field(bytes(8)), "sha256")
    assert draw.index == block[0] >> 6, "four rules take two bits and no rejection"
    assert draw.key == hmac.digest(secret, field(b"mixtailor audited key 1") + message, "sha256")


def test_audited_draws_are_uniform(log: Path, quick: None) -> None:
    """64,000 audited draws over 64 rules pass a chi-square test."""
    pool = [f"rule {number}" for number in range(64)]
    trail = AuditTrail.start(log, pool)
    found = [trail.draw({"w": number.to_bytes(32, "big")}, pool=pool).index for number in range(64_000)]
    trail.release()
    assert stats.chisquare(np.bincount(found, minlength=64)).pvalue > LEVEL


def test_audited_draws_keep_unequal_odds(log: Path, quick: None) -> None:
    """Unequal probabilities, among all rules and among those that the number of rows allows."""
    odds = np.array([0.4, 0.3, 0.2, 0.05, 0.05])
    trail = AuditTrail.start(log, POOL, odds, needs=[1, 5, 1, 1, 1])
    found = [trail.draw(rows(number), pool=POOL, probabilities=odds).index for number in range(8000)]
    assert stats.chisquare(np.bincount(found, minlength=5), odds * 8000).pvalue > LEVEL
    fewer = [POOL[position] for position in (0, 2, 3, 4)]
    shares = odds[[0, 2, 3, 4]] / 0.7
    found = [trail.draw(rows(n, 4), pool=fewer, probabilities=shares).index for n in range(8000, 16_000)]
    assert stats.chisquare(np.bincount(found, minlength=4), shares * 8000).pvalue > LEVEL
    trail.close()
    assert verify(log, pool=POOL, probabilities=odds).ok


def test_serial_draws_do_not_depend_on_the_run_before() -> None:
    """Neighbouring rounds, roots and runs give unrelated draws and keys."""
    weights, root = weights_of(None, 64), bytes(32)
    found = {
        preaggregation_key(secret, run, round, root)
        for secret in (bytes(32), b"1" * 32)
        for run in ("a", "b")
        for round in range(50)
    }
    assert len(found) == 200
    indices = [drawn_index(bytes(32), "a", round, root, weights) for round in range(6400)]
    pairs = [8 * (first % 8) + second % 8 for first, second in zip(indices[::2], indices[1::2], strict=True)]
    assert stats.chisquare(np.bincount(pairs, minlength=64)).pvalue > LEVEL


def test_two_runs_have_different_secrets(tmp_path: Path) -> None:
    """The same pool, rows and run name twice: other secrets, other draws."""
    found = []
    for name in ("one", "two"):
        with AuditTrail.start(tmp_path / name, POOL, run="r") as trail:
            found.append([trail.draw(rows(number), pool=POOL).index for number in range(60)])
    assert found[0] != found[1]


def test_the_entry_is_on_disk_before_the_answer(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each draw is written whole and then flushed to the disk; a draw whose flush fails is not released."""
    trail = AuditTrail.start(log, POOL)
    flushed: list[int] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        real(descriptor)
        flushed.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", spy)
    for number in range(3):
        trail.draw(rows(number), pool=POOL)
        assert len(flushed) == number + 1
        assert flushed[-1] == log.stat().st_size and log.read_bytes().endswith(b"\n")

    def fail(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space") as caught:
        trail.draw(rows(3), pool=POOL)
    assert "AuditTrail.resume" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="was released"):
        trail.draw(rows(4), pool=POOL)
    monkeypatch.setattr(os, "fsync", real)
    with AuditTrail.resume(log, POOL) as trail:
        assert trail.draw(rows(3), pool=POOL) == trail.draw(rows(3), round=3, pool=POOL)
    assert verify(log).ok


def test_a_disk_that_fills_up_midway_loses_nothing(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the line fits: the draw is not released, the half is dropped and recorded, the retry goes through."""
    trail = AuditTrail.start(log, POOL)
    first = trail.draw(rows(0), pool=POOL)
    real = os.write
    fits = iter([100])

    def full(descriptor: int, data: memoryview) -> int:
        for size in fits:
            return real(descriptor, data[:size])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        trail.draw(rows(1), pool=POOL)
    monkeypatch.setattr(os, "write", real)
    with AuditTrail.resume(log) as trail:
        second = trail.draw(rows(1), pool=POOL)
    report = verify(log)
    assert report.ok and [draw.index for draw in report.draws] == [first.index, second.index]
    assert entries(log)[2]["dropped"] == 100 and not second.retry


def test_a_round_is_used_once_and_a_retry_draws_the_same(log: Path) -> None:
    """Same round and rows: logged as a retry, same answer. Same round, other rows: refused. Rounds only go up."""
    with AuditTrail.start(log, POOL) as trail:
        first = trail.draw(rows(0), round=4, pool=POOL)
        again = trail.draw(rows(0), round=4, pool=POOL)
        assert again == Draw(first.index, first.key, 4, True)
        for round, sentence in {4: "Round 4 was drawn already, from other rows", 3: "Round 3 comes before"}.items():
            size = log.stat().st_size
            with pytest.raises(ValueError, match=sentence):
                trail.draw(rows(1), round=round, pool=POOL)
            assert log.stat().st_size == size, "nothing is written for a refused draw"
        assert trail.draw(rows(0), pool=POOL).round == 5, "the same rows in a new round are not a retry"
        assert trail.draw(rows(0), round=4, pool=POOL) == again
        assert trail.draw(rows(2), round=np.int64(9), pool=POOL).round == 9  # type: ignore[arg-type]
    report = verify(log)
    assert report.ok and [(draw.round, draw.retries) for draw in report.draws] == [(4, 2), (5, 0), (9, 0)]
    assert any("3 round numbers between 4 and 9 were skipped" in note for note in report.notes)
    assert any("2 draws repeated" in note for note in report.notes)


def test_a_retry_of_an_old_round_frees_no_number(log: Path) -> None:
    """After going back to round 0 the next number is still the one after the largest."""
    with AuditTrail.start(log, POOL) as trail:
        for number in range(3):
            trail.draw(rows(number), pool=POOL)
        assert trail.draw(rows(0), round=0, pool=POOL).retry
        assert trail.draw(rows(9), pool=POOL).round == 3
    assert verify(log).ok


def test_a_released_trail_cannot_be_closed(log: Path) -> None:
    """Closing after letting go is refused before the secret is marked as revealed, so the run can still go on."""
    trail = AuditTrail.start(log, POOL)
    trail.release()
    with pytest.raises(RuntimeError, match="was released"):
        trail.close()
    with AuditTrail.resume(log) as trail:
        trail.draw(rows(0), pool=POOL)
    assert verify(log).ok


def test_an_entry_after_the_closing_is_damage(log: Path) -> None:
    """A line that follows the closing, its hash right, is named as damage when the log is opened again."""
    with AuditTrail.start(log, POOL) as trail:
        trail.draw(rows(0), pool=POOL)
    data = log.read_bytes()
    extra = {**entries(log)[1], "entry": 3, "round": 1, "previous": trail.head}
    log.write_bytes(data + json.dumps(extra, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    with pytest.raises(ValueError, match=r"Entry 3 .* is damaged: a log has one commitment, and nothing after"):
        AuditTrail.resume(log)


@pytest.mark.parametrize("round", [-1, True, 1.0, "1", 2**53])
def test_wrong_round_numbers_are_refused(log: Path, round: object) -> None:
    """A round is an integer that JSON holds exactly."""
    trail = AuditTrail.start(log, POOL)
    with pytest.raises(ValueError, match="round must be an integer"):
        trail.draw(rows(0), round=round, pool=POOL)  # type: ignore[arg-type]
    trail.release()


def test_another_pool_is_refused(log: Path) -> None:
    """Re-ordered, shortened, lengthened, other odds: a draw happens only from what was committed to."""
    trail = AuditTrail.start(log, POOL, needs=[5, 1, 1, 1, 7])
    size = log.stat().st_size
    wrong: list[tuple[Sequence[str], Sequence[float] | None, str]] = [
        (POOL[::-1], None, "another order"),
        (POOL[1:], None, "not the committed one"),
        ([*POOL, "Mean()"], None, "not the committed one"),
        (POOL, [0.3, 0.2, 0.2, 0.2, 0.1], "rule 0 is given 0.3"),
        (POOL, [0.5, 0.5], "has 2 numbers for 5"),
        (POOL, [float("nan")] * 5, "rule 0 is given nan"),
    ]
    for pool, odds, sentence in wrong:
        with pytest.raises(ValueError, match=sentence):
            trail.draw(rows(0), pool=pool, probabilities=odds)
    with pytest.raises(ValueError, match="not the committed one"):
        trail.draw(rows(0), pool=[POOL[0]])
    with pytest.raises(ValueError, match="at least one row"):
        trail.draw({}, pool=POOL)
    assert log.stat().st_size == size
    trail.release()


def test_the_number_of_rows_decides_what_may_be_drawn(log: Path, quick: None) -> None:
    """With fewer rows than a rule needs it is never drawn, and the index is into the pool handed over."""
    with AuditTrail.start(log, POOL, needs=[5, 1, 1, 1, 7]) as trail:
        fewer = POOL[1:4]
        short = {trail.draw(rows(number, 4), pool=fewer).index for number in range(60)}
        whole = {trail.draw(rows(number, 4), pool=POOL).index for number in range(60, 120)}
        assert short == {0, 1, 2} and whole == {1, 2, 3}
        assert {trail.draw(rows(number, 7), pool=POOL).index for number in range(120, 220)} == set(range(5))
        with pytest.raises(ValueError, match="not the committed one"):
            trail.draw(rows(0, 7), pool=fewer)
    assert verify(log, pool=POOL).ok


def test_a_pool_that_the_rows_leave_empty(tmp_path: Path) -> None:
    """No rule left, or none with a chance: a sentence and nothing written."""
    trail = AuditTrail.start(tmp_path / "a", POOL[:2], needs=[5, 5])
    with pytest.raises(ValueError, match="No rule of the pool that 4 rows allow"):
        trail.draw(rows(0, 4), pool=POOL[:2])
    trail.release()
    trail = AuditTrail.start(tmp_path / "b", POOL[:2], [1.0, 0.0], needs=[5, 1])
    with pytest.raises(ValueError, match="No rule of the pool that 4 rows allow"):
        trail.draw(rows(0, 4), pool=POOL[:2], probabilities=[1.0, 0.0])
    trail.release()


def test_rules_are_named_by_their_repr_and_asked_for_their_rows(log: Path) -> None:
    """Objects join by `repr` and `min_rows`; a function named by its address is refused: nobody could check it."""

    class Rule:
        def __repr__(self) -> str:
            return "Rule(f=2)"

        def min_rows(self) -> int:
            return 7

    with pytest.raises(ValueError, match="named by its address"):
        AuditTrail.start(log, [Rule(), rows])
    with AuditTrail.start(log, [Rule(), "mean"]) as trail:
        trail.draw(rows(0), pool=["mean"])
        trail.draw(rows(1, 7), pool=[Rule(), "mean"])
    assert entries(log)[0]["needs"] == [7, 1] and entries(log)[0]["pool"] == ["Rule(f=2)", "mean"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"pool": []}, "The pool is empty"),
        ({"pool": ["a\nb"]}, "printable"),
        ({"pool": [""]}, "printable"),
        ({"pool": POOL, "probabilities": [0.5, 0.5]}, "one number for each of the 5 rules"),
        ({"pool": ["a", "b"], "probabilities": [0.5, 0.6]}, "must sum to one"),
        ({"pool": ["a", "b"], "needs": [1]}, "needs must give each of the 2 rules"),
        ({"pool": ["a"], "needs": [-1]}, "needs must give each of the 1 rules"),
        ({"pool": ["a", "b"], "needs": [1, -1]}, "needs must give each of the 2 rules"),
        ({"pool": ["a"], "run": ""}, "run must be printable"),
        ({"pool": ["a" * (1 << 22)]}, "an entry may have"),
    ],
)
def test_a_start_that_is_refused_leaves_nothing(log: Path, arguments: dict[str, object], sentence: str) -> None:
    """Wrong arguments raise before any file is made."""
    with pytest.raises(ValueError, match=sentence):
        AuditTrail.start(log, **arguments)  # type: ignore[arg-type]
    assert list(log.parent.iterdir()) == []


def test_the_secret_file_is_private_and_whole(log: Path, tmp_path: Path) -> None:
    """Mode 0600 whatever the umask; one that others can read, a foreign or a damaged one stops a resumption."""
    before = os.umask(0)
    try:
        AuditTrail.start(log, POOL).release()
    finally:
        os.umask(before)
    secret = tmp_path / "run.audit.secret"
    assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.stat().st_mode) == 0o666, "the log is for everybody, as far as the umask lets"
    assert stat.S_IMODE((tmp_path / "run.audit.lock").stat().st_mode) == 0o600
    secret.chmod(0o640)
    with pytest.raises(PermissionError, match=r"read by others \(mode 0640\)"):
        AuditTrail.resume(log)
    secret.chmod(0o600)
    good = secret.read_text()
    for bad in ("", "{}", "[" * 5000, good[:-5], good.replace("false", "0"), good.replace("secret 1", "secret 2")):
        secret.write_text(bad)
        with pytest.raises(ValueError, match="is not the secret of an audit trail"):
            AuditTrail.resume(log)
    AuditTrail.start(tmp_path / "other", POOL).release()
    shutil.copy(tmp_path / "other.secret", secret)
    with pytest.raises(ValueError, match="belongs to another log"):
        AuditTrail.resume(log)
    secret.unlink()
    with pytest.raises(FileNotFoundError, match="cannot go on without its secret"):
        AuditTrail.resume(log)
    secret.write_text(good)
    secret.chmod(0o600)
    assert len(entries(log)) == 1, "refused resumptions leave no entry"
    AuditTrail.resume(log).release()


def test_the_longest_name_of_a_run_can_be_resumed(log: Path) -> None:
    """The secret's file has 4,096 bytes at most: a name that would need more is refused before anything is written."""
    AuditTrail.start(log, POOL, run="r").release()
    room = 4096 - log.with_name("run.audit.secret").stat().st_size
    longest = log.with_name("longest")
    AuditTrail.start(longest, POOL, run="r" * (1 + room)).release()
    assert longest.with_name("longest.secret").stat().st_size == 4096
    AuditTrail.resume(longest).release()
    before = set(log.parent.iterdir())
    with pytest.raises(ValueError, match=f"name of the run has {2 + room} characters"):
        AuditTrail.start(log.with_name("longer"), POOL, run="r" * (2 + room))
    assert set(log.parent.iterdir()) == before
    with longest.with_name("longest.secret").open("ab") as file:
        file.write(b" ")
    with pytest.raises(ValueError, match="not the secret of an audit trail, or is damaged"):
        AuditTrail.resume(longest)


def test_the_longest_pool_can_be_read(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of exactly the bytes that an entry may have is written, resumed and verified; one more is refused."""
    limit = 5000
    monkeypatch.setattr("mixtailor.mixing.audit.store.LONGEST_LINE", limit)
    monkeypatch.setattr("mixtailor.mixing.audit.trail.LONGEST_LINE", limit)
    AuditTrail.start(log, ["r"], run="a run").release()
    room = limit - log.stat().st_size
    longest = log.with_name("longest")
    AuditTrail.start(longest, ["r" * (1 + room)], run="a run").release()
    assert longest.stat().st_size == limit
    AuditTrail.resume(longest).close()
    assert verify(longest).ok
    with pytest.raises(ValueError, match=f"takes {limit + 1} bytes"):
        AuditTrail.start(log.with_name("longer"), ["r" * (2 + room)], run="a run")


def test_a_secret_is_of_one_log(log: Path, tmp_path: Path) -> None:
    """One of another log is refused, though the runs have one name, or the secret is right and the name is not."""
    AuditTrail.start(log, POOL, run="r").release()
    AuditTrail.start(tmp_path / "other", POOL, run="r").release()
    secret = tmp_path / "run.audit.secret"
    good = secret.read_text()
    for bad in ((tmp_path / "other.secret").read_text(), good.replace('"run": "r"', '"run": "s"')):
        secret.write_text(bad)
        with pytest.raises(ValueError, match="belongs to another log"):
            AuditTrail.resume(log)


def test_a_secret_that_had_not_its_name_yet_gets_it(log: Path, tmp_path: Path) -> None:
    """A start that was killed before its last step is finished by the resumption."""
    AuditTrail.start(log, POOL).release()
    (tmp_path / "run.audit.secret").rename(tmp_path / "run.audit.secret.new")
    AuditTrail.resume(log).release()
    assert {path.name for path in tmp_path.iterdir()} == {"run.audit", "run.audit.secret", "run.audit.lock"}


def test_a_half_line_goes_and_the_mode_of_the_log_stays(log: Path) -> None:
    AuditTrail.start(log, POOL).release()
    log.chmod(0o640)
    with log.open("ab") as file:
        file.write(b"half")
    before = os.umask(0)
    try:
        AuditTrail.resume(log).release()
    finally:
        os.umask(before)
    assert stat.S_IMODE(log.stat().st_mode) == 0o640 and entries(log)[1]["dropped"] == 4


def test_a_resumption_with_other_odds_is_refused(log: Path) -> None:
    """With the pool or without it; a pool alone says that its odds are equal."""
    odds = [0.5, 0.2, 0.1, 0.1, 0.1]
    AuditTrail.start(log, POOL, odds).release()
    for pool, wrong in ((POOL, odds[::-1]), (None, odds[::-1]), (POOL, None)):
        with pytest.raises(ValueError, match="probabilities are not the committed ones: rule 0"):
            AuditTrail.resume(log, pool, wrong)
    for pool in (POOL, None):
        AuditTrail.resume(log, pool, odds).release()


def test_shares_may_be_off_by_a_billionth() -> None:
    """As much as their sum may be off, and no more."""
    check_shares([1.0, 1e-9], [1, 0])
    check_shares([0.25, 0.75], [1, 3])
    with pytest.raises(ValueError, match=r"rule 1 is given 1\.1e-09, and 0\.0 is committed"):
        check_shares([1.0, 1.1e-9], [1, 0])


def test_a_trail_says_what_state_it_is_in(log: Path) -> None:
    trail = AuditTrail.start(log, POOL, run="r")
    trail.draw(rows(0), pool=POOL)
    assert repr(trail) == f"<AuditTrail {str(log)!r}: run 'r', 1 rounds, open>"
    trail.release()
    assert repr(trail).endswith("1 rounds, released>")
    with AuditTrail.resume(log) as trail:
        pass
    assert repr(trail).endswith("1 rounds, closed>")


def test_nothing_is_overwritten(log: Path) -> None:
    """A log or a secret that exists is not replaced by a new run; `open` goes on with it."""
    AuditTrail.start(log, POOL, run="one").release()
    with pytest.raises(FileExistsError, match="Resume that run"):
        AuditTrail.start(log, POOL)
    with pytest.raises(ValueError, match="is the log of run 'one', not of 'two'") as refused:
        AuditTrail.open(log, POOL, run="two")
    assert refused.traceback, "kept, and with it the frames: the log is free all the same"
    with pytest.raises(ValueError, match="another order"):
        AuditTrail.open(log, POOL[::-1])
    with AuditTrail.open(log, POOL, run="one") as trail:
        trail.draw(rows(0), pool=POOL)
    moved = log.with_name("moved")
    log.rename(moved)
    with pytest.raises(FileExistsError, match=r"run\.audit\.secret exists"):
        AuditTrail.open(log, POOL)
    assert verify(moved).ok
    with pytest.raises(FileNotFoundError, match="There is no log"):
        AuditTrail.resume(log)


def test_a_start_that_was_killed_can_be_repeated_or_resumed(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever step of `start` is the last to happen, `open` afterwards gives a working trail."""
    steps = 0
    for last in range(20):
        for left in log.parent.iterdir():
            left.unlink()
        count = iter(range(100))
        real = {name: getattr(os, name) for name in ("open", "write", "fsync", "replace")}

        def guarded(name: str, *, last: int = last, count: object = count, real: object = real) -> object:
            def call(*arguments: object, **options: object) -> object:
                if next(count) >= last:  # type: ignore[call-overload]
                    raise KeyboardInterrupt
                return real[name](*arguments, **options)  # type: ignore[index]

            return call

        with monkeypatch.context() as patch:
            for name in real:
                patch.setattr(os, name, guarded(name))
            try:
                AuditTrail.start(log, POOL).release()
                finished = True
            except KeyboardInterrupt:
                finished = False
        with AuditTrail.open(log, POOL) as trail:
            trail.draw(rows(0), pool=POOL)
        assert verify(log, commitment=trail.commitment).ok
        steps += 1
        if finished:
            break
    assert finished and steps > 8


def test_a_log_has_one_writer(log: Path) -> None:
    """A second trail on the same log is refused until the first lets go; threads of one process share one."""
    trail = AuditTrail.start(log, POOL)
    with pytest.raises(RuntimeError, match="A log has one writer"):
        AuditTrail.resume(log)
    found: list[Draw] = []

    def work(first: int) -> None:
        found.extend([trail.draw(rows(first + number), pool=POOL) for number in range(25)])

    threads = [threading.Thread(target=work, args=(1000 * number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(draw.round for draw in found) == list(range(100))
    trail.release()
    AuditTrail.resume(log).close()
    assert verify(log).ok


def test_a_lock_is_its_processs_own(tmp_path: Path) -> None:
    """A forked child that lets go does not unlock, and one that holds on to its handle does not keep locked."""
    path = str(tmp_path / "lock")
    lock = Lock(path)
    for lets_go in (True, False):
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            if lets_go:
                lock.release()
            else:
                os.read(reading, 1)
            os._exit(0)
        try:
            if lets_go:
                os.waitpid(child, 0)
                with pytest.raises(RuntimeError, match=r"has .* locked"):
                    Lock(path)
            else:
                lock.release()
                Lock(path).release()
        finally:
            os.write(writing, b".")
            os.close(reading)
            os.close(writing)
            if not lets_go:
                os.waitpid(child, 0)


def test_a_name_is_on_the_disk_as_well_as_what_it_names(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder is flushed after the log and after the secret have taken their names."""
    flushed: list[str] = []
    real = os.fsync

    def spy(descriptor: int) -> None:
        real(descriptor)
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            flushed.append(",".join(sorted(path.name for path in log.parent.iterdir() if path.suffix != ".lock")))

    monkeypatch.setattr(os, "fsync", spy)
    AuditTrail.start(log, POOL).release()
    assert flushed == ["run.audit,run.audit.secret.new", "run.audit,run.audit.secret"]


@pytest.mark.skipif(not os.path.isdir("/dev/fd"), reason="counts the files that the process has open")
def test_no_file_is_left_open(log: Path) -> None:
    before = len(os.listdir("/dev/fd"))
    AuditTrail.start(log, POOL).release()
    with AuditTrail.resume(log) as trail:
        trail.draw(rows(0), pool=POOL)
    assert verify(log).ok and len(os.listdir("/dev/fd")) == before
    held = Lock(str(log) + ".lock")
    with pytest.raises(RuntimeError, match="Another audit trail"):
        Lock(str(log) + ".lock")
    held.release()
    assert len(os.listdir("/dev/fd")) == before


def test_a_dropped_trail_lets_go(log: Path) -> None:
    """A trail that nobody holds any more closes its files and reveals nothing."""
    trail = AuditTrail.start(log, POOL)
    del trail
    AuditTrail.resume(log).release()
    assert "secret_hash" in log.read_text() and '"secret":' not in log.read_text()


def test_an_exception_reveals_nothing(log: Path) -> None:
    """A run that fails inside the context can be resumed: its secret stays one."""
    trail = AuditTrail.start(log, POOL)

    def train() -> None:
        with trail:
            trail.draw(rows(0), pool=POOL)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        train()
    assert not trail.closed and not verify(log).closed
    with AuditTrail.resume(log) as trail:
        trail.draw(rows(1), pool=POOL)
    assert verify(log).ok


def test_a_forked_child_cannot_draw() -> None:
    """Two writers would break the chain: the child is refused, and its end does not unlock the parent's log."""
    script = """
import os, tempfile
from mixtailor.mixing.audit import AuditTrail, verify
path = os.path.join(tempfile.mkdtemp(), "log")
trail = AuditTrail.start(path, ["a", "b"])
if os.fork() == 0:
    for act in (lambda: trail.draw({"w": bytes(32)}, pool=["a", "b"]), trail.close):
        try:
            act()
        except RuntimeError as error:
            print(str(error)[:48], flush=True)
    trail.release()
    os._exit(0)
os.wait()
try:
    AuditTrail.resume(path)
except RuntimeError:
    print("still locked")
trail.draw({"w": bytes(32)}, pool=["a", "b"])
trail.close()
print(verify(path).ok)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    refusal = "This audit trail was opened by another process, "
    assert done.stdout.splitlines() == [refusal, refusal, "still locked", "True"]


def test_another_process_neither_draws_nor_closes(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A copy of the trail, which a fork makes, is refused before it writes a byte."""
    trail = AuditTrail.start(log, POOL)
    written = log.read_bytes()
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "getpid", lambda: -1)
        with pytest.raises(RuntimeError, match="opened by another process"):
            trail.draw(rows(0), pool=POOL)
        with pytest.raises(RuntimeError, match="opened by another process"):
            trail.close()
    assert log.read_bytes() == written and not trail.closed
    trail.close()


def test_a_trail_does_not_pickle(log: Path) -> None:
    """It is the one writer of a file, and holds a secret."""
    trail = AuditTrail.start(log, POOL)
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(trail)
    trail.release()


def test_a_revealed_secret_is_never_used_again(log: Path) -> None:
    """After close: the object refuses, a second close is nothing, and the closed log is not reopened."""
    trail = AuditTrail.start(log, POOL)
    trail.draw(rows(0), pool=POOL)
    trail.close()
    size = log.stat().st_size
    trail.close()
    with pytest.raises(RuntimeError, match="closed and its secret revealed"):
        trail.draw(rows(1), pool=POOL)
    with pytest.raises(RuntimeError, match="closed and its secret revealed"):
        AuditTrail.resume(log)
    assert log.stat().st_size == size and verify(log).ok
    assert trail.proof("w0").holds(digest=rows(0)["w0"]), "a receipt can still be had"


def test_an_interrupted_closing_can_only_be_finished(log: Path, quick: None) -> None:
    """Cut the closing at every byte, all of it included: no draw is made with what may have been seen."""
    with AuditTrail.start(log, POOL) as trail:
        trail.draw(rows(0), pool=POOL)
    data = log.read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(data)):
        log.write_bytes(data[:end])
        trail = AuditTrail.resume(log, POOL)
        with pytest.raises(RuntimeError, match="may have been revealed"):
            trail.draw(rows(1), pool=POOL)
        trail.close()
        report = verify(log, commitment=trail.commitment)
        assert report.ok, report


def test_a_draw_killed_at_any_byte_is_recovered(log: Path, quick: None) -> None:
    """Cut the last entry at every byte: the half line goes and is recorded, and the round is drawn as before."""
    trail = AuditTrail.start(log, POOL)
    published = trail.commitment
    draws = [trail.draw(rows(number), pool=POOL) for number in range(3)]
    trail.release()
    data, secret = log.read_bytes(), log.with_name("run.audit.secret").read_bytes()
    start = data.rindex(b"\n", 0, -1) + 1
    for end in range(start, len(data) + 1):
        log.write_bytes(data[:end])
        log.with_name("run.audit.secret").write_bytes(secret)
        with AuditTrail.resume(log, POOL) as trail:
            again = trail.draw(rows(2), pool=POOL)
        whole = end == len(data)
        assert again == Draw(draws[2].index, draws[2].key, 2, whole)
        resumed = entries(log)[4 if whole else 3]
        dropped = b"" if whole else data[start:end]
        assert (resumed["kind"], resumed["dropped"]) == ("resumption", len(dropped))
        assert resumed["dropped_hash"] == hashlib.sha256(dropped).hexdigest()
        report = verify(log, commitment=published)
        assert report.ok and len(report.draws) == 3, report
        assert log.read_bytes().startswith(data[:start])


def test_only_the_first_draw_after_a_crash_is_taken_for_a_retry(log: Path) -> None:
    """Without a round number, the rows of the last entry right after a resumption repeat it; later they do not."""
    trail = AuditTrail.start(log, POOL)
    first = trail.draw(rows(0), pool=POOL)
    trail.release()
    with AuditTrail.resume(log) as trail:
        assert trail.draw(rows(0), pool=POOL) == Draw(first.index, first.key, 0, True)
        assert trail.draw(rows(0), pool=POOL).round == 1
    trail = AuditTrail.start(log.with_name("other"), POOL)
    trail.draw(rows(0), pool=POOL)
    trail.release()
    with AuditTrail.resume(log.with_name("other")) as trail:
        assert [trail.draw(rows(number), pool=POOL).round for number in (1, 0)] == [1, 2]
    assert verify(log.with_name("other")).ok
    assert verify(log).ok


@pytest.mark.parametrize(
    "damage", ["changed", "removed", "swapped", "garbage", "long", "empty", "second", "binary", "none"]
)
def test_a_damaged_log_is_not_continued(log: Path, damage: str) -> None:
    """Anything but a half-written last line stops a resumption, with a sentence, and the file stays as it is."""
    trail = AuditTrail.start(log, POOL)
    for number in range(3):
        trail.draw(rows(number), pool=POOL)
    trail.release()
    lines = log.read_bytes().splitlines(keepends=True)
    damaged = {
        "changed": [*lines[:2], lines[2].replace(b'"rows":5', b'"rows":6'), lines[3]],
        "removed": [*lines[:2], lines[3]],
        "swapped": [lines[0], lines[2], lines[1], lines[3]],
        "garbage": [*lines, b"garbage\n"],
        "long": [*lines, b" " * ((1 << 22) + 1)],
        "empty": [],
        "second": [*lines, lines[0]],
        "binary": [b"\x80\x04K\x01.\n", *lines],
        "none": [encode(Resumed(0, BEGINNING, __version__, 0, hash_of(b"")))],
    }[damage]
    log.write_bytes(b"".join(damaged))
    where = {
        "changed": 3,
        "removed": 2,
        "swapped": 1,
        "garbage": 4,
        "long": 4,
        "second": 4,
        "binary": 0,
        "none": 0,
    }.get(damage)
    with pytest.raises(ValueError, match="holds no commitment" if where is None else f"Entry {where} of .* is damaged"):
        AuditTrail.resume(log)
    assert log.read_bytes() == b"".join(damaged)
    assert not verify(log).ok


def test_proofs_are_of_the_last_round(log: Path) -> None:
    """Each worker of the last round gets a receipt that holds; others, and before the first draw, a sentence."""
    with AuditTrail.start(log, POOL) as trail:
        with pytest.raises(RuntimeError, match="no round to prove yet"):
            trail.proof("w0")
        receipts = []
        for number in range(3):
            trail.draw(rows(number, 5 + number), pool=POOL)
            for worker, digest in rows(number, 5 + number).items():
                receipt = trail.proof(worker)
                assert receipt.holds(digest=digest) and receipt.entry == trail.head
                receipts.append(receipt)
        with pytest.raises(KeyError, match="sent no row in round 2"):
            trail.proof("nobody")
    report = verify(log, receipts=receipts)
    assert report.ok and len(receipts) == 18


def test_kill_dash_nine_loses_nothing_that_was_answered(log: Path) -> None:
    """A server is killed while it draws, again and again: each answer it gave is in the log, which verifies."""
    script = f"""
import hashlib
from mixtailor.mixing.audit import AuditTrail
trail = AuditTrail.open({str(log)!r}, {POOL!r})
while True:
    draw = trail.draw({{"w": hashlib.sha256(trail.head.encode()).digest()}}, pool={POOL!r})
    print(draw.round, draw.index, flush=True)
"""
    answered: dict[int, int] = {}
    for kill in range(4):
        server = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        for line in server.stdout:
            round, index = map(int, line.split())
            answered[round] = index
            if round % (7 + kill) == 6:
                break
        server.send_signal(signal.SIGKILL)
        for line in server.stdout:
            if line.endswith("\n"):
                round, index = map(int, line.split())
                answered[round] = index
        server.wait()
        server.stdout.close()
    AuditTrail.resume(log).close()
    report = verify(log)
    assert report.ok, report
    found = {draw.round: draw.index for draw in report.draws}
    assert answered and answered.items() <= found.items()


def test_the_page_about_audits_is_true() -> None:
    """The examples of docs/audit.md run as they stand."""
    page = Path(__file__).parents[2] / "docs" / "audit.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 5 and result.failed == 0
