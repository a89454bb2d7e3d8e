"""Verification: whatever is done to a log is noticed, and named."""

from __future__ import annotations

import hashlib
import json
import math
import os
import pickle
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mixing.audit_logs import rows

from mixtailor.mixing.audit import AuditTrail, Proof, Report, verify
from mixtailor.mixing.audit.derivation import drawn_index, input_of, seal_of
from mixtailor.mixing.audit.entries import (
    BEGINNING,
    FORMAT,
    LONGEST_LINE,
    Commitment,
    _or_none,
    _tuple_of,
    encode,
    is_text,
)
from mixtailor.mixing.entropy import weights_of

POOL = [f"Rule({number})" for number in range(16)]
ODDS = [0.3, 0.1] + [0.6 / 14] * 14
Fields = dict[str, Any]


class Run:
    """A closed log of eight draws, one of them a retry, and one resumption; and what was published and handed out."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "run.audit"
        trail = AuditTrail.start(self.path, POOL, ODDS, run="a run")
        self.commitment = trail.commitment
        self.receipts: list[Proof] = []
        for round in (0, 1, 2, 2, 3):
            self._draw(trail, round)
        trail.release()
        with AuditTrail.resume(self.path) as trail:
            for round in (4, 5, 6):
                self._draw(trail, round)
        self.data = self.path.read_bytes()
        self.lines = self.data.splitlines(keepends=True)
        self.entries: list[Fields] = [json.loads(line) for line in self.lines]
        self.secret = bytes.fromhex(self.entries[-1]["secret"])

    def _draw(self, trail: AuditTrail, round: int) -> None:
        trail.draw(rows(round), round=round, pool=POOL, probabilities=ODDS)
        self.receipts += [trail.proof(worker) for worker in rows(round)]

    def check(self, lines: Sequence[bytes], **options: Any) -> Report:
        """Verify other lines in place of the log's."""
        other = self.path.with_name("other.audit")
        other.write_bytes(b"".join(lines))
        return verify(other, **options)

    def forge(self, change: Callable[[list[Fields]], object], *, beginning: str = "0" * 64, **options: Any) -> Report:
        """Change entries as somebody does who knows the format and the revealed secret: all hashes come out right."""
        entries: list[Fields] = json.loads(json.dumps(self.entries))
        change(entries)
        lines: list[bytes] = []
        for number, entry in enumerate(entries):
            entry["entry"] = number
            entry["previous"] = hashlib.sha256(lines[-1]).hexdigest() if lines else beginning
            if entry["kind"] == "closing":
                entry["entries"] = len(entries)
                entry["rounds"] = len({other["round"] for other in entries if other["kind"] == "draw"})
                entry["seal"] = seal_of(bytes.fromhex(entry["secret"]), "a run", len(entries), entry["previous"])
            lines.append(json.dumps(entry, sort_keys=True, separators=(",", ":")).encode() + b"\n")
        return self.check(lines, **options)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """One log for all tests: they write their changed copies beside it."""
    return Run(tmp_path_factory.mktemp("audit"))


def says(report: Report, *words: str) -> bool:
    """Whether one problem holds all the words."""
    return not report.ok and any(all(word in problem for word in words) for problem in report.problems)


def test_the_log_itself_verifies(run: Run) -> None:
    """The ground of all tests below: untouched, with everything that can be given."""
    report = verify(run.path, commitment=run.commitment, pool=POOL, probabilities=ODDS, receipts=run.receipts)
    assert report.ok, report
    assert len(report.draws) == 7 and [draw.retries for draw in report.draws] == [0, 0, 1, 0, 0, 0, 0]
    assert run.forge(lambda entries: None).ok, "the forger's tools reproduce the log"
    assert run.check(run.lines, commitment=run.commitment.upper() + "\n").ok
    assert verify(run.path).notes[0].startswith("No published commitment was given")


def test_any_changed_byte_is_noticed(run: Run) -> None:
    """Flip one bit of a byte, without a published commitment to help: all bytes of the last line, every third before.

    The bytes before are held by the chain, all alike; the last line is held by what each of its fields must be.
    """
    data = bytearray(run.data)
    last = len(data) - len(run.lines[-1])
    for place in [*range(0, last, 3), *range(last, len(data))]:
        data[place] ^= 1 << place % 7
        assert not run.check([bytes(data)]).ok, place
        data[place] ^= 1 << place % 7


def test_any_truncation_is_noticed(run: Run) -> None:
    """Cut at every fourth byte, and around each newline: half-written inside a line, not closed between lines."""
    newlines = [place for place, byte in enumerate(run.data) if byte == ord("\n")]
    ends = {*range(1, len(run.data), 4), *(place + step for place in newlines for step in (-1, 0, 1, 2))}
    for end in sorted(end for end in ends if end < len(run.data)):
        report = run.check([run.data[:end]])
        word = "is not closed" if run.data[end - 1 : end] == b"\n" else "half-written"
        assert says(report, word, "truncated"), (end, report)
        assert not report.closed and report.draws == ()
    assert says(run.check([]), "empty")


@pytest.mark.parametrize("place", range(1, 10))
def test_a_removed_entry_is_named(run: Run, place: int) -> None:
    """Whichever entry but the last goes, its number is missing."""
    assert says(run.check(run.lines[:place] + run.lines[place + 1 :]), f"Entry {place} is missing", "removed")


def test_removed_ends_are_named(run: Run) -> None:
    """Without the commitment nothing can be checked; without the closing the length is not signed off."""
    beheaded = run.check(run.lines[1:])
    assert says(beheaded, "does not begin with a commitment") and says(beheaded, "Entry 0 is missing", "removed")
    assert not beheaded.closed and beheaded.commitment is None
    assert not says(run.check(run.lines[:-1]), "missing")
    assert says(run.check(run.lines[:-1]), "is not closed", "truncated")
    assert says(run.check(run.lines[:3] + run.lines[7:]), "Entries 3 to 6 are missing", "removed")


@pytest.mark.parametrize("place", range(1, 9))
def test_swapped_entries_are_named(run: Run, place: int) -> None:
    """Two neighbours changed places."""
    lines = list(run.lines)
    lines[place], lines[place + 1] = lines[place + 1], lines[place]
    assert says(run.check(lines), f"Entry {place} stands after entry {place + 1}", "swapped")


@pytest.mark.parametrize("place", range(10))
@pytest.mark.parametrize("source", [0, 2, 9])
def test_inserted_entries_are_named(run: Run, place: int, source: int) -> None:
    """A copy of an entry, put in anywhere, stands there twice."""
    report = run.check([*run.lines[: place + 1], run.lines[source], *run.lines[place + 1 :]])
    assert says(report, f"Entry {source} stands in the log twice", "inserted")


def test_a_copy_beside_its_original_was_not_moved(run: Run) -> None:
    report = run.check([*run.lines[:3], *run.lines[2:]])
    assert says(report, "Entry 2 stands in the log twice") and not says(report, "swapped or moved")


def test_a_line_that_cannot_be_read_keeps_its_place(run: Run) -> None:
    """It was changed: none was removed, and the entries are as many as were signed off."""
    report = run.check([*run.lines[:3], b"x\n", *run.lines[4:]])
    assert says(report, "Line 3 is not an entry") and not says(report, "missing") and not says(report, "signs off")


def test_a_second_commitment_is_named(run: Run) -> None:
    """It stands where it was inserted, whatever its number; the first line is none."""
    report = run.check([*run.lines[:3], run.lines[0], *run.lines[3:]])
    assert says(report, "Line 3 is a second commitment") and not says(report, "Line 0 is a second")


def test_an_entry_after_the_closing_is_named(run: Run) -> None:
    """Nothing follows the secret."""
    assert says(run.check([*run.lines, run.lines[3]]), "Entries follow the closing")
    assert says(run.check([*run.lines, run.lines[-1]]), "closes the log, and so does")
    assert says(run.check([*run.lines, b"x\n"]), "Line 11 is not an entry")


@pytest.mark.parametrize(
    ("place", "field", "value"),
    [
        (1, "rows", 6),
        (1, "round", 9),
        (2, "retry", True),
        (3, "root", "0" * 64),
        (4, "index", 16),
        (5, "rule", "Mean()"),
        (6, "dropped", 7),
        (6, "version", "9"),
        (0, "run", "another"),
        (0, "version", "9"),
        (0, "pool", POOL[::-1]),
        (0, "probabilities", None),
        (0, "secret_hash", "0" * 64),
    ],
)
def test_a_changed_field_breaks_the_chain(run: Run, place: int, field: str, value: object) -> None:
    """Each field of each kind of entry, to a value that no draw could have given; the line is named."""
    entry = {**run.entries[place], field: value}
    assert entry != run.entries[place]
    line = json.dumps(entry, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    report = run.check([*run.lines[:place], line, *run.lines[place + 1 :]], commitment=run.commitment)
    assert says(report, f"line {place} was changed")
    assert place or says(report, "is not what was published")


@pytest.mark.parametrize(
    ("field", "value", "sentence"),
    [
        ("secret", "0" * 64, "not the committed one"),
        ("seal", "0" * 64, "the closing was changed"),
        ("entries", 9, "signs off 9 entries and 7 rounds, and the log holds 11 and 7"),
        ("rounds", 8, "signs off 11 entries and 8 rounds"),
        ("entry", 9, "twice"),
        ("entry", 12, "Entries 10 to 11 are missing"),
        ("previous", "0" * 64, "holds the hash of another line"),
    ],
)
def test_each_field_of_the_closing_is_checked(run: Run, field: str, value: object, sentence: str) -> None:
    """No later entry holds the closing's hash, so each of its fields must be checked by itself."""
    line = json.dumps({**run.entries[-1], field: value}, sort_keys=True, separators=(",", ":")).encode() + b"\n"
    assert says(run.check([*run.lines[:-1], line]), sentence)


def test_a_chosen_draw_is_named(run: Run) -> None:
    """The server writes the rule it likes, all hashes right: it does not follow from the secret and the rows."""

    def choose(entries: list[Fields]) -> None:
        entries[2]["index"] = (entries[2]["index"] + 1) % 16
        entries[2]["rule"] = POOL[entries[2]["index"]]

    report = run.forge(choose, commitment=run.commitment)
    assert says(report, "Round 1 (entry 2)", "the draw was chosen") and len(report.problems) == 1
    assert [draw.round for draw in report.draws] == [0, 2, 3, 4, 5, 6]


def test_a_commitment_with_a_past_is_named(run: Run) -> None:
    """The first entry holds the hash of nothing, also in a log whose other hashes are right."""
    report = run.forge(lambda entries: None, beginning="ab" * 32)
    assert says(report, "Entry 0 claims that something came before it") and len(report.problems) == 1


def test_a_rule_out_of_the_pool_is_named(run: Run) -> None:
    """An index beyond the pool, or a name that is not the index's."""
    assert says(run.forge(lambda entries: entries[2].update(index=16)), "is not rule 16 of the committed pool")
    assert says(run.forge(lambda entries: entries[2].update(rule="Mean()")), "names Mean()", "re-ordered")


def test_a_reordered_pool_is_named(run: Run) -> None:
    """By the published commitment, by the pool that is claimed, and by the rules that the draws name."""

    def reorder(entries: list[Fields]) -> None:
        entries[0]["pool"] = POOL[::-1]

    report = run.forge(reorder, commitment=run.commitment, pool=POOL)
    assert says(report, "is not what was published", "order") and says(report, "The pool is in another order")
    assert says(run.forge(reorder), "the pool was re-ordered")
    assert says(verify(run.path, pool=POOL[::-1]), "The pool is in another order")
    assert says(verify(run.path, pool=POOL[1:]), "15 rules were given, 16 are committed")
    assert says(verify(run.path, probabilities=[1 / 16] * 16), "probabilities are not the committed ones")
    assert verify(run.path, pool=POOL, probabilities=ODDS).ok


def test_other_probabilities_are_named(run: Run) -> None:
    """Changed odds are not what was published, even when no draw changes by them."""
    report = run.forge(lambda entries: entries[0].update(probabilities=None), commitment=run.commitment)
    assert says(report, "is not what was published", "probabilities")


def redraw(entry: Fields, secret: bytes) -> None:
    """Make an entry's rule follow from its round and root, as a forger with the secret can."""
    weights, given = weights_of(ODDS, 16), input_of(bytes.fromhex(entry["root"]), entry["absent"])
    entry["index"] = drawn_index(secret, "a run", entry["round"], given, weights)
    entry["rule"] = POOL[entry["index"]]


def test_a_replayed_round_is_named(run: Run) -> None:
    """The same round again, not marked as a retry; or with other rows, marked or not; or a retry of nothing."""
    assert says(run.forge(lambda entries: entries[4].update(retry=False)), "Round 2 was replayed", "not logged")

    def other_rows(entries: list[Fields], retry: bool) -> None:
        entries[4].update(root="ab" * 32, retry=retry)
        redraw(entries[4], run.secret)

    for retry in (False, True):
        report = run.forge(partial(other_rows, retry=retry), commitment=run.commitment)
        assert says(report, "Round 2 was replayed with other rows (entries 3 and 4)") and len(report.problems) == 1
    assert says(run.forge(lambda entries: entries[1].update(retry=True)), "retry of round 0, never drawn before")

    def backwards(entries: list[Fields]) -> None:
        entries[1]["round"], entries[2]["round"] = 1, 0
        for entry in entries[1:3]:
            redraw(entry, run.secret)

    assert says(run.forge(backwards), "Round 0 (entry 2) comes after round 1")


def test_a_rewritten_log_is_caught_by_receipts(run: Run) -> None:
    """Whoever has the secret can write a log that agrees with itself; the workers' receipts do not agree with it."""

    def rewrite(entries: list[Fields]) -> None:
        entries[3]["root"] = entries[4]["root"] = "ab" * 32
        for entry in entries[3:5]:
            redraw(entry, run.secret)

    def drop_last(entries: list[Fields]) -> None:
        del entries[9]

    for change in (rewrite, drop_last):
        assert run.forge(change, commitment=run.commitment).ok, "nothing but the receipts can tell"
        report = run.forge(change, commitment=run.commitment, receipts=run.receipts)
        assert says(report, "names an entry that the log no longer holds", "changed or removed")


def test_receipts_that_are_not_genuine_are_named(run: Run) -> None:
    """A worker cannot accuse the server with a receipt it made up."""
    good = run.receipts[0]
    cases = {
        "does not lead to its own root": {**vars(good), "digest": "0" * 64},
        "is of run 'other'": {**vars(good), "run": "other"},
        "does not agree with entry 2": {**vars(good), "entry": run.receipts[5].entry},
        "names an entry that the log no longer holds": {**vars(good), "entry": "0" * 64},
    }
    for sentence, fields in cases.items():
        report = verify(run.path, receipts=[Proof(**fields)])
        assert says(report, "The receipt of worker 'w0' for round 0", sentence), report
    commitment = Proof(**{**vars(good), "entry": run.commitment})
    assert says(verify(run.path, receipts=[commitment]), "no longer holds")


def test_rules_that_the_rows_forbid_are_noticed(tmp_path: Path) -> None:
    """The rows that a rule needs are committed to, so a server cannot shrink or stretch the pool as it likes."""
    path = tmp_path / "log"
    with AuditTrail.start(path, POOL, needs=[1] * 8 + [9] * 8) as trail:
        for round in range(40):
            assert trail.draw(rows(round), pool=POOL[:8]).index < 8
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert verify(path).ok
    forger = Run.__new__(Run)
    forger.path, forger.entries = path, lines
    report = forger.forge(lambda entries: [entry.update(rows=9) for entry in entries[1:-1]])
    assert says(report, "the draw was chosen")
    report = forger.forge(lambda entries: [entry.update(rows=0) for entry in entries[1:-1]])
    assert says(report, "has 0 rows, which allow no rule")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        (b"nonsense\n", "it is not JSON"),
        (b"\n", "it is not JSON"),
        (b"[]\n", "not a JSON object"),
        (b"[" * 200_000 + b"\n", "it is not JSON"),
        (b'{"a":' * 100_000 + b"\n", "it is not JSON"),
        (b"1" * 10_000 + b"\n", "it is not JSON"),
        (b'{"kind":"draw"}\n', 'field "absent" is missing'),
        (b'{"kind":"evil"}\n', "its kind is not one of"),
        (b'{"kind":["draw"]}\n', "its kind is not one of"),
        (b'{"kind":NaN}\n', "it holds NaN"),
        (b'{"kind":"draw","kind":"draw"}\n', "a field stands in it twice"),
        ("é\n".encode(), "it is not JSON"),
        (pickle.dumps(os.getcwd) + b"\n", "it is not JSON"),
        (b'{"__reduce__":"os.system"}\n', "its kind is not one of"),
    ],
)
def test_foreign_lines_are_named(run: Run, line: bytes, sentence: str) -> None:
    """What is not an entry is said to be none, wherever it stands, and nothing in it is run."""
    assert says(run.check([*run.lines[:2], line, *run.lines[3:]]), "Line 2 is not an entry", sentence)
    assert says(run.check([line]), "Line 0 is not an entry", sentence)


@pytest.mark.parametrize(
    ("place", "change", "sentence"),
    [
        (1, {"extra": 1}, "unknown field 'extra'"),
        (1, {"\x1b[2J": 1}, r"unknown field '\x1b[2J'"),
        (1, {"round": -1}, '"round" does not hold'),
        (1, {"round": 1.0}, '"round" does not hold'),
        (1, {"round": True}, '"round" does not hold'),
        (1, {"round": 2**53}, '"round" does not hold'),
        (1, {"retry": 0}, '"retry" does not hold'),
        (1, {"root": "AB" * 32}, '"root" does not hold'),
        (1, {"rule": "\x1b[2J"}, '"rule" does not hold'),
        (0, {"format": "mixtailor audit 1"}, "this version reads 'mixtailor audit 2'"),
        (0, {"pool": []}, '"pool" does not hold'),
        (0, {"pool": "Krum"}, '"pool" does not hold'),
        (0, {"probabilities": [0.5]}, "one number for each of the 16 rules"),
        (0, {"probabilities": [1] * 16}, '"probabilities" does not hold'),
        (0, {"probabilities": [1.0] * 16}, "must sum to one"),
        (0, {"needs": [1]}, "differ in length"),
        (0, {"run": ""}, '"run" does not hold'),
        (10, {"secret": "0" * 62}, '"secret" does not hold'),
    ],
)
def test_fields_are_read_strictly(run: Run, place: int, change: Fields, sentence: str) -> None:
    """Unknown fields, wrong types, numbers that not every reader holds, characters that steer a terminal."""
    report = run.forge(lambda entries: entries[place].update(change))
    assert says(report, f"Line {place} is not an entry", sentence), report
    assert all(line.isprintable() for line in report.lines())


def test_lists_are_read_to_their_last_item() -> None:
    """A pool has one rule at least, and every one of them is text."""
    texts = _tuple_of(is_text)
    assert texts(("a",)) and texts(("a", "b"))
    assert not any(texts(value) for value in ((), ("a", ""), ("", "a"), ["a"], "a", None))
    assert _or_none(texts)(None) and _or_none(texts)(("a",)) and not _or_none(texts)(())


def test_what_is_not_json_is_not_written() -> None:
    with pytest.raises(ValueError, match="not JSON compliant"):
        encode(Commitment(0, BEGINNING, FORMAT, "run", "1", "0" * 64, ("a",), (math.nan,), None))


def test_there_is_one_way_to_write_an_entry(run: Run) -> None:
    """Spaces, another order of keys, another spelling of a number or a letter."""
    for old, new in {b'"rows":5': b'"rows": 5', b'"Rule(': b'"\\u0052ule(', b"}\n": b"}\r\n"}.items():
        line = run.lines[1].replace(old, new)
        assert line != run.lines[1]
        assert says(run.check([run.lines[0], line, *run.lines[2:]]), "not written the one way")


@pytest.mark.skipif(os.name != "posix", reason="needs pipes and devices")
def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    """No file, a directory, a pipe that never ends, a line without end: a sentence, soon, in little memory."""
    assert says(verify(tmp_path / "none"), "cannot be read", "No such file")
    assert says(verify(tmp_path), "cannot be read")
    os.mkfifo(tmp_path / "pipe")
    assert says(verify(tmp_path / "pipe"), "cannot be read", "not a regular file")
    assert says(verify("/dev/zero"), "cannot be read", "not a regular file")
    huge = tmp_path / "huge"
    with open(huge, "wb") as file:
        file.truncate(1 << 34)
    assert says(verify(huge), "Line 0 is longer than", str(LONGEST_LINE))


@pytest.mark.parametrize("commitment", ["", "abc", "0" * 63, "g" * 64, 5])
def test_a_commitment_that_is_none_is_refused(run: Run, commitment: object) -> None:
    """A slip in copying is not a broken log."""
    with pytest.raises(ValueError, match="A commitment is 64 hexadecimal digits"):
        verify(run.path, commitment=commitment)  # type: ignore[arg-type]  # wrong on purpose


def test_the_report_reads_well(run: Run) -> None:
    """What a person sees: the verdict, the run, the commitment, then problems and notes, not without end."""
    lines = verify(run.path, commitment=run.commitment).lines()
    assert lines[0] == f"The audit log {str(run.path)!r} holds: 7 draws repeated from the secret."
    assert lines[1].startswith("  run         a run (mixtailor ") and lines[2] == f"  commitment  {run.commitment}"
    assert lines[3:] == [
        "  note        The log was resumed 1 time, 0 of them after a half-written line.",
        "  note        1 draw repeated an earlier round from the same rows.",
        "  note        7 rounds named no workers beforehand: whoever drew could choose who took part.",
    ]
    many = run.check([run.lines[0], *[b"x\n"] * 500])
    assert len(many.lines()) < 60 and many.lines()[-2].endswith("more.")
    assert "does NOT hold" in str(many)
    for count, more in ((50, 0), (51, 1)):
        listed = Report("log", ("Wrong.",) * count, (), None, None, None, (), False).lines()[1:]
        assert listed == ["  problem     Wrong."] * 50 + [f"  problem     ... and {more} more."] * more
    versions = run.forge(lambda entries: entries[6].update(version="9.9", dropped=3))
    assert any("continued by 9.9" in note for note in versions.notes)
    half = run.forge(lambda entries: entries[6].update(dropped=1))
    assert "The log was resumed 1 time, 1 of them after a half-written line." in half.notes


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_any_mixture_of_lines_is_noticed(run: Run, data: st.DataObject) -> None:
    """Any selection of the log's lines in any order, other than the log itself, fails; verification never raises."""
    picked = data.draw(st.lists(st.sampled_from(range(11)), max_size=14))
    assert run.check([run.lines[place] for place in picked]).ok == (picked == list(range(11)))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.binary(max_size=40), max_size=5), st.integers(0, 11))
def test_any_bytes_between_lines_are_noticed(run: Run, blobs: list[bytes], place: int) -> None:
    """Arbitrary bytes put anywhere never raise and never pass."""
    blob = b"".join(blobs)
    assert run.check([*run.lines[:place], blob, *run.lines[place:]]).ok == (not blob)
