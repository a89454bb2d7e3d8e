"""Check a log from its first byte to its last, and say what is wrong."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from mixtailor._checks import listing, plural
from mixtailor.mixing.audit.derivation import drawn_index, eligible, input_of, preaggregation_key, seal_of
from mixtailor.mixing.audit.entries import Closing, Commitment, Drawn, EntryError, Resumed, decode, hash_of
from mixtailor.mixing.audit.expectations import check_expectations, check_receipts
from mixtailor.mixing.audit.merkle import Proof, is_hash
from mixtailor.mixing.audit.order import LogLine, order_problems
from mixtailor.mixing.audit.pools import check_pool, check_shares, names_of
from mixtailor.mixing.audit.signatures import SignedReceipt, check_keys
from mixtailor.mixing.audit.store import LongLineError, lines_of

MOST_PROBLEMS = 50
_Kind = TypeVar("_Kind")


@dataclass(frozen=True)
class VerifiedDraw:
    """One round as the secret says it must have been.

    Parameters
    ----------
    round, index, rule : int, int, str
        The round and the rule, by its place in the committed pool and by name.
    key : bytes
        What seeded pre-aggregation, for whoever wants to repeat the round.
    retries : int
        How often the round was asked for again.
    """

    round: int
    index: int
    rule: str
    key: bytes = field(repr=False)
    retries: int


@dataclass(frozen=True)
class Report:
    """What `verify` found.

    Parameters
    ----------
    path : str
        The log.
    problems : tuple of str
        What is wrong, a sentence each; empty for a log that holds.
    notes : tuple of str
        What is not wrong and still worth knowing: resumptions, skipped rounds, what could not be checked.
    commitment, run, version : str or None
        The hash of the first entry, the run, and the version that began it; None where that entry cannot be read.
    draws : tuple of VerifiedDraw
        The rounds whose draw was repeated from the secret and agrees.
    closed : bool
        Whether the log ends with its closing.
    """

    path: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    commitment: str | None
    run: str | None
    version: str | None
    draws: tuple[VerifiedDraw, ...]
    closed: bool

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def lines(self) -> list[str]:
        """The report for a terminal; only printable characters, whatever the log holds."""
        verdict = "holds" if self.ok else "does NOT hold"
        found = [f"The audit log {self.path!a} {verdict}: {plural(len(self.draws), 'draw')} repeated from the secret."]
        if self.run is not None:
            found += [f"  run         {self.run} (mixtailor {self.version})", f"  commitment  {self.commitment}"]
        found += [f"  problem     {problem}" for problem in self.problems[:MOST_PROBLEMS]]
        if len(self.problems) > MOST_PROBLEMS:
            found.append(f"  problem     ... and {len(self.problems) - MOST_PROBLEMS} more.")
        found += [f"  note        {note}" for note in self.notes]
        return ["".join(char if char.isprintable() else "?" for char in line) for line in found]

    def __str__(self) -> str:
        return "\n".join(self.lines())


def verify(
    log_path: str | os.PathLike[str],
    *,
    commitment: str | None = None,
    pool: Iterable[object] | None = None,
    probabilities: Iterable[float] | None = None,
    receipts: Iterable[Proof | SignedReceipt] = (),
    keys: Mapping[str, str] | None = None,
) -> Report:
    """Check a closed log: its lines, its chain, its commitment, every draw, its length.

    Parameters
    ----------
    log_path : path
        The log. Nothing else is read.
    commitment : str or None
        What was published before training. Without it the log is checked against itself only.
    pool, probabilities : optional
        What the run is said to have used, to compare with what was committed.
    receipts : iterable of Proof or SignedReceipt
        What workers were given; the log must still hold the very entries. Ask the workers for them, not the server: it
        can make a receipt for anything.
    keys : mapping from str to str, optional
        The public key of each worker, as published before training. A receipt then counts only if its worker signed it.

    Examples
    --------
    >>> print(verify("no/such/log"))
    The audit log 'no/such/log' does NOT hold: 0 draws repeated from the secret.
      problem     The log cannot be read: No such file or directory.
    """
    if commitment is not None:
        commitment = commitment.strip().lower() if isinstance(commitment, str) else commitment
        if not is_hash(commitment):
            raise ValueError(
                f"A commitment is 64 hexadecimal digits, as published before training; got {commitment!r}."
            )
    known = None if keys is None else check_keys(keys)
    path = os.fspath(log_path)
    lines, problems = _read(path)
    notes: list[str] = []
    problems += order_problems(lines)
    first = lines[0].entry if lines and isinstance(lines[0].entry, Commitment) else None
    if first is None:
        if lines:
            problems.append("The log does not begin with a commitment, so its draws cannot be checked.")
        return Report(path, tuple(problems), (), None, None, None, (), False)
    problems += _commitment_problems(first, lines[0].hash, commitment, pool, probabilities)
    if commitment is None:
        notes.append("No published commitment was given: the log was checked against itself only.")
    secret, closing_problems = _closing(lines, first)
    draws, draw_problems = _draws(lines, first, secret)
    expected_problems, expected_notes = check_expectations(lines)
    receipt_problems, receipt_notes = check_receipts(lines, first, receipts, known)
    problems += closing_problems + draw_problems + expected_problems + receipt_problems
    notes += _notes(lines, first) + expected_notes + receipt_notes
    closed = isinstance(lines[-1].entry, Closing)
    return Report(path, tuple(problems), tuple(notes), lines[0].hash, first.run, first.version, draws, closed)


def _read(path: str) -> tuple[list[LogLine], list[str]]:
    lines: list[LogLine] = []
    problems: list[str] = []
    try:
        for number, line in enumerate(lines_of(path)):
            if not line.endswith(b"\n"):
                problems.append(
                    f"Line {number} is half-written: the log was truncated, or a crash was never recovered."
                )
                break
            try:
                lines.append(LogLine(number, decode(line), hash_of(line)))
            except EntryError as error:
                problems.append(f"Line {number} is not an entry: {error}. It was changed or inserted.")
                lines.append(LogLine(number, None, hash_of(line)))
    except LongLineError as error:
        problems.append(f"Line {len(lines)} {error}: the rest was not read.")
    except OSError as error:
        problems.append(f"The log cannot be read: {error.strerror or error}.")
    else:
        if not lines and not problems:
            problems.append("The log is empty: everything was truncated, or it was never begun.")
    return lines, problems


def _commitment_problems(
    first: Commitment,
    found: str,
    commitment: str | None,
    pool: Iterable[object] | None,
    probabilities: Iterable[float] | None,
) -> list[str]:
    problems = []
    if commitment is not None and commitment != found:
        problems.append(
            f"The first entry is not what was published: its hash is {found}, and {commitment} was published. The "
            "secret's hash, the pool, its order, the probabilities, the version or the run were changed."
        )
    whole = range(len(first.pool))
    if pool is not None:
        try:
            check_pool(names_of(list(pool)), first, whole)
        except ValueError as error:
            problems.append(str(error).split(". ")[0] + ".")
    if probabilities is not None:
        try:
            check_shares(probabilities, first.weights)
        except ValueError as error:
            problems.append(str(error).split(". ")[0] + ".")
    return problems


def _closing(lines: Sequence[LogLine], first: Commitment) -> tuple[bytes | None, list[str]]:
    closings = [(line.number, line.entry) for line in lines if isinstance(line.entry, Closing)]
    if not closings:
        return None, [
            "The log is not closed: its end was truncated, or the run continues. No secret is revealed, so no draw can "
            "be checked."
        ]
    place, last = closings[-1]
    problems = []
    if place != len(lines) - 1:
        problems.append(
            f"Entries follow the closing at line {place}: they were inserted after the secret was revealed."
        )
    problems += [f"Line {other} closes the log, and so does line {place}." for other, _ in closings[:-1]]
    rounds = len({line.entry.round for line in lines if isinstance(line.entry, Drawn)})
    if last.entries != len(lines) or last.rounds != rounds:
        problems.append(
            f"The closing signs off {last.entries} entries and {last.rounds} rounds, and the log holds {len(lines)} "
            f"and {rounds}: entries were removed or inserted."
        )
    secret = bytes.fromhex(last.secret)
    if hashlib.sha256(secret).hexdigest() != first.secret_hash:
        problems.append("The revealed secret is not the committed one. No draw can be checked.")
        return None, problems
    if seal_of(secret, first.run, last.entries, last.previous) != last.seal:
        problems.append("The seal under the log's length is not the secret's: the closing was changed.")
    return secret, problems


def _draws(
    lines: Sequence[LogLine], first: Commitment, secret: bytes | None
) -> tuple[tuple[VerifiedDraw, ...], list[str]]:
    problems: list[str] = []
    known: dict[int, Drawn] = {}
    verified: dict[int, VerifiedDraw] = {}
    latest = -1
    weights = first.weights
    for line in lines:
        entry = line.entry
        if not isinstance(entry, Drawn):
            continue
        before = known.setdefault(entry.round, entry)
        if before is entry:
            if entry.retry:
                problems.append(f"Entry {entry.entry} calls itself a retry of round {entry.round}, never drawn before.")
            if entry.round < latest:
                problems.append(f"Round {entry.round} (entry {entry.entry}) comes after round {latest}: out of order.")
            latest = max(latest, entry.round)
        elif (before.root, before.absent) != (entry.root, entry.absent):
            problems.append(
                f"Round {entry.round} was replayed with other rows (entries {before.entry} and {entry.entry})."
            )
        elif not entry.retry:
            problems.append(
                f"Round {entry.round} was replayed (entries {before.entry} and {entry.entry}), not logged as a retry."
            )
        allowed = eligible(first.needs, len(first.pool), entry.rows)
        bounds = [weights[position] for position in allowed]
        if entry.index >= len(first.pool) or first.pool[entry.index] != entry.rule:
            problems.append(
                f"Round {entry.round} (entry {entry.entry}) names {entry.rule}, which is not rule {entry.index} of the "
                "committed pool: the pool was re-ordered or the entry changed."
            )
        if sum(bounds) == 0:
            problems.append(f"Round {entry.round} (entry {entry.entry}) has {entry.rows} rows, which allow no rule.")
        elif secret is not None:
            given = input_of(bytes.fromhex(entry.root), entry.absent)
            position = allowed[drawn_index(secret, first.run, entry.round, given, bounds)]
            if position != entry.index:
                problems.append(
                    f"Round {entry.round} (entry {entry.entry}) logs rule {entry.index}, and the secret and the rows "
                    f"give rule {position}: the draw was chosen, or the entry changed."
                )
            elif entry.round not in verified:
                key = preaggregation_key(secret, first.run, entry.round, given)
                verified[entry.round] = VerifiedDraw(entry.round, position, first.pool[position], key, 0)
            else:
                again = verified[entry.round]
                verified[entry.round] = VerifiedDraw(again.round, again.index, again.rule, again.key, again.retries + 1)
    return tuple(verified.values()), problems


def _notes(lines: Sequence[LogLine], first: Commitment) -> list[str]:
    def of(kind: type[_Kind]) -> list[_Kind]:
        return [line.entry for line in lines if isinstance(line.entry, kind)]

    notes = []
    resumed = of(Resumed)
    if resumed:
        halves = sum(entry.dropped > 0 for entry in resumed)
        notes.append(f"The log was resumed {plural(len(resumed), 'time')}, {halves} of them after a half-written line.")
    others = sorted({entry.version for entry in resumed} - {first.version})
    if others:
        notes.append(f"It was begun by version {first.version} and continued by {', '.join(others)}.")
    drawn = of(Drawn)
    retries = sum(entry.retry for entry in drawn)
    if retries:
        notes.append(f"{plural(retries, 'draw')} repeated an earlier round from the same rows.")
    notes += _repeated(drawn)
    rounds = sorted({entry.round for entry in drawn})
    skipped = rounds[-1] - rounds[0] + 1 - len(rounds) if rounds else 0
    if skipped:
        notes.append(
            f"{plural(skipped, 'round number')} between {rounds[0]} and {rounds[-1]} were skipped. A server that skips "
            "numbers can look for a draw it likes: ask why."
        )
    return notes


def _repeated(drawn: Sequence[Drawn]) -> list[str]:
    """Rounds that were drawn from the same updates: each gave the server one more draw to choose from."""
    rounds: dict[str, set[int]] = {}
    for entry in drawn:
        rounds.setdefault(entry.root, set()).add(entry.round)
    again = [sorted(found) for found in rounds.values() if len(found) > 1]
    if not again:
        return []
    more = f", and so have {plural(len(again) - 1, 'other group')} of rounds" if len(again) > 1 else ""
    return [
        f"Rounds {listing(again[0])} have the same updates{more}. A server that draws once more from what it received "
        "can choose among the draws: ask why."
    ]
