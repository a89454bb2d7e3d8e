"""Whether the pool that a draw is asked for is the pool that was committed to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from mixtailor.mixing.audit.entries import Commitment, is_number, is_text
from mixtailor.mixing.entropy import SUM_TOLERANCE


def names_of(pool: Sequence[object]) -> tuple[str, ...]:
    """The pool as text: strings as they are, rules by their `repr`."""
    if not pool:
        raise ValueError("The pool is empty. An audit trail needs at least one rule to draw.")
    names = tuple(rule if isinstance(rule, str) else repr(rule) for rule in pool)
    for name in names:
        if not is_text(name):
            raise ValueError(f"Each rule of an audited pool must be printable text, and one is {name!r}.")
        if re.search(r" at 0x[0-9A-Fa-f]+", name):
            raise ValueError(
                f"The rule {name} is named by its address, which no other process can check. Give it a name of its own."
            )
    return names


def needs_of(pool: Sequence[object], needs: Sequence[int] | None) -> tuple[int, ...] | None:
    """The fewest rows of each rule: as given, else as the rules say, or None where none of them says."""
    if needs is None:
        asked = [getattr(rule, "min_rows", None) for rule in pool]
        if not any(callable(least) for least in asked):
            return None
        needs = [least() if callable(least) else 1 for least in asked]
    found = tuple(least.__index__() for least in needs)
    if len(found) != len(pool) or not all(is_number(least) for least in found):
        raise ValueError(f"needs must give each of the {len(pool)} rules its fewest rows and is {list(needs)!r}.")
    return found


def check_pool(names: Sequence[str], first: Commitment, allowed: Sequence[int]) -> Sequence[int]:
    """The positions of the given names in the committed pool: all of it, or what the number of rows allows."""
    for positions in (range(len(first.pool)), allowed):
        if [first.pool[position] for position in positions] == list(names):
            return positions
    if sorted(names) == sorted(first.pool):
        raise ValueError("The pool is in another order than the committed one. Give the rules in the order committed.")
    raise ValueError(
        f"The pool is not the committed one: {len(names)} rules were given, {len(first.pool)} are committed, and "
        f"{len(allowed)} of these may be drawn now. Start a new log for another pool."
    )


def check_shares(probabilities: Iterable[float] | None, weights: Sequence[int]) -> None:
    """Refuse probabilities that are not the committed ones, divided again among the rules that are left."""
    total = sum(weights)
    given = [1 / len(weights)] * len(weights) if probabilities is None else [float(share) for share in probabilities]
    if total == 0 or len(given) != len(weights):
        raise ValueError(f"probabilities has {len(given)} numbers for {len(weights)} rules that may be drawn.")
    for position, (share, weight) in enumerate(zip(given, weights, strict=True)):
        if not abs(share - weight / total) <= SUM_TOLERANCE:
            raise ValueError(
                f"probabilities are not the committed ones: rule {position} is given {share!r}, and {weight / total!r} "
                "is committed. Start a new log for other probabilities."
            )
