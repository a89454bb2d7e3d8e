"""`Inbox`: one row for each worker, versions in order, and nothing lost to a kill."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.memory import FutureError, LateError, RefusedError, ReplayedError, UnknownWorkerError


def filled(rule: mt.Rule, n: int = 5, **options) -> mt.Inbox:
    inbox = mt.Inbox(rule, **options)
    for worker in range(n):
        inbox.put(f"w{worker}", np.full(3, float(worker)), version=inbox.version)
    return inbox


def test_versions_that_are_late_replayed_or_of_the_future_are_refused_by_name() -> None:
    inbox = filled(mt.Comed(), oldest=1)
    with pytest.raises(FutureError, match="w0 sent an update of version 1, and the model has version 0"):
        inbox.put("w0", np.zeros(3), version=1)
    with pytest.raises(ReplayedError, match="its last one had version 0"):
        inbox.put("w0", np.zeros(3), version=0)
    for step in range(1, 4):
        for worker in range(4):
            inbox.put(f"w{worker}", np.full(3, 1.0), version=step - 1) if step > 1 else None
        assert inbox.aggregate(mt.Fresh(4)) is not None and inbox.version == step
    with pytest.raises(LateError, match=r"w4 sent an update of version 1, 2 versions old, and at most 1"):
        inbox.put("w4", np.zeros(3), version=1)
    with pytest.raises(RefusedError):  # all of them by one name
        inbox.put("w4", np.zeros(3), version=0)
    assert "w4" not in set(inbox), "its row of version 0 was too old, and left"


def test_nobody_floods() -> None:
    """Two Byzantine workers that send in every version have two of the rows, however often they send."""
    inbox = mt.Inbox(mt.TrimmedMean(2))
    for _ in range(20):
        for worker in ("mal", "eve"):
            inbox.put(worker, np.full(3, 1e9), version=inbox.version)
            with pytest.raises(ReplayedError):
                inbox.put(worker, np.full(3, 2e9), version=inbox.version)
        assert inbox.aggregate(mt.Fresh(5)) is None, "two workers are never five"
        for worker in range(5):
            inbox.put(worker, np.ones(3), version=inbox.version)
        result = inbox.aggregate(mt.Fresh(5))
        assert result is not None and result.n == 7 and np.array_equal(result.update, np.ones(3))


def test_strangers_are_refused_where_workers_are_named() -> None:
    inbox = mt.Inbox(mt.Comed(), workers=["ann", "bob"])
    with pytest.raises(UnknownWorkerError, match="but 2 other workers are expected"):
        inbox.put("mal\x1b[2J", np.ones(2), version=0)


def test_fresh_uses_what_was_not_used_and_kept_uses_all() -> None:
    inbox = filled(mt.Mean())
    assert inbox.aggregate(mt.Fresh(5)).n == 5
    inbox.put("w0", np.full(3, 10.0), version=1)
    assert inbox.aggregate(mt.Kept(2)) is None
    inbox.put("w1", np.full(3, 10.0), version=1)
    assert inbox.aggregate(mt.Kept(2)).update == pytest.approx((10 + 10 + 2 + 3 + 4) / 5)
    assert inbox.aggregate(mt.Fresh(1)) is None, "they have been used"
    assert inbox.stale() == {"w0": 1, "w1": 1, "w2": 2, "w3": 2, "w4": 2}


@pytest.mark.parametrize("folder", [None, "rows"])
def test_what_is_kept_of_a_worker_can_be_read(folder, tmp_path) -> None:
    """The row that the rule is given, from memory and from the disk, and whose updates were not used yet."""
    inbox = filled(mt.Mean(), n=3, momentum=0.5, folder=None if folder is None else tmp_path / folder)
    assert inbox.fresh() == ["w0", "w1", "w2"] and "w1" in inbox and "w7" not in inbox
    inbox.aggregate(mt.Fresh(3))
    inbox.put("w1", np.full(3, 5.0), version=1)
    assert inbox.fresh() == ["w1"] and np.array_equal(inbox["w1"], np.full(3, 3.0))
    with pytest.raises(KeyError):
        inbox["w7"]


@pytest.mark.parametrize("guarded", [False, True])
def test_an_honest_worker_that_is_slow_is_no_suspect(guarded: bool) -> None:
    """Its one update is in every aggregation: counted each time, it seems to push in one direction."""
    memory, random = mt.recommended(2), np.random.default_rng(0)
    inbox = mt.Inbox(mt.Guarded(memory) if guarded else memory)
    inbox.put("slow", random.normal(size=50), version=0)
    for version in range(40):
        for worker in range(8):
            inbox.put(worker, random.normal(size=50) if worker else np.ones(50), version=version)
        inbox.aggregate(mt.Kept(8))
    assert memory.suspects() == ["0"], "the steady push of worker 0 is still seen"


def test_staleness_goes_into_the_weights() -> None:
    inbox = filled(mt.Mean(), n=2, staleness=1.0)
    inbox.aggregate(mt.Fresh(2))
    inbox.put("w0", np.full(3, 5.0), version=1)
    result = inbox.aggregate(mt.Kept(1))
    assert result.update == pytest.approx((5.0 + 0.5 * 1.0) / 1.5)
    with pytest.raises(ValueError, match="has no form with weights"):
        mt.Inbox(mt.Bulyan(1), staleness=0.5)
    mt.Inbox(mt.recommended(1), staleness=0.5)


def test_byzantine_rows_are_named_and_the_model_stays_where_there_are_too_many() -> None:
    inbox = filled(mt.TrimmedMean(1))
    inbox.put("bad", np.full(3, np.nan), version=0)
    result = inbox.aggregate(mt.Kept(6))
    assert [item.worker for item in result.quarantined] == ["bad"] and inbox.version == 1
    for worker in ("w0", "w1"):
        inbox.put(worker, np.full(7, 1.0), version=1)  # another shape
    assert inbox.aggregate(mt.Fresh(2)) is None, "two rows are fewer than the rule needs"
    with pytest.raises(ValueError, match="f = 1"):
        inbox.aggregate(mt.Kept(2))
    assert inbox.version == 1 and inbox.fresh() == ["w0", "w1"], "an error changes nothing"
    assert inbox.aggregate(mt.Kept(2), on_fault="skip").update is None and inbox.version == 2
    assert list(inbox) == ["w2", "w3", "w4", "bad"], "whose shapes were wrong left, before anything was read"
    inbox.put("w0", np.full(3, 1.0), version=2)
    assert inbox.aggregate(mt.Kept(1)).update is not None, "and may send again"


@dataclass(frozen=True)
class Picky(mt.Rule):
    """A rule of somebody's own that fails on what one worker sends."""

    requirement = "n >= 1"

    def min_rows(self) -> int:
        return 1

    def decide(self, updates):
        if updates.norms().max() > 1e6:
            raise ZeroDivisionError("too much\x1b[2J")
        return mt.Comed().decide(updates)


@pytest.mark.parametrize("folder", [None, "rows"])
def test_a_rule_that_fails_on_what_workers_sent_is_a_step_without_an_update(folder, tmp_path) -> None:
    """Nobody knows whose update it was, so all that the rule was given leave, also from the disk."""
    inbox = filled(Picky(), folder=None if folder is None else tmp_path / folder)
    assert inbox.aggregate(mt.Kept(5), on_fault="skip").update == pytest.approx(2.0)
    inbox.put("w1", np.full(3, 1e9), version=1)
    with pytest.raises(ZeroDivisionError):
        inbox.aggregate(mt.Kept(1))
    assert inbox.version == 1 and len(inbox) == 5, "an error changes nothing"
    result = inbox.aggregate(mt.Kept(1), on_fault="skip")
    assert result.update is None and inbox.version == 2 and len(inbox) == 0
    assert result.facts["failed"].startswith("ZeroDivisionError: too much") and "\x1b" not in str(result)
    assert "no update: the rule failed (ZeroDivisionError: too much" in str(result)
    assert not list(tmp_path.glob("rows/*.npy"))
    for worker in range(5):
        inbox.put(f"w{worker}", np.full(3, 4.0), version=2)
    assert inbox.aggregate(mt.Kept(5), on_fault="skip").update == pytest.approx(4.0)


def test_a_disk_that_fails_is_not_the_workers_fault(tmp_path) -> None:
    """Neither that of the updates nor that of an audit log."""

    def broken(rows):
        raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        filled(broken).aggregate(mt.Kept(5), on_fault="skip")
    pool = [mt.Comed(), mt.TrimmedMean(1)]
    trail = mt.AuditTrail.start(tmp_path / "log", pool)
    inbox = filled(mt.MixTailor(pool, audit=trail))
    trail.close()
    with pytest.raises(RuntimeError, match="This log is closed"):
        inbox.aggregate(mt.Kept(5), on_fault="skip")
    assert inbox.version == 0 and len(inbox) == 5


def test_recommended_and_guarded_in_an_inbox_on_disk(tmp_path) -> None:
    """Opened again, the inbox has the rows, the versions and what the rule remembered."""
    names, random = [f"w{k}" for k in range(6)], np.random.default_rng(0)
    rule = mt.Guarded(mt.recommended(2))
    inbox = mt.Inbox(rule, folder=tmp_path)
    for _ in range(7):
        for name in names:
            inbox.put(name, {"a": random.normal(size=4), "b": random.normal(size=(2, 3))}, version=inbox.version)
        result = inbox.aggregate(mt.Fresh(6))
    assert set(result.update) == {"a", "b"} and result.update["b"].shape == (2, 3)
    again = mt.Inbox(mt.Guarded(mt.recommended(2)), folder=tmp_path)
    assert (again.version, again.stale(), list(again)) == (7, inbox.stale(), names)
    assert again.rule.state()["scales"] == rule.state()["scales"]
    assert len(list(tmp_path.glob("*.npz"))) == 7, "a file for each worker, and the memory"
    with pytest.raises(ReplayedError):
        again.put("w0", {"a": np.ones(4), "b": np.ones((2, 3))}, version=6)


def test_a_function_on_a_matrix_has_no_place_on_the_disk(tmp_path) -> None:
    """It would fail in every step."""
    with pytest.raises(ValueError, match="one matrix in memory, and an inbox with a folder keeps them in files"):
        mt.Inbox(mt.NNM(1) >> (lambda rows: rows[0]), folder=tmp_path / "rows")


PROGRAM = """
import sys, numpy as np, mixtailor as mt
inbox = mt.Inbox(mt.Comed(), folder=sys.argv[1])
print("ready", flush=True)
while True:
    for worker in range(5):
        if inbox._last.get(str(worker), -1) < inbox.version:
            inbox.put(worker, np.full(2000, float(inbox.version)), version=inbox.version)
    inbox.aggregate(mt.Fresh(5))
"""


def test_kill_9_at_any_moment_leaves_whole_rows(tmp_path) -> None:
    """After each kill every row that the index names is there and whole, and the versions go on."""
    version = 0
    for wait in (0.05, 0.21, 0.4):
        child = subprocess.Popen([sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE)
        assert child.stdout is not None and child.stdout.readline() == b"ready\n"
        time.sleep(wait)
        os.kill(child.pid, signal.SIGKILL)
        child.wait()
        child.stdout.close()
        inbox = mt.Inbox(mt.Comed(), folder=tmp_path)
        assert inbox.version >= version
        version = inbox.version
        for row in inbox._rows.values():
            assert np.array_equal(np.load(row.update), np.full(2000, float(row.version)))
        assert len(list(Path(tmp_path).glob("*.npy"))) == len(inbox)


def test_a_damaged_index_is_refused(tmp_path) -> None:
    for content in (
        b"{",
        b"[]",
        b'{"version": -1, "rows": {}, "last": {}}',
        b'{"version": 0, "rows": [1], "last": {}}',
    ):
        (tmp_path / "inbox.json").write_bytes(content)
        with pytest.raises(ValueError, match="is not the index of an inbox"):
            mt.Inbox(mt.Comed(), folder=tmp_path)
    for file in ("../../etc/passwd", "passwd", "..", "", "memory.npz", f"../{'0' * 32}-0.npy", 5):
        index = {"version": 0, "rows": {"a": [0, file, True]}, "last": {}}
        (tmp_path / "inbox.json").write_text(json.dumps(index))
        with pytest.raises(ValueError, match="is not the index of an inbox"):
            mt.Inbox(mt.Comed(), folder=tmp_path)


def test_no_file_of_others_is_removed(tmp_path: Path) -> None:
    """An inbox in a folder of somebody's arrays took them for what a kill had left, and removed them."""
    np.save(tmp_path / "validation.npy", np.ones(3))
    np.savez(tmp_path / "data.npz", x=np.ones(3))
    left = tmp_path / f"{'0' * 32}-7.npy"
    np.save(left, np.ones(3))
    mt.Inbox(mt.Comed(), folder=tmp_path)
    assert (tmp_path / "validation.npy").exists() and (tmp_path / "data.npz").exists() and not left.exists()


UPDATES: dict[str, object] = {
    "text": "an update",
    "objects": np.array([object()]),
    "a ragged list": [[1.0], [1.0, 2.0]],
    "nothing": None,
    "text by name": {"w": "an update"},
    "a name that no file can have": {"\ud800": np.ones(3)},
    "a name of a megabyte": {"w" * (1 << 20): np.ones(3)},
}


@pytest.mark.parametrize("what", UPDATES)
def test_what_cannot_be_kept_on_disk_is_refused_by_name(what: str, tmp_path: Path) -> None:
    """Some of it left as a TypeError or an error of `struct`, and ended the server that caught refusals."""
    inbox = mt.Inbox(mt.Comed(), folder=tmp_path)
    with pytest.raises(RefusedError, match="mal sent what an inbox on disk cannot keep: "):
        inbox.put("mal", UPDATES[what], version=0)
    assert not list(tmp_path.glob("*.np*")) and not list(tmp_path.glob(".*"))
    inbox.put("mal", np.ones(3), version=0)  # it may send something better


@pytest.mark.parametrize("name", ["file", "allow_pickle", "args", "a/../b", "arr_0"])
def test_arrays_may_have_any_name_on_disk(name: str, tmp_path: Path) -> None:
    """`numpy.savez` has parameters of some of these names."""
    inbox = mt.Inbox(mt.Comed(), folder=tmp_path)
    for worker in ("ann", "bob", "w\ud800"):
        inbox.put(worker, {name: np.ones(3)}, version=0)
    result = mt.Inbox(mt.Comed(), folder=tmp_path).aggregate(mt.Fresh(3))
    assert result is not None and np.array_equal(result.update[name], np.ones(3))


VERSIONS: dict[str, object] = {"-1": -1, "a truth value": True, "1.0": 1.0, "text": "0", "none": None, "huge": 10**5000}


@pytest.mark.parametrize("what", VERSIONS)
def test_a_version_that_is_none_is_refused_by_name(what: str) -> None:
    """Workers say which version they had: whatever they say, it is their own matter."""
    with pytest.raises(RefusedError, match="mal sent an update without the version of a model"):
        mt.Inbox(mt.Comed()).put("mal", np.ones(3), version=VERSIONS[what])  # type: ignore[arg-type]  # what is tested


def test_momentum_keeps_the_running_mean_of_each_worker(tmp_path: Path) -> None:
    """In memory and on disk alike; a kill in between changes nothing."""
    for folder in (None, tmp_path):
        inbox = mt.Inbox(mt.Mean(), momentum=0.5, folder=folder)
        for version, value in enumerate([1.0, 3.0, 6.0]):
            inbox.put("ann", {"w": np.full(2, value), "count": np.array([version])}, version=version)
            if folder is not None:
                inbox = mt.Inbox(mt.Mean(), momentum=0.5, folder=folder)
            result = inbox.aggregate(mt.Fresh(1))
        assert result is not None and np.array_equal(result.update["w"], [4.0, 4.0]), "((1 + 3)/2 + 6)/2"
        assert result.update["count"] == 2, "integers are those of the last update"


@pytest.mark.parametrize("bad", [np.full(3, np.nan), np.full(2, 1.0), [np.ones(3)]])
def test_momentum_begins_again_after_an_update_that_proves_a_fault(bad: object) -> None:
    """Otherwise one NaN, or one wrong shape, would be in a worker's row for ever."""
    inbox = mt.Inbox(mt.TrimmedMean(1), momentum=0.9)
    for worker in range(4):
        inbox.put(worker, np.ones(3), version=0)
    inbox.put("mal", bad, version=0)
    result = inbox.aggregate(mt.Kept(5))
    assert result is not None and [fault.worker for fault in result.quarantined] == ["mal"]
    inbox.put("mal", np.full(3, 2.0), version=1)
    result = inbox.aggregate(mt.Kept(1))
    assert result is not None and not result.quarantined and result.n == 5


@pytest.mark.parametrize("momentum", [-0.1, 1.0, float("nan")])
def test_momentum_is_a_share(momentum: float) -> None:
    with pytest.raises(ValueError, match="0 <= momentum < 1"):
        mt.Inbox(mt.Comed(), momentum=momentum)
