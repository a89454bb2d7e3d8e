"""The writer of the log: commit, draw after the rows are in hand, write it down, return, and reveal at the end."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import NoReturn, Self, final

from mixtailor._files import atomic_write
from mixtailor._version import __version__
from mixtailor.mixing.audit.commitments import committed
from mixtailor.mixing.audit.derivation import drawn_index, eligible, input_of, preaggregation_key, seal_of
from mixtailor.mixing.audit.entries import (
    BEGINNING,
    LONGEST_LINE,
    Closing,
    Drawn,
    Entry,
    Expected,
    Resumed,
    encode,
    hash_of,
)
from mixtailor.mixing.audit.history import Expectation, History, beginning, read_history, secret_of
from mixtailor.mixing.audit.merkle import Proof, check_name
from mixtailor.mixing.audit.pools import check_pool, check_shares, names_of
from mixtailor.mixing.audit.receipts import Draw, Receipts, Received
from mixtailor.mixing.audit.rounds import Rounds
from mixtailor.mixing.audit.store import Lock, Secret, create, replace_end, write_all


@final
class AuditTrail:
    """Draws that anybody can check afterwards, in a log of JSON lines.

    `start` makes the secret and the commitment, `expect` names the workers of a round, `draw` gives a rule for the
    updates in hand, `close` reveals the secret. `commitment` is what to publish before training. A trail belongs to the
    process that opened it, and several threads may share it.

    Three files: the log at `path`; ``path.secret`` (mode 0600), which keeps the secret for a resumption and must not
    leave the server before the end; ``path.lock``, which keeps a second writer away.

    Examples
    --------
    >>> import hashlib, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "run.audit")
    >>> pool = ["Krum(f=1)", "Comed()"]
    >>> updates = {name: hashlib.sha256(name.encode()).digest() for name in ("ann", "bob", "cyn")}
    >>> with AuditTrail.start(path, pool) as trail:
    ...     published = trail.commitment
    ...     asked = trail.expect([*updates, "dan"])
    ...     first = trail.draw(updates, pool=pool)
    ...     receipt = trail.proof("bob")
    >>> first.round == asked, first.retry, receipt.holds("bob", 0, digest=updates["bob"])
    (True, False, True)

    The log and what was published are enough to check it.

    >>> from mixtailor.mixing.audit import verify
    >>> verify(path, commitment=published, receipts=[receipt]).ok
    True

    Notes
    -----
    The context manager closes, and so reveals, only when its block ends without an exception; after one the log is
    let go as it is, and `resume` continues it.
    """

    def __init__(self, path: str, lock: Lock, secret: Secret, history: History) -> None:
        """Use `start`, `resume` or `open` instead: they check what is on the disk."""
        self._path = path
        self._lock = lock
        self._secret = secret
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._first = history.commitment
        self._commitment = history.commitment_hash
        self._head = history.head
        self._entries = history.entries
        self._rounds = Rounds(history)
        self._weights = history.commitment.weights
        self._receipts: Receipts | None = None
        self._closed = False
        self._log: int | None = os.open(path, os.O_WRONLY | os.O_APPEND | getattr(os, "O_BINARY", 0))

    @classmethod
    def start(
        cls,
        path: str | os.PathLike[str],
        pool: Iterable[object],
        probabilities: Iterable[float] | None = None,
        *,
        needs: Sequence[int] | None = None,
        run: str | None = None,
    ) -> AuditTrail:
        """Begin a log: a fresh secret, and the commitment as its first entry.

        Parameters
        ----------
        path : path
            The log. Neither it nor its secret may exist.
        pool : iterable
            The rules in order; what is not a string is written as its `repr`.
        probabilities : iterable of float or None
            As for the draw; None is uniform.
        needs : sequence of int or None
            The fewest updates that each rule needs. None asks each rule's `min_rows`; rules without one always take
            part.
        run : str or None
            The name of the run; None makes one up.
        """
        secret, first, line = committed(list(pool), probabilities, needs, run)
        path = os.path.abspath(path)
        lock = Lock(path + ".lock")
        try:
            create(path, secret, line)
            return cls(path, lock, secret, beginning(first, line))
        except BaseException:
            lock.release()
            raise

    @classmethod
    def resume(
        cls,
        path: str | os.PathLike[str],
        pool: Iterable[object] | None = None,
        probabilities: Iterable[float] | None = None,
    ) -> AuditTrail:
        """Continue a log after its process ended; what a crash left of a half-written line is dropped and recorded.

        With `pool` and `probabilities` given, they must be the committed ones. The first draw without a round number
        that brings the updates of the last entry is a retry of it: a crash gives nobody a second draw.
        """
        path = os.path.abspath(path)
        if not os.path.exists(path):
            raise FileNotFoundError(f"There is no log at {path}. Start one with AuditTrail.start.")
        lock = Lock(path + ".lock")
        try:
            history = read_history(path)
            secret = secret_of(path, history)
            first = history.commitment
            if pool is not None:
                check_pool(names_of(list(pool)), first, range(len(first.pool)))
                check_shares(probabilities, first.weights)
            elif probabilities is not None:
                check_shares(probabilities, first.weights)
            half = history.half
            entry = Resumed(history.entries, history.head, __version__, len(half), hash_of(half))
            if half:
                replace_end(path, history.size, encode(entry))
            trail = cls(path, lock, secret, history)
            trail._rounds.latest = history.latest
            if half:
                trail._advance(encode(entry))
            else:
                trail._append(entry)
            return trail
        except BaseException:
            lock.release()
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        pool: Iterable[object],
        probabilities: Iterable[float] | None = None,
        *,
        needs: Sequence[int] | None = None,
        run: str | None = None,
    ) -> AuditTrail:
        """Resume the log if there is one, else start it."""
        if not os.path.exists(path):
            return cls.start(path, pool, probabilities, needs=needs, run=run)
        trail = cls.resume(path, pool, probabilities)
        if run is not None and run != trail.run:
            trail.release()
            raise ValueError(f"{path} is the log of run {trail.run!r}, not of {run!r}. Give each run its own log.")
        return trail

    @property
    def commitment(self) -> str:
        """What to publish before training: the hash of the first entry."""
        return self._commitment

    @property
    def run(self) -> str:
        """The name of the run."""
        return self._first.run

    @property
    def head(self) -> str:
        """The hash of the last entry. Published now and then, it fixes the log up to here."""
        return self._head

    @property
    def closed(self) -> bool:
        """Whether the secret has been revealed by `close`."""
        return self._closed

    @property
    def ended(self) -> bool:
        """Whether it draws no more: closed, released, or given up after its disk failed."""
        return self._log is None

    def check(self, pool: Sequence[object], probabilities: Iterable[float] | None = None) -> None:
        """Raise a ValueError if the pool and the probabilities are not the committed ones."""
        check_pool(names_of(list(pool)), self._first, range(len(self._first.pool)))
        check_shares(probabilities, self._weights)

    def expect(self, workers: Iterable[str], *, round: int | None = None) -> int:
        """Write down whom a round asks, before anything is received; returns the number of the round.

        Give each worker the `head` with what it is asked. A worker that then sends nothing enters the draw as absent,
        by its name; one that was not expected cannot take part.

        Parameters
        ----------
        workers : iterable of str
            Their names.
        round : int or None
            A number larger than all before; None takes the next. The same workers again change nothing.
        """
        self._check_process()
        if isinstance(workers, str):
            raise TypeError(f"A round expects the names of its workers, a list, and got the text {workers!r}.")
        names = tuple(workers)
        for name in names:
            check_name(name)
        if not names or len(set(names)) < len(names):
            raise ValueError(f"A round expects at least one worker, each by a name of its own, and got {len(names)}.")
        with self._mutex:
            self._check_usable()
            names = tuple(sorted(names))
            number, known = self._rounds.to_expect(round, names)
            if not known:
                entry = Expected(self._entries, self._head, number, names)
                if len(encode(entry)) > LONGEST_LINE:
                    raise ValueError(
                        f"The names of {len(names)} workers are more than an entry may hold. Shorten them."
                    )
                self._append(entry)
                self._rounds.expected[number] = Expectation(names, self._head)
            return number

    def draw(
        self,
        digests: Mapping[str, bytes | None],
        *,
        round: int | None = None,
        pool: Sequence[object],
        probabilities: Iterable[float] | None = None,
    ) -> Draw:
        """Draw a rule for the updates in hand. When this returns, the entry is on the disk.

        Parameters
        ----------
        digests : mapping from str to bytes or None
            The SHA-256 of what each worker sent (`digest_of`), faulty updates too; None for a worker that sent nothing.
            Workers that were expected and are not in it sent nothing, either.
        round : int or None
            A number larger than all before, or, with the same updates, one drawn before: a retry, which draws the same.
            None takes the round that is expected, or else the next.
        pool, probabilities
            What the caller is about to choose from: the committed pool, or those of its rules that this number of
            updates allows. Anything else is refused. The index returned is into this pool.
        """
        self._check_process()
        with self._mutex:
            self._check_usable()
            received = Received({worker: digest for worker, digest in digests.items() if digest is not None})
            root = received.tree.root
            number, retry, absent = self._rounds.to_draw(round, root, digests)
            rows, given = len(received.workers) + len(absent), input_of(root, absent)
            allowed = eligible(self._first.needs, len(self._first.pool), rows)
            offered = check_pool(names_of(list(pool)), self._first, allowed)
            check_shares(probabilities, [self._weights[position] for position in offered])
            bounds = [self._weights[position] for position in allowed]
            if sum(bounds) == 0:
                raise ValueError(f"No rule of the pool that {rows} rows allow has a probability above zero.")
            position = allowed[drawn_index(self._secret.value, self.run, number, given, bounds)]
            key = preaggregation_key(self._secret.value, self.run, number, given)
            rule = self._first.pool[position]
            entry = Drawn(self._entries, self._head, number, retry, rows, root.hex(), absent, position, rule)
            expectation = self._rounds.expectation(number)
            # Before it is written: an interruption after it must not leave the number free.
            self._rounds.settle(number, given.hex())
            self._append(entry)
            self._rounds.latest = None
            asked = BEGINNING if expectation is None else expectation.hash
            self._receipts = Receipts(self.run, entry, self._head, asked, received)
            return Draw(offered.index(position), key, number, retry)

    def proof(self, worker: str) -> Proof:
        """The receipt of one worker for the round drawn last."""
        return self._drawn_last().of(worker)

    def proofs(self) -> Iterator[Proof]:
        """The receipts of all workers that sent something, for the round drawn last."""
        return iter(self._drawn_last())

    def _drawn_last(self) -> Receipts:
        with self._mutex:
            if self._receipts is None:
                raise RuntimeError("There is no round to prove yet: a proof is of the round drawn last by this trail.")
            return self._receipts

    def close(self) -> None:
        """Sign off the length and reveal the secret. From here on it is never used again."""
        self._check_process()
        with self._mutex:
            if self._closed:
                return
            self._check_usable(closing=True)
            # Marked before it is written: a crash in between may show part of it, so only closing is left to do then.
            self._secret = Secret(self.run, self._secret.value, revealed=True)
            with atomic_write(self._path + ".secret", mode=0o600) as file:
                file.write(self._secret.encode())
            seal = seal_of(self._secret.value, self.run, self._entries + 1, self._head)
            secret = self._secret.value.hex()
            self._append(Closing(self._entries, self._head, self._entries + 1, len(self._rounds.drawn), secret, seal))
            self._closed = True
            self._release()

    def release(self) -> None:
        """Close the files without revealing anything; `resume` opens them again."""
        with self._mutex:
            self._release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            self.release()

    def __del__(self) -> None:
        if hasattr(self, "_log"):
            self._release()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "An audit trail cannot be pickled: it is the one writer of its log. Pickle its path, and resume it there."
        )

    def __repr__(self) -> str:
        state = "closed" if self._closed else "released" if self._log is None else "open"
        return f"<AuditTrail {self._path!r}: run {self.run!r}, {len(self._rounds.drawn)} rounds, {state}>"

    def _check_process(self) -> None:
        # Outside the mutex, which a fork may have copied while another thread held it.
        if os.getpid() != self._pid:
            raise RuntimeError(
                "This audit trail was opened by another process, and two writers would break the log. Draw in the "
                "process that opened it, or release it there and resume it here."
            )

    def _check_usable(self, *, closing: bool = False) -> None:
        if self._closed:
            raise RuntimeError(
                "This log is closed and its secret revealed: a draw from it could be predicted. Start a new log."
            )
        if self._log is None:
            raise RuntimeError(f"This audit trail was released. Continue with AuditTrail.resume({self._path!r}).")
        if self._secret.revealed and not closing:
            raise RuntimeError(
                "The secret of this log may have been revealed: its closing was begun and interrupted. Call close() to "
                "finish it, and start a new log."
            )

    def _append(self, entry: Entry) -> None:
        line = encode(entry)
        assert self._log is not None
        try:
            write_all(self._log, line)
            self._advance(line)
        except BaseException as error:
            # What reached the disk is unknown. Resuming finds out, and a draw repeated there is a retry.
            self._release()
            error.add_note(f"No draw was released. Continue with AuditTrail.resume({self._path!r}).")
            raise

    def _advance(self, line: bytes) -> None:
        self._head = hash_of(line)
        self._entries += 1

    def _release(self) -> None:
        if self._log is not None:
            os.close(self._log)
            self._log = None
            self._lock.release()
