"""Which rounds were expected and drawn, and what may come next: a number is used once, and numbers only go up."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from mixtailor.mixing.audit.derivation import input_of
from mixtailor.mixing.audit.entries import is_number
from mixtailor.mixing.audit.history import Expectation, History


@final
class Rounds:
    """The rounds of one trail.

    Attributes
    ----------
    drawn : dict
        What each round was drawn from, by number.
    expected : dict
        The workers that rounds not yet drawn ask, and those of the last one.
    latest : tuple or None
        After a resumption, the last round of the log, until something else is drawn.
    """

    def __init__(self, history: History) -> None:
        self.drawn = dict(history.rounds)
        self.last = max(self.drawn, default=-1)
        self.expected = {number: found for number, found in history.expected.items() if number >= self.last}
        self.latest: tuple[int, str] | None = None

    def to_expect(self, round: int | None, workers: tuple[str, ...]) -> tuple[int, bool]:
        """The number of the round to expect, and whether the log says so already."""
        last = max(self.last, *self.expected, -1)
        if round is None:
            waiting = [number for number in self.expected if number > self.last]
            if waiting and self.expected[waiting[-1]].workers == workers:
                return waiting[-1], True
            return last + 1, False
        number = checked(round)
        if number in self.expected and number > self.last:
            if self.expected[number].workers == workers:
                return number, True
            raise ValueError(f"Other workers are expected in round {number} already. They can be set only once.")
        if number <= last:
            raise ValueError(
                f"Round {number} was drawn or passed already. Expect round {last + 1}, or None for the next."
            )
        return number, False

    def to_draw(
        self, round: int | None, root: bytes, digests: Mapping[str, bytes | None]
    ) -> tuple[int, bool, tuple[str, ...]]:
        """The number of the round to draw, whether it is a retry, and who is absent."""
        if round is None and self.latest is not None:
            number, before = self.latest
            absent = () if self._strangers(number, digests) else self._absent(number, digests)
            if input_of(root, absent).hex() == before:
                return number, True, absent
        number = self.next if round is None else checked(round)
        strangers = self._strangers(number, digests)
        if strangers:
            raise ValueError(f"Worker {strangers[0]!r} is not among those that round {number} expects.")
        absent = self._absent(number, digests)
        known = self.drawn.get(number)
        if known == input_of(root, absent).hex():
            return number, True, absent
        if known is not None:
            raise ValueError(
                f"Round {number} was drawn already, from other rows. A round is drawn once: use round {self.last + 1}, "
                "or None for the next."
            )
        if number < self.last:
            raise ValueError(
                f"Round {number} comes before round {self.last}, which was drawn already. Rounds only go up."
            )
        return number, False, absent

    @property
    def next(self) -> int:
        """The next round: the one that is expected, if one is."""
        waiting = [number for number in self.expected if number > self.last]
        return waiting[-1] if waiting else self.last + 1

    def settle(self, number: int, given: str) -> None:
        """A round is drawn."""
        self.drawn[number] = given
        self.last = max(self.last, number)
        self.expected = {expected: found for expected, found in self.expected.items() if expected >= self.last}

    def _strangers(self, number: int, digests: Mapping[str, bytes | None]) -> list[str]:
        """Workers that the round did not ask."""
        expected = self.expected.get(number)
        return [] if expected is None else sorted(set(digests) - set(expected.workers))

    def _absent(self, number: int, digests: Mapping[str, bytes | None]) -> tuple[str, ...]:
        """The workers of a round that sent nothing."""
        silent = {worker for worker, digest in digests.items() if digest is None}
        if number in self.expected:
            silent |= set(self.expected[number].workers) - set(digests)
        return tuple(sorted(silent))

    def expectation(self, number: int) -> Expectation | None:
        """Who is expected in a round, if the log says so."""
        return self.expected.get(number)


def checked(round: int) -> int:
    """A round as a plain integer."""
    if isinstance(round, bool) or not hasattr(round, "__index__") or not is_number(round.__index__()):
        raise ValueError(f"round must be an integer from 0 to 2^53 - 1, or None for the next, and is {round!r}.")
    return round.__index__()
