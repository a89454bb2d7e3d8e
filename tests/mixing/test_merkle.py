"""The Merkle tree: every row can be proven, and nothing else can."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixtailor.mixing.audit import merkle
from mixtailor.mixing.audit.entries import Drawn
from mixtailor.mixing.audit.merkle import (
    Proof,
    Tree,
    leaf_hash,
    leaves_of,
    node_hash,
    root_along,
)
from mixtailor.mixing.audit.receipts import Receipts, Received


def digests_of(size: int) -> dict[str, bytes]:
    """Rows of `size` workers, named so that their order as text is not their order as numbers."""
    return {f"worker {number}": hashlib.sha256(bytes([number])).digest() for number in range(size)}


def proof_of(size: int, index: int) -> Proof:
    """The proof of one worker among `size`."""
    digests = digests_of(size)
    workers, leaves = leaves_of(digests)
    tree = Tree(leaves)
    path = tuple(step.hex() for step in tree.path(index))
    worker = workers[index]
    return Proof("run", 3, "ab" * 32, "cd" * 32, worker, digests[worker].hex(), index, size, path, tree.root.hex())


def genuine(proof: Proof) -> bool:
    """Whether it holds for the worker and the round that it names itself."""
    return proof.holds(proof.worker, proof.round)


def naive_root(leaves: list[bytes]) -> bytes:
    """Split at the largest power of two below n, as RFC 6962 words it: another way to the same tree."""
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while 2 * split < len(leaves):
        split *= 2
    return node_hash(naive_root(leaves[:split]), naive_root(leaves[split:]))


@pytest.mark.parametrize("size", range(1, 41))
def test_every_leaf_proves_itself_and_no_other(size: int) -> None:
    """Each of n leaves leads to the root from its own place, from no other place, and in no tree of another depth."""
    _, leaves = leaves_of(digests_of(size))
    tree = Tree(leaves)
    root = tree.root
    assert root == naive_root(leaves)
    for index, leaf in enumerate(leaves):
        path = tree.path(index)
        assert root_along(leaf, index, size, path) == root
        assert genuine(proof_of(size, index))
        for other in range(-1, size + 1):
            assert other == index or root_along(leaf, other, size, path) != root
        assert root_along(leaf, index, size, [*path, leaf]) is None
        assert not path or root_along(leaf, index, size, path[1:]) is None


@settings(max_examples=150)
@given(st.integers(1, 40).flatmap(lambda size: st.tuples(st.just(size), st.integers(0, size - 1))), st.data())
def test_any_changed_bit_breaks_a_proof(place: tuple[int, int], data: st.DataObject) -> None:
    """Flip one bit of the digest, the root, a step of the path or the name: it no longer holds."""
    proof = proof_of(*place)
    assert genuine(proof)
    kinds = ["digest", "root", "worker"] + ["path"] * bool(proof.path)
    kind = data.draw(st.sampled_from(kinds))
    bit = data.draw(st.integers(0, 255))

    def flip(text: str) -> str:
        return (int(text, 16) ^ (1 << bit)).to_bytes(32, "big").hex()

    if kind == "worker":
        changed = replace(proof, worker=proof.worker + "x")
    elif kind == "path":
        step = data.draw(st.integers(0, len(proof.path) - 1))
        path = tuple(flip(hash) if number == step else hash for number, hash in enumerate(proof.path))
        changed = replace(proof, path=path)
    elif kind == "digest":
        changed = replace(proof, digest=flip(proof.digest))
    else:
        changed = replace(proof, root=flip(proof.root))
    assert not genuine(changed)


def test_the_tree_is_worked_out_by_hand() -> None:
    """Three leaves: the first two meet below, the third joins at the top; leaves and nodes hash differently."""
    first, second, third = (hashlib.sha256(b"\x00" + body(name)).digest() for name in "abc")
    below = hashlib.sha256(b"\x01" + first + second).digest()
    _, leaves = leaves_of({"c": b"c" * 32, "a": b"a" * 32, "b": b"b" * 32})
    assert Tree(leaves).root == hashlib.sha256(b"\x01" + below + third).digest()
    assert leaf_hash("a", b"a" * 32) == first


def body(name: str) -> bytes:
    """Name and digest, each behind its length."""
    return (1).to_bytes(8, "big") + name.encode() + (32).to_bytes(8, "big") + name.encode() * 32


def test_the_order_of_arrival_does_not_matter() -> None:
    """Rows are sorted by worker, so the server cannot choose a root by choosing an order."""
    digests = digests_of(12)
    assert leaves_of(digests) == leaves_of(dict(reversed(digests.items())))


def test_a_worker_checks_what_it_sent() -> None:
    """The proof of another row, worker, round, run, root or set of expected workers is not the worker's."""
    proof = proof_of(5, 2)
    who, sent = proof.worker, bytes.fromhex(proof.digest)
    assert proof.holds(who, 3, digest=sent, root=proof.root, run="run", expectation="cd" * 32)
    assert not proof.holds(who, 3, digest=bytes(32)) and not proof.holds(who, 3, root="0" * 64)
    assert not proof.holds("worker 4", 3) and not proof.holds(who, 2) and not proof.holds(who, 3, run="other")
    assert not proof.holds(who, 3, expectation="0" * 64)
    assert not genuine(replace(proof, path=("00" * 32,) * 100))
    assert not genuine(replace(proof, digest="no digits")) and not genuine(replace(proof, worker="\ud800"))


def test_a_receipt_holds_for_nobody_who_is_not_named() -> None:
    """A program whose own name or round is missing, None, must not take any receipt for its own."""
    proof = proof_of(5, 2)
    assert proof.holds(proof.worker, 3)
    assert not proof.holds(None, 3)  # type: ignore[arg-type]  # what a forgotten setting gives
    assert not proof.holds(proof.worker, None)  # type: ignore[arg-type]  # the same


def test_receipts_for_ten_thousand_workers_share_one_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """n - 1 nodes are hashed for all of them; one tree for each took 800 seconds."""
    counted = []

    def counting(left: bytes, right: bytes) -> bytes:
        counted.append(1)
        return node_hash(left, right)

    monkeypatch.setattr(merkle, "node_hash", counting)
    received = Received({f"{number:05d}": number.to_bytes(32, "big") for number in range(10_000)})
    entry = Drawn(1, "0" * 64, 0, False, 10_000, received.tree.root.hex(), (), 0, "Comed()")
    receipts = list(Receipts("run", entry, "0" * 64, "0" * 64, received))
    assert len(receipts) == 10_000 and len(counted) == 9_999
    assert all(genuine(receipt) for receipt in receipts[::997])


def test_proofs_travel_as_json() -> None:
    """A proof comes back as it was sent, up to the largest number that all readers hold; fields are in their order."""
    proof = proof_of(9, 4)
    assert Proof.from_json(proof.to_json()) == proof and genuine(Proof.from_json(proof.to_json()))
    late = replace(proof, round=2**53 - 1)
    assert Proof.from_json(late.to_json()) == late
    assert list(json.loads(proof.to_json())) == sorted(vars(proof))


@pytest.mark.parametrize(
    "change",
    [
        {"index": -1},
        {"index": "0"},
        {"index": True},
        {"size": 2**53},
        {"round": 1.0},
        {"root": "AB" * 32},
        {"root": "ab"},
        {"digest": None},
        {"path": "ab"},
        {"path": ["zz" * 32]},
        {"worker": 3},
        {"expectation": "0"},
        {"worker": "\x1b[2J"},
        {"extra": 1},
    ],
)
def test_a_proof_from_outside_is_read_strictly(change: dict[str, object]) -> None:
    """Wrong types, wrong digits, unknown fields and control characters are a sentence."""
    found = {**json.loads(proof_of(9, 4).to_json()), **change}
    with pytest.raises(ValueError, match="proof"):
        Proof.from_json(json.dumps(found))


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, "nonsense", "null"])
def test_what_is_not_a_proof_is_refused(text: str) -> None:
    """Not JSON, not an object, nested without end."""
    with pytest.raises(ValueError, match="A proof must"):
        Proof.from_json(text)


@pytest.mark.parametrize(
    ("digests", "error", "sentence"),
    [
        ({}, ValueError, "at least one row"),
        ([], ValueError, "at least one row"),
        ({1: bytes(32)}, TypeError, "named by strings"),
        ({"a": bytes(31)}, ValueError, "32 bytes of a SHA-256"),
        ({"a": "0" * 32}, ValueError, "32 bytes of a SHA-256"),
        ({"a\n": bytes(32)}, ValueError, "printable"),
        ({"\ud800": bytes(32)}, ValueError, "printable"),
    ],
)
def test_wrong_digests_get_their_sentence(digests: object, error: type[Exception], sentence: str) -> None:
    """No rows, names that are not text, digests that are none."""
    with pytest.raises(error, match=sentence):
        leaves_of(digests)  # type: ignore[arg-type]  # wrong on purpose
