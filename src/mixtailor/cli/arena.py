"""``mixtailor arena``."""

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixtailor._checks import nearest
from mixtailor.cli import _training
from mixtailor.cli._output import Json, console, say, table

if TYPE_CHECKING:
    from mixtailor.experiments import Experiment, Results

_IID = {"name": "iid"}

EXAMPLE = "mixtailor arena --f 2 --seeds 3 --momentum worker"


class Momentum(StrEnum):
    """Who has the momentum."""

    server = "server"
    worker = "worker"
    both = "both"


def command(
    f: Annotated[
        int, typer.Option("--f", min=1, help="The f that the server declares: how many Byzantine workers it expects.")
    ] = 2,
    n: Annotated[int, typer.Option("--n", min=3, help="How many workers there are.")] = 12,
    rules: Annotated[
        str | None,
        typer.Option(help="Rules by name, separated by commas; yours as mine.py:Nearest. All by default."),
    ] = None,
    pools: Annotated[
        list[str] | None,
        typer.Option("--pool", help="Also a pool of your own: its rules, separated by commas. May be repeated."),
    ] = None,
    attacks: Annotated[
        str | None,
        typer.Option(help="Attacks by name, separated by commas; yours as mine.py:Shift. All by default."),
    ] = None,
    momentum: Annotated[
        Momentum, typer.Option(help="Momentum at the server, at the workers, or first the one and then the other.")
    ] = Momentum.server,
    preset: Annotated[
        str, typer.Option(help="Data, network and training: digits, mnist-small, cifar10-small, mnist or cifar10.")
    ] = "digits",
    partition: Annotated[
        str, typer.Option(help="Who holds which data: iid, by_label, dirichlet(alpha=0.1), shards, similarity.")
    ] = "iid",
    identities: Annotated[
        str, typer.Option(help="Who is Byzantine: fixed, changing (others in each round), or others every K rounds.")
    ] = "fixed",
    participation: Annotated[float, typer.Option(help="The share of workers that take part in a round.")] = 1.0,
    misdeclared: Annotated[
        bool, typer.Option(help="Also train with one Byzantine worker less, and one more, than the server declares.")
    ] = False,
    halving: Annotated[
        bool, typer.Option(help="Run most seeds on each rule's worst attacks alone, or all attacks on all seeds.")
    ] = True,
    out: _training.Out = Path("results"),
    scale: _training.Scale = 1.0,
    seeds: _training.Seeds = None,
    jobs: _training.Jobs = -1,
    backend: _training.Backend = "loky",
    data: _training.Data = None,
    tracker: _training.Tracker = None,
    as_json: Json = False,
) -> None:
    """Train every rule under every attack, and rank the rules by their worst case."""
    with _training.needed():
        from mixtailor.experiments.shipped import ours

        if n < 2 * f + 1:
            raise typer.BadParameter(f"--f {f} needs --n {2 * f + 1} or more (n >= 2f + 1), and n is {n}. Lower --f.")
        experiment = _paced(_chosen(ours("arena"), rules, pools or [], attacks, momentum), preset)
        counts = sorted({f - 1, f, f + 1}) if misdeclared else [f]
        changes: dict[str, Any] = {"preset": preset, "n": n, "f": f, "byzantine": counts if len(counts) > 1 else f}
        others: dict[str, Any] = {"partition": _written(partition), "participation": participation}
        others["identities"] = int(identities) if identities.isdecimal() else identities
        experiment = experiment.changed({**changes, **others}, seeds=_training.seeds_of(seeds))
        named = [preset, *([f"n{n}"] if n != 12 else []), f"f{f}", *_unusual(others)]
        experiment = experiment.model_copy(update={"name": "-".join(["arena", *named])})
        _training.carry_out(
            experiment,
            out=out,
            scale=scale,
            jobs=jobs,
            backend=backend,
            data=data,
            as_json=as_json,
            show=show_arena,
            halving=halving,
            tracker=tracker,
        )


def show_arena(results: "Results") -> None:
    """Each rule's worst case, and how the pools stand to the best single rule."""
    from mixtailor.experiments.worst import difference, groups, worst_cases

    for group in groups(results):
        cases = worst_cases(group)
        rows = [
            [case.rule, f"{case.accuracy:.1f}", _training.interval(case), case.attack, str(case.seeds)]
            for case in cases
        ]
        columns = ["rule", "worst", "95 %", "under", "seeds"]
        console().print(table(columns, rows, right=["worst", "seeds"], title=group.title))
        pools = [case.rule for case in cases if case.rule.startswith(("MixTailor", "RobustTailor"))]
        single = next((c.rule for c in cases if c.rule not in pools and c.rule != "omniscient"), None)
        for pool in pools if single is not None else []:
            found = difference(group, pool, str(single))
            if found is not None:
                say(f"{pool} less {single}, the best single rule: {found[0]:+.1f} ({found[1]:+.1f} to {found[2]:+.1f})")


def _chosen(
    experiment: "Experiment", rules: str | None, pools: list[str], attacks: str | None, momentum: Momentum
) -> "Experiment":
    from mixtailor._references import is_reference
    from mixtailor.experiments.config import label_of
    from mixtailor.mixing.grammar import split

    table = dict(experiment.run)
    for key, text in (("rule", rules), ("attack", attacks)):
        if text is None:
            continue
        known = {label_of(item): item for item in table[key]}
        names = split(text)
        for name in names:
            if name not in known and not is_reference(name.partition("(")[0]) and not _registered(key, name):
                yours = f"One of yours is written mine.py:{'Nearest' if key == 'rule' else 'Shift'}."
                raise typer.BadParameter(f"The arena has no {key} {name!r}. {nearest(name, list(known))} {yours}")
        table[key] = [known.get(name, name) for name in names]
    for members in map(split, pools):
        pool = {"name": "pool", "rules": members, "label": f"MixTailor ({', '.join(members)})"}
        table["rule"] = [*table["rule"], pool]
    panels = [
        panel for panel in experiment.panels if momentum is Momentum.both or panel.title.startswith(momentum.value)
    ]
    return experiment.model_copy(update={"run": table, "panels": panels})


def _registered(key: str, name: str) -> bool:
    """Whether `mixtailor attacks` lists this attack, or this text makes a rule."""
    from mixtailor import attacks, make_rule

    if key == "attack":
        return name.partition("(")[0].strip() in attacks.names()
    try:
        make_rule(name, f=1)
    except (TypeError, ValueError):
        return False
    return True


def _written(partition: str) -> dict[str, Any]:
    """A partition as it is written on the command line: its name, and parameters in parentheses."""
    from mixtailor.mixing.grammar import parse

    call = parse(partition).calls[-1]
    if call.arguments:
        raise typer.BadParameter(f"A partition's parameters need names, as in dirichlet(alpha=0.1); got {partition!r}.")
    return {"name": call.name, **call.keywords}


def _unusual(others: dict[str, Any]) -> list[str]:
    """The options that differ from their defaults, for the folder's name: each setting has its own results."""
    words = ["-".join(str(item) for item in others["partition"].values())] if others["partition"] != _IID else []
    words += [f"identities-{others['identities']}"] if others["identities"] != "fixed" else []
    return words + ([f"participation-{others['participation']:g}"] if others["participation"] != 1.0 else [])


def _paced(experiment: "Experiment", preset: str) -> "Experiment":
    """With the preset's own steps: momentum at the server adds gradients up, at the workers it averages them."""
    from mixtailor.experiments.config import PRESETS

    panels = []
    for panel in experiment.panels:
        if panel.run.get("worker_momentum") and preset in PRESETS:
            rate = PRESETS[preset]["learning_rate"] / (1.0 - panel.run["worker_momentum"])
            panel = panel.model_copy(update={"run": {**panel.run, "learning_rate": round(rate, 9)}})
        panels.append(panel)
    return experiment.model_copy(update={"panels": panels})
