"""Timing rules, for ``mixtailor bench``."""

import os
import statistics
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any

import numpy as np

from mixtailor._checks import plural, refuse
from mixtailor.mixing import MixTailor
from mixtailor.mixing.grammar import split
from mixtailor.mixing.registry import make_rule
from mixtailor.rules import Mean, Rule

__all__ = ["chosen_rules", "gradients", "interleaved", "measured", "members"]

_RULES = (
    "mean,comed,trimmed_mean,meamed,krum,multi_krum,geometric_median,bulyan,dnc,nnm >> krum,nnm >> trimmed_mean,"
    "default_pool,paper_pool"
)
_BANK = 1 << 20
_DRAWS = 32  # of a pool, at least
_NARROW = 8192  # coordinates: code is compiled for numbers of rows and types


def measured(
    chosen: Mapping[str, Rule], rows: Any, seconds: float, told: Callable[[str], None]
) -> tuple[list[dict[str, Any]], str, float]:
    """What each rule took, the yardstick, and the seconds that this took."""
    n = len(rows)
    calls: dict[str, Callable[[], object]] = {
        "numpy's mean": partial(np.matmul, np.full(n, 1 / n, np.float32), rows),
        "mean": partial(Mean(), rows),
        **{name: partial(rule, rows) for name, rule in chosen.items()},
    }
    # A pool's calls differ by the rule that was drawn, so that only the mean of many says what a round costs.
    pools = {name for name, rule in chosen.items() if isinstance(rule, MixTailor)}
    _warm(chosen.values(), rows)
    found = interleaved(calls, seconds, told, least=dict.fromkeys(pools, _DRAWS))
    times = {name: statistics.fmean(t) if name in pools else statistics.median(t) for name, t in found.items()}
    yardstick = min("numpy's mean", "mean", key=lambda name: times[name])
    return [_line(name, found[name], times[name], times[yardstick]) for name in chosen], yardstick, times[yardstick]


def gradients(n: int, d: int, f: int, seed: int = 0) -> "np.ndarray[Any, np.dtype[np.float32]]":
    """Rows like gradients: a shared direction and heavy tails at 1e-4; the last f are minus a tenth of the mean.

    Examples
    --------
    >>> rows = gradients(12, 1000, 2)
    >>> rows.dtype.name, rows.shape, bool((rows[10] == rows[11]).all())
    ('float32', (12, 1000), True)
    """
    _check_memory(n, d)
    random = np.random.default_rng(seed)
    # Drawing each entry would take minutes at the largest sizes: rows are stretches of one bank from random places.
    bank = (1e-4 * random.standard_t(3, size=min(2 * d, _BANK) + 1)).astype(np.float32)
    rows = np.empty((n, d), np.float32)
    for row in rows:
        row[:] = np.resize(np.roll(bank, int(random.integers(len(bank)))), d) * random.choice([-1.0, 1.0])
    rows[: n - f] += 0.5 * np.resize(np.roll(bank, int(random.integers(len(bank)))), d)
    if f:
        rows[n - f :] = -0.1 * rows[: n - f].mean(axis=0)
    return rows


def interleaved(
    calls: Mapping[str, Callable[[], object]],
    seconds: float,
    told: Callable[[str], None] = lambda _text: None,
    *,
    least: Mapping[str, int],
) -> dict[str, list[float]]:
    """The seconds of each call, in turns of one call each and a new order, so that noise hits all alike."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # an iteration that stops at its cap: what is timed is the call as it is
        for place, (name, call) in enumerate(calls.items(), 1):
            told(f"{name}: a first call ({place} of {len(calls)})")
            call()
        left = list(calls)
        shuffle = Random(0).shuffle
        while left:
            shuffle(left)
            told(f"{plural(len(left), 'rule')} still measured")
            for name in left:
                started = time.perf_counter()
                calls[name]()
                found[name].append(time.perf_counter() - started)
            left = [
                name
                for name in left
                if len(found[name]) < least.get(name, 1) or (sum(found[name]) < seconds and len(found[name]) < 1000)
            ]
    return found


def chosen_rules(text: str | None, n: int, f: int) -> dict[str, Rule]:
    """The rules that a text names, or a choice of them without what n forbids."""
    if 2 * f >= n:
        refuse(f"The rules need more than half of the rows honest (n > 2f) and got n = {n}, f = {f}. Lower --f.")
    made = {name: make_rule(name, f=f, n=n) for name in split(text or _RULES)}
    for name, rule in list(made.items()):
        if text is not None:
            rule.check_rows(n)
        elif rule.min_rows() > n:
            del made[name]
    return made


def members(rules: Iterable[Rule]) -> list[Rule]:
    """The rules, and in place of a pool all that it may draw; each once."""
    return list(
        dict.fromkeys(each for rule in rules for each in (rule.rules if isinstance(rule, MixTailor) else [rule]))
    )


def _warm(rules: Iterable[Rule], rows: Any) -> None:
    """One call of each rule, and of all that a pool may draw."""
    narrow = np.ascontiguousarray(rows[:, :_NARROW])
    for member in members(rules):
        if member.min_rows() <= len(rows):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                member(narrow)


def _line(name: str, times: Sequence[float], taken: float, mean: float) -> dict[str, Any]:
    first, _, third = statistics.quantiles(times, n=4, method="inclusive") if len(times) > 1 else [times[0]] * 3
    return {
        "rule": name,
        "milliseconds": 1e3 * taken,
        "quartiles": [1e3 * first, 1e3 * third],
        "multiple": taken / mean,
        "calls": len(times),
    }


def _check_memory(n: int, d: int) -> None:
    try:
        there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return  # systems that do not say
    if 4 * n * d > there / 2:
        refuse(
            f"{n} rows of {d:,} coordinates take {4 * n * d / 1e9:.1f} GB, which is more than half of this machine's "
            f"{there / 1e9:.1f} GB. Lower --n or --d."
        )
