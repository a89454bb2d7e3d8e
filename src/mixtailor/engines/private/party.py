"""A computing party: collects shares, agrees with the others on what arrived, and computes its share of the result."""

import hashlib
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, final

import numpy as np

from mixtailor._checks import refuse, shown
from mixtailor.engines.private.computing import Computing
from mixtailor.engines.private.encoding import FRACTION, PROJECTIONS, Encoding
from mixtailor.engines.private.programs import (
    check_private,
    members,
    multi_krum,
    out_of_range,
    products,
    sorted_sum,
    way_of,
)
from mixtailor.engines.private.shares import PARTIES, Held, held
from mixtailor.mixing import MixTailor, SeededEntropy
from mixtailor.rules import MultiKrum, TrimmedMean
from mixtailor.rules.base import Rule
from mixtailor.rules.promises import check_tolerates

__all__ = ["Outcome", "Party"]

WRONG_SIZE = "a share has the wrong size"
NOT_EVERYWHERE = "its shares did not reach all parties"
INCONSISTENT = "its shares do not fit together"
OUT_OF_RANGE = "outside the range of the encoding"


@dataclass(frozen=True)
class Outcome:
    """One party's part of a round.

    Attributes
    ----------
    summand : array of uint64
        Its summand of the result. The three of them make the result, any two say nothing.
    divisor : float
        What the result is divided by.
    rule : str
        The rule that was drawn.
    clients : list of str
        Those whose updates were aggregated.
    removed : dict
        Why others were not.
    seconds : float
        How long it took.
    """

    summand: Any
    divisor: float
    rule: str
    clients: list[str]
    removed: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@final
class Party:
    """One of three computing parties. Its operator runs it, gives it shares, and sends its summand to who may read.

    All three need the same addresses, encoding, rule and options.

    Parameters
    ----------
    rank : int
        Which party this is, 0 to 2.
    addresses : sequence of str
        Host and port of each party.
    encoding : Encoding
        How clients made integers of their updates.
    rule : Rule
        `MultiKrum`, `Comed`, `TrimmedMean`, `Mean`, or a `MixTailor` of them; others with ``opened``.
    f : int, optional
        How many updates may be Byzantine, for a rule that takes no f: a round that does not allow it is refused.
    opened : bool
        Whether the parties may open the inner products between updates.
    timeout : float
        Seconds after which another party that sends nothing is given up.
    certificates : tuple of str, optional
        Paths of a certificate, its key and the authority. Without them messages between parties are in the clear.
    """

    def __init__(
        self,
        rank: int,
        addresses: Sequence[str],
        encoding: Encoding,
        rule: Rule,
        *,
        f: int | None = None,
        opened: bool = False,
        timeout: float = 60.0,
        certificates: tuple[str, str, str] | None = None,
    ) -> None:
        check_private(rule, opened=opened)
        self.encoding, self.rule, self.f = encoding, rule, f
        self._computing = Computing(rank, addresses, timeout=timeout, certificates=certificates)
        self._inbox: dict[str, Held | None] = {}

    def put(self, client: str, payload: bytes) -> None:
        """Take a client's share. Who the client is, the channel that brought it must have found out."""
        if client in self._inbox:
            refuse(f"{shown(client)} has sent a share for this round already.")
        try:
            self._inbox[client] = held(payload, self.encoding.d)
        except ValueError:
            self._inbox[client] = None

    def aggregate(self) -> Outcome:
        """Compute this round's result together with the others, and begin the next round."""
        begun = time.perf_counter()
        inbox, self._inbox = self._inbox, {}
        try:
            names, removed, absent = self._agreed(inbox)
            seed = self._agreed_seed()
            rows = [inbox[name] for name in names]
            kept, inner = self._checked(rows, seed)  # type: ignore[arg-type]  # agreed ones are none of them None
            removed.update({name: OUT_OF_RANGE for place, name in enumerate(names) if place not in kept})
            outcome = self._decided([rows[place] for place in kept], inner, len(removed), seed)  # type: ignore[misc]  # as above
        finally:
            self._computing.clear()
        summand, divisor, rule = outcome
        clients = [names[place] for place in kept]
        return Outcome(summand, divisor, rule, clients, {**removed, **absent}, time.perf_counter() - begun)

    def _agreed(self, inbox: Mapping[str, Held | None]) -> tuple[list[str], dict[str, str], dict[str, str]]:
        """Whose shares all parties hold alike; who proved a fault; who did not arrive everywhere."""
        own = {name: None if shared is None else shared.digests() for name, shared in inbox.items()}
        tables = [json.loads(message) for message in self._computing.exchange(json.dumps(own).encode())]
        names, removed, absent = [], {}, {}
        for name in sorted(set().union(*tables)):
            found = [table.get(name, 0) for table in tables]
            if 0 in found:
                absent[name] = NOT_EVERYWHERE
            elif None in found:
                removed[name] = WRONG_SIZE
            elif any(found[i][1] != found[(i + 1) % PARTIES][0] for i in range(PARTIES)):
                removed[name] = INCONSISTENT
            else:
                names.append(name)
        return names, removed, absent

    def _agreed_seed(self) -> bytes:
        """Randomness that no two parties together control, made after the shares are fixed: commit, then reveal."""
        own = os.urandom(32)
        commitments = self._computing.exchange(hashlib.sha256(own).digest())
        revealed = self._computing.exchange(own)
        if [hashlib.sha256(part).digest() for part in revealed] != commitments:
            raise RuntimeError("A party revealed other randomness than it had committed to.")
        return hashlib.sha256(b"".join(revealed)).digest()

    def _checked(self, rows: Sequence[Held], seed: bytes) -> tuple[list[int], Held]:
        """Which updates are within the range, and the shares of the inner products of those."""
        n, d = len(rows), self.encoding.d
        if n == 0:
            refuse("No client's shares arrived at all three parties.")
        for place, row in enumerate(rows):
            self._computing.put(f"row-{place}", row)
        names = [f"row-{place}" for place in range(n)]
        inner = self._computing.get(self._computing.run(("products", n, d), products, names, [(d,)] * n))
        self._computing.put("inner", inner)
        self._computing.put("projections", _projected(rows, seed))
        counts = self._computing.run(("range", n), out_of_range, ["projections", "inner"], [(n, PROJECTIONS), (n, n)])
        kept = [place for place, count in enumerate(self._computing.open(counts)) if count == 0]
        chosen = np.ix_(kept, kept)
        return kept, Held(inner.first[chosen], inner.second[chosen])

    def _decided(self, rows: Sequence[Held], inner: Held, removed: int, seed: bytes) -> tuple[Any, float, str]:
        n, d = len(rows), self.encoding.d
        tolerated = self.rule.tolerates(n + removed)
        if removed > tolerated:
            refuse(f"{removed} of {n + removed} updates prove a fault, and f = {tolerated}. Raise f, or look at them.")
        if self.f is not None:
            check_tolerates(self.rule, self.f, n + removed)
        pool = members(self.rule)
        random = np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(seed + b"draw").digest(), "big")))
        chances = self.rule.probabilities if isinstance(self.rule, MixTailor) else None
        rule = pool[int(random.choice(len(pool), p=chances))].lowered(n, removed)
        rule.check_rows(n)
        for place, row in enumerate(rows):
            self._computing.put(f"row-{place}", row)
        names, way = [f"row-{place}" for place in range(n)], way_of(rule)
        if way in ("sum", "weights"):
            weights = np.ones(n, np.int64) if way == "sum" else self._public_weights(rule, inner, seed)
            stacked = Held(np.stack([row.first for row in rows]), np.stack([row.second for row in rows]))
            return stacked.combined(weights).first, float(n if way == "sum" else 1 << FRACTION), repr(rule)
        if isinstance(rule, MultiKrum):
            m = n - rule.f if rule.m is None else min(rule.m, n)
            self._computing.put("kept-inner", inner)
            inputs, shapes = ["kept-inner", *names], [(n, n), *[(d,)] * n]
            name = self._computing.run(("krum", n, rule.f, m, d), multi_krum(n, rule.f, m), inputs, shapes)
            return self._computing.get(name).first, float(m), repr(rule)
        first, last = (rule.f, n - rule.f) if isinstance(rule, TrimmedMean) else ((n - 1) // 2, n // 2 + 1)
        name = self._computing.run(("sorted", n, first, last, d), sorted_sum(n, first, last), names, [(d,)] * n)
        return self._computing.get(name).first, float(last - first), repr(rule)

    def _public_weights(self, rule: Rule, inner: Held, seed: bytes) -> Any:
        """Integer weights from opened products: those of the first party, since all must have the same to the bit."""
        self._computing.put("opened", inner)
        # In the units of the updates, since a radius of clipping is given in these.
        opened = self._computing.open("opened").astype(np.float64) * self.encoding.unit**2
        entropy = SeededEntropy(int.from_bytes(hashlib.sha256(seed + b"weights").digest(), "big"))
        weights = rule.weights(products=opened, entropy=entropy)
        if np.abs(weights).sum() > 1 << 8:
            refuse(f"{rule!r} gave weights too large for the ring.")
        own = np.rint(weights * (1 << FRACTION)).astype(np.int64)
        return np.frombuffer(self._computing.exchange(own.tobytes())[0], np.int64)


def _projected(rows: Sequence[Held], seed: bytes) -> Held:
    """Shares of random projections of each update, (n, PROJECTIONS). Local."""
    d = len(rows[0].first)
    random = np.random.Generator(np.random.PCG64(int.from_bytes(hashlib.sha256(seed + b"range").digest(), "big")))
    coins = random.integers(0, 4, size=(d, PROJECTIONS), dtype=np.int8)
    signs = (coins == 0).astype(np.float64) - (coins == 1)
    return Held(*(_projection(np.stack([row[part] for row in rows]), signs) for part in (0, 1)))


def _projection(summands: Any, signs: Any) -> Any:
    """Products modulo 2^64, by float64 products of 22 bits at a time: exact for up to 2^31 coordinates."""
    total = np.zeros((len(summands), signs.shape[1]), np.uint64)
    for shift in (0, 22, 44):
        limb = ((summands >> np.uint64(shift)) & np.uint64((1 << 22) - 1)).astype(np.float64)
        total += (limb @ signs).astype(np.int64).astype(np.uint64) << np.uint64(shift)
    return total
