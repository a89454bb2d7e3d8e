"""Whether the lines of a log are the ones written, in the order written, and what was done to those that are not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from mixtailor.mixing.audit.entries import BEGINNING, Commitment, Entry


@dataclass(frozen=True)
class LogLine:
    """A line of a log: its place, the entry on it if it is one, and its hash."""

    number: int
    entry: Entry | None
    hash: str


def order_problems(lines: Sequence[LogLine]) -> list[str]:
    """A sentence for each place where the numbers or the hashes do not run on."""
    readable = [(line, line.entry) for line in lines if line.entry is not None]
    problems = []
    seen: dict[int, int] = {}
    for line, entry in readable:
        if entry.entry in seen:
            problems.append(
                f"Entry {entry.entry} stands in the log twice (lines {seen[entry.entry]} and {line.number}): one was "
                "inserted."
            )
        seen.setdefault(entry.entry, line.number)
        if isinstance(entry, Commitment) and line.number:
            problems.append(f"Line {line.number} is a second commitment: it was inserted.")
    # An unreadable line keeps its place, so that one changed line is not reported as a removed one too.
    present = sorted({*seen, *(line.number for line in lines if line.entry is None)})
    for below, above in pairwise([-1, *present]):
        if above == below + 2:
            problems.append(f"Entry {below + 1} is missing: it was removed.")
        elif above > below + 2:
            problems.append(f"Entries {below + 1} to {above - 1} are missing: they were removed.")
    for (_, first), (_, second) in pairwise(readable):
        if second.entry < first.entry:
            problems.append(f"Entry {second.entry} stands after entry {first.entry}: entries were swapped or moved.")
    if readable and readable[0][1].entry == 0 and readable[0][1].previous != BEGINNING:
        problems.append("Entry 0 claims that something came before it: it was changed.")
    for before, after in pairwise(lines):
        if after.entry is None or after.entry.previous == before.hash:
            continue
        if before.entry is None or before.entry.entry + 1 == after.entry.entry:
            problems.append(
                f"Entry {after.entry.entry} holds the hash of another line than the one before it: line "
                f"{before.number} was changed, or lines were removed or inserted there."
            )
    return problems
