"""``mixtailor demo``."""

from typing import Annotated

import typer

from mixtailor import MixTailor, Rule, SeededEntropy, default_pool, paper_pool
from mixtailor.attacks import Attack
from mixtailor.attacks import make as make_attack
from mixtailor.attacks import names as attack_names
from mixtailor.cli._confrontation import Confrontation, confront
from mixtailor.cli._output import Json, console, say, show_json, table
from mixtailor.mixing.registry import make as make_rule

EXAMPLE = "mixtailor demo --f 2 --rounds 20"
_N = 12
_RULES = ("mean", "krum", "comed", "trimmed_mean", "geometric_median", "bulyan", "nnm >> trimmed_mean")
_ATTACKS = {
    "tailored 0.1": ("tailored", {"epsilon": 0.1}),
    "tailored 10": ("tailored", {"epsilon": 10.0}),
    "ALIE 1.5": ("alie", {"z": 1.5}),
    "MinMax": ("min_max", {}),
}


def command(
    f: Annotated[int, typer.Option("--f", min=1, max=4, help="How many of the 12 workers lie.")] = 2,
    rounds: Annotated[int, typer.Option(min=1, max=1000, help="How many rounds to average over.")] = 20,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same table.")] = 0,
    as_json: Json = False,
) -> None:
    """See what attacks do to rules, on real gradients: twelve workers learn handwritten digits, some of them lie."""
    found = confront(_rules(f, seed), _attacks(), n=_N, f=f, rounds=rounds, seed=seed)
    if as_json:
        worst = {rule: found.worst(rule) for rule in found.kept}
        show_json({"n": _N, "f": f, "rounds": rounds, "seed": seed, "kept": found.kept, "worst": worst})
        return
    _show(found, f)


def _rules(f: int, seed: int) -> dict[str, Rule]:
    rules = {name: make_rule(name, f=f) for name in _RULES}
    rules["MixTailor, paper's pool"] = MixTailor(paper_pool(f), entropy=SeededEntropy(seed))
    rules["MixTailor, our pool"] = MixTailor(default_pool(f), entropy=SeededEntropy(seed + 1))
    rules["omniscient"] = make_rule("omniscient")
    return {name: rule for name, rule in rules.items() if rule.min_rows() <= _N}


def _attacks() -> dict[str, Attack]:
    known = attack_names()
    return {title: make_attack(name, **options) for title, (name, options) in _ATTACKS.items() if name in known}


def _show(found: Confrontation, f: int) -> None:
    attacks = list(next(iter(found.kept.values())))
    rows = [
        [rule, *(f"{share[attack]:.2f}" for attack in attacks), f"{found.worst(rule):.2f}"]
        for rule, share in found.kept.items()
    ]
    say(f"{_N} workers learn handwritten digits; {f} of them send what the attack makes.")
    say("How much of the honest step is left: 1 is all of it, below 0 the step goes the wrong way.")
    console().print(table(["rule", *attacks, "worst"], rows, right=[*attacks, "worst"]))
    say(f"Means over {found.rounds} rounds. Each step is looked at by itself: nothing is trained on the answers.")
