"""What the round player of a page shows: the frames that runs have left, in as few characters as will do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from mixtailor.report.looks import COLOURS, plain_rule
from mixtailor.simulation.frames import EPSILONS, MOST_MEMBERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from mixtailor.experiments.results import Result

__all__ = ["fresh_looks", "player"]

MOST = 3 << 20  # characters: a page stays under 5 MB

Frame = dict[str, Any]


def player(charts: Iterable[tuple[str, Sequence[Result]]], most: int = MOST) -> dict[str, Any]:
    """The frames of each chart and rule, of its first seed. Of too many, runs keep fewer: every second, every fourth.

    Parameters
    ----------
    charts : iterable of title and runs
    most : int
        How many characters of JSON there may be.
    """
    scenes: list[dict[str, Any]] = []
    for title, runs in charts:
        # Under a server that knows who is Byzantine there is nothing to see: no attack changes what it does.
        filmed = [run for run in sorted(runs, key=lambda run: run.seed) if run.frames and _decides(run)]
        first: dict[str, Result] = {}
        for run in filmed:
            first.setdefault(run.rule, run)
        order = list(dict.fromkeys(run.rule for run in runs))
        takes = [_take(first[rule]) for rule in order if rule in first]
        if takes:
            scenes.append({"title": title, "takes": takes})
    left_out = False
    while scenes and len(json.dumps(scenes, separators=(",", ":"))) > most:
        left_out = True
        longest = max(len(take["frames"]) for scene in scenes for take in scene["takes"])
        if longest <= 2:
            scenes.pop()
            continue
        for scene in scenes:
            for take in scene["takes"]:
                kept = take["frames"][:-1:2]
                take["frames"] = [*kept, take["frames"][-1]]
    return {"scenes": scenes, "epsilons": list(EPSILONS), "thinned": left_out, "most": MOST_MEMBERS}


def fresh_looks(made: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Colours of rules that the player alone shows; one whose class is known elsewhere looks as it does there."""
    found: dict[str, dict[str, Any]] = {}
    fresh = len({look["colour"] for look in known.values()})
    for scene in made["scenes"]:
        for take in scene["takes"]:
            for name in [*take["others"], *take["members"], *(frame["drawn"] for frame in take["frames"])]:
                kind = plain_rule(name)
                for wanted in (kind, name):
                    if wanted in known or wanted in found:
                        continue
                    same = known.get(kind) or found.get(kind)
                    if same is None:
                        same = {"colour": COLOURS[fresh % len(COLOURS)], "dash": ()}
                        fresh += 1
                    found[wanted] = dict(same)
    return found


def _decides(run: Result) -> bool:
    return plain_rule(run.frames[0]["drawn"]) != "Omniscient"


def _take(run: Result) -> dict[str, Any]:
    """One run: the names once, and the numbers of each frame in their order."""
    first = run.frames[0]
    members, others = list(first["members"]), list(first["rules"])
    shares = first.get("shares", {})
    return {
        "rule": run.rule,
        "seed": run.seed,
        "rounds": int(run.config["rounds"]),
        "momentum": float(run.config.get("momentum", 0.0)),
        "members": members,
        "kinds": [plain_rule(name) for name in members],
        "shares": [shares.get(name, 1.0 / len(members)) for name in members],
        "whole": first["whole"],
        "others": others,
        "frames": [_frame(frame, members, others) for frame in run.frames],
    }


def _frame(frame: Frame, members: Sequence[str], others: Sequence[str]) -> Frame:
    attacker = frame.get("attacker")
    kept = {
        key: frame[key] for key in ("round", "workers", "byzantine", "points", "shown", "result", "step", "weights")
    }
    return {
        **kept,
        "drawn": plain_rule(frame["drawn"]),
        "quarantined": frame["quarantined"],
        "members": [frame["members"].get(name) for name in members],
        "others": [frame["rules"].get(name) for name in others],
        "tried": None
        if attacker is None
        else {
            "members": [attacker["members"].get(name) for name in members],
            "others": [attacker["rules"].get(name) for name in others],
        },
    }
