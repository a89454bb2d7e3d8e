"""The audit trail as a server uses it: what it commits to, draws, and writes before it returns a draw."""

from __future__ import annotations

import doctest
import hashlib
import json
import os
import shutil
import stat
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from mixing.audit_logs import POOL, entries, rows

from mixtailor._version import __version__
from mixtailor.mixing.audit import AuditTrail, Draw, verify
from mixtailor.mixing.audit.pools import check_shares


def test_a_run_verifies(log: Path) -> None:
    """Commit, draw, close: the log and the published commitment are enough to repeat each draw and its key."""
    with AuditTrail.start(log, POOL, run="a run") as trail:
        published = trail.commitment
        draws = [trail.draw(rows(number), round=None, pool=POOL, probabilities=None) for number in range(20)]
        assert not trail.closed
    assert trail.closed and [draw.round for draw in draws] == list(range(20)) and not any(d.retry for d in draws)
    report = verify(log, commitment=published, pool=POOL)
    assert report.ok and report.closed and report.problems == ()
    assert report.notes == ("20 rounds named no workers beforehand: whoever drew could choose who took part.",)
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
    """Same round and rows: logged as a retry, same result. Same round, other rows: refused. Rounds only go up."""
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
        assert trail.draw(rows(2), round=np.int64(9), pool=POOL).round == 9  # type: ignore[arg-type]  # an integer all the same
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
        trail.draw(rows(0), round=round, pool=POOL)  # type: ignore[arg-type]  # wrong on purpose
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
        AuditTrail.start(log, **arguments)  # type: ignore[arg-type]  # wrong on purpose
    assert list(log.parent.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
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
    with pytest.raises(FileNotFoundError, match="cannot be continued without its secret"):
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
    monkeypatch.setattr("mixtailor.mixing.audit.commitments.LONGEST_LINE", limit)
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


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX permissions")
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
                assert receipt.holds(worker, number, digest=digest) and receipt.entry == trail.head
                assert not receipt.holds(worker, number + 1) and not receipt.holds(worker + "x", number)
                receipts.append(receipt)
            assert list(trail.proofs()) == receipts[-5 - number :]
        with pytest.raises(KeyError, match="sent no row in round 2"):
            trail.proof("nobody")
    report = verify(log, receipts=receipts)
    assert report.ok and len(receipts) == 18


def test_the_page_about_audits_is_true() -> None:
    """The examples of docs/audit.md run as they stand; one of them signs."""
    pytest.importorskip("cryptography")
    page = Path(__file__).parents[2] / "docs" / "audit.md"
    result = doctest.testfile(str(page), module_relative=False)
    assert result.attempted > 5 and result.failed == 0
