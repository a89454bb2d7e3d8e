"""One case: a rule, an input, a storage, and every promise that applies to them."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import mixtailor as mt
from campaigns._suite import storages
from campaigns.rows import inputs, promises, structure, subjects
from mixtailor.preaggregation.base import Chain
from mixtailor.rules import Aggregation, Rule
from mixtailor.testing.laws import FixedKey

FILES = ("npy_files", "safetensors_files")
COSTLY = (*FILES, "on_device")
# What arrives there is a sum with a base, or rounded to float32 or eight bits: the rows that they hold are other ones.
ROUNDED = ("differences", "sparse_pairs", "eight_bits")
torch.set_num_threads(1)  # updates are tiny here
MEMORY = Path("/dev/shm")  # files of a case live there where it exists: a disk is slower and learns nothing


@dataclass
class Case:
    """What one seed decides.

    Attributes
    ----------
    rule, given, storage : Rule, Input, str
    overfull : bool
        Whether more rows prove a fault than the rule tolerates.
    """

    rule: Rule
    given: inputs.Input
    storage: str
    key: FixedKey
    reference: Any
    overfull: bool
    rng: np.random.Generator
    aggregations: int = 0

    @classmethod
    @np.errstate(all="ignore")
    def of(cls, seed: int, index: int) -> Case:
        """The case of a seed: the same one at any time."""
        rng = np.random.default_rng([seed, index])
        rule = subjects.drawn(rng)
        n = max(rule.min_rows(), 1) + int(rng.choice([0, 0, 1, 2, 4]))
        f = rule.tolerates(n)
        overfull = f < n - 1 and rng.random() < 0.05
        given = inputs.made(rng, n, f)
        if overfull:
            given = _spoilt(given, f + 1, rng)
        sound = given.rows[np.isfinite(given.rows).all(axis=1) & ~np.isin(np.arange(n), given.byzantine)]
        trusted = sound.astype(np.float64).mean(axis=0) if len(sound) else np.zeros(given.rows.shape[1])
        reference = inputs.cast(trusted, given.rows.dtype)
        names = [name for name in storages.STORAGES if name not in ROUNDED]
        storage = names[rng.integers(len(names))] if rng.random() < 0.5 else "matrix"
        if storage in COSTLY and rng.random() < 0.6:
            storage = "list_of_arrays"
        return cls(rule, given, storage, FixedKey(int(rng.integers(2**62))), reference, overfull, rng)

    def __str__(self) -> str:
        n, d = self.given.rows.shape
        return (
            f"{self.rule!r} on {n} x {d} {self.given.rows.dtype} ({self.given.kind}; {len(self.given.byzantine)} send "
            f"{self.given.attack}) in {self.storage}"
        )

    def ask(self, rule: Rule, sent: Any, reference: Any, **options: Any) -> Aggregation:
        """An aggregation in which every warning but the documented one is an error."""
        self.aggregations += 1
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.filterwarnings("ignore", message=r".* stopped after \d+ iterations", category=RuntimeWarning)
            return rule.aggregate(sent, reference=reference, entropy=self.key, **options)

    def broken(self) -> Iterator[str]:
        """The promises that are broken; none, if all is well."""
        folder = Path(tempfile.mkdtemp(dir=MEMORY if MEMORY.is_dir() else None)) if self.storage in FILES else None
        try:
            yield from self._broken(folder)
        except Exception as error:  # whatever it is, it is not what was promised
            yield f"{type(error).__name__}: {error}"
        finally:
            if folder is not None:
                shutil.rmtree(folder)

    def _broken(self, folder: Path | None) -> Iterator[str]:
        rows = self.given.rows.copy()
        sent, reference, flat = storages.STORAGES[self.storage](rows, self.reference, folder)
        if isinstance(sent, list) and not self.overfull and self.rng.random() < 0.3:
            self.given, sent = structure.damaged(self.given, sent, self.rng)
        honest = {"honest": self.given.honest}
        if self.overfull:
            yield from self._refused(sent, reference, honest)
            return
        try:
            result = self.ask(self.rule, sent, reference, **honest)
        except ValueError as refusal:
            if not self._may_refuse() or "needs" not in str(refusal):
                yield f"refused: {type(refusal).__name__}: {refusal}"
            return
        if rows.tobytes() != self.given.rows.tobytes():
            yield "the input was written to"
        update = np.asarray(flat(result.update))
        yield from promises.broken(result, update, self.given, self.reference, self.rng)
        if result.quarantined:
            yield from self._as_if_never_sent(result, update)
        elif self.storage != "matrix" and self.rng.random() < 0.3:
            yield from self._elsewhere(result, update)

    def _may_refuse(self) -> bool:
        """A similarity filter may leave too few rows, and a plain callable takes no files: they say so."""
        plain = [rule for rule in getattr(self.rule, "rules", ()) if isinstance(rule, mt.Plain)]
        filters = [part for part in promises.fronts(self.rule) if isinstance(part, mt.SimilarityFilter)]
        return bool(filters) or (bool(plain) and self.storage in FILES)

    def _refused(self, sent: Any, reference: Any, honest: dict[str, Any]) -> Iterator[str]:
        """More proven faults than f: a sentence that names them, or no update where that was asked for."""
        try:
            result = self.ask(self.rule, sent, reference, **honest)
        except mt.FaultError as refusal:
            allowed = self.rule.tolerates(len(self.given.rows))
            if not set(refusal.rows) <= {*self.given.faulty, *self.given.beyond} or len(refusal.rows) <= allowed:
                yield f"rows {self.given.faulty} are faulty and {refusal.rows} were named"
            limits = (" and f = ", f" tolerates {allowed or 'none'}")
            if not any(limit in str(refusal) for limit in limits) or not str(refusal).endswith("."):
                yield f"the refusal is no sentence: {refusal}"
            skipped = self.ask(self.rule, sent, reference, on_fault="skip", **honest)
            if skipped.update is not None or not skipped.quarantined:
                yield "on_fault='skip' gave an update all the same"
        except ValueError as refusal:
            if not self._may_refuse() or "needs" not in str(refusal):
                yield f"refused: {refusal}"
        else:
            if promises.reads_all(result.rule):
                yield f"rows {self.given.faulty} prove faults, beyond f, and an answer was given"

    def _as_if_never_sent(self, result: Aggregation, update: Any) -> Iterator[str]:
        """Rows that prove a fault leave the answer as it would be without them, to the bit."""
        gone = {item.row for item in result.quarantined}
        left = [row for row in range(len(self.given.rows)) if row not in gone]
        honest = [left.index(row) for row in self.given.honest if row in left]
        if result.rule.min_rows() > len(left):  # a subsample of as many rows as were received
            return
        again = self.ask(result.rule, self.given.rows[left], self.reference, honest=honest)
        if self.storage == "matrix" and not np.array_equal(again.update, update):
            apart = float(np.abs(again.update.astype(np.float64) - update).max())
            yield f"rows {sorted(gone)} were quarantined, and the answer is {apart:.3g} from that without them"

    def _elsewhere(self, result: Aggregation, update: Any) -> Iterator[str]:
        """The same answer as from a matrix, where no tie leaves the choice to the last bit."""
        matrix = self.ask(self.rule, self.given.rows, self.reference, honest=self.given.honest)
        if repr(matrix.rule) != repr(result.rule):
            yield f"{result.rule!r} was drawn, and {matrix.rule!r} from a matrix"
        if result.selected != matrix.selected or isinstance(result.rule, (Chain, mt.Bulyan, mt.Subsampled)):
            return  # bounds were checked; which of two equally good rows is chosen is not promised across storages
        honest = self.given.rows[self.given.honest].astype(promises.WIDE)
        spread = (honest.max(axis=0) - honest.min(axis=0)).max() if len(honest) else 0
        apart = np.abs(update.astype(promises.WIDE) - matrix.update).max(initial=0)
        # A result may be longer than the honest rows by the rule's definition, as far as a radius: so is its rounding.
        sizes = np.vstack([honest, matrix.update.astype(promises.WIDE).reshape(1, -1)])
        if apart > 1e-4 * spread + 4 * promises.rounding(sizes, update.dtype):
            yield f"the answer is {float(apart):.3g} from that of a matrix, where rows spread {float(spread):.3g}"


def _spoilt(given: inputs.Input, count: int, rng: np.random.Generator) -> inputs.Input:
    """So many rows that prove a fault."""
    rows = given.rows.copy()
    chosen = [int(row) for row in np.sort(rng.choice(len(rows), size=count, replace=False))]
    for row in chosen:
        rows[row, rng.integers(rows.shape[1])] = rng.choice([np.nan, np.inf, -np.inf])
    faulty = tuple(row for row in range(len(rows)) if not np.isfinite(rows[row]).all())
    return replace(given, rows=rows, byzantine=tuple(sorted({*given.byzantine, *faulty})), faulty=faulty)
