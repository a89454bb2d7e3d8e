r"""How a draw follows from the secret and the rows: the one page that server and verifier share.

.. math:: block_c = HMAC\text{-}SHA256(secret;\ label, run, round, root, c)

Rejection sampling on these blocks gives the rule, and with another label the same inputs give the key of the
pre-aggregation.
"""

from __future__ import annotations

from collections.abc import Sequence

from mixtailor.mixing.entropy import keyed_hash, pick


def eligible(needs: Sequence[int] | None, count: int, rows: int) -> list[int]:
    """The rules of the pool that `rows` received rows allow, by position.

    It depends on how many rows arrived and on the commitment, never on what is in them.

    Examples
    --------
    >>> eligible([1, 7, 3], 3, rows=5)
    [0, 2]
    """
    return [position for position in range(count) if needs is None or needs[position] <= rows]


def drawn_index(secret: bytes, run: str, round: int, root: bytes, weights: Sequence[int]) -> int:
    """The position that this round's draw falls on."""
    return pick(weights, lambda counter: keyed_hash(secret, "mixtailor audited draw 1", run, round, root, counter))


def preaggregation_key(secret: bytes, run: str, round: int, root: bytes) -> bytes:
    """The 32 bytes that seed what pre-aggregation and the drawn rule do at random in this round."""
    return keyed_hash(secret, "mixtailor audited key 1", run, round, root)


def seal_of(secret: bytes, run: str, entries: int, previous: str) -> str:
    """The signature under the log's length and last hash."""
    return keyed_hash(secret, "mixtailor audited length 1", run, entries, previous).hex()
