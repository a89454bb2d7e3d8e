"""Frames: what a round looked like in two dimensions, and what each rule makes of it, for the player of the report."""

from __future__ import annotations

import json
import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mixtailor._checks import NotRobustWarning, check_count
from mixtailor._files import read_bounded
from mixtailor.memory import Memory
from mixtailor.mixing import MixTailor, SeededEntropy
from mixtailor.rules import Comed, GeometricMedian, Krum, Mean, Omniscient, Rule
from mixtailor.simulation.adversary import placed
from mixtailor.simulation.description import named

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from mixtailor.rules import Aggregation
    from mixtailor.simulation.settings import Settings

__all__ = ["EPSILONS", "FILE", "Filming", "Frames", "Shot", "framed_rounds", "read_frames"]

FILE = "frames.jsonl"
EPSILONS = (0.0, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
MOST_MEMBERS = 16  # rules of a pool that are shown; of more, evenly spread ones
_LONGEST = 64 << 20  # bytes that frames may have
_DIGITS = 4  # significant ones: a screen shows fewer


@dataclass(frozen=True)
class Filming:
    """How many rounds to record, and which rules to show beside the run's own.

    Examples
    --------
    >>> Filming().count
    10
    """

    count: int = 10
    rules: Mapping[str, Rule] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_count("Filming", "count", self.count, 0)


def framed_rounds(rounds: int, count: int) -> frozenset[int]:
    """The rounds that are filmed, from 0: evenly spread, the first and the last among them.

    Examples
    --------
    >>> sorted(framed_rounds(100, 4))
    [0, 33, 66, 99]
    """
    return frozenset(int(place) for place in np.linspace(0, rounds - 1, min(count, rounds)).round())


class Frames:
    """Films some rounds of a run. It moves nothing of the run: its randomness is its own, and no memory learns.

    Parameters
    ----------
    settings : Settings
    rule : Rule
        The server's. Of a pool, its members are shown; of a memory, what it would return.
    filming : Filming
    folder : path or None
        Where ``frames.jsonl`` goes; None keeps the frames in `made` alone.

    Attributes
    ----------
    made : list of dict
        The frames of this process.
    """

    def __init__(self, settings: Settings, rule: Rule, filming: Filming, folder: Path | None) -> None:
        self.settings, self.rule, self.folder = settings, rule, folder
        self.rounds = framed_rounds(settings.rounds, filming.count) if filming.count else frozenset[int]()
        self.made: list[dict[str, Any]] = []
        n, f = settings.taking_part, settings.byzantine
        self.whole, self.members, self.shares = _members(rule, n) if self.rounds else (0, {}, {})
        self.others = {} if not self.rounds else _others(filming.rules, n, f)
        self._across: torch.Tensor | None = None  # the last vertical direction: the next one points the same way

    def shoot(
        self,
        round: int,
        rows: torch.Tensor,
        workers: Sequence[int],
        byzantine: Sequence[int],
        weights: torch.Tensor,
        reference: torch.Tensor | None,
    ) -> Shot | None:
        """Film a round whose updates have arrived; None in rounds that are not filmed. Call it before the rule."""
        if round not in self.rounds:
            return None
        weights = weights.clone()  # the server changes its own in place
        base = weights if self.settings.sends == "models" else torch.zeros_like(weights)
        lying = set(byzantine)
        honest = [row for row, worker in enumerate(workers) if worker not in lying]
        mean = (rows[honest] - base).double().mean(0)
        length = float(mean.norm())
        if not (math.isfinite(length) and length > 0.0):
            return None
        plane = self._plane(rows - base, mean / length, length)
        shot = Shot(self, plane, base, weights)
        request = {"workers": list(workers), "honest": honest, "reference": reference, "round": round}
        shot.frame |= {
            "round": round + 1,
            "workers": [int(worker) for worker in workers],
            "byzantine": [row for row, worker in enumerate(workers) if worker in lying],
            "length": _short(length),
            "shown": _short(plane.shown),
            "whole": self.whole,
            "shares": self.shares,
            "points": [plane.at(row) for row in rows - base],
            **self._both(rows, request, plane, base),
        }
        if byzantine:
            shot.frame["attacker"] = self._attacker(rows, tuple(workers), tuple(byzantine), request, plane, base)
        return shot

    def _plane(self, updates: torch.Tensor, along: torch.Tensor, length: float) -> Plane:
        """The honest mean's direction, and the one in which the updates deviate most from it."""
        finite = updates.double()[torch.isfinite(updates).all(1)]
        rest = finite - torch.outer(finite @ along, along)
        sizes = rest.norm(dim=1)
        # One far update would be the direction all by itself, and the others a dot: none counts for more than most.
        limit = float(sizes.median())
        rest = rest * torch.clamp(limit / sizes.clamp_min(1e-300), max=1.0)[:, None]
        gram = rest @ rest.T
        values, vectors = torch.linalg.eigh(gram)
        total = float(values.clamp_min(0.0).sum())
        across = rest.T @ vectors[:, -1]
        size = float(across.norm())
        if not (size > 1e-12 * length):
            return Plane(along, torch.zeros_like(along), length, 1.0)
        across /= size
        if self._across is not None and float(across @ self._across) < 0.0:
            across = -across
        self._across = across
        return Plane(along, across, length, float(values[-1]) / total if total else 1.0)

    def _results(
        self,
        rules: Mapping[str, Rule],
        rows: torch.Tensor,
        request: Mapping[str, Any],
        plane: Plane,
        base: torch.Tensor,
    ) -> dict[str, list[float] | None]:
        found = {}
        for name, rule in rules.items():
            update = _tried(rule, rows, self.settings.seed, request)
            found[name] = None if update is None else plane.at(update - base)
        return found

    def _both(
        self, rows: torch.Tensor, request: Mapping[str, Any], plane: Plane, base: torch.Tensor
    ) -> dict[str, dict[str, list[float] | None]]:
        """The results of the server's rules and of the others; a rule that is both is called once."""
        own = self._results(self.members, rows, request, plane, base)
        known = {repr(rule): own[name] for name, rule in self.members.items() if not isinstance(rule, Memory)}
        fresh = {name: rule for name, rule in self.others.items() if repr(rule) not in known}
        made = self._results(fresh, rows, request, plane, base)
        return {"members": own, "rules": {n: made[n] if n in made else known[repr(r)] for n, r in self.others.items()}}

    def _attacker(
        self,
        rows: torch.Tensor,
        workers: tuple[int, ...],
        byzantine: tuple[int, ...],
        request: Mapping[str, Any],
        plane: Plane,
        base: torch.Tensor,
    ) -> dict[str, Any]:
        """What every rule returns if the Byzantine workers send minus epsilon times the honest mean instead."""
        honest = rows[request["honest"]]
        mean = (honest - base).mean(0)
        found: dict[str, dict[str, list[Any]]] = {"members": {}, "rules": {}}
        for epsilon in EPSILONS:
            wrong = (base - epsilon * mean).expand(len(byzantine), -1)
            tried = placed(workers, byzantine, honest, wrong)
            for kind, results in self._both(tried, request, plane, base).items():
                for name, point in results.items():
                    found[kind].setdefault(name, []).append(point)
        return {"epsilons": list(EPSILONS), **found}

    def keep(self, frame: dict[str, Any]) -> None:
        """One frame more, at the end of the file."""
        self.made.append(frame)
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            with (self.folder / FILE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(frame, allow_nan=False, separators=(",", ":")) + "\n")


@dataclass(frozen=True, eq=False)
class Plane:
    """Where a vector is seen: along the honest mean, and across it, in lengths of the honest mean."""

    along: torch.Tensor
    across: torch.Tensor
    length: float
    shown: float

    def at(self, vector: torch.Tensor) -> list[float] | None:
        """Along, across, and the length of all that is not along; None where it is not finite."""
        own = vector.double()
        x = float(own @ self.along)
        rest = own - x * self.along
        found = (x, float(rest @ self.across), float(rest.norm()))
        return [_short(part / self.length) for part in found] if all(map(math.isfinite, found)) else None


class Shot:
    """A frame that lacks the server's own result and step."""

    def __init__(self, frames: Frames, plane: Plane, base: torch.Tensor, weights: torch.Tensor) -> None:
        self.frame: dict[str, Any] = {}
        self._frames, self._plane, self._base, self._weights = frames, plane, base, weights

    def finish(self, result: Aggregation, weights: torch.Tensor, learning_rate: float) -> None:
        """Add what the server returned and where it went, and keep the frame."""
        settings, plane = self._frames.settings, self._plane
        moved = weights - self._weights
        if settings.sends == "gradients":
            moved = -moved
        if not (settings.sends == "models" and settings.replaces_model):
            # On the scale of one update: momentum adds up to 1 / (1 - momentum) of them.
            moved = moved * ((1.0 - settings.momentum) / learning_rate)
        self.frame |= {
            "drawn": repr(result.rule),
            "result": None if result.update is None else plane.at(result.update - self._base),
            "step": plane.at(moved),
            "weights": None if result.weights is None else [_short(float(part)) for part in result.weights],
            "quarantined": [int(item.row) for item in result.quarantined],
        }
        self._frames.keep(self.frame)


def read_frames(folder: str | os.PathLike[str], *, within: Path | None = None) -> list[dict[str, Any]]:
    """The frames of a run, by their rounds. Of a round that was filmed twice, after a restart, the last one counts.

    Examples
    --------
    >>> read_frames("a-folder-that-does-not-exist")
    []
    """
    path = Path(folder) / FILE
    if not path.is_file():
        return []
    found = {}
    for line in read_bounded(path, _LONGEST, within=within).split(b"\n")[:-1]:
        try:
            frame = json.loads(line)
            sound = _is_frame(frame)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            sound = False
        if not sound:
            raise ValueError(f"{path} is damaged: a line is no frame. Remove it, and run again.")
        found[frame["round"]] = frame
    return [found[round] for round in sorted(found)]


def _is_frame(frame: Any) -> bool:
    """Whether a page can show it: every number where it belongs, and finite."""
    n = len(frame["points"])
    counts = [frame["round"], frame["whole"], *frame["workers"], *frame["byzantine"], *frame["quarantined"]]
    rows = [*frame["byzantine"], *frame["quarantined"]]
    spots = [*frame["points"], frame["result"], frame["step"], *frame["members"].values(), *frame["rules"].values()]
    numbers = [frame["shown"], *(frame["weights"] or []), *frame["shares"].values()]
    tried = frame.get("attacker")
    if tried is not None:
        lists = [*tried["members"].values(), *tried["rules"].values()]
        if tried["epsilons"] != list(EPSILONS) or any(len(found) != len(EPSILONS) for found in lists):
            return False
        spots += [spot for found in lists for spot in found]
    return (
        all(type(count) is int for count in counts)
        and len(frame["workers"]) == n
        and all(0 <= row < n for row in rows)
        and all(spot is None or (len(spot) == 3 and all(map(_is_number, spot))) for spot in spots)
        and all(map(_is_number, numbers))
        and len(frame["weights"] or frame["points"]) == n
        and bool(frame["members"])
        and isinstance(frame["drawn"], str)
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _members(rule: Rule, n: int) -> tuple[int, dict[str, Rule], dict[str, float]]:
    """How many rules a pool has, and at most `MOST_MEMBERS` of them with their shares; of a single rule, itself."""
    found: Sequence[Rule] = [rule]
    shares: Sequence[float] = [1.0]
    if isinstance(rule, Memory):
        found, shares = rule.members(n)
    elif isinstance(rule, MixTailor):
        found, shares = rule.rules, rule.shares(n)
    places = np.unique(np.linspace(0, len(found) - 1, min(len(found), MOST_MEMBERS)).round().astype(int))
    kept: dict[str, Rule] = {}
    parts: dict[str, float] = {}
    for place in places:
        own = found[place]
        name = named(own.rule) if isinstance(own, Memory) else named(own)
        kept[name] = own
        parts[name] = parts.get(name, 0.0) + shares[place]
    whole = sum(parts.values())
    return len(found), kept, {name: _short(part / whole) for name, part in parts.items()}


def _others(given: Mapping[str, Rule], n: int, f: int) -> dict[str, Rule]:
    """The rules to show beside the server's: those given, and some well-known ones, if n allows them."""
    known = {repr(rule) for rule in given.values()}
    usual: dict[str, Rule] = {named(rule): rule for rule in (Mean(), Krum(f=f), Comed(), GeometricMedian())}
    found = {**given, **{name: rule for name, rule in usual.items() if repr(rule) not in known}}
    return {
        name: rule
        for name, rule in found.items()
        if not isinstance(rule, (Memory, MixTailor, Omniscient)) and n >= rule.min_rows()
    }


def _tried(rule: Rule, rows: torch.Tensor, seed: int, request: Mapping[str, Any]) -> torch.Tensor | None:
    """What a rule returns, with randomness of its own and nothing learnt; None where it returns nothing."""
    options: dict[str, Any] = {**request, "entropy": SeededEntropy(seed).spawn("frames"), "on_fault": "skip"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotRobustWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            if isinstance(rule, Memory):
                rule.expect(request["workers"])
                found = Rule.aggregate(rule, rows, **options)  # `Memory.aggregate` would learn
            else:
                found = rule.aggregate(rows, **options)
        except Exception:  # a rule of the user's may fail on updates that it would never have been given
            return None
    update: torch.Tensor | None = found.update
    return update


def _short(number: float) -> float:
    """A number in few digits; zero if it is negligible."""
    return 0.0 if abs(number) < 1e-6 else float(f"{number:.{_DIGITS}g}")
