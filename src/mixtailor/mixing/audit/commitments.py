"""What a log begins with: a fresh secret, and the commitment to it and to the pool."""

import hashlib
import secrets
from collections.abc import Iterable, Sequence

from mixtailor._version import __version__
from mixtailor.mixing.audit.entries import BEGINNING, FORMAT, LONGEST_LINE, Commitment, encode, is_text
from mixtailor.mixing.audit.pools import names_of, needs_of
from mixtailor.mixing.audit.store import LONGEST_SECRET, Secret
from mixtailor.mixing.entropy import KEY_BYTES, weights_of

__all__ = ["committed"]


def committed(
    pool: Sequence[object], probabilities: Iterable[float] | None, needs: Sequence[int] | None, run: str | None
) -> tuple[Secret, Commitment, bytes]:
    """The secret, the first entry, and its line in the log; `AuditTrail.start` says what is given."""
    names = names_of(pool)
    shares = None if probabilities is None else tuple(map(float, probabilities))
    weights_of(shares, len(names))
    run = secrets.token_hex(16) if run is None else run
    if not is_text(run):
        raise ValueError(f"run must be printable text and is {run!r}.")
    secret = Secret(run, secrets.token_bytes(KEY_BYTES), revealed=False)
    if len(secret.encode()) > LONGEST_SECRET:
        raise ValueError(f"The name of the run has {len(run)} characters, too many for its secret's file. Shorten it.")
    secret_hash = hashlib.sha256(secret.value).hexdigest()
    first = Commitment(0, BEGINNING, FORMAT, run, __version__, secret_hash, names, shares, needs_of(pool, needs))
    line = encode(first)
    if len(line) > LONGEST_LINE:
        raise ValueError(f"The pool takes {len(line)} bytes to write, and an entry may have {LONGEST_LINE}.")
    return secret, first, line
