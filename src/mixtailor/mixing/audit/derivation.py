r"""How a draw follows from the secret and the rows: the one page that server and verifier share.

.. math:: block_c = HMAC\text{-}SHA256(secret;\ label, run, round, input, c), \qquad
    input = SHA256(2, root, absent)

where the root is over what was received, and `absent` names the workers that sent nothing, one by one. Rejection
sampling on these blocks gives the rule, and with another label the same inputs give the key of the pre-aggregation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from mixtailor.mixing.entropy import framed, keyed_hash, pick


def eligible(needs: Sequence[int] | None, count: int, rows: int) -> list[int]:
    """The rules of the pool that `rows` workers allow, by position.

    It depends on how many workers the round counts, absent ones included, and on the commitment, never on what they
    sent.

    Examples
    --------
    >>> eligible([1, 7, 3], 3, rows=5)
    [0, 2]
    """
    return [position for position in range(count) if needs is None or needs[position] <= rows]


def input_of(root: bytes, absent: Sequence[str]) -> bytes:
    """What a round's draw is made from: all that was received, and who sent nothing."""
    return hashlib.sha256(b"\x02" + framed(root, *absent)).digest()


def drawn_index(secret: bytes, run: str, round: int, given: bytes, weights: Sequence[int]) -> int:
    """The position that this round's draw falls on."""
    return pick(weights, lambda counter: keyed_hash(secret, "mixtailor audited draw 2", run, round, given, counter))


def preaggregation_key(secret: bytes, run: str, round: int, given: bytes) -> bytes:
    """The 32 bytes that seed what pre-aggregation and the drawn rule do at random in this round."""
    return keyed_hash(secret, "mixtailor audited key 2", run, round, given)


def seal_of(secret: bytes, run: str, entries: int, previous: str) -> str:
    """The signature under the log's length and last hash."""
    return keyed_hash(secret, "mixtailor audited length 2", run, entries, previous).hex()
