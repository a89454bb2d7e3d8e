"""What a server could choose, and no longer can: digests of absent workers, of faulty updates, of what is beside."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mixing.audit_logs import POOL, entries, rows

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.mixing.audit import AuditTrail, Proof, SignedReceipt, WorkerKey, digest_of, file_digest, verify
from mixtailor.mixing.audit.derivation import drawn_index, input_of, seal_of
from mixtailor.mixing.audit.entries import Commitment, Expected
from mixtailor.mixing.audit.expectations import check_receipts
from mixtailor.mixing.audit.receipts import Received
from mixtailor.mixing.audit.verification import _read
from mixtailor.mixing.entropy import weights_of


def digests(updates: Any) -> list[bytes | None]:
    return receive(updates).digests()


ONE = {"w": np.arange(6.0, dtype=np.float32), "count": np.array(7), "flag": np.array([True, False])}


@pytest.mark.parametrize(
    "other",
    [
        {**ONE, "count": np.array(8)},
        {**ONE, "flag": np.array([True, True])},
        {**ONE, "w": ONE["w"].astype(np.float64)},
        {**ONE, "w": ONE["w"].view(np.int32).view(np.float32) + np.float32(0), "count": np.array(7, np.int32)},
        {**ONE, "w": ONE["w"].reshape(2, 3)},
        {**ONE, "v": ONE["w"]},
        {"v": ONE["w"], "count": ONE["count"], "flag": ONE["flag"]},
        {**ONE, "w": -ONE["w"]},
        [ONE["w"], ONE["count"], ONE["flag"]],
    ],
    ids=["integer", "boolean", "type", "type of a counter", "shape", "extra", "name", "sign of zero", "containers"],
)
def test_everything_that_was_sent_is_in_the_digest(other: Any) -> None:
    """Integers, booleans, types and shapes shared digests: only real coordinates were hashed."""
    assert digest_of(other) != digest_of(ONE)
    assert digest_of({name: np.array(values) for name, values in ONE.items()}) == digest_of(ONE)


def test_the_cut_into_layers_is_in_the_digest() -> None:
    """Two layers of 2 and 3 entries, and of 3 and 2, hold the same bytes one after another."""
    values = np.arange(5.0)
    assert digest_of([values[:2], values[2:]]) != digest_of([values[:3], values[3:]])
    first, second = digests([[values[:2], values[2:]]] * 3), digests([[values[:3], values[3:]]] * 3)
    assert len({*first}) == 1 and first[0] != second[0]


def test_an_array_has_one_digest_in_every_library_and_storage() -> None:
    """A worker computes it from what it has; the server may have a tensor, a matrix, or another order of bytes."""
    torch = pytest.importorskip("torch")
    rows = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    own = [digest_of(row) for row in rows]
    assert digests(rows) == digests(list(rows)) == digests(torch.from_numpy(rows)) == own
    assert digests(np.asfortranarray(rows)) == digests(rows.astype(">f4")) == digests(rows[:, ::-1][:, ::-1]) == own
    half = torch.from_numpy(rows).to(torch.bfloat16)
    assert digest_of(half[0]) == digests(half)[0] != own[0]
    assert digest_of(torch.tensor(3)) == digest_of(np.array(3)) != digest_of(3)
    assert len({digest_of(value) for value in (1, 1.0, True, "1", b"1", [1], (1,), {1: 1}, None, np.array(1))}) == 10


class Stranger:
    """Not an update at all, and its name is all that is covered."""


class Hostile:
    shape = (3,)

    def __array__(self, *_given: Any) -> Any:
        raise ZeroDivisionError


def test_faulty_updates_enter_by_their_bytes() -> None:
    """They were hashed by the reason's text, so that all updates of a wrong shape shared a digest."""
    honest = [np.zeros(4)] * 5
    found = set()
    faulty: list[Any] = [
        np.zeros(3),
        np.ones(3),
        np.array([1j] * 4),
        "text",
        None,
        Stranger(),
        Hostile(),
        {"a": honest[0]},
    ]
    nested: list[Any] = []
    nested.append(nested)
    for update in (*faulty, np.array([object()]), nested, 10**6000, float("nan")):
        arrival = receive([*honest, update])
        found.add(arrival.digests()[5])
        assert arrival.digests()[:5] == [digest_of(honest[0])] * 5
    assert len(found) == 12 and None not in found


def test_files_enter_by_their_bytes(tmp_path: Path) -> None:
    """As `sha256sum` prints it; files that cannot be read too, and a pipe keeps nobody waiting."""
    paths = []
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", np.full(3, float(number)))
        paths.append(tmp_path / f"{number}.npy")
    (tmp_path / "broken.npy").write_bytes(b"\x93NUMPY broken")
    paths += [tmp_path / "broken.npy", tmp_path / "missing.npy"]
    found = digests([str(path) for path in paths])
    assert found[:5] == [hashlib.sha256(path.read_bytes()).digest() for path in paths[:5]]
    assert found[5] == file_digest("no\0file") == file_digest(tmp_path)
    import os

    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe.npy")
        assert file_digest(tmp_path / "pipe.npy") == found[5]


def forged(path: Path, secret: bytes, run: str, change: Any) -> None:
    """Rewrite the draw of a closed log so that all hashes come out right, as a server can."""
    found = entries(path)
    change(found)
    lines: list[bytes] = []
    for number, entry in enumerate(found):
        entry["entry"], entry["previous"] = number, hashlib.sha256(lines[-1]).hexdigest() if lines else "0" * 64
        if entry["kind"] == "closing":
            entry["seal"] = seal_of(secret, run, len(found), str(entry["previous"]))
        lines.append(json.dumps(entry, sort_keys=True, separators=(",", ":")).encode() + b"\n")
    path.write_bytes(b"".join(lines))


def test_an_absent_worker_leaves_nothing_to_choose(log: Path) -> None:
    """Its digest was the server's: thirty wishes in thirty rounds, verified without a note. Now its name enters.

    A server that wants its wish must say that the absent worker did send something. Then a receipt is missing, and
    `verify` says so.
    """
    with AuditTrail.start(log, POOL, run="r") as trail:
        secret = bytes.fromhex(json.loads(Path(f"{log}.secret").read_text())["secret"])
        receipts: list[Proof] = []
        for number in range(30):
            trail.expect(["absent", *rows(0)])
            sent = rows(number)
            inputs = {input_of(Received(sent).tree.root, ["absent"]) for _ in range(3)}
            assert len(inputs) == 1, "one input, so one draw, whatever the server tries"
            trail.draw({**sent, "absent": None}, pool=POOL)
            receipts += trail.proofs()
    report = verify(log, receipts=receipts)
    assert report.ok and not any("no receipt" in note for note in report.notes)
    assert any("30 workers in all rounds entered as absent" in note for note in report.notes)

    granted = 0
    other = log.with_name("grinding")
    with AuditTrail.start(other, POOL, run="r") as trail:
        secret = bytes.fromhex(json.loads(Path(f"{other}.secret").read_text())["secret"])
        receipts, weights = [], weights_of(None, len(POOL))
        for number in range(30):
            trail.expect(["absent", *rows(0)])
            for attempt in range(1000):
                sent = {**rows(number), "absent": hashlib.sha256(b"%d" % attempt).digest()}
                given = input_of(Received(sent).tree.root, [])
                if drawn_index(secret, "r", number, given, weights) == 3:
                    break
            granted += trail.draw(sent, pool=POOL).index == 3
            receipts += [trail.proof(worker) for worker in rows(0)]
    report = verify(other, receipts=receipts)
    assert granted == 30 and any("30 of 180 updates have no receipt" in note for note in report.notes)


def test_a_worker_that_was_not_expected_cannot_take_part(log: Path) -> None:
    """A phantom worker was as good as an absent one."""
    with AuditTrail.start(log, POOL) as trail:
        assert trail.expect(rows(0)) == 0 and trail.expect(rows(0)) == 0, "the same again changes nothing"
        with pytest.raises(ValueError, match="'phantom' is not among those that round 0 expects"):
            trail.draw({**rows(0), "phantom": bytes(32)}, pool=POOL)
        with pytest.raises(ValueError, match="Other workers are expected in round 0 already"):
            trail.expect(["w0"], round=0)
        assert trail.draw(rows(0), pool=POOL).round == 0
        with pytest.raises(ValueError, match="drawn or passed already"):
            trail.expect(["w0"], round=0)
    assert verify(log).notes == ("No published commitment was given: the log was checked against itself only.",)


def test_absent_workers_are_named_in_the_log_and_count_among_the_rows(log: Path) -> None:
    """The pool follows from how many were expected, and not from who came."""
    with AuditTrail.start(log, POOL, needs=[5, 1, 1, 1, 1]) as trail:
        trail.expect(rows(0))
        sent = {worker: digest for worker, digest in rows(0).items() if worker != "w3"}
        found = {trail.draw(sent, pool=POOL).index}
        assert entries(log)[2]["absent"] == ["w3"] and entries(log)[2]["rows"] == 5
        receipts = list(trail.proofs())
        assert [receipt.worker for receipt in receipts] == ["w0", "w1", "w2", "w4"]
        for number in range(1, 60):
            trail.expect(rows(0))
            found.add(trail.draw({**rows(number), "w3": None}, pool=POOL).index)
        assert found == set(range(5)), "silence takes no rule out of the draw"
    report = verify(log, receipts=receipts)
    assert report.ok and "60 workers in all rounds entered as absent" in str(report)


def test_the_log_of_what_was_expected_is_checked(tmp_path: Path) -> None:
    """Other workers than expected, named twice, after the draw, or absent without having been expected."""
    path = tmp_path / "log"
    with AuditTrail.start(path, POOL, run="r") as trail:
        trail.expect(rows(0))
        trail.draw({**rows(0), "w1": None}, pool=POOL)
        receipts = list(trail.proofs())
        trail.expect(rows(0))
    secret = bytes.fromhex(str(entries(path)[-1]["secret"]))
    whole = path.read_bytes()
    assert verify(path, receipts=receipts).ok
    assert any("1 round named workers and drew nothing" in note for note in verify(path).notes)

    def says(change: Any, sentence: str, receipts: list[Proof] | None = None) -> None:
        path.write_bytes(whole)
        forged(path, secret, "r", change)
        assert any(sentence in problem for problem in verify(path, receipts=receipts or []).problems), sentence

    says(lambda found: found[1].update(workers=["w0", "w1"]), "counts 5 workers, and 2 were expected")
    says(lambda found: found[2].update(absent=["w9"]), "calls 'w9' absent, who was not expected")
    says(lambda found: found[3].update(round=0), "The workers of round 0 were named twice")
    says(lambda found: found[3].update(round=0), "Round 0 was drawn before its workers were named")
    says(lambda found: found[1].update(workers=["b", "a"]), "its workers are not named once each and in order")
    says(lambda found: found[2].update(absent=["w0", "w1", "w2", "w3", "w4"]), "nobody of its round sent anything")
    path.write_bytes(whole)
    misplaced = Proof(**{**vars(receipts[0]), "expectation": "0" * 64})
    assert any("names other expected workers" in problem for problem in verify(path, receipts=[misplaced]).problems)


def test_a_crash_between_expecting_and_drawing_gives_nobody_a_second_choice(log: Path) -> None:
    """The expected round goes on after a resumption, and a drawn one is retried as it was."""
    trail = AuditTrail.start(log, POOL)
    trail.expect(rows(0))
    trail.release()
    trail = AuditTrail.resume(log)
    sent = {**rows(0), "w1": None}
    with pytest.raises(ValueError, match="'x' is not among"):
        trail.draw({"x": bytes(32)}, pool=POOL)
    first = trail.draw(sent, pool=POOL)
    trail.release()
    trail = AuditTrail.resume(log)
    again = trail.draw(sent, pool=POOL)
    assert again.retry and (again.round, again.index, again.key) == (first.round, first.index, first.key)
    assert trail.expect(rows(0)) == 1
    trail.close()
    assert verify(log).ok


@pytest.mark.parametrize("workers", [[], ["a", "a"]])
def test_expected_workers_have_names_of_their_own(log: Path, workers: list[str]) -> None:
    with AuditTrail.start(log, POOL) as trail, pytest.raises(ValueError, match="each by a name of its own"):
        trail.expect(workers)


def test_an_audited_mixture_counts_faulty_updates_by_their_bytes(tmp_path: Path) -> None:
    """A worker whose update is quarantined has a receipt of what it sent."""
    pool = [mt.Comed(), mt.Krum(1)]
    updates = [np.full(3, float(k)) for k in range(6)] + [np.zeros(2)]
    with AuditTrail.start(tmp_path / "log", pool) as trail:
        result = mt.MixTailor(pool, audit=trail).aggregate(updates)
        assert [found.row for found in result.quarantined] == [6]
        assert trail.proof("6").holds("6", 0, digest=digest_of(updates[6]))
        assert not trail.proof("6").holds("6", 0, digest=digest_of(np.ones(2)))
    with (
        AuditTrail.start(tmp_path / "other", pool) as trail,
        pytest.raises(ValueError, match="is not the committed one"),
    ):
        trail.check([mt.Comed()])


def test_signed_receipts_show_what_a_server_cannot_make_up(log: Path) -> None:
    """The server claims that dan, who is absent, sent something, and chooses what until it likes the draw."""
    pytest.importorskip("cryptography")
    sent = {name: digest_of(name) for name in ("ann", "bob")}
    own = {name: WorkerKey() for name in ("ann", "bob", "dan")}
    keys = {name: key.public for name, key in own.items()}
    with AuditTrail.start(log, POOL) as trail:
        trail.expect([*sent, "dan"])
        head = trail.head
        trail.draw({**sent, "dan": digest_of("made up")}, pool=POOL)
        proofs = {proof.worker: proof for proof in trail.proofs()}
    signed = [own[name].sign(proofs[name], name, 0, digest=sent[name], expectation=head) for name in sent]
    signed = [SignedReceipt.from_json(receipt.to_json()) for receipt in signed]
    assert verify(log, receipts=proofs.values()).notes[1:] == (), "receipts that the server makes tell nothing"
    report = verify(log, receipts=signed, keys=keys)
    assert report.ok and "1 of 3 updates have no signed receipt" in report.notes[-1]
    forged = [proofs["dan"], WorkerKey().sign(proofs["dan"], "dan", 0, digest=digest_of("made up"))]
    for receipt in (*forged, SignedReceipt(proofs["dan"], signed[0].signature), SignedReceipt(proofs["dan"], "xyz")):
        report = verify(log, receipts=[*signed, receipt], keys=keys)
        assert "'dan' for round 0 is not signed by that worker" in report.problems[0]
        assert "1 of 3 updates" in report.notes[-1]
    assert "3 of 3 updates have no signed receipt" in verify(log, keys=keys).notes[-1]
    with pytest.raises(ValueError, match="It is not signed"):
        own["dan"].sign(proofs["dan"], "dan", 0, digest=digest_of("what dan has"))
    assert WorkerKey(own["ann"].private).public == keys["ann"]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"receipt": 1, "signature": 2}', '{"receipt": "", "signature": ""}'])
def test_what_is_no_signed_receipt_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be one JSON object"):
        SignedReceipt.from_json(text)


@pytest.mark.parametrize("keys", [{"ann": "xyz"}, {"ann": "00"}, {"ann": None}])
def test_what_is_no_public_key_is_refused(keys: Any, log: Path) -> None:
    with pytest.raises(ValueError, match="64 hexadecimal digits"):
        verify(log, keys=keys)


def test_receipts_of_many_workers_are_verified_in_one_go(log: Path) -> None:
    """The workers of a round are put in order once, not once for each receipt."""
    sent = {f"w{k}": digest_of(k) for k in range(2000)}
    with AuditTrail.start(log, POOL) as trail:
        trail.expect([*sent, "late"])
        trail.draw(sent, pool=POOL)
        proofs = list(trail.proofs())
    calls = 0

    class Counted(tuple[str, ...]):
        def __iter__(self) -> Any:
            nonlocal calls
            calls += 1
            return super().__iter__()

    lines, _ = _read(str(log))
    for line in lines:
        if isinstance(line.entry, Expected):
            object.__setattr__(line.entry, "workers", Counted(line.entry.workers))
    assert isinstance(lines[0].entry, Commitment)
    assert check_receipts(lines, lines[0].entry, proofs) == ([], []) and calls == 1
    with pytest.raises(TypeError, match="got the text 'ann'"):
        AuditTrail.start(log.with_name("other"), POOL).expect("ann")


def _holes(path: Path, suffix: str) -> None:
    """A terabyte without a byte on the disk: no array at all, an array of another shape, one behind a gap."""
    if suffix == ".npz":
        np.savez(path, a=np.ones(4, np.float32))
        content, size = path.read_bytes(), 1 << 40
        # The members at the end, so that their places in the directory stay right.
        with path.open("wb") as file:
            file.truncate(size)
            file.seek(0)
            file.write(content)
        return
    with path.open("wb") as file:
        if suffix == ".npy":
            shape = (1 << 38,)
            np.lib.format.write_array_header_1_0(file, {"descr": "<f4", "fortran_order": False, "shape": shape})
            file.truncate(file.tell() + (1 << 40))
        else:
            file.truncate(1 << 40)


@pytest.mark.parametrize("suffix", [".npy", ".npz", ".safetensors"])
def test_a_file_of_holes_holds_no_audited_round(suffix: str, tmp_path: Path) -> None:
    """Its first bytes and its length are in its digest; it is quarantined, and nobody waits for a terabyte."""
    paths = [tmp_path / f"{k}.npy" for k in range(7)]
    for k, path in enumerate(paths):
        np.save(path, np.full(4, k, np.float32))
    paths[3] = tmp_path / f"w{suffix}"
    _holes(paths[3], suffix)
    pool = [mt.Comed(), mt.Krum(2)]
    with AuditTrail.start(tmp_path / "run.audit", pool) as audit:
        result = mt.MixTailor(pool, audit=audit).aggregate(paths, workers=[path.name for path in paths])
    assert [one.row for one in result.quarantined] == [3]
    before = receive(paths).digests()
    with paths[3].open("r+b") as file:
        file.write(b"x")
    assert [one == other for one, other in zip(before, receive(paths).digests(), strict=True)].count(False) == 1
    os.truncate(paths[3], (1 << 40) + 1)
    assert receive(paths).digests()[3] not in before


def test_a_file_that_is_read_whole_and_is_far_too_long(tmp_path: Path) -> None:
    """An archive with a gap of a gigabyte among small ones: sound arrays, and out of an audited round."""
    paths = [tmp_path / f"{k}.npz" for k in range(5)]
    for k, path in enumerate(paths):
        np.savez(path, a=np.full(4, k, np.float32))
    content = paths[2].read_bytes()
    start = content.index(b"PK\1\2")  # the directory, moved to the end of the gap
    with paths[2].open("wb") as file:
        file.write(content[:start])
        file.truncate(1 << 30)
        file.seek(1 << 30)
        file.write(content[start:-22] + content[-22:-6] + (1 << 30).to_bytes(4, "little") + content[-2:])
    assert not mt.Comed().aggregate(paths).quarantined
    arrival = receive(paths)
    arrival.digests()
    (one,) = mt.Comed().aggregate(arrival).quarantined
    assert one.row == 2 and "far more than most" in one.reason


def test_no_two_names_become_one(log: Path) -> None:
    """A name that cannot be printed, and the text of its escape: both are in the round."""
    names = ["ann", "a\x1b", "a\\x1b", "a\\x1b\\", "bob"]
    updates = np.random.default_rng(0).normal(size=(5, 3))
    pool = [mt.Comed(), mt.GeometricMedian()]
    with AuditTrail.start(log, pool) as audit:
        mt.MixTailor(pool, audit=audit).aggregate(updates, workers=names)
        for row, name in [(0, "ann"), (2, "a\\x1b"), (3, "a\\x1b\\"), (1, "a\\x1b\\\\"), (4, "bob")]:
            assert audit.proof(name).holds(name, 0, digest=digest_of(updates[row]))


def test_a_second_draw_from_the_same_updates_is_noted(log: Path) -> None:
    """Consecutive numbers, and nobody absent: only the updates tell that a server drew until it liked the rule."""
    with AuditTrail.start(log, POOL) as trail:
        while trail.draw(rows(7), pool=POOL).index != 0:
            pass
        trail.draw(rows(7), pool=POOL)
        trail.draw(rows(8), pool=POOL)
    report = verify(log, commitment=trail.commitment)
    (note,) = [note for note in report.notes if "the same updates" in note]
    assert report.ok and note.startswith("Rounds 0, 1")
