"""From a configuration to the things themselves: rule, attack, partition, settings, simulation."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import warnings
from typing import TYPE_CHECKING, Any

from torch import nn

from mixtailor import attacks
from mixtailor._checks import NotRobustWarning, nearest, refuse
from mixtailor._references import digest_of, is_reference
from mixtailor._references import loaded as found
from mixtailor.attacks import Attack
from mixtailor.experiments.errors import ImpossibleError
from mixtailor.mixing import MixTailor, SeededEntropy
from mixtailor.mixing.grammar import parse
from mixtailor.mixing.registry import make_rule, snake
from mixtailor.rules import Rule
from mixtailor.rules.plain import as_rule
from mixtailor.rules.promises import check_tolerates
from mixtailor.simulation import (
    PARTITIONS,
    RATES,
    Bottleneck,
    Decentralised,
    Rate,
    Rollback,
    Settings,
    Simulation,
    topology,
)
from mixtailor.simulation import load as load_data
from mixtailor.simulation.models import build, network
from mixtailor.simulation.own import data_files
from mixtailor.theory import RobustTailor

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping
    from pathlib import Path

    import torch

    from mixtailor.attacks.knowledge import Knowledge
    from mixtailor.experiments.config import Named, RunConfig
    from mixtailor.simulation import Dataset
    from mixtailor.simulation.frames import Filming
    from mixtailor.simulation.progress import Progress
    from mixtailor.simulation.recorded_states import Recording
    from mixtailor.simulation.workers import Partition
    from mixtailor.trackers import Tracker

__all__ = ["Objects", "check", "make_attack", "rule_of", "settings_of", "simulation_of"]

_LEVELS = ("sees_all", "sees", "oblivious", "knows_pool", "knows_probabilities", "knows_draw")


@dataclasses.dataclass(frozen=True)
class Objects:
    """Objects that a run uses in place of what its configuration names; None where the name counts.

    Attributes
    ----------
    rule : Rule
    attack : Attack
    data : Dataset
    model : torch.nn.Module, or what makes one
    partition : callable
    loss : callable
    """

    rule: Rule | None = None
    attack: Attack | None = None
    data: Dataset | None = None
    model: Any = None
    partition: Partition | None = None
    loss: Any = None


def check(config: RunConfig, objects: Objects | None = None) -> None:
    """Raise what running the configuration would raise, as far as that can be known without data."""
    own = objects or Objects()
    settings = settings_of(config)
    server = _server(config, settings) if own.rule is None else own.rule
    rule = _target(server)
    try:
        rule.check_rows(settings.taking_part)
        _check_declared(rule, config.f, settings.taking_part)
    except ValueError as error:
        raise ImpossibleError(str(error)) from None
    if config.topology is not None:
        topology(config.topology["name"], settings.n, **{k: v for k, v in config.topology.items() if k != "name"})
    if own.attack is None and not (config.topology is not None and config.attack["name"] == "bottleneck"):
        make_attack(config.attack, rule=rule, classes=10, rounds=settings.rounds)
    if own.partition is None:
        _partition(config.partition)
    kind = network(config.model if own.model is None else own.model)
    if not isinstance(kind, nn.Module):
        apart = [key for key in inspect.signature(kind).parameters if key in ("shape", "classes")]
        _options(kind, config.model_options, config.model, skip=len(apart))


def _check_declared(rule: Rule, f: int, n: int) -> None:
    """Hold a rule that takes no f to the declared one, as the others are. One that tolerates none is for comparison."""
    if rule.declared_f() is not None or not 0 < rule.tolerates(n) < f:
        return
    try:
        check_tolerates(rule, f, n)
    except ValueError as error:
        refuse(f"{error} To see what more Byzantine workers do to it, lower f and give byzantine = {f}.")


def settings_of(config: RunConfig) -> Settings:
    """Who takes part, how the server steps, and how long."""
    same = {item.name for item in dataclasses.fields(Settings)} & set(type(config).model_fields) - {"rate"}
    return Settings(rate=_rate(config.rate), **{name: getattr(config, name) for name in same})


def simulation_of(
    config: RunConfig,
    *,
    folder: str | os.PathLike[str] | None = None,
    data: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    recording: Recording | None = None,
    tracker: Tracker | None = None,
    objects: Objects | None = None,
    filming: Filming | None = None,
) -> Simulation | Decentralised:
    """The simulation that a configuration describes.

    Parameters
    ----------
    config : RunConfig
    folder : path, optional
        Where it leaves its records and checkpoints.
    data : path, optional
        Where the data files are.
    progress : Progress, optional
        Callbacks for its rounds.
    recording : Recording, optional
        How many states it records.
    tracker : Tracker, optional
        Receives the numbers of each evaluation.
    objects : Objects, optional
        What takes the place of names in the configuration.
    filming : Filming, optional
        Which rounds to record.

    Examples
    --------
    >>> from mixtailor.experiments import RunConfig
    >>> config = RunConfig.made({"data": "synthetic", "model": "logistic", "rule": "comed", "rounds": 20})
    >>> simulation_of(config).run().records[-1]["round"]
    20
    """
    own = objects or Objects()
    loaded = own.data
    if loaded is None:
        contents = tuple(digest_of(path) for path in data_files(config.data))
        loaded = _loaded(config.data, None if data is None else str(data), contents, config.pooled)
    settings = settings_of(config)
    rule = _server(config, settings) if own.rule is None else own.rule
    if config.topology is not None:
        return _decentralised(config, settings, loaded, _target(rule), own, folder, progress)
    named = own.attack or make_attack(config.attack, rule=_target(rule), classes=loaded.classes, rounds=settings.rounds)
    return Simulation(
        loaded,
        build(own.model or config.model, loaded, seed=config.seed, **_whole(config.model_options)),
        rule,
        named,
        settings=settings,
        partition=own.partition or _partition(config.partition),
        folder=folder,
        progress=progress,
        tracker=tracker,
        rollback=None if config.rollback is None else Rollback(config.rollback, f=config.f),
        **({} if own.loss is None else {"loss": own.loss}),
        **({} if recording is None else dataclasses.asdict(recording)),
        frames=filming or 0,
    )


def _decentralised(
    config: RunConfig,
    settings: Settings,
    data: Dataset,
    rule: Rule,
    own: Objects,
    folder: str | os.PathLike[str] | None,
    progress: Progress | None,
) -> Decentralised:
    """Workers on a graph, each with the rule."""
    assert config.topology is not None
    options = {key: value for key, value in config.topology.items() if key != "name"}
    table = dict(config.attack)
    attack: Attack | Bottleneck | None
    if table["name"] == "bottleneck":
        table.pop("name")
        attack = Bottleneck(**_options(Bottleneck, table, "bottleneck"))
    else:
        attack = own.attack or make_attack(config.attack, rule=rule, classes=data.classes, rounds=settings.rounds)
    return Decentralised(
        data,
        build(own.model or config.model, data, seed=config.seed, **_whole(config.model_options)),
        rule,
        attack,
        settings=settings,
        graph=topology(config.topology["name"], settings.n, seed=config.seed, **options),
        partition=own.partition or _partition(config.partition),
        folder=folder,
        progress=progress,
    )


def rule_of(config: RunConfig, objects: Objects | None = None) -> Rule:
    """The server's rule in a run; of a RobustTailor, the mixture whose probabilities it changes."""
    own = None if objects is None else objects.rule
    return _target(_server(config, settings_of(config))) if own is None else own


def _server(config: RunConfig, settings: Settings) -> Rule | RobustTailor:
    """The server's rule; pools draw from a stream of the seed, and leave out what the number of updates forbids."""
    if config.rule["name"] == "robust_tailor":
        return _robust_tailor(config, settings)
    if config.rule == {"name": "lower_median"}:
        return as_rule(lower_median)
    source = SeededEntropy(config.seed).spawn("server")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotRobustWarning)  # an experiment compares rules, those without a bound too
        return make_rule(config.rule, f=config.f, n=settings.taking_part, entropy=source)


def _robust_tailor(config: RunConfig, settings: Settings) -> RobustTailor:
    """RobustTailor over ``rules``, by default one rule of each class of the paper's pool."""
    options = {key: value for key, value in config.rule.items() if key not in ("name", "label")}
    rules = options.pop("rules", ["krum", "comed", "geometric_median", "bulyan"])
    if unknown := [key for key in options if key != "steps"]:
        refuse(f"'robust_tailor' takes no parameter {unknown[0]!r}. {nearest(unknown[0], ['rules', 'steps'])}")
    source = SeededEntropy(config.seed).spawn("server")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NotRobustWarning)
        pool = make_rule({"name": "pool", "rules": rules}, f=config.f, n=settings.taking_part, entropy=source)
    assert isinstance(pool, MixTailor)
    return RobustTailor(pool.rules, config.f, entropy=source, **options)


def _target(server: Rule | RobustTailor) -> Rule:
    """What an attacker takes the server for: of a RobustTailor, which public data it has is not known to others."""
    return MixTailor(server.pool, entropy=server.entropy) if isinstance(server, RobustTailor) else server


def lower_median(updates: torch.Tensor) -> torch.Tensor:
    """The lower of the two middle values of each coordinate, as torch and the paper's code have it, for comed."""
    return updates.median(dim=0).values


def make_attack(given: str | Named, *, rule: Rule, classes: int, rounds: int | None = None) -> Attack | None:
    """An attack from its name and parameters; "none" is no attack.

    An attack that needs a target gets the server's rule, as does one with ``target = "server"``. ``knowledge`` limits
    it: a level, or a list of levels, such as ``["knows_draw", {name = "sees", k = 4}]``. Where `rounds` is given, a
    schedule may start at a share of them: ``start = 0.5`` is half-way.

    Examples
    --------
    >>> from mixtailor import Krum
    >>> make_attack({"name": "line_search", "attack": "alie"}, rule=Krum(f=1), classes=10)
    LineSearch(attack=ALIE(), target=Krum(f=1))
    >>> make_attack({"name": "tailored", "knowledge": {"name": "sees", "k": 4}}, rule=Krum(f=1), classes=10)
    Sees(k=4) | Tailored()
    """
    table = _named(given)
    name = str(table.pop("name"))
    if name == "none":
        if table:
            refuse(f"'none' takes no parameter {next(iter(table))!r}.")
        return None
    levels = table.pop("knowledge", [])
    kind = attacks.find(name)
    needed = {
        key: item for key, item in inspect.signature(kind).parameters.items() if item.default is inspect.Parameter.empty
    }
    for key in {"attack", "other"} & set(table):
        table[key] = make_attack(table[key], rule=rule, classes=classes, rounds=rounds)
    when = {attacks.Schedule: "start", attacks.Blow: "watch"}.get(kind)  # type: ignore[call-overload]  # None elsewhere
    if when is not None and rounds is not None and isinstance(share := table.get(when), float):
        if not 0.0 <= share < 1.0:
            refuse(f"{name!r} needs {when} as a round, or as a share of the rounds below 1, and got {share}.")
        table[when] = int(share * rounds)
    if table.get("target") == "server" or ("target" in needed and "target" not in table):
        table["target"] = rule
    if "classes" in inspect.signature(kind).parameters:
        table.setdefault("classes", classes)
    for key in needed:
        if key not in table:
            refuse(f"{name!r} needs the parameter {key!r}.")
    attack = attacks.make(name, **{key: tuple(v) if isinstance(v, list) else v for key, v in table.items()})
    for level in reversed(levels if isinstance(levels, list) else [levels]):
        attack = _level(level) | attack
    return attack


def _level(given: str | Named) -> Knowledge:
    table = _named(given)
    name = str(table.pop("name"))
    if name not in _LEVELS:
        refuse(f"There is no level of knowledge {name!r}. {nearest(name, _LEVELS)}")
    kinds = {snake(kind): getattr(attacks, kind) for kind in attacks.__all__}
    level: Knowledge = kinds[name](**_options(kinds[name], table, name))
    return level


def _named(given: str | Named) -> dict[str, Any]:
    if isinstance(given, str) and "(" in given:  # parameters in parentheses, as rules have them
        (call,) = parse(given).calls
        if call.arguments:
            refuse(f"{given!r} needs names for its parameters, as in 'tailored(epsilon=0.3)'.")
        words = {key: getattr(value, "word", None) or value for key, value in call.keywords.items()}
        return {"name": call.name, **words}
    if isinstance(given, str):
        return {"name": given}
    if "name" not in given:
        refuse(f"A table needs a name, as in {{name = 'krum'}}, and got {given!r}.")
    return {
        **_named(str(given["name"])),
        **{key: value for key, value in given.items() if key not in ("name", "label")},
    }


def _partition(given: Named) -> Partition:
    table = _named(given)
    name = table.pop("name")
    if is_reference(name):
        own = found(name)
        if not callable(own):
            raise TypeError(f"The partition {name!r} needs to be a function of labels, workers and random.")
        partition: Partition = functools.partial(own, **_options(own, table, name, skip=3)) if table else own
        return partition
    if name not in PARTITIONS:
        refuse(f"There is no partition {name!r}. {nearest(name, list(PARTITIONS))}")
    spreading: Partition = PARTITIONS[name](**_options(PARTITIONS[name], table, name, skip=3))
    return spreading


def _rate(given: Named) -> Rate:
    table = dict(given)
    name = table.pop("name")
    if name not in RATES:
        refuse(f"There is no rate {name!r}. {nearest(name, list(RATES))}")
    return RATES[name](**_options(RATES[name], table, name))


def _options(kind: Callable[..., Any], given: Mapping[str, Any], name: str, *, skip: int = 0) -> dict[str, Any]:
    known = list(inspect.signature(kind).parameters)[skip:]
    for key in given:
        if key not in known:
            refuse(f"{name!r} takes no parameter {key!r}. {nearest(key, known) if known else 'It has none.'}")
    return dict(given)


def _whole(options: Mapping[str, float]) -> dict[str, float]:
    """TOML has no way to say that a float is a count, and networks take both."""
    return {
        key: int(value) if float(value).is_integer() and key != "dropout" else value for key, value in options.items()
    }


@functools.lru_cache(maxsize=2)
def _loaded(name: str, folder: str | Path | None, _contents: tuple[str, ...], pooled: int = 1) -> Dataset:
    """A data set stays in memory for the next run of the same process, unless its files change."""
    return load_data(name, folder).pooled(pooled) if pooled > 1 else load_data(name, folder)
