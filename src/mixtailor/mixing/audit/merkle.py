r"""One hash for all rows of a round, and short proofs that a row is among them.

.. math:: leaf(w, x) = H(0 \| w, x), \qquad node(a, b) = H(1 \| a \| b)

with H = SHA-256. A tree of n leaves splits at the largest power of two below n. The bytes 0 and 1 keep a node from
being passed off as a leaf.

References
----------
.. [1] Laurie, Langley, Kasper, "Certificate Transparency", RFC 6962, 2013, section 2.1.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import final

from mixtailor.mixing.entropy import framed

DIGEST_BYTES = 32
LONGEST_PATH = 64


def leaf_hash(worker: str, digest: bytes) -> bytes:
    """The leaf of one worker: its name and the digest of what it sent."""
    return hashlib.sha256(b"\x00" + framed(worker, digest)).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The node above two others."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def leaves_of(digests: Mapping[str, bytes]) -> tuple[list[str], list[bytes]]:
    """Workers in the order of their names, and their leaves."""
    if not isinstance(digests, Mapping) or not digests:
        raise ValueError("A draw needs the digest of at least one row, by worker. Draw after the updates have arrived.")
    for worker, digest in digests.items():
        check_name(worker)
        if not isinstance(digest, bytes) or len(digest) != DIGEST_BYTES:
            raise ValueError(f"The digest of worker {worker!r} must be the {DIGEST_BYTES} bytes of a SHA-256.")
    workers = sorted(digests)
    return workers, [leaf_hash(worker, digests[worker]) for worker in workers]


def check_name(worker: object) -> None:
    """Refuse a worker that is not named by printable text."""
    if not isinstance(worker, str):
        raise TypeError(f"Workers must be named by strings, and one is {worker!r}.")
    if not worker.isprintable():
        raise ValueError(f"The name of a worker must be printable text, and one is {worker!r}.")


@final
class Tree:
    """All nodes of the tree over some leaves, level by level, so that n paths cost n log n.

    Pairs are hashed from the left, and a node without a partner moves up as it is: the same tree as one that splits at
    the largest power of two.

    Examples
    --------
    >>> a, b, c = (leaf_hash(name, bytes(32)) for name in "abc")
    >>> Tree([a, b, c]).root == node_hash(node_hash(a, b), c), Tree([a, b, c]).path(2) == [node_hash(a, b)]
    (True, True)
    """

    def __init__(self, leaves: Sequence[bytes]) -> None:
        self.levels = [list(leaves)]
        while len(below := self.levels[-1]) > 1:
            above = [node_hash(below[k], below[k + 1]) for k in range(0, len(below) - 1, 2)]
            self.levels.append(above + below[len(below) - len(below) % 2 :])

    @property
    def root(self) -> bytes:
        return self.levels[-1][0]

    def path(self, index: int) -> list[bytes]:
        """The hashes beside the way from a leaf up to the root, lowest first."""
        found = []
        for level in self.levels[:-1]:
            if index ^ 1 < len(level):
                found.append(level[index ^ 1])
            index >>= 1
        return found


def _split(size: int) -> int:
    return 1 << ((size - 1).bit_length() - 1)


def root_along(leaf: bytes, index: int, size: int, path: Sequence[bytes]) -> bytes | None:
    """The root that a leaf and its path lead to, or None where no tree of this size has such a path."""
    if not 0 <= index < size:
        return None
    if size == 1:
        return None if path else leaf
    if not path:
        return None
    split = _split(size)
    if index < split:
        below = root_along(leaf, index, split, path[:-1])
        return None if below is None else node_hash(below, path[-1])
    below = root_along(leaf, index - split, size - split, path[:-1])
    return None if below is None else node_hash(path[-1], below)


@dataclass(frozen=True)
class Proof:
    """A worker's receipt: what it sent is among that which this round's draw was made from.

    Parameters
    ----------
    run, round, entry : str, int, str
        The run, the round, and the hash of the log entry that holds the root. A log that is rewritten later no longer
        has that entry, and `verify` says so when it is given the receipt.
    expectation : str
        The hash of the entry that named the workers of this round before anything was received; zeros if none did.
    worker, digest : str, str
        The worker, and the SHA-256 of what it sent, in hexadecimal.
    index, size, path, root : int, int, tuple of str, str
        The leaf's place among the workers that sent something, sorted by name, how many there are, the hashes beside
        its way, and the root.

    Examples
    --------
    >>> leaves = [leaf_hash(name, bytes(32)) for name in ("ann", "bob")]
    >>> root = Tree(leaves).root.hex()
    >>> proof = Proof("run", 0, "0" * 64, "0" * 64, "ann", "00" * 32, 0, 2, (leaves[1].hex(),), root)
    >>> proof.holds("ann", 0), proof.holds("bob", 0), proof.holds("ann", 1), Proof.from_json(proof.to_json()) == proof
    (True, False, False, True)

    A worker compares with the digest of what it really sent.

    >>> proof.holds("ann", 0, digest=bytes(32)), proof.holds("ann", 0, digest=b"1" * 32)
    (True, False)
    """

    run: str
    round: int
    entry: str
    expectation: str
    worker: str
    digest: str
    index: int
    size: int
    path: tuple[str, ...]
    root: str

    def holds(
        self,
        worker: str,
        round: int,
        *,
        digest: bytes | None = None,
        run: str | None = None,
        expectation: str | None = None,
        root: str | None = None,
    ) -> bool:
        """Whether this is the receipt of this worker for this round, and its leaf leads to its root.

        Parameters
        ----------
        worker, round : str, int
            Who asks, and of which round: the receipt of another worker or round does not hold.
        digest : bytes, optional
            The digest of what the worker really sent (`digest_of`).
        run, expectation : str, optional
            The run, and the `head` that the worker was given when it was asked.
        root : str, optional
            The root of the log's entry.
        """
        if (worker, round) != (self.worker, self.round):  # a name that is missing is no name, whoever forgot it
            return False
        given = {"run": run, "expectation": expectation, "root": root}
        if any(value is not None and value != getattr(self, name) for name, value in given.items()):
            return False
        if digest is not None and digest.hex() != self.digest:
            return False
        if len(self.path) > LONGEST_PATH:
            return False
        try:
            leaf = leaf_hash(self.worker, bytes.fromhex(self.digest))
            path = [bytes.fromhex(step) for step in self.path]
        except ValueError:  # not hexadecimal, or a name that is not text: made by hand, not by `from_json`
            return False
        reached = root_along(leaf, self.index, self.size, path)
        return reached is not None and reached.hex() == self.root

    def to_json(self) -> str:
        """One line to send to the worker."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Proof:
        """Read what `to_json` wrote. Whatever else arrives is a ValueError."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError("A proof must be one JSON object, and this is not JSON.") from None
        names = {field.name for field in fields(cls)}
        if not isinstance(found, dict) or set(found) != names:
            raise ValueError(f"A proof must have exactly the fields {', '.join(sorted(names))}.")
        path = found["path"]
        texts = [found["run"], found["worker"]]
        hashes = [
            found["entry"],
            found["expectation"],
            found["digest"],
            found["root"],
            *(path if isinstance(path, list) else [None]),
        ]
        counts = [found["round"], found["index"], found["size"]]
        if (
            not all(isinstance(text, str) and text.isprintable() for text in texts)
            or not all(is_hash(value) for value in hashes)
            or not all(type(count) is int and 0 <= count < 2**53 for count in counts)
        ):
            raise ValueError("A field of this proof has the wrong type: names are text, hashes 64 hexadecimal digits.")
        return cls(**{**found, "path": tuple(path)})


def is_hash(value: object) -> bool:
    """Whether a value is a SHA-256 in lower-case hexadecimal."""
    return isinstance(value, str) and len(value) == 2 * DIGEST_BYTES and set(value) <= set("0123456789abcdef")
