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

from mixtailor.mixing.entropy import framed

DIGEST_BYTES = 32
LONGEST_PATH = 64


def leaf_hash(worker: str, digest: bytes) -> bytes:
    """The leaf of one worker: its name and the SHA-256 of the row it sent."""
    return hashlib.sha256(b"\x00" + framed(worker, digest)).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """The node above two others."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def leaves_of(digests: Mapping[str, bytes]) -> tuple[list[str], list[bytes]]:
    """Workers in the order of their names, and their leaves."""
    if not isinstance(digests, Mapping) or not digests:
        raise ValueError("A draw needs the digest of at least one row, by worker. Draw after the updates have arrived.")
    for worker, digest in digests.items():
        if not isinstance(worker, str):
            raise TypeError(f"Workers must be named by strings, and one is {worker!r}.")
        if not worker.isprintable():
            raise ValueError(f"The name of a worker must be printable text, and one is {worker!r}.")
        if not isinstance(digest, bytes) or len(digest) != DIGEST_BYTES:
            raise ValueError(f"The digest of worker {worker!r} must be the {DIGEST_BYTES} bytes of a SHA-256.")
    workers = sorted(digests)
    return workers, [leaf_hash(worker, digests[worker]) for worker in workers]


def _split(size: int) -> int:
    return 1 << ((size - 1).bit_length() - 1)


def root_of(leaves: Sequence[bytes]) -> bytes:
    """The root of the tree over the leaves.

    Examples
    --------
    >>> a, b, c = (leaf_hash(name, bytes(32)) for name in "abc")
    >>> root_of([a, b, c]) == node_hash(node_hash(a, b), c)
    True
    """
    if len(leaves) == 1:
        return leaves[0]
    split = _split(len(leaves))
    return node_hash(root_of(leaves[:split]), root_of(leaves[split:]))


def path_of(leaves: Sequence[bytes], index: int) -> list[bytes]:
    """The hashes beside the way from a leaf up to the root, lowest first."""
    if len(leaves) == 1:
        return []
    split = _split(len(leaves))
    if index < split:
        return [*path_of(leaves[:split], index), root_of(leaves[split:])]
    return [*path_of(leaves[split:], index - split), root_of(leaves[:split])]


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
    """A worker's receipt: its row is among those that this round's draw was made from.

    Parameters
    ----------
    run, round, entry : str, int, str
        The run, the round, and the hash of the log entry that holds the root. A log that is rewritten later no longer
        has that entry, and `verify` says so when it is given the receipt.
    worker, digest : str, str
        The worker, and the SHA-256 of what it sent, in hexadecimal.
    index, size, path, root : int, int, tuple of str, str
        The leaf's place among the workers sorted by name, how many there are, the hashes beside its way, and the root.

    Examples
    --------
    >>> leaves = [leaf_hash(name, bytes(32)) for name in ("ann", "bob")]
    >>> proof = Proof("run", 0, "0" * 64, "ann", "00" * 32, 0, 2, (leaves[1].hex(),), root_of(leaves).hex())
    >>> proof.holds(), Proof.from_json(proof.to_json()) == proof
    (True, True)

    A worker compares with the digest of what it really sent.

    >>> proof.holds(digest=bytes(32)), proof.holds(digest=b"1" * 32)
    (True, False)
    """

    run: str
    round: int
    entry: str
    worker: str
    digest: str
    index: int
    size: int
    path: tuple[str, ...]
    root: str

    def holds(self, *, digest: bytes | None = None, root: str | None = None) -> bool:
        """Whether the leaf leads to the root; with `digest` and `root` given, whether they are the ones."""
        if (digest is not None and digest.hex() != self.digest) or (root is not None and root != self.root):
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
        hashes = [found["entry"], found["digest"], found["root"], *(path if isinstance(path, list) else [None])]
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
