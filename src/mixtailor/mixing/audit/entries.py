"""The lines of the log: five kinds of entry, one way to write each, and nothing else is read.

Each entry is one line of JSON with sorted keys and no spaces, and holds the SHA-256 of the line before it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NoReturn

from mixtailor.mixing.audit.merkle import is_hash
from mixtailor.mixing.entropy import weights_of

FORMAT = "mixtailor audit 2"
BEGINNING = "0" * 64
LONGEST_LINE = 1 << 22
LARGEST_NUMBER = 2**53  # what every JSON reader holds exactly


@dataclass(frozen=True)
class Entry:
    """What all entries share: their number and the hash of the line before."""

    kind: ClassVar[str]

    entry: int
    previous: str


@dataclass(frozen=True)
class Commitment(Entry):
    """The first entry, whose hash is published before training."""

    kind: ClassVar[str] = "commitment"

    format: str
    run: str
    version: str
    secret_hash: str
    pool: tuple[str, ...]
    probabilities: tuple[float, ...] | None
    needs: tuple[int, ...] | None

    @property
    def weights(self) -> tuple[int, ...]:
        """The exact integer weights of the whole pool."""
        return weights_of(self.probabilities, len(self.pool))


@dataclass(frozen=True)
class Expected(Entry):
    """The workers that a round asks, written down before anything is received."""

    kind: ClassVar[str] = "expectation"

    round: int
    workers: tuple[str, ...]


@dataclass(frozen=True)
class Drawn(Entry):
    """One draw: the round, the root over what was received, who was absent, and the rule by its place in the pool.

    `rows` counts the workers of the round, absent ones included.
    """

    kind: ClassVar[str] = "draw"

    round: int
    retry: bool
    rows: int
    root: str
    absent: tuple[str, ...]
    index: int
    rule: str


@dataclass(frozen=True)
class Resumed(Entry):
    """The log was opened again, by which version, and how many bytes of a half-written line were dropped."""

    kind: ClassVar[str] = "resumption"

    version: str
    dropped: int
    dropped_hash: str


@dataclass(frozen=True)
class Closing(Entry):
    """The last entry: it reveals the secret and signs off how many entries and rounds there are."""

    kind: ClassVar[str] = "closing"

    entries: int
    rounds: int
    secret: str
    seal: str


KINDS: Mapping[str, type[Entry]] = {kind.kind: kind for kind in (Commitment, Expected, Drawn, Resumed, Closing)}


class EntryError(ValueError):
    """A line is not an entry; the message says why."""


def hash_of(line: bytes) -> str:
    """The hash that the next entry holds; of the first entry it is the commitment."""
    return hashlib.sha256(line).hexdigest()


def encode(entry: Entry) -> bytes:
    """The one way to write an entry."""
    found = {**vars(entry), "kind": entry.kind}
    return json.dumps(found, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii") + b"\n"


def decode(line: bytes) -> Entry:
    """Read one line, or say why it is not an entry."""
    try:
        found = json.loads(line.decode("ascii"), object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except EntryError:
        raise
    except (ValueError, RecursionError):
        raise EntryError("it is not JSON") from None
    if not isinstance(found, dict):
        raise EntryError("it is not a JSON object")
    name = found.pop("kind", None)
    kind = KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise EntryError("its kind is not one of " + ", ".join(KINDS))
    expected = {field.name for field in fields(kind)}
    for wrong in sorted(expected - set(found)):
        raise EntryError(f'its field "{wrong}" is missing')
    for wrong in sorted(set(found) - expected):
        raise EntryError(f"it has an unknown field {wrong[:40]!a}")
    values: dict[str, Any] = {}
    for field, value in found.items():
        check = CHECKS[field]
        value = tuple(value) if isinstance(value, list) else value
        if not check(value):
            raise EntryError(f'its field "{field}" does not hold what it should')
        values[field] = value
    entry = kind(**values)
    _agree(entry)
    if encode(entry) != line:
        raise EntryError("it is not written the one way an entry is written")
    return entry


def _agree(entry: Entry) -> None:
    if isinstance(entry, Commitment):
        if entry.format != FORMAT:
            raise EntryError(f"its format is {entry.format[:40]!a}, and this version reads {FORMAT!r}")
        if entry.needs is not None and len(entry.needs) != len(entry.pool):
            raise EntryError('"needs" and "pool" differ in length')
        try:
            _ = entry.weights
        except ValueError as error:
            raise EntryError(str(error).rstrip(".")) from None

    names = entry.workers if isinstance(entry, Expected) else entry.absent if isinstance(entry, Drawn) else ()
    if list(names) != sorted(set(names)):
        raise EntryError("its workers are not named once each and in order")
    if isinstance(entry, Drawn) and entry.absent and entry.rows <= len(entry.absent):
        raise EntryError("nobody of its round sent anything")


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise EntryError("a field stands in it twice")
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise EntryError(f"it holds {name}, which is not JSON")


def is_text(value: object) -> bool:
    """Printable text, so that nothing from a log can steer a terminal."""
    return isinstance(value, str) and len(value) > 0 and value.isprintable()


def is_name(value: object) -> bool:
    """The name of a worker: printable, and perhaps empty."""
    return isinstance(value, str) and value.isprintable()


def is_number(value: object) -> bool:
    """A whole number that every reader of JSON holds exactly."""
    return type(value) is int and 0 <= value < LARGEST_NUMBER


def _tuple_of(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, tuple) and len(value) > 0 and all(check(item) for item in value)


def _perhaps_empty(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: isinstance(value, tuple) and all(check(item) for item in value)


def _or_none(check: Callable[[object], bool]) -> Callable[[object], bool]:
    return lambda value: value is None or check(value)


CHECKS: Mapping[str, Callable[[object], bool]] = {
    "entry": is_number,
    "previous": is_hash,
    "format": is_text,
    "run": is_text,
    "version": is_text,
    "secret_hash": is_hash,
    "pool": _tuple_of(is_text),
    "probabilities": _or_none(_tuple_of(lambda value: type(value) is float)),
    "needs": _or_none(_tuple_of(is_number)),
    "round": is_number,
    "retry": lambda value: type(value) is bool,
    "rows": is_number,
    "root": is_hash,
    "workers": _tuple_of(is_name),
    "absent": _perhaps_empty(is_name),
    "index": is_number,
    "rule": is_text,
    "dropped": is_number,
    "dropped_hash": is_hash,
    "entries": is_number,
    "rounds": is_number,
    "secret": is_hash,
    "seal": is_hash,
}
