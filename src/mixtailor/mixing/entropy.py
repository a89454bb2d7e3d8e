"""Where the randomness comes from.

A draw protects only as long as nobody outside can predict it, so the default is the operating system's source, and
every draw here is exact: integers below the sum of the weights, by rejection, never a float times a count.
"""

from __future__ import annotations

import hashlib
import hmac
import math
import operator
import secrets
import threading
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from itertools import accumulate, pairwise
from typing import TypedDict, final

import numpy as np

KEY_BYTES = 32
SUM_TOLERANCE = 1e-9


def framed(*fields: bytes | str | int) -> bytes:
    """Join fields so that no two different tuples of the same types give the same bytes.

    Every field is preceded by its length; integers are 8 bytes, big-endian.

    Examples
    --------
    >>> framed("ab", "c") == framed("a", "bc")
    False
    """
    parts = []
    for field in fields:
        if isinstance(field, int):
            field = field.to_bytes(8, "big")
        elif isinstance(field, str):
            field = field.encode("utf-8")
        parts.append(len(field).to_bytes(8, "big") + field)
    return b"".join(parts)


def keyed_hash(key: bytes, *fields: bytes | str | int) -> bytes:
    """HMAC-SHA256 of the framed fields: 32 bytes that nobody without the key can distinguish from chance."""
    return hmac.digest(key, framed(*fields), "sha256")


def weights_of(probabilities: Iterable[float] | None, count: int) -> tuple[int, ...]:
    r"""Exact integer weights of a pool of `count` rules.

    A finite float is a fraction with a power of two below the line, so with the common denominator :math:`2^k`

    .. math:: w_i = 2^k p_i / \gcd_j(2^k p_j)

    are integers, and a draw among :math:`\sum_i w_i` equally likely integers has exactly the proportions given.

    Parameters
    ----------
    probabilities : iterable of float or None
        One number for each rule, not negative, with sum one to within 1e-9. None is uniform.
    count : int
        How many rules there are.

    Examples
    --------
    >>> weights_of([0.5, 0.25, 0.25], 3)
    (2, 1, 1)
    >>> weights_of(None, 3)
    (1, 1, 1)
    """
    count = _count(count)
    if probabilities is None:
        return (1,) * count
    numbers = _probabilities(probabilities, count)
    ratios = [number.as_integer_ratio() for number in numbers]
    denominator = max(below for _, below in ratios)
    weights = [above * (denominator // below) for above, below in ratios]
    common = math.gcd(*weights)
    return tuple(weight // common for weight in weights)


def _count(count: int) -> int:
    try:
        count = operator.index(count)
    except TypeError:
        raise TypeError(f"The number of rules must be an integer and is {count!r}.") from None
    if count < 1:
        raise ValueError(f"A draw needs at least one rule and got {count}. Give a pool that is not empty.")
    return count


def _probabilities(probabilities: Iterable[float], count: int) -> list[float]:
    if isinstance(probabilities, str | bytes):
        raise TypeError(f"probabilities must be a sequence of {count} numbers and is {probabilities!r}.")
    try:
        given = list(probabilities)
        if any(isinstance(number, str | bytes) for number in given):
            raise TypeError
        numbers = [float(number) for number in given]
    except (TypeError, OverflowError):
        raise TypeError(f"probabilities must be a sequence of {count} numbers and is {probabilities!r}.") from None
    if len(numbers) != count:
        raise ValueError(
            f"probabilities needs one number for each of the {count} rules and got {len(numbers)}. "
            "Give a number for each, or None for a uniform draw."
        )
    for position, number in enumerate(numbers):
        if not math.isfinite(number):
            raise ValueError(f"probabilities must be finite, and rule {position} has {number}.")
        if number < 0:
            raise ValueError(f"probabilities must not be negative, and rule {position} has {number}.")
    try:
        total = math.fsum(numbers)
    except OverflowError:
        total = math.inf
    if not abs(total - 1) <= SUM_TOLERANCE:
        remedy = f" Divide each by {total!r}." if 0 < total < math.inf else ""
        raise ValueError(f"probabilities must sum to one (within {SUM_TOLERANCE:g}) and sum to {total!r}.{remedy}")
    return numbers


def below(total: int, block: Callable[[int], bytes]) -> int:
    r"""An integer from 0 to total - 1, each equally likely, by rejection.

    With b the bits of total - 1, b random bits are an integer below :math:`2^b`; one that is not below the total is
    thrown away and the next is taken. Fewer than two attempts are expected.

    Parameters
    ----------
    total : int
        At least 1.
    block : callable
        32 random bytes for each counter 0, 1, 2, ... An attempt takes as many blocks as b has 256-bit words.

    Examples
    --------
    >>> below(6, lambda counter: bytes([0xFF if counter == 0 else 0x7F]) * 32)  # 111... is 7, 011... is 3
    3
    """
    bits = (total - 1).bit_length()
    blocks = -(-bits // (8 * KEY_BYTES))
    counter = 0
    while True:
        attempt = b"".join(block(counter + step) for step in range(blocks))
        counter += blocks
        number = int.from_bytes(attempt, "big") >> (8 * len(attempt) - bits)
        if number < total:
            return number


def pick(weights: Iterable[int], block: Callable[[int], bytes]) -> int:
    """Draw an index in exact proportion to integer weights, from the blocks that `below` takes.

    Examples
    --------
    >>> pick([0, 1, 0], lambda counter: bytes(32))
    1
    """
    bounds = list(accumulate(weights))
    if not bounds or bounds[0] < 0 or bounds[-1] <= 0 or any(after < before for before, after in pairwise(bounds)):
        raise ValueError("A draw needs weights that are not negative and not all zero.")
    return bisect_right(bounds, below(bounds[-1], block))


def generator_of(key: bytes) -> np.random.Generator:
    """A numpy generator for one use, seeded with all 256 bits of a key.

    PCG64 is not a cipher: whoever sees enough of its numbers can continue them. With a fresh key each time, there is
    nothing to continue.

    Examples
    --------
    >>> generator_of(bytes(32)).integers(100) == generator_of(bytes(32)).integers(100)
    np.True_
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(int.from_bytes(key, "big"))))


class Entropy(ABC):
    """A source of secret keys, each given out once, and of exact draws made from them.

    Whoever implements `key` promises: 32 bytes; never the same twice, for one purpose or two; what one purpose was
    given says nothing about what another was or will be; safe to call from several threads.
    """

    @abstractmethod
    def key(self, purpose: str) -> bytes:
        """32 fresh bytes for one purpose: "draw", "preaggregation", "attacker", "data", "dropout" or any other."""

    def index(self, probabilities: Iterable[float] | None, count: int, purpose: str = "draw") -> int:
        """Draw one of `count` rules, uniformly or with exactly the given probabilities. Takes one key."""
        weights = None if probabilities is None else weights_of(probabilities, count)
        count = _count(count)
        key = self.key(purpose)

        def block(counter: int) -> bytes:
            return keyed_hash(key, "mixtailor index 1", counter)

        return below(count, block) if weights is None else pick(weights, block)

    def generator(self, purpose: str) -> np.random.Generator:
        """A numpy generator from a fresh key."""
        return generator_of(self.key(purpose))


@final
class SystemEntropy(Entropy):
    """The operating system's randomness: what a server should use, and the default.

    It keeps no state, so there is none that a seed, a fork, a thread or a checkpoint could repeat.

    Examples
    --------
    >>> source = SystemEntropy()
    >>> len(source.key("draw")), source.key("draw") == source.key("draw")
    (32, False)
    >>> source.index([0.0, 1.0], 2)
    1

    Notes
    -----
    Python's `random` and numpy's global generator are Mersenne Twisters, which can be rebuilt from their outputs, and
    many programs seed them with 0: an attacker who does the same has the draw.
    """

    def key(self, purpose: str) -> bytes:
        """32 bytes from the operating system."""
        _purpose(purpose)
        return secrets.token_bytes(KEY_BYTES)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SystemEntropy)

    def __hash__(self) -> int:
        return hash(SystemEntropy)

    def __repr__(self) -> str:
        return "SystemEntropy()"


class SeededState(TypedDict):
    """What a checkpoint keeps of a `SeededEntropy`: plain JSON."""

    source: str
    counters: dict[str, int]


@final
class SeededEntropy(Entropy):
    r"""Randomness that repeats. FOR EXPERIMENTS ONLY: whoever knows the seed knows every draw.

    .. math:: \text{key}(p, i) = \text{HMAC-SHA256}(\text{seed}, p, i)

    with a counter i for each purpose p, so the streams are independent: an attacker that draws from the same seed under
    "attacker" agrees with the server's "draw" in one round of M.

    Parameters
    ----------
    seed : int or bytes
        An integer that is not negative, or bytes.

    Examples
    --------
    >>> SeededEntropy(7).index(None, 64) == SeededEntropy(7).index(None, 64)
    True
    >>> SeededEntropy(7).key("draw") == SeededEntropy(7).key("attacker")
    False
    >>> SeededEntropy(7)
    <SeededEntropy(7): for experiments only, whoever knows the seed knows every draw>

    A checkpoint keeps the state, and the run resumes where it stopped.

    >>> source = SeededEntropy(7)
    >>> _ = source.key("draw")
    >>> resumed = SeededEntropy(7)
    >>> resumed.restore(source.state())
    >>> resumed.key("draw") == source.key("draw")
    True
    """

    def __init__(self, seed: int | bytes) -> None:
        if isinstance(seed, bytes):
            material, self._label = framed("bytes", seed), f"bytes of SHA-256 {hashlib.sha256(seed).hexdigest()[:8]}"
        else:
            try:
                number = operator.index(seed)
            except TypeError:
                raise TypeError(f"seed must be an integer or bytes and is {seed!r}.") from None
            if isinstance(seed, bool) or number < 0:
                raise ValueError(f"seed must be an integer that is not negative, or bytes, and is {seed!r}.")
            size = (number.bit_length() + 7) // 8
            material, self._label = framed("integer", number.to_bytes(size, "big")), str(number)
        self._root = hashlib.sha256(framed("mixtailor seed 1") + material).digest()
        self._counters: dict[str, int] = {}
        self._mutex = threading.Lock()

    def key(self, purpose: str) -> bytes:
        """The next 32 bytes of this purpose's stream."""
        _purpose(purpose)
        with self._mutex:
            counter = self._counters.get(purpose, 0)
            self._counters[purpose] = counter + 1
        return keyed_hash(self._root, "mixtailor key 1", purpose, counter)

    def spawn(self, name: str) -> SeededEntropy:
        """An independent child. The same name gives the same child, so name each worker and each run differently."""
        _purpose(name)
        child = SeededEntropy(0)
        child._root = keyed_hash(self._root, "mixtailor spawn 1", name)
        child._label = f"{self._label} / {name}"
        return child

    def state(self) -> SeededState:
        """How far each stream is, for a checkpoint; the seed itself is not in it."""
        with self._mutex:
            return {"source": self._fingerprint(), "counters": dict(self._counters)}

    def restore(self, state: Mapping[str, object]) -> None:
        """Continue from what `state` gave. A state of another seed or a damaged one is an error and changes nothing."""
        if not isinstance(state, Mapping) or set(state) != {"source", "counters"}:
            raise ValueError('The state of a SeededEntropy has exactly the fields "source" and "counters".')
        if state["source"] != self._fingerprint():
            raise ValueError(f"This state belongs to another seed than {self._label}. Restore it where it was saved.")
        counters = state["counters"]
        if not isinstance(counters, Mapping) or not all(
            isinstance(purpose, str) and type(counter) is int and 0 <= counter < 2**63
            for purpose, counter in counters.items()
        ):
            raise ValueError('"counters" of a SeededEntropy must give each purpose an integer that is not negative.')
        with self._mutex:
            self._counters = dict(counters)

    def _fingerprint(self) -> str:
        return keyed_hash(self._root, "mixtailor fingerprint 1").hex()[:16]

    def __getstate__(self) -> tuple[bytes, str, dict[str, int]]:
        with self._mutex:
            return self._root, self._label, dict(self._counters)

    def __setstate__(self, state: tuple[bytes, str, dict[str, int]]) -> None:
        self._root, self._label, self._counters = state
        self._mutex = threading.Lock()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SeededEntropy) and self._root == other._root and self.state() == other.state()

    def __hash__(self) -> int:
        # The counters move, so only the seed may take part.
        return hash((SeededEntropy, self._root))

    def __repr__(self) -> str:
        return f"<SeededEntropy({self._label}): for experiments only, whoever knows the seed knows every draw>"


def _purpose(purpose: str) -> None:
    if not isinstance(purpose, str):
        raise TypeError(f'A purpose must be a string such as "draw" and is {purpose!r}.')
    try:
        purpose.encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError(f"A purpose must be text that UTF-8 can hold and is {purpose!r}.") from None
