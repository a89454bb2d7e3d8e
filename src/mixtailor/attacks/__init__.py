"""Attacks: one small file each, and what the attacker knows."""

from mixtailor.attacks.base import Attack, Crafted, Scene
from mixtailor.attacks.knowledge import (
    Informed,
    Knowledge,
    KnowsDraw,
    KnowsPool,
    KnowsProbabilities,
    Oblivious,
    Sees,
    SeesAll,
)
from mixtailor.attacks.registry import find, make, names
from mixtailor.attacks.tailored import RandomEpsilon, Tailored
from mixtailor.attacks.trials import Outcome, Trials

__all__ = [
    "Attack",
    "Crafted",
    "Informed",
    "Knowledge",
    "KnowsDraw",
    "KnowsPool",
    "KnowsProbabilities",
    "Oblivious",
    "Outcome",
    "RandomEpsilon",
    "Scene",
    "Sees",
    "SeesAll",
    "Tailored",
    "Trials",
    "find",
    "make",
    "names",
]
