"""Whether the workers of each draw are those that were expected, and whether receipts are of this log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mixtailor._checks import plural
from mixtailor.mixing.audit.entries import BEGINNING, Commitment, Drawn, Expected
from mixtailor.mixing.audit.merkle import Proof
from mixtailor.mixing.audit.order import LogLine
from mixtailor.mixing.audit.signatures import SignedReceipt


def check_expectations(lines: Sequence[LogLine]) -> tuple[list[str], list[str]]:
    """What is wrong with who was expected and who was absent, and what is worth knowing."""
    problems: list[str] = []
    expected: dict[int, Expected] = {}
    drawn: set[int] = set()
    unexpected = absences = 0
    for line in lines:
        entry = line.entry
        if isinstance(entry, Expected):
            if entry.round in drawn:
                problems.append(f"Round {entry.round} was drawn before its workers were named (entry {entry.entry}).")
            if entry.round in expected:
                problems.append(
                    f"The workers of round {entry.round} were named twice (entries {expected[entry.round].entry} and "
                    f"{entry.entry}): who is asked could be chosen."
                )
            expected.setdefault(entry.round, entry)
        elif isinstance(entry, Drawn):
            asked = expected.get(entry.round)
            if entry.round not in drawn:
                unexpected += asked is None
                absences += len(entry.absent)
            drawn.add(entry.round)
            if asked is not None and entry.rows != len(asked.workers):
                problems.append(
                    f"Round {entry.round} (entry {entry.entry}) counts {entry.rows} workers, and "
                    f"{len(asked.workers)} were expected."
                )
            strangers = [] if asked is None else sorted(set(entry.absent) - set(asked.workers))
            if strangers:
                problems.append(f"Round {entry.round} calls {strangers[0]!r} absent, who was not expected.")
    notes = []
    if unexpected:
        notes.append(
            f"{plural(unexpected, 'round')} named no workers beforehand: whoever drew could choose who took part."
        )
    if absences:
        notes.append(
            f"{plural(absences, 'worker')} in all rounds entered as absent. A worker that did send something and is "
            "called absent was left out: ask the workers."
        )
    abandoned = len(set(expected) - drawn)
    if abandoned:
        notes.append(
            f"{plural(abandoned, 'round')} named workers and drew nothing. A server that gives up rounds can look "
            "for a draw it likes: ask why."
        )
    return problems, notes


def check_receipts(
    lines: Sequence[LogLine],
    first: Commitment,
    receipts: Iterable[Proof | SignedReceipt],
    keys: Mapping[str, str] | None = None,
) -> tuple[list[str], list[str]]:
    """A sentence for each receipt that does not agree with the log, and a note on those that are missing.

    With `keys`, a receipt counts only if its worker signed it.
    """
    entries = {line.hash: line.entry for line in lines}
    expected = {line.entry.round: line for line in reversed(lines) if isinstance(line.entry, Expected)}
    places: dict[tuple[int, int], dict[str, int]] = {}  # of the workers in the tree, by round and entry
    problems: list[str] = []
    shown: set[tuple[int, str]] = set()
    for given in receipts:
        receipt = given.receipt if isinstance(given, SignedReceipt) else given
        whose = f"The receipt of worker {receipt.worker!r} for round {receipt.round}"
        if keys is not None and not _signed(given, receipt.worker, keys):
            problems.append(f"{whose} is not signed by that worker: whoever keeps the log can make such a receipt.")
            continue
        shown.add((receipt.round, receipt.worker))
        entry = entries.get(receipt.entry)
        if not receipt.holds(receipt.worker, receipt.round):
            problems.append(f"{whose} does not lead to its own root: the receipt is not genuine.")
        elif receipt.run != first.run:
            problems.append(f"{whose} is of run {receipt.run!r}, and this is the log of {first.run!r}.")
        elif not isinstance(entry, Drawn):
            problems.append(f"{whose} names an entry that the log no longer holds: it was changed or removed since.")
        elif (entry.round, entry.root, entry.rows - len(entry.absent)) != (receipt.round, receipt.root, receipt.size):
            problems.append(f"{whose} does not agree with entry {entry.entry}: the receipt is not genuine.")
        elif receipt.worker in entry.absent:
            problems.append(f"{whose} is of a worker that entry {entry.entry} calls absent.")
        else:
            problems += _misplaced(receipt, entry, expected.get(receipt.round), whose, places)
    drawn = {line.entry.round: line.entry for line in lines if isinstance(line.entry, Drawn)}
    total = sum(entry.rows - len(entry.absent) for entry in drawn.values())
    missing = total - len({(round, worker) for round, worker in shown if round in drawn})
    if missing <= 0 or (not shown and keys is None):
        return problems, []
    signed = "" if keys is None else "signed "
    note = (
        f"{missing} of {total} updates have no {signed}receipt among those given. Whether their workers sent them is "
        "not shown: a server can make up what an absent worker sent, and look for a draw it likes."
    )
    return problems, [note]


def _signed(given: Proof | SignedReceipt, worker: str, keys: Mapping[str, str]) -> bool:
    return isinstance(given, SignedReceipt) and worker in keys and given.signed_by(keys[worker])


def _misplaced(
    receipt: Proof, entry: Drawn, line: LogLine | None, whose: str, places: dict[tuple[int, int], dict[str, int]]
) -> list[str]:
    """Whether a receipt has the place that the expected workers give it: then nobody else can have that leaf."""
    asked = None if line is None or not isinstance(line.entry, Expected) else line.entry
    if receipt.expectation != (BEGINNING if line is None or asked is None else line.hash):
        return [f"{whose} names other expected workers than the log: they were changed since."]
    if asked is None:
        return []
    key = (asked.entry, entry.entry)
    if key not in places:
        absent = set(entry.absent)
        present = [worker for worker in asked.workers if worker not in absent]
        places[key] = {worker: place for place, worker in enumerate(present)}
    if places[key].get(receipt.worker) != receipt.index:
        return [f"{whose} is not at the place that the expected workers give it: somebody else is in the tree."]
    return []
