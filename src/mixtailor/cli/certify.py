"""``mixtailor certify``."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mixtailor._checks import plural
from mixtailor.cli import _training
from mixtailor.cli._output import Json, complain, console, say, show_json, status, table

if TYPE_CHECKING:
    from mixtailor.attacks import Attack
    from mixtailor.rules import Rule
    from mixtailor.theory import Certificate, Interval, State

EXAMPLE = 'mixtailor certify --rule "nnm >> krum" --attacks "tailored 0.1,ALIE 1.5"'
_EPILOGUE = (
    "E[U] · ∇F above 0 is descent, in the mean over the draw and the resamples; the interval is of the worst state. "
    "K2 is E|U|² over E|G|², the largest over all sizes of the attack. It says nothing of other states or attacks."
)


def command(
    folder: Annotated[
        Path | None,
        typer.Argument(
            help="A run or an experiment that was made with --states. Without it, a training is recorded now."
        ),
    ] = None,
    rule: Annotated[str, typer.Option(help='A rule or pool by name, as in an experiment: "nnm >> krum(p=3)".')] = (
        "default_pool"
    ),
    f: Annotated[int, typer.Option("--f", min=1, help="How many workers are Byzantine.")] = 2,
    attacks: Annotated[
        str,
        typer.Option(help="Attacks as the arena names them, separated by commas; best response is the strongest."),
    ] = "tailored 0.1,tailored 10,ALIE 1.5",
    each: Annotated[bool, typer.Option("--each", help="Also print a table of every rule under every attack.")] = False,
    confidence: Annotated[float, typer.Option(help="The confidence of each interval by itself.")] = 0.95,
    preset: Annotated[str, typer.Option(help="Without FOLDER: what to train on, digits, mnist or cifar10.")] = "digits",
    states: _training.States = 4,
    resamples: _training.Resamples = 10,
    out: _training.Out = Path("results"),
    scale: _training.Scale = 1.0,
    data: _training.Data = None,
    as_json: Json = False,
) -> None:
    """Test on recorded gradients whether a pool resists attacks (the paper's Definition 1). Exits 1 unless it does."""
    with _training.needed():
        from mixtailor.mixing.grammar import split
        from mixtailor.theory import certify

        names = split(attacks)
        chosen = _attacks(attacks)
        if folder is None:
            folder = _recorded_now(rule, f, preset, states, resamples, out, scale, data)
        known = _states(folder)
        judged = _rule(rule, f, known[0].workers)
        made = [_made(name, item, judged) for name, item in zip(names, chosen, strict=True)]
        told = f"Judging {rule} under {plural(len(made), 'attack')} at {plural(len(known), 'state')} ..."
        with status(told):
            found = certify(judged, known, made, f, confidence=confidence)
    if as_json:
        show_json({"folder": str(folder), "labels": names, **json.loads(found.to_json())})
    else:
        _show(found, names, rule, each)
        say(_EPILOGUE)
    if found.verdict != "holds on these states":
        raise typer.Exit(1)


def _attacks(text: str) -> list[Any]:
    """The arena's attacks by their names there, but for those that start from labels; and attacks by their file."""
    from mixtailor.experiments.config import label_of
    from mixtailor.experiments.shipped import ours
    from mixtailor.mixing.registry import listed

    known = {label_of(item): item for item in ours("arena").run["attack"]}
    for name in ("none", "label_flip"):  # certificates have gradients, and no examples
        del known[name]
    try:
        return listed("attack", text, known)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def _made(name: str, item: Any, rule: "Rule") -> "Attack":
    from mixtailor.experiments.building import make_attack

    made = make_attack(item, rule=rule, classes=10)
    assert made is not None, name
    return made


def _rule(name: str, f: int, n: int) -> "Rule":
    from mixtailor.mixing import SeededEntropy
    from mixtailor.mixing.registry import make_rule

    made = make_rule(name, f=f, n=n, entropy=SeededEntropy(0).spawn("server"))
    made.check_rows(n)
    return made


def _recorded_now(
    rule: str, f: int, preset: str, states: int, resamples: int, out: Path, scale: float, data: Path | None
) -> Path:
    """Train with the rule and without an attack, unless that was done before; return the folder of the states."""
    from mixtailor.experiments import Experiment, run
    from mixtailor.experiments.watching import watched_runs
    from mixtailor.simulation.recorded_states import Recording

    table = {"preset": preset, "rule": rule, "f": f}
    experiment = Experiment(title=f"States of {rule} on {preset}", name="certify", run=table)
    recording = Recording(states, resamples)
    with watched_runs() as watch:
        done = run(experiment, out, scale=scale, data=data, watch=watch, recording=recording)[0]
    if done.error:
        complain(f"Failed: {done.title}: {done.error}")
        raise typer.Exit(1)
    return out / "runs" / done.hash


def _states(folder: Path) -> "list[State]":
    """The states of a folder of states, of a run, or of all runs of an experiment."""
    from mixtailor.experiments.results import run_folders
    from mixtailor.simulation import read_states

    homes = [folder, folder / "states"]
    if (folder / "experiment.json").exists():
        homes += [home / "states" for home in run_folders(folder)]
    found = [state for home in homes for state in read_states(home)]
    if not found:
        raise ValueError(
            f"There are no states in {folder}. Give the folder of a run or of an experiment that was made with "
            "`mixtailor run FILE --states 4`, or none, to record some now."
        )
    return found


def _show(found: "Certificate", names: Sequence[str], rule: str, each: bool) -> None:
    measures = ["E[U] · ∇F", f"{100 * found.confidence:g} %"]
    rows = []
    for name, verdict in zip(names, found.attacks, strict=True):
        counts = f"{verdict.holding}, {verdict.broken}, {verdict.unknown}"
        swept = max(item.swept[0] for item in verdict.rules)
        rows.append([name, *_numbers(verdict.products), counts, _moment(swept, verdict.bounded), _word(verdict)])
    columns = ["attack", *measures, "hold, broken, open", "K2", "verdict"]
    title = f"{rule}: {plural(found.rules, 'rule')}, n = {found.workers}, f = {found.f}"
    console().print(table(columns, rows, right=columns[1:-1], title=title))
    if each:
        rows = [
            [
                item.rule if item.count == 1 else f"{item.count} x {item.rule}",
                name,
                *_numbers(item.products),
                _moment(item.swept[0], item.bounded),
                _word(item),
            ]
            for name, verdict in zip(names, found.attacks, strict=True)
            for item in verdict.rules
        ]
        columns = ["rule", "attack", *measures, "K2", "verdict"]
        console().print(table(columns, rows, right=columns[2:-1]))
    where = ", ".join(dict.fromkeys(found.names)).replace(", round", ",").replace("round", "rounds", 1)
    say(f"{found.verdict.capitalize()}: {where}; {plural(found.resamples, 'resample')} each.")


def _moment(swept: float, bounded: bool) -> str:
    return f"{swept:.3g}" if bounded else "no end"


def _word(verdict: Any) -> str:
    return str(verdict.verdict).removesuffix(" on these states")


def _numbers(products: "Sequence[Interval]") -> tuple[str, str]:
    worst = min(products, key=lambda product: product.low)
    return f"{worst.value:.2g}", f"{worst.low:.2g} to {worst.high:.2g}"
