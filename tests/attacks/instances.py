"""One instance of every exported attack, and honest rows to use it on."""

from typing import Any

import numpy as np

import mixtailor as mt
from mixtailor import attacks
from mixtailor.attacks import Attack
from mixtailor.attacks.registry import own_attacks

# What a class cannot be made without, or would warn without.
VALUES: dict[str, dict[str, Any]] = {
    "alie": {"z": 1.5},
    "apart": {"attack": attacks.ALIE(1.5)},
    "expected_drift": {"horizon": 2, "budget": 8},
    "roles": {"attack": attacks.ALIE(1.5)},
    "schedule": {"attack": attacks.ALIE(1.5)},
    "split": {"attack": attacks.ALIE(1.5)},
    "line_search": {"attack": attacks.Tailored(1.0), "target": mt.MixTailor([mt.Krum(2), mt.Comed(), mt.Krum(2, p=3)])},
}
POOL = mt.MixTailor([mt.Krum(2), mt.Comed()])


def every_attack() -> list[Attack]:
    """In the order of their names; a new one is tested the moment it is exported."""
    made = []
    for name, kind in sorted(own_attacks().items()):
        values = dict(VALUES.get(name, {}))
        fields = kind.__dataclass_fields__
        if "target" in fields and "target" not in values:
            values["target"] = mt.Krum(2) if name in ("fang_krum", "leeway") else POOL
        made.append(kind(**values))
    return made


def rows(m: int = 10, d: int = 60, *, seed: int = 0, dtype: Any = np.float64) -> Any:
    """Rows about one half, as scattered as gradients are."""
    return (0.5 + np.random.default_rng(seed).normal(size=(m, d))).astype(dtype)
