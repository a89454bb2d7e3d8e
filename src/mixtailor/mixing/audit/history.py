"""What a log says happened so far, read strictly: the ground that a resumed trail stands on."""

from __future__ import annotations

import hashlib
import hmac
import os
from dataclasses import dataclass

from mixtailor._files import rename
from mixtailor.mixing.audit.derivation import input_of
from mixtailor.mixing.audit.entries import BEGINNING, Closing, Commitment, Drawn, EntryError, Expected, decode, hash_of
from mixtailor.mixing.audit.store import LongLineError, Secret, lines_of, read_secret


@dataclass(frozen=True)
class Expectation:
    """The workers that a round asks, and the hash of the entry that says so."""

    workers: tuple[str, ...]
    hash: str


@dataclass
class History:
    """The state of a log after its last whole line."""

    commitment: Commitment
    commitment_hash: str
    head: str
    entries: int
    rounds: dict[int, str]
    expected: dict[int, Expectation]
    latest: tuple[int, str] | None
    closing: Closing | None
    size: int
    half: bytes

    @property
    def closed(self) -> bool:
        """Whether the secret has been revealed."""
        return self.closing is not None


def beginning(commitment: Commitment, line: bytes) -> History:
    """The state of a log that holds its commitment and nothing else."""
    return History(commitment, hash_of(line), hash_of(line), 1, {}, {}, None, None, len(line), b"")


def read_history(path: str) -> History:
    """Read a log to continue it. Damage other than a half-written last line is an error: nothing may follow it."""
    history: History | None = None
    try:
        for number, line in enumerate(lines_of(path)):
            if line.endswith(b"\n"):
                history = _follow(history, number, line)
            elif history is not None:
                history.half = line
    except (EntryError, LongLineError) as error:
        where = 0 if history is None else history.entries
        raise ValueError(
            f"Entry {where} of {path} is damaged: {error}. A damaged log is not continued: verify it, and start a new "
            "run."
        ) from None
    if history is None:
        raise ValueError(f"{path} holds no commitment, so it is not an audit log. Start one under another name.")
    return history


def _follow(history: History | None, number: int, line: bytes) -> History:
    entry = decode(line)
    if entry.entry != number or entry.previous != (BEGINNING if history is None else history.head):
        raise EntryError("it does not follow from the entry before it")
    if history is None:
        if not isinstance(entry, Commitment):
            raise EntryError("the first entry must be a commitment")
        return beginning(entry, line)
    if isinstance(entry, Commitment) or history.closed:
        raise EntryError("a log has one commitment, and nothing after its closing")
    if isinstance(entry, Expected):
        history.expected[entry.round] = Expectation(entry.workers, hash_of(line))
    if isinstance(entry, Drawn):
        given = input_of(bytes.fromhex(entry.root), entry.absent).hex()
        history.rounds[entry.round] = given
        history.latest = entry.round, given
    if isinstance(entry, Closing):
        history.closing = entry
    history.head = hash_of(line)
    history.entries += 1
    history.size += len(line)
    return history


def secret_of(path: str, history: History) -> Secret:
    """The secret that a log is continued with; one that was revealed, or is of another log, is refused."""
    if history.closed:
        raise RuntimeError(f"The log {path} is closed and its secret revealed. Start a new run under another name.")
    place = path + ".secret"
    if not os.path.exists(place):
        if not os.path.exists(place + ".new"):
            raise FileNotFoundError(f"The log {path} cannot be continued without its secret, {place}. Start a new run.")
        place += ".new"
    secret = read_secret(place)
    found = hashlib.sha256(secret.value).hexdigest()
    if secret.run != history.commitment.run or not hmac.compare_digest(found, history.commitment.secret_hash):
        raise ValueError(f"The secret {place} belongs to another log than {path}.")
    if place != path + ".secret":
        rename(place, path + ".secret")
    return secret
