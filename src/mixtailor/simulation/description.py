"""What a run in a folder is, for whoever looks at the folder later."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

from mixtailor._files import atomic_write
from mixtailor.memory import Memory, recommended
from mixtailor.mixing import MixTailor
from mixtailor.rules import Plain
from mixtailor.simulation.partitions import Spreading
from mixtailor.theory.robust_tailor import RobustTailor

if TYPE_CHECKING:
    from pathlib import Path

    from mixtailor.attacks import Attack
    from mixtailor.rules import Rule
    from mixtailor.simulation.settings import Settings

__all__ = ["FILE", "describe", "named"]

FILE = "simulation.json"
_LONGEST = 60  # characters of a name; the rules of a pool, one by one, are no name


def named(item: object) -> str:
    """What a rule, an attack, a partition or a network is called in tables and pictures.

    Examples
    --------
    >>> import mixtailor as mt
    >>> named(mt.Krum(f=2, p=3)), named(mt.MixTailor(mt.paper_pool(f=2))), named(mt.Plain(len)), named(None)
    ('Krum(f=2, p=3)', 'MixTailor (64 rules)', 'len', 'none')
    >>> named(mt.recommended(f=2, n=12))
    'recommended(f=2)'
    """
    if item is None:
        return "none"
    if isinstance(item, type):
        return item.__name__
    text = repr(item)
    if isinstance(item, MixTailor) and (len(text) > _LONGEST or "<" in text):
        return f"MixTailor ({len(item.rules)} rules)"
    if isinstance(item, Memory):
        f = getattr(getattr(item.rule, "rules", (item.rule,))[0], "f", None)
        if f is not None and text == repr(recommended(f)):
            return f"recommended(f={f})"
        return text if len(text) <= _LONGEST else f"Memory({named(item.rule)})"
    if isinstance(item, RobustTailor):
        return f"RobustTailor ({len(item.pool)} rules)"
    if isinstance(item, Plain):
        return text.removeprefix("Plain(").removesuffix(")").rpartition("<locals>.")[2]
    if " at 0x" in text:
        return str(getattr(item, "__name__", type(item).__name__))
    return text


def describe(
    folder: Path,
    settings: Settings,
    rule: Rule | RobustTailor,
    attack: Attack | None,
    data: str,
    partition: object,
) -> None:
    """Write what a run is into its folder, in types that JSON knows."""
    config: dict[str, Any] = {item.name: getattr(settings, item.name) for item in dataclasses.fields(settings)}
    declared = rule.f if isinstance(rule, RobustTailor) else rule.declared_f()
    config |= {"rate": {"name": repr(settings.rate)}, "data": data, "f": declared or 0}
    options = partition.options if isinstance(partition, Spreading) else {}
    name = partition.name if isinstance(partition, Spreading) else named(partition)
    config |= {"partition": {"name": name, **options}, "rule": {"name": named(rule)}, "attack": {"name": named(attack)}}
    with atomic_write(folder / FILE) as file:
        file.write(json.dumps({"rule": named(rule), "attack": named(attack), "config": config}, indent=1).encode())
