"""Who may write an audit log and its secret, and what a crash leaves behind."""

from __future__ import annotations

import hashlib
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from mixing.audit_logs import POOL, entries, rows

from mixtailor._version import __version__
from mixtailor.mixing.audit import AuditTrail, Draw, verify
from mixtailor.mixing.audit.entries import BEGINNING, Resumed, encode, hash_of
from mixtailor.mixing.audit.store import Lock


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
                if next(count) >= last:  # type: ignore[call-overload]  # an iterator, typed loosely
                    raise KeyboardInterrupt
                return real[name](*arguments, **options)  # type: ignore[index]  # as above

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


@pytest.mark.skipif(os.name != "posix", reason="needs flock")
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


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # newer Pythons warn where there are threads
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


@pytest.mark.skipif(os.name != "posix", reason="needs folders that can be flushed")
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


@pytest.mark.skipif(os.name != "posix", reason="needs fork")
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
    assert trail.proof("w0").holds("w0", 0, digest=rows(0)["w0"]), "a receipt can still be had"


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


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_kill_dash_nine_loses_nothing_that_was_answered(log: Path) -> None:
    """A server is killed while it draws, again and again: each result it gave is in the log, which verifies."""
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
