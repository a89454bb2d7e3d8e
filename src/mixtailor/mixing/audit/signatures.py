"""Receipts that their worker has signed: a server can make a receipt, and cannot make this."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from mixtailor._checks import refuse
from mixtailor.mixing.audit.merkle import Proof

__all__ = ["SignedReceipt", "WorkerKey", "check_keys"]

_LABEL = b"mixtailor signed receipt 1\n"


def _ed25519() -> Any:
    try:
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ImportError:
        raise ImportError(
            'Signed receipts need `cryptography`. Install it with: pip install "mixtailor[audit]"'
        ) from None
    return ed25519


@final
@dataclass(frozen=True)
class SignedReceipt:
    """A receipt and the signature of its worker, in hexadecimal; made by `WorkerKey.sign`, checked by `verify`."""

    receipt: Proof
    signature: str

    def signed_by(self, public: str) -> bool:
        """Whether the owner of this public key signed it."""
        from cryptography.exceptions import InvalidSignature

        key = _ed25519().Ed25519PublicKey.from_public_bytes(bytes.fromhex(public))
        try:
            key.verify(bytes.fromhex(self.signature), _LABEL + self.receipt.to_json().encode())
        except (InvalidSignature, ValueError):
            return False
        return True

    def to_json(self) -> str:
        """One line to give to whoever verifies the log."""
        return json.dumps({"receipt": self.receipt.to_json(), "signature": self.signature}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> SignedReceipt:
        """Read what `to_json` wrote. Whatever else arrives is a ValueError."""
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            found = None
        if (
            not isinstance(found, dict)
            or set(found) != {"receipt", "signature"}
            or not all(isinstance(value, str) for value in found.values())
        ):
            raise ValueError("A signed receipt must be one JSON object with the texts receipt and signature.")
        return cls(Proof.from_json(found["receipt"]), found["signature"])


@final
class WorkerKey:
    """A key pair of one worker (Ed25519), for signing its receipts. Needs the extra ``audit``.

    Parameters
    ----------
    private : bytes, optional
        The 32 bytes of a key made before; by default a new one. `private` gives them back: keep them secret.
    """

    def __init__(self, private: bytes | None = None) -> None:
        kind = _ed25519().Ed25519PrivateKey
        if private is not None and (not isinstance(private, bytes) or len(private) != 32):
            refuse("WorkerKey needs the 32 bytes of a private key, or nothing for a new one.")
        self._key = kind.generate() if private is None else kind.from_private_bytes(private)

    @property
    def private(self) -> bytes:
        """The 32 secret bytes."""
        return bytes(self._key.private_bytes_raw())

    @property
    def public(self) -> str:
        """What to publish before training, 64 hexadecimal digits."""
        return str(self._key.public_key().public_bytes_raw().hex())

    def sign(
        self, receipt: Proof, worker: str, round: int, *, digest: bytes, expectation: str | None = None
    ) -> SignedReceipt:
        """Check a receipt as `Proof.holds` does, and sign it; one that does not hold is a ValueError.

        Parameters
        ----------
        receipt : Proof
        worker, round : str, int
            This worker, and the round.
        digest : bytes
            The digest of what this worker sent.
        expectation : str, optional
            The `head` that this worker was given when it was asked.
        """
        if not receipt.holds(worker, round, digest=digest, expectation=expectation):
            refuse(f"This is not the receipt of worker {worker!r} for what it sent in round {round}. It is not signed.")
        return SignedReceipt(receipt, self._key.sign(_LABEL + receipt.to_json().encode()).hex())


def check_keys(keys: Mapping[str, str]) -> dict[str, str]:
    """Public keys by worker; anything else is a ValueError."""
    for worker, public in keys.items():
        try:
            sound = len(bytes.fromhex(public)) == 32
        except (TypeError, ValueError):
            sound = False
        if not sound:
            refuse(f"The public key of a worker is 64 hexadecimal digits, and that of {worker!r} is {public!r}.")
    return dict(keys)
