"""The laws that every rule promises, as checks that name the law they find broken."""

import copy
import hashlib
import pickle
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from mixtailor._checks import FaultError
from mixtailor._types import Floats
from mixtailor.rules.aggregation import Aggregation
from mixtailor.rules.base import Rule
from mixtailor.rules.part import walk
from mixtailor.testing.robustness import excess

__all__ = ["LAWS", "Case", "FixedKey", "LawError", "garbage"]

Check = Callable[[Rule, "Case"], None]


class LawError(AssertionError):
    """A rule breaks a law that it does not declare off."""

    __module__ = "mixtailor.testing"  # the name under which tracebacks and pickles refer to it


class _BrokenError(Exception):
    """What is wrong, in the middle of a sentence."""


@dataclass(frozen=True)
class FixedKey:
    """The same key for every call, so that a rule that uses randomness can be asked twice."""

    seed: int

    def key(self, purpose: str) -> bytes:
        return hashlib.sha256(f"{self.seed}".encode()).digest()


@dataclass(frozen=True)
class Case:
    """Rows to try a rule on.

    Attributes
    ----------
    rows : array
        n updates of dyadic numbers: sums, shifts and doublings of them are exact in float64, so a law that holds in
        real numbers holds to the bit in what the rule decides from.
    f : int
        How many of the last updates play Byzantine.
    seed : int
        The key of the call.
    """

    rows: Floats
    f: int
    seed: int = 0

    @classmethod
    def of(cls, rule: Rule, *, extra: int = 3, d: int = 37, seed: int = 0) -> "Case":
        """A case that the rule's requirement allows."""
        n = max(rule.min_rows(), 5) + extra
        rng = np.random.default_rng([n, d, seed])
        rows = np.round(rng.normal(size=(n, d)) * 2**16 + 2**15) / 2**16
        return cls(rows, rule.tolerates(n), seed)

    def ask(self, rule: Rule, rows: Any, *, reference: Any = None, seed: int | None = None, **side: Any) -> Aggregation:
        """The rule's result on other updates with this case's side knowledge."""
        honest = side.pop("honest", range(len(self.rows) - self.f))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # an early stop is a fair result here
            warnings.simplefilter("ignore", UserWarning)  # and so is a pool that n makes smaller
            return rule.aggregate(
                rows,
                reference=self.reference if reference is None else reference,
                honest=honest,
                entropy=FixedKey(self.seed if seed is None else seed),
                **side,
            )

    @property
    def reference(self) -> Floats:
        """What the server trusts: a vector that no worker sent."""
        reference: Floats = np.round(self.rows[: len(self.rows) - self.f].mean(axis=0) * 2**16) / 2**16 + 2.0**-4
        return reference


def _hold(holds: bool, otherwise: str) -> None:
    """Raise what a law finds; `named` says of which rule, and which law."""
    if not holds:
        raise _BrokenError(otherwise)


def _close(one: Any, other: Any, rows: Floats, tolerance: float = 1e-7) -> None:
    spread = float(np.abs(rows - np.median(rows, axis=0)).max()) or 1.0
    apart = float(np.abs(np.asarray(one, np.float64) - np.asarray(other, np.float64)).max(initial=0.0))
    _hold(apart <= tolerance * spread, f"results differ by {apart:.3g} where rows spread {spread:.3g}.")


def permutation(rule: Rule, case: Case) -> None:
    """The order of the rows does not matter; in distribution, where the rule uses randomness."""
    n = len(case.rows)
    order = np.random.default_rng(case.seed + 1).permutation(n)
    honest = np.argsort(order)[: n - case.f]
    if not _random(rule, case):
        here, moved = case.ask(rule, case.rows), case.ask(rule, case.rows[order], honest=honest)
        if not _tied(here):
            _close(here.update, moved.update, case.rows)
        return
    results = np.stack([case.ask(rule, case.rows, seed=seed).update for seed in range(150)])
    moved_results = np.stack(
        [case.ask(rule, case.rows[order], seed=1000 + seed, honest=honest).update for seed in range(150)]
    )
    error = np.sqrt((results.var(axis=0) + moved_results.var(axis=0)) / 150) + 1e-9
    far = float((np.abs(results.mean(axis=0) - moved_results.mean(axis=0)) / error).max())
    _hold(far <= 6.0, f"in distribution, means differ by {far:.1f} errors.")


def _tied(result: Aggregation) -> bool:
    """Whether two rows have the same best score: then it is the index that decides, by definition."""
    if result.scores is None or result.selected is None or len(result.scores) < 2:
        return False
    best, second = np.partition(result.scores, 1)[:2]
    return bool(second - best <= 1e-9 * abs(second))


def _random(rule: Rule, case: Case) -> bool:
    first = case.ask(rule, case.rows).update
    return any(not np.array_equal(first, case.ask(rule, case.rows, seed=seed).update) for seed in range(1, 4))


def translation(rule: Rule, case: Case) -> None:
    """Adding a vector to all rows adds it to the result."""
    shift = np.round(np.random.default_rng(case.seed + 2).normal(size=case.rows.shape[1]) * 2**10) / 2**8
    moved = case.ask(rule, case.rows + shift, reference=case.reference + shift).update
    _close(case.ask(rule, case.rows).update + shift, moved, case.rows)


def scale(rule: Rule, case: Case) -> None:
    """Scaling all rows by a positive number scales the result."""
    for factor in (2.0**-20, 2.0**10):
        moved = case.ask(rule, case.rows * factor, reference=case.reference * factor).update
        _close(case.ask(rule, case.rows).update, moved / factor, case.rows)


def purity(rule: Rule, case: Case) -> None:
    """The input is not written to, the result does not alias it, and asking twice gives the same bits."""
    rows = case.rows.copy()
    before, result = rows.copy(), case.ask(rule, rows).update
    _hold(np.array_equal(rows, before), "it writes to its input.")
    _hold(not np.shares_memory(result, rows), "its result is a view of its input.")
    again = case.ask(rule, rows).update
    _hold(np.array_equal(result, again), "called twice with one key, it gives two results.")


def types(rule: Rule, case: Case) -> None:
    """float32 in, float32 out, and likewise for the others; the values agree as far as the type goes."""
    exact = case.ask(rule, case.rows).update
    for dtype, tolerance in ((np.float32, 1e-5), (np.float16, 2e-2)):
        result = case.ask(rule, case.rows.astype(dtype)).update
        _hold(result.dtype == dtype, f"{np.dtype(dtype)} in, {result.dtype} out.")
        if dtype is np.float32:
            _close(exact, result, case.rows, tolerance)


def copies(rule: Rule, case: Case) -> None:
    """It pickles, copies and compares as a value."""
    twin = pickle.loads(pickle.dumps(rule))  # noqa: S301  # our own bytes
    same = twin == rule and copy.deepcopy(rule) == rule and repr(twin) == repr(rule)
    _hold(same, "its pickle is another rule.")
    same = np.array_equal(case.ask(twin, case.rows).update, case.ask(rule, case.rows).update)
    _hold(same, "its pickle gives another result.")


def requirement(rule: Rule, case: Case) -> None:
    """It works on the least n that it declares and refuses one row fewer with a sentence."""
    least = rule.min_rows()
    small = Case(case.rows[:least] if least <= len(case.rows) else Case.of(rule, extra=0).rows, min(case.f, least - 1))
    small.ask(rule, small.rows)
    if least <= 1:
        return
    try:
        small.ask(rule, small.rows[: least - 1], honest=range(1))
    except ValueError as refusal:
        _hold(str(least) in str(refusal), f"it refuses {least - 1} rows without naming {least}: {refusal}")
    else:
        _hold(False, f"it takes {least - 1} rows, below its {least}.")


def garbage(rows: Floats, f: int, dtype: Any = np.float32) -> Iterator[tuple[str, Any]]:
    """Rows whose last f hold what a Byzantine worker may send, by name."""
    n = len(rows)
    honest = rows.astype(dtype)
    largest = np.finfo(dtype).max
    fills: dict[str, Any] = {
        "NaN": np.nan,
        "infinity": np.inf,
        "minus infinity": -np.inf,
        "the largest number": largest,
        "alternating largest numbers": np.where(np.arange(rows.shape[1]) % 2, largest, -largest),
        "1e30": 1e30,
        "zero": 0.0,
        "the least number": np.finfo(dtype).smallest_subnormal,
        "a copy of an honest row": honest[0],
        "minus a tenth of the mean": -0.1 * honest[: n - f].mean(axis=0),
        "minus ten times the mean": -10 * honest[: n - f].mean(axis=0),
        "the mean less 1.5 deviations": honest[: n - f].mean(axis=0) - 1.5 * honest[: n - f].std(axis=0),
    }
    for name, fill in fills.items():
        sent = honest.copy()
        sent[n - f :] = fill
        yield name, sent
        if f > 1:
            mixed = honest.copy()
            mixed[n - f] = fill
            yield f"one of {name}", mixed
    single = honest.copy()
    single[n - f :, 0] = np.nan
    yield "one NaN coordinate", single


def reads_all(rule: Rule) -> bool:
    """Whether the rule and all nested rules read every update."""
    return all(part.reads_all for part in walk(rule) if isinstance(part, Rule))


def faults(rule: Rule, case: Case) -> None:
    """Whatever at most f rows contain, the result is finite; rows that prove a fault are named."""
    n, f = len(case.rows), case.f
    if f == 0:
        broken = case.rows.copy()
        broken[-1, 0] = np.nan
        try:
            case.ask(rule, broken)
        except FaultError as refusal:
            _hold(refusal.rows == (n - 1,), f"it names rows {refusal.rows} where row {n - 1} is not finite.")
        else:
            _hold(False, "it tolerates no fault and accepted NaN.")
        return
    for name, sent in garbage(case.rows, f):
        result = case.ask(rule, sent)
        _hold(bool(np.isfinite(result.update).all()), f"its result is not finite when rows hold {name}.")
        proven = {row for row in range(n) if not np.isfinite(sent[row]).all()}
        named = {item.row for item in result.quarantined}
        _hold(named <= proven, f"it quarantined rows {named - proven} without proof.")
        _hold(named == proven or not reads_all(rule), f"rows {proven - named} hold {name} and are not named.")
        used = set() if result.weights is None else set(np.nonzero(result.weights)[0].tolist())
        _hold(not used & proven, f"rows {used & proven} are not finite and have weight.")


def coefficient(rule: Rule, case: Case) -> None:
    """A rule with a coefficient keeps it, whatever at most f rows contain, for every subset that could be honest."""
    n, f, d = len(case.rows), case.f, case.rows.shape[1]
    kappa = rule.kappa(n, f, d)
    if n > 14 or kappa is None:
        return
    for name, sent in garbage(case.rows, f) if f else [("nothing", case.rows.astype(np.float32))]:
        found = excess(case.ask(rule, sent).update, sent, f)
        _hold(found <= kappa * (1 + 1e-5), f"it is {kappa:.3g}, and {found:.3g} when rows hold {name}.")


_CHECKS: list[Check] = [permutation, translation, scale, purity, types, copies, requirement, faults, coefficient]
LAWS: dict[str, Check] = {check.__name__: check for check in _CHECKS}


@contextmanager
def named(law: str, rule: object) -> Iterator[None]:
    """Any exception inside is a broken law."""
    try:
        yield
    except LawError:
        raise
    except _BrokenError as broken:
        raise LawError(f"{rule!r} breaks the law {law!r}: {broken}") from None
    except Exception as error:
        raise LawError(f"{rule!r} breaks the law {law!r}: {type(error).__name__}: {error}") from error
