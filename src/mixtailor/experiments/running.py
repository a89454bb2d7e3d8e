"""Running many runs: in parallel, each once, and none stopped by another's failure."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import time
import warnings
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mixtailor._checks import MissingPackageError
from mixtailor._files import atomic_write, read_bounded
from mixtailor.experiments.backends import register
from mixtailor.experiments.config import RunConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from mixtailor.experiments.building import Objects
    from mixtailor.experiments.experiment import Entry, Expanded, Experiment
    from mixtailor.experiments.watching import Watch
    from mixtailor.simulation.frames import Filming
    from mixtailor.simulation.progress import Progress
    from mixtailor.simulation.recorded_states import Recording
    from mixtailor.trackers import Tracker

    _Arguments = tuple[
        str, dict[str, Any], str, str | None, "Recording | None", str | None, "Objects | None", "Filming | None"
    ]

__all__ = ["Finished", "execute", "is_complete", "run", "run_entries", "versions"]


@dataclass(frozen=True)
class Finished:
    """How one run ended.

    Attributes
    ----------
    hash : str
        The name of the run's folder, made from its settings.
    title : str
        Rule, attack and seed, for messages.
    accuracy : float or None
        The mean of the last five evaluations, 0 to 1; None where it failed.
    error : str or None
        Why it failed.
    skipped : bool
        Whether it was complete before.
    """

    hash: str
    title: str
    accuracy: float | None = None
    error: str | None = None
    skipped: bool = False


def run(
    experiment: Experiment,
    out: str | os.PathLike[str],
    *,
    scale: float = 1.0,
    jobs: int = 1,
    backend: str = "loky",
    data: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
    only: Callable[[Entry], bool] | None = None,
    recording: Recording | None = None,
    tracker: str | None = None,
    frames: int = 0,
) -> list[Finished]:
    """Make all runs of an experiment that are not complete yet.

    The results of a run are in ``out/runs/HASH``, with the hash of its configuration: two experiments in one folder
    share the runs that they have in common. ``out/NAME/experiment.json`` says which runs belong to the experiment.

    Parameters
    ----------
    experiment : Experiment
        What to run.
    out : path
        The folder of the results.
    scale : float
        The share of the rounds to run.
    jobs : int
        How many processes; -1 is one for each core.
    backend : str
        One of joblib's: "loky" and "multiprocessing" (processes), "sequential"; or "dask" and "ray", where these are
        installed and a cluster was connected to. Not "threading": torch has one source of dropout for all threads.
    data : path, optional
        Where data files are.
    watch : Watch, optional
        Callbacks for the runs; `watched_runs` shows them on a terminal.
    only : callable, optional
        Which entries to run; the others are left out of the index as well.
    recording : Recording, optional
        Gradients to record in each run, for certificates. A run that is complete without them is made once more.
    tracker : {"tensorboard", "mlflow", "wandb"}, optional
        Where the numbers of each run go as well, as a run of that tracker's.
    frames : int
        How many rounds to record in the runs of the first seed, for the player of the report.

    Examples
    --------
    >>> import tempfile
    >>> from mixtailor.experiments import Experiment
    >>> text = 'title = "x"\\nrun = {data = "synthetic", model = "logistic", rounds = 5, rule = ["krum", "comed"]}'
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     first = run(Experiment.parse(text), folder)
    ...     again = run(Experiment.parse(text), folder)
    >>> [finished.skipped for finished in first + again]
    [False, False, True, True]
    """
    if tracker is not None:
        from mixtailor.trackers import check_tracker

        check_tracker(tracker)
    expanded = experiment.expanded(scale)
    if only is not None:
        expanded.entries = [entry for entry in expanded.entries if only(entry)]
    return run_entries(
        experiment,
        expanded,
        Path(out),
        scale=scale,
        jobs=jobs,
        backend=backend,
        data=data,
        watch=watch,
        recording=recording,
        tracker=tracker,
        frames=frames,
    )


def run_entries(
    experiment: Experiment,
    expanded: Expanded,
    folder: Path,
    *,
    objects: Mapping[str, Objects] = MappingProxyType({}),
    scale: float = 1.0,
    jobs: int = 1,
    backend: str = "loky",
    data: str | os.PathLike[str] | None = None,
    watch: Watch | None = None,
    recording: Recording | None = None,
    tracker: str | None = None,
    frames: int = 0,
) -> list[Finished]:
    """Make given runs of an experiment; `objects` are what takes the place of names in a run, by its hash."""
    _write(folder / experiment.name / "experiment.json", _index(experiment, expanded.entries, expanded.left_out, scale))
    tasks: dict[str, tuple[str, RunConfig]] = {}
    for entry in expanded.entries:
        title = f"{entry.rule} / {entry.attack} / seed {entry.config.seed}"
        tasks.setdefault(entry.config.hash, (f"{entry.panel}: {title}" if experiment.panels else title, entry.config))
    finished, waiting = [], []
    for name, (title, config) in tasks.items():
        known = _complete(folder / "runs" / name)
        if known is None or (recording is not None and not recording.complete(folder / "runs" / name / "states")):
            waiting.append((title, config))
        else:
            finished.append(Finished(name, title, known["accuracy"], skipped=True))
    filmed = _filmed(expanded.entries, objects, frames) if frames and waiting else {}
    arguments: list[_Arguments] = [
        (
            title,
            config.model_dump(),
            str(folder / "runs" / config.hash),
            None if data is None else str(data),
            recording,
            tracker,
            objects.get(config.hash),
            filmed.get(config.hash),
        )
        for title, config in waiting
    ]
    if watch is not None:
        watch.begun(len(finished), len(tasks))
    for done in _executed(arguments, jobs, backend, watch):
        finished.append(done)
        if watch is not None:
            watch.finished(done, len(finished), len(tasks))
    order = {name: place for place, name in enumerate(tasks)}
    return sorted(finished, key=lambda item: order[item.hash])


def execute(
    title: str,
    table: dict[str, Any],
    folder: str,
    data: str | None,
    recording: Recording | None = None,
    tracker: str | None = None,
    objects: Objects | None = None,
    filming: Filming | None = None,
    progress: Progress | None = None,
) -> Finished:
    """Make one run to its end, from its checkpoint if there is one. An error is reported, not raised.

    The networks of these experiments are small and runs go side by side, so that each has one thread: the same bits
    come out whatever the number of processes.
    """
    import torch

    from mixtailor.experiments.building import simulation_of

    config, where, threads = RunConfig(**table), Path(folder), torch.get_num_threads()
    started = time.perf_counter()
    try:
        torch.set_num_threads(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # what n and f forbid is in the index of the experiment
            if recording is not None and _complete(where) is not None:
                return _recorded(title, config, where, data, recording, objects, progress)
            if recording is not None and not recording.begun(where / "states"):
                (where / "checkpoint.npz").unlink(missing_ok=True)  # what came before it was not recorded
                recording.begin(where / "states")
            with contextlib.nullcontext() if tracker is None else _tracked(tracker, where, title) as told:
                simulation = simulation_of(
                    config,
                    folder=where,
                    data=data,
                    progress=progress,
                    recording=recording,
                    tracker=told,
                    objects=objects,
                    filming=filming,
                )
                resumed = simulation.done
                outcome = simulation.run()
            if recording is not None:
                recording.end(where / "states")
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        with contextlib.suppress(OSError):
            where.mkdir(parents=True, exist_ok=True)
            (where / "error.txt").write_text(message + "\n", encoding="utf-8")
        return Finished(config.hash, title, error=message)
    finally:
        torch.set_num_threads(threads)
    (where / "error.txt").unlink(missing_ok=True)
    summary = {
        "hash": config.hash,
        "config": config.model_dump(mode="json"),
        "accuracy": outcome.accuracy(),
        "diverged": outcome.diverged,
        "resumed_at": resumed,
        "seconds": round(time.perf_counter() - started, 3),
        "versions": versions(),
    }
    _write(where / "summary.json", summary)
    return Finished(config.hash, title, outcome.accuracy())


def _filmed(entries: Sequence[Entry], objects: Mapping[str, Objects], frames: int) -> dict[str, Filming]:
    """Of the first seed of each rule and attack: how to record it, with the rules that it is compared with."""
    from mixtailor.experiments.building import rule_of
    from mixtailor.simulation.frames import Filming

    first: dict[tuple[str, str, str, str], Entry] = {}
    for entry in entries:
        known = first.setdefault((entry.panel, entry.setting, entry.attack, entry.rule), entry)
        if entry.config.seed < known.config.seed:
            first[entry.panel, entry.setting, entry.attack, entry.rule] = entry
    beside: dict[tuple[str, int, int], dict[str, Any]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # what n and f forbid is in the index of the experiment
        for entry in first.values():
            shown = beside.setdefault((entry.panel, entry.config.n, entry.config.f), {})
            if entry.rule not in shown:
                shown[entry.rule] = rule_of(entry.config, objects.get(entry.config.hash))
    return {
        entry.config.hash: Filming(frames, beside[entry.panel, entry.config.n, entry.config.f])
        for entry in first.values()
    }


def _recorded(
    title: str,
    config: RunConfig,
    where: Path,
    data: str | None,
    recording: Recording,
    objects: Objects | None,
    progress: Progress | None,
) -> Finished:
    """A run that was complete without its states, once more: the bits are the same, and only the states are kept."""
    from mixtailor.experiments.building import simulation_of
    from mixtailor.simulation.recorded_states import write_state

    outcome = simulation_of(config, data=data, progress=progress, recording=recording, objects=objects).run()
    recording.clear(where / "states")
    for state in outcome.states:
        write_state(where / "states", state)
    recording.end(where / "states")
    return Finished(config.hash, title, outcome.accuracy())


@contextlib.contextmanager
def _tracked(name: str, folder: Path, title: str) -> Iterator[Tracker]:
    from mixtailor.trackers import open_tracker

    with contextlib.closing(open_tracker(name, folder, title)) as tracker:
        yield tracker


def is_complete(folder: str | os.PathLike[str]) -> bool:
    """Whether the run in this folder is complete."""
    return _complete(Path(folder)) is not None


def versions() -> dict[str, str]:
    """What the results were made with."""
    found = {"python": platform.python_version(), "platform": platform.platform()}
    for package in ("mixtailor", "torch", "numpy", "numba", "scipy"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _executed(arguments: Sequence[_Arguments], jobs: int, backend: str, watch: Watch | None) -> Iterator[Finished]:
    alone = jobs == 1 or len(arguments) == 1  # one run needs no other process, and can be watched here
    if (alone and backend in ("loky", "sequential")) or not arguments:
        for given in arguments:
            yield execute(*given, None if watch is None else watch.running(given[0], given[1]["rounds"]))
        return
    try:
        import joblib
    except ImportError as error:
        raise MissingPackageError("Running in parallel", "joblib", "train") from error
    register(backend)
    options: dict[str, Any] = {"inner_max_num_threads": 1} if backend == "loky" else {}
    left = {RunConfig(**given[1]).hash: given[0] for given in arguments}
    calls = [joblib.delayed(execute)(*given) for given in arguments]
    with joblib.parallel_config(backend=backend, n_jobs=jobs, **options):
        try:
            pool = joblib.Parallel(return_as="generator_unordered")
        except ValueError:  # a backend that gives everything at the end
            pool = joblib.Parallel()
        try:
            for done in pool(calls):
                left.pop(done.hash, None)
                yield done
        except Exception as error:
            # A process that was killed, by the system for its memory perhaps, takes the pool with it.
            for name, title in left.items():
                yield Finished(name, title, error=f"not run to its end, {type(error).__name__}: {error}")


def _index(experiment: Experiment, entries: Sequence[Any], left_out: Sequence[str], scale: float) -> dict[str, Any]:
    listed = [
        {**{key: value for key, value in asdict(entry).items() if key != "config"},
         "hash": entry.config.hash, "config": entry.config.model_dump(mode="json")}
        for entry in entries
    ]  # fmt: skip
    return {
        "name": experiment.name,
        "title": experiment.title,
        "description": experiment.description,
        "scale": scale,
        "claims": [claim.model_dump(mode="json") for claim in experiment.claims],
        "numbers": [number.model_dump(mode="json") for number in experiment.numbers],
        "left_out": list(left_out),
        "versions": versions(),
        "entries": listed,
    }


_SUMMARY = 1 << 24  # bytes that a summary may have


def _complete(folder: Path) -> dict[str, Any] | None:
    """The summary of a run that was made to its end."""
    try:
        summary = json.loads(read_bounded(folder / "summary.json", _SUMMARY).decode("utf-8"))
    except (OSError, ValueError):
        return None
    return summary if isinstance(summary, dict) and "accuracy" in summary else None


def _write(path: Path, value: object) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(value, indent=1, ensure_ascii=False).encode())
