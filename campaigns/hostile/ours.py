"""Our rules, under the names of the peers' tasks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mixtailor as mt
from benchmarks import _own

__all__ = ["tasks", "versions"]

versions = _own.versions


def tasks(n: int, f: int) -> dict[str, Callable[[Any], Callable[[], Any]]]:
    """Those that a peer has as well, and mixtures."""
    shared = (*_own.MAIN, *_own.SEARCHED, "NNM >> Comed", "NNM >> TrimmedMean", "NNM >> Krum")
    own = {name: rule for name, rule in _own.rules(n, f).items() if name in shared}
    made: dict[str, Callable[[], mt.Rule]] = {name: lambda rule=rule: rule for name, rule in own.items()}  # type: ignore[misc]  # bound now, not later
    for name, pool in (("paper's", mt.paper_pool(f)), ("our", mt.default_pool(f))):
        # Made anew for each case: two units can be compared only where the same rule is drawn.
        made[f"MixTailor ({name} pool)"] = lambda pool=pool: mt.MixTailor(pool, entropy=mt.SeededEntropy(0))  # type: ignore[misc]  # as above
    return {f"{name} @ mixtailor": _called(make) for name, make in made.items()}


def _called(make: Callable[[], mt.Rule]) -> Callable[[Any], Callable[[], Any]]:
    return lambda rows: lambda: make()(rows)
