"""An experiment: a TOML file that says which runs to make, and what the paper says of them."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mixtailor._files import read_bounded
from mixtailor.experiments.claims import Claim, Number
from mixtailor.experiments.config import DATA, RunConfig, label_of
from mixtailor.experiments.errors import ConfigError, ImpossibleError, sentences

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping, Sequence

__all__ = ["Entry", "Experiment", "Panel"]

_LONGEST = 1 << 20  # bytes of a file
MOST_RUNS = 100_000  # a few lists multiply to more than anybody waits for


@dataclass(frozen=True)
class Entry:
    """One run of an experiment, and where it appears.

    Attributes
    ----------
    panel : str
        The part of the picture that it belongs to.
    rule, attack : str
        What they are called there.
    setting : str
        What else the sweep varied, the seed apart.
    config : RunConfig
        The settings of the run.
    """

    panel: str
    rule: str
    attack: str
    setting: str
    config: RunConfig


class Panel(BaseModel):
    """A panel: a title, and the settings that distinguish its runs."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    run: dict[str, Any] = Field(default_factory=dict)


class Experiment(BaseModel):
    """Runs that belong together.

    A list in ``[run]``, or in a panel's ``run``, makes a sweep over its items; several lists, over all combinations.
    Lists inside the table of a rule or an attack are its parameters.

    Parameters
    ----------
    title, description : str
        For people. The title of a file without one is the file's name.
    run : table
        What all runs have; see `RunConfig`.
    panels : list of Panel
        One by default.
    claims, numbers : list
        What the paper says, to be held against the results.
    leave_out_impossible : bool
        Whether combinations of n, f and rule that the rule forbids are left out of a sweep, in place of an error.

    Examples
    --------
    >>> experiment = Experiment.parse('''
    ... title = "two rules, two seeds"
    ... [run]
    ... preset = "digits"
    ... rule = ["krum", {name = "paper_pool", label = "MixTailor"}]
    ... attack = {name = "tailored", epsilon = 0.1}
    ... seed = [0, 1]
    ... ''')
    >>> [(entry.rule, entry.config.seed) for entry in experiment.entries()]
    [('krum', 0), ('krum', 1), ('MixTailor', 0), ('MixTailor', 1)]
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: str
    description: str = ""
    name: str = "experiment"
    leave_out_impossible: bool = False
    run: dict[str, Any] = Field(default_factory=dict)
    panels: list[Panel] = Field(default_factory=list)
    claims: list[Claim] = Field(default_factory=list)
    numbers: list[Number] = Field(default_factory=list)

    @classmethod
    def parse(cls, text: str, name: str = "experiment", *, file: str | None = None) -> Self:
        """From the text of a TOML file; `file` is what errors call it, its name by default."""
        called = name if file is None else file
        try:
            table = tomllib.loads(text)
        except ValueError as error:  # of TOML, or of a number with thousands of digits
            raise ConfigError(f"{called} is not valid TOML: {error}.") from None
        except RecursionError:
            raise ConfigError(f"{called} is no experiment: its lists or tables are nested too deeply.") from None
        outside = [key for key in table if key in (*RunConfig.model_fields, "preset", "network")]
        if outside and "run" not in table:
            raise ConfigError(
                f"{called} has no table [run], and {', '.join(outside)} belong{'s' * (len(outside) == 1)} there. Write "
                f"the line [run] above {'them' if len(outside) > 1 else 'it'}."
            )
        try:
            made = cls(**{"name": name, "title": name, **table})
        except ValidationError as error:
            raise ConfigError(sentences(error, cls, called)) from None
        return made

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """From a file, with its name.

        Files that it names are looked for from the current folder, then beside it.
        """
        where = Path(path)
        try:
            text = read_bounded(where, _LONGEST).decode("utf-8")
        except UnicodeDecodeError:
            raise ConfigError(f"{where} is not a text file.") from None
        made = cls.parse(text.replace("\r\n", "\n"), where.stem, file=where.name)
        if not made.run and not made.panels:
            raise ConfigError(
                f"{where.name} has no table [run], so that there is nothing to run. Write the line [run], and below it "
                'what to train, for example: preset = "digits", rule = ["krum", "comed"], attack = "tailored".'
            )
        panels = [panel.model_copy(update={"run": _beside(panel.run, where.parent)}) for panel in made.panels]
        return made.model_copy(update={"run": _beside(made.run, where.parent), "panels": panels})

    def changed(
        self,
        changes: Mapping[str, Any] | None = None,
        *,
        seeds: Sequence[int] | None = None,
        scale_of_epsilon: str | None = None,
    ) -> Self:
        """The same with other values in all panels.

        Parameters
        ----------
        changes : mapping, optional
            Keys of a run and their values, lists for a sweep.
        seeds : sequence of int, optional
            In place of those in the file.
        scale_of_epsilon : {"mean", "sum/f"}, optional
            What epsilon multiplies, in attacks that have it: the paper's text has the mean, its code the sum over f.
        """
        own = dict(changes or {})
        if seeds is not None:
            own["seed"] = list(seeds)
        tables = [{**panel.run, **own} for panel in self.panels]
        whole = {**self.run, **own}
        if scale_of_epsilon is not None:
            tables = [_rescaled(table, scale_of_epsilon) for table in tables]
            whole = _rescaled(whole, scale_of_epsilon)
        panels = [panel.model_copy(update={"run": table}) for panel, table in zip(self.panels, tables, strict=True)]
        return self.model_copy(update={"run": whole, "panels": panels})

    def of_panels(self, text: str) -> Self:
        """Only the panels whose title has the text in it, upper and lower case alike, and what is said of them.

        The name gets the text as well, so that a part leaves the page of the whole alone.
        """
        kept = [panel for panel in self.panels if text.casefold() in panel.title.casefold()]
        if not kept:
            titles = "; ".join(panel.title for panel in self.panels) or f"one alone, {self.title!r}, without a choice"
            raise ConfigError(f"{self.name} has no panel with {text!r} in its title. There are: {titles}.")
        names = {panel.title for panel in kept}
        claims = [
            claim if claim.panels is None else claim.model_copy(update={"panels": both})
            for claim in self.claims
            if {*(claim.in_panels or ()), *(claim.worst_of or ())} <= names
            and (claim.panels is None or (both := [panel for panel in claim.panels if panel in names]))
        ]
        numbers = [number for number in self.numbers if number.panel in names]
        slug = "-".join(re.findall(r"[\w.]+", text.casefold()))
        return self.model_copy(
            update={"panels": kept, "claims": claims, "numbers": numbers, "name": f"{self.name}-{slug}"}
        )

    def entries(self, scale: float = 1.0) -> list[Entry]:
        """All runs, in order; with a share of their rounds."""
        return self.expanded(scale).entries

    def expanded(self, scale: float = 1.0) -> Expanded:
        """All runs, and the sentences of those that were left out."""
        made = Expanded()
        if not self.run and not self.panels:
            return made
        for panel in self.panels or [Panel(title=self.title)]:
            where = f"{self.name}, {panel.title!r}" if self.panels else self.name
            for chosen, swept in _combinations({**self.run, **panel.run}):
                try:
                    config = _unmoved(RunConfig.made(chosen, where).scaled(scale))
                except ImpossibleError as error:
                    if not self.leave_out_impossible:
                        raise
                    made.left_out.append(str(error))
                    continue
                setting = ", ".join(
                    f"{key} = {label_of(chosen[key])}" for key in swept if key not in ("rule", "attack", "seed")
                )
                rule, attack = label_of(chosen.get("rule", "")), label_of(chosen.get("attack", "none"))
                made.entries.append(Entry(panel.title, rule, attack, setting, config))
        made.left_out = list(dict.fromkeys(made.left_out))
        return made


@dataclass
class Expanded:
    """The runs of an experiment, and the errors of those that n and f do not allow."""

    entries: list[Entry] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def _beside(value: Any, folder: Path, key: str = "") -> Any:
    """The same, with the paths of files that are beside the experiment and not in the current folder."""
    if isinstance(value, dict):
        return {name: _beside(item, folder, name) for name, item in value.items()}
    if isinstance(value, list):
        return [_beside(item, folder, key) for item in value]
    if not isinstance(value, str):
        return value

    def found(path: str) -> str:
        return path if Path(path).exists() or not (folder / path).exists() else str(folder / path)

    if key == "data" and ":" not in value:
        return value if value in DATA else found(value)
    return re.sub(r"[\w.~/\\-]+\.py(?=:)", lambda match: found(match[0]), value)


def _unmoved(config: RunConfig) -> RunConfig:
    """The omniscient server never uses a Byzantine update: one run of it serves all attacks."""
    if config.rule["name"] != "omniscient":
        return config
    return config.model_copy(update={"attack": {"name": "none"}})


def _combinations(table: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Each combination of the items of all lists, and the keys that have lists."""
    swept = [key for key, value in table.items() if isinstance(value, list)]
    for key in swept:
        if not table[key]:
            raise ConfigError(f"The list of {key!r} is empty: a sweep needs at least one item.")
    count = math.prod(len(table[key]) for key in swept)
    if count > MOST_RUNS:
        raise ConfigError(
            f"The lists of {', '.join(swept)} make {count:,} runs, and {MOST_RUNS:,} are the most of a sweep."
        )
    for items in itertools.product(*(table[key] for key in swept)):
        yield {**table, **dict(zip(swept, items, strict=True))}, swept


def _rescaled(table: Mapping[str, Any], scale: str) -> dict[str, Any]:
    def one(attack: Any) -> Any:
        named = {"name": attack} if isinstance(attack, str) else dict(attack)
        if named["name"] in ("tailored", "random_epsilon", "adaptive"):
            named.setdefault("label", label_of(attack))
            return {**named, "scale": scale}
        if "attack" in named:
            return {**named, "attack": one(named["attack"])}
        return attack

    if "attack" not in table:
        return dict(table)
    given = table["attack"]
    return {**table, "attack": [one(item) for item in given] if isinstance(given, list) else one(given)}
