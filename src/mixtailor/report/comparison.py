"""`compare`: rules against attacks on your own data and network, from objects, with a table, a page and figures."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from mixtailor._checks import nearest, plural
from mixtailor.experiments.building import Objects, check
from mixtailor.experiments.config import RunConfig, label_of
from mixtailor.experiments.errors import ConfigError, sentences
from mixtailor.experiments.experiment import Entry, Expanded, Experiment
from mixtailor.experiments.fingerprints import fingerprint
from mixtailor.experiments.results import Results
from mixtailor.experiments.running import Finished, run_entries
from mixtailor.experiments.watching import watched_runs
from mixtailor.experiments.worst import Group, WorstCase, groups, worst_cases
from mixtailor.report.figures import draw
from mixtailor.report.page import write
from mixtailor.report.summary import averaged
from mixtailor.report.tables import tables
from mixtailor.rules import as_rule
from mixtailor.simulation.description import named
from mixtailor.simulation.own import as_dataset, check_objects
from mixtailor.simulation.partitions import Spreading

if TYPE_CHECKING:
    import os

    from mixtailor.simulation.gradients import Loss

__all__ = ["Comparison", "compare"]

_GIVEN = ("rule", "attack", "data", "model", "partition", "seed", "n", "f", "objects")


@dataclass(frozen=True)
class Comparison:
    """The results of a comparison. Printed, it is a table, with what the numbers are and where to look further.

    Attributes
    ----------
    folder : Path
        Where it is kept: ``experiment.json``, ``report.html``, ``figures/``; its runs are beside it in ``runs/``.
    results : Results
        The records of every run.
    finished : list of Finished
        How each run ended.
    """

    folder: Path
    results: Results = field(repr=False)
    finished: list[Finished] = field(repr=False)

    def groups(self) -> list[Group]:
        """The accuracies in percent, ``cells[rule][attack][seed]``, for each partition."""
        return groups(self.results)

    def worst(self) -> list[WorstCase]:
        """Each rule's worst case over the attacks, the best of them first, partition after partition."""
        return [case for group in self.groups() for case in worst_cases(group)]

    def table(self) -> str:
        """Mean accuracies in percent, rules by attacks, with each rule's worst; one table for each partition."""
        return "\n\n".join(_table(group) for group in self.groups())

    def report(self) -> Path:
        """Write the page and return its path: one HTML file that needs nothing but a browser."""
        return write(self.folder)

    def figures(self, formats: Sequence[str] = ("png", "svg"), *, style: str = "page") -> list[Path]:
        """Draw the accuracy over the rounds, one figure for each attack and partition, and return their paths.

        With ``style="paper"`` they are as wide as a column, for a paper.
        """
        return draw(self.folder, formats, style=style)

    def tables(self) -> list[Path]:
        """Write the tables as CSV and LaTeX, and return their paths."""
        return tables(self.folder)

    def __str__(self) -> str:
        seeds = plural(len(self.results.seeds()), "seed")
        return (
            f"{self.table()}\n\nAccuracy in percent, the mean of {averaged(self.results)} and of {seeds}.\n"
            f"For more: .report() writes a page, .figures() and .tables() are for a paper. Folder: {self.folder}"
        )


def compare(
    rules: object,
    attacks: object = None,
    *,
    data: Any = "digits",
    model: Any = "mlp",
    partitions: object = "iid",
    seeds: int | Sequence[int] = 3,
    n: int = 12,
    f: int = 2,
    loss: Loss | None = None,
    out: str | os.PathLike[str] = "results",
    name: str = "comparison",
    title: str | None = None,
    jobs: int = -1,
    backend: str = "loky",
    frames: int = 10,
    **training: Any,
) -> Comparison:
    """Train with every rule under every attack, and compare.

    Everything may be an object or a name. Runs go in parallel. A run that is complete in `out` is not repeated, and one
    that was stopped resumes: the same call, again, finishes what is missing. A run is another one where what an object
    does changes: the code of a function or a class, the numbers of a network or of the data.

    Parameters
    ----------
    rules : rule, or a list of rules, or a mapping from labels to rules
        Rules, any function on the (n, d) tensor of all updates, or text such as ``"nnm >> krum(p=3)"``.
    attacks : attack, list or mapping, optional
        Attacks, None for no attack, or text and tables as in TOML files: ``"alie"``, ``{"name": "tailored", ...}``.
    data : Dataset, tuple of arrays or tensors, or str
        See `mixtailor.simulation.as_dataset` and `mixtailor.simulation.load`.
    model : torch.nn.Module, callable or str
        Your network, with the weights that it has; what makes one, with weights from each seed; or a name.
    partitions : partition, list or mapping
        Names, or functions such as ``mixtailor.simulation.dirichlet(alpha=0.3)``.
    seeds : int or sequence of int
        How many, or which.
    n, f : int
        Workers, and how many of them are Byzantine. Rules that are objects have their own f.
    loss : callable, optional
        ``loss(outputs, labels)``, a mean over the batch. By default the cross-entropy, or for regression the
        squared error.
    out, name : path, str
        Where results go: runs in ``out/runs``, the rest in ``out/name``.
    title : str, optional
        Of the page.
    jobs, backend
        As for `mixtailor.experiments.run`: one process for each core by default.
    frames : int
        How many rounds of the first seed to record for the player of the report; 0 for none.
    **training
        Other keys of `mixtailor.experiments.RunConfig`: ``rounds``, ``batch``, ``learning_rate`` and so on.

    Examples
    --------
    >>> import tempfile
    >>> import mixtailor as mt
    >>> def average(updates):
    ...     return updates.mean(0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = mt.compare([mt.Comed(), average], mt.attacks.Tailored(epsilon=10.0), data="synthetic",
    ...                        model="logistic", seeds=1, rounds=5, jobs=1, out=folder)
    ...     page = found.report()
    >>> [case.rule for case in found.worst()]
    ['Comed()', 'average']
    """
    for key in training:
        if key not in RunConfig.model_fields or key in _GIVEN:
            if key == "folder":  # what a Simulation calls it
                raise TypeError("compare takes no parameter 'folder'. Write out=..., and name=... for a folder in it.")
            known = [field for field in RunConfig.model_fields if field not in _GIVEN]
            raise TypeError(f"compare takes no parameter {key!r}. {nearest(key, known)}")
    chosen = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not chosen:
        raise ValueError(
            f"compare needs at least one seed and got seeds={seeds!r}. Write seeds=3 for the seeds 0, 1, 2."
        )
    own = _Common.of(data, model, loss, {"n": n, "f": f, "byzantine": f, **training})
    partition_items = _items(partitions, "partition")
    expanded, objects = Expanded(), {}
    heading = title or "Comparison"
    triples = itertools.product(_items(rules, "rule"), _items(attacks, "attack"), partition_items)
    for (rule_label, rule), (attack_label, attack), (place, partition) in triples:
        rule_key, rule_object = _rule(rule)
        attack_key, attack_object = _attack(attack)
        partition_key, partition_object = _partition(partition)
        given = Objects(rule_object, attack_object, own.data, own.model, partition_object, loss)
        setting = f"partition = {place}" if len(partition_items) > 1 else ""
        for seed in chosen:
            config = own.config(rule=rule_key, attack=attack_key, partition=partition_key, seed=seed)
            _check(config, given, rule_label)
            expanded.entries.append(Entry(heading, rule_label, attack_label, setting, config))
            objects[config.hash] = given
    experiment = Experiment(title=heading, name=name)
    with watched_runs() as watch:
        finished = run_entries(
            experiment, expanded, Path(out), objects=objects, jobs=jobs, backend=backend, watch=watch, frames=frames
        )
    failed = {done.error: done for done in finished if done.error}
    if len(failed) and all(done.error for done in finished):
        raise RuntimeError(f"No run of the comparison was made: {'; '.join(str(error) for error in failed)}")
    for error, done in failed.items():
        warnings.warn(f"Not compared: {done.title}: {error}", UserWarning, stacklevel=2)
    return Comparison(Path(out) / name, Results.load(Path(out) / name), finished)


@dataclass(frozen=True)
class _Common:
    """What all runs of a comparison have in common."""

    data: Any
    model: Any
    table: Mapping[str, Any]

    @classmethod
    def of(cls, data: Any, model: Any, loss: Any, training: Mapping[str, Any]) -> _Common:
        own = None if isinstance(data, str) else as_dataset(data)
        digests = {} if own is None else {"data": fingerprint(own)}
        if not isinstance(model, str):
            digests["model"] = fingerprint(model)
        if loss is not None:
            digests["loss"] = fingerprint(loss)
        table = {**training, "objects": digests, "data": data if own is None else own.name}
        table["model"] = model if isinstance(model, str) else named(model).partition("(")[0]
        return cls(own, None if isinstance(model, str) else model, table)

    def config(self, **more: Any) -> RunConfig:
        try:
            return RunConfig(**{**self.table, **more})
        except ValidationError as error:
            raise ConfigError(sentences(error, RunConfig, "compare")) from None


def _items(given: Any, kind: str) -> list[tuple[str, Any]]:
    """Labels and what they stand for, from one item, several, or a mapping. Equal labels are numbered."""
    if isinstance(given, Mapping) and "name" not in given:
        return [(str(label), item) for label, item in given.items()]
    several = isinstance(given, Iterable) and not isinstance(given, (str, Mapping))
    found: dict[str, Any] = {}
    for item in given if several else [given]:
        base = _label(item, kind)
        label = next(name for k in itertools.count(1) if (name := base if k == 1 else f"{base} ({k})") not in found)
        found[label] = item
    if not found:
        raise ValueError(f"compare needs at least one {kind} and got an empty list.")
    return list(found.items())


def _label(item: object, kind: str) -> str:
    if isinstance(item, (str, Mapping)):
        return label_of(item)
    return named(as_rule(item) if kind == "rule" else item)


def _rule(given: Any) -> tuple[Any, Any]:
    """The rule for the configuration, and as an object where it is one. A label is no part of it."""
    if isinstance(given, (str, Mapping)):
        return given, None
    rule = as_rule(given)
    return {"name": named(rule), "digest": fingerprint(rule)}, rule


def _attack(given: Any) -> tuple[Any, Any]:
    if given is None or isinstance(given, (str, Mapping)):
        return given or "none", None
    check_objects(given, iter)
    return {"name": named(given), "digest": fingerprint(given)}, given


def _partition(given: Any) -> tuple[Any, Any]:
    if isinstance(given, (str, Mapping)):
        return given, None
    if isinstance(given, Spreading):
        return {"name": given.name, **given.options}, None
    check_objects(None, given)
    return {"name": named(given), "digest": fingerprint(given)}, given


def _check(config: RunConfig, objects: Objects, label: str) -> None:
    try:
        check(config, objects)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"compare, {label}: {error}") from None


def _table(group: Group) -> str:
    """Columns of text, as wide as what is in them."""
    cases = {case.rule: case for case in worst_cases(group)}
    order = [*cases, *(rule for rule in group.rules if rule not in cases)]
    lines = [["rule", *group.attacks, "worst"]]
    for rule in order:
        means = [group.mean(rule, attack) for attack in group.attacks]
        worst = f"{cases[rule].accuracy:.1f}" if rule in cases else "-"
        lines.append([rule, *("-" if mean is None else f"{mean:.1f}" for mean in means), worst])
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    shown = [
        "  ".join(cell.ljust(width) if not place else cell.rjust(width) for place, (cell, width) in enumerate(pairs))
        for pairs in (list(zip(line, widths, strict=True)) for line in lines)
    ]
    return "\n".join([group.title, *shown])
