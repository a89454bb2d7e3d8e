"""What a campaign has tried so far, on disk: a campaign that was stopped goes on where it was."""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mixtailor._files import atomic_write

KEPT = 200  # failures that are told in full; all are counted


@dataclass
class Ledger:
    """Counts of one campaign.

    Attributes
    ----------
    campaign, seed : str, int
        What this is the ledger of; another campaign's is refused.
    blocks : list of int
        Blocks of cases that are finished, beyond `through`.
    through : int
        All blocks below this one are finished.
    tried, failed : int
        Cases, and those that broke a promise.
    counts : dict
        How often each rule, home, type or target had its turn.
    failures : list
        Seed and sentence of the first failures.
    seconds : float
        Time spent, over all resumptions.
    """

    campaign: str
    seed: int
    through: int = 0
    blocks: list[int] = field(default_factory=list)
    tried: int = 0
    failed: int = 0
    counts: dict[str, dict[str, int]] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)
    seconds: float = 0.0

    @classmethod
    def opened(cls, path: Path | None, campaign: str, seed: int) -> Ledger:
        """The ledger of a file, or a new one where there is none."""
        if path is None or not path.exists():
            return cls(campaign, seed)
        ledger = cls(**json.loads(path.read_text(encoding="utf-8")))
        if (ledger.campaign, ledger.seed) != (campaign, seed):
            raise ValueError(
                f"{path} holds the campaign {ledger.campaign!r} with seed {ledger.seed}, not {campaign!r} with seed "
                f"{seed}. Give another --state, or remove it to start again."
            )
        return ledger

    def finished(self, block: int) -> bool:
        """Whether a block needs no second turn."""
        return block < self.through or block in self.blocks

    def add(self, block: int, part: Tally) -> None:
        """One finished block."""
        self.blocks.append(block)
        while self.through in self.blocks:
            self.blocks.remove(self.through)
            self.through += 1
        self.tried += part.tried
        self.failed += len(part.failures)
        self.failures += part.failures[: max(0, KEPT - len(self.failures))]
        for kind, counted in part.counts.items():
            self.counts[kind] = dict(Counter(self.counts.get(kind, {})) + Counter(counted))

    def save(self, path: Path | None) -> None:
        """The whole file or the old one."""
        if path is None:
            return
        with atomic_write(path) as file:
            file.write(json.dumps(asdict(self), indent=1).encode() + b"\n")


@dataclass
class Tally:
    """What one block of cases came to."""

    tried: int = 0
    counts: dict[str, Counter[str]] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)

    def count(self, **kinds: str) -> None:
        """One turn for each of these."""
        for kind, name in kinds.items():
            self.counts.setdefault(kind, Counter())[name] += 1

    def fail(self, seed: str, what: str) -> None:
        """One broken promise, and the seed that breaks it again."""
        self.failures.append({"seed": seed, "what": what})


class Clock:
    """Seconds since it was made, for the ledger."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def lap(self) -> float:
        """Seconds since the last lap."""
        now = time.monotonic()
        spent, self._last = now - self._last, now
        return spent


def report(ledger: Ledger, **more: Any) -> dict[str, Any]:
    """The result, for people and machines."""
    rate = ledger.tried / ledger.seconds if ledger.seconds else None
    return {
        "campaign": ledger.campaign,
        "seed": ledger.seed,
        "tried": ledger.tried,
        "failed": ledger.failed,
        "seconds": round(ledger.seconds, 1),
        "per_second": None if rate is None else round(rate, 1),
        **more,
        "counts": {kind: dict(sorted(counted.items())) for kind, counted in sorted(ledger.counts.items())},
        "failures": ledger.failures,
    }
