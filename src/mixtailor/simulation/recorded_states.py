"""Gradients recorded at some models of a run, for certificates and the game."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from mixtailor._checks import check_count
from mixtailor._files import atomic_write, read_bounded
from mixtailor.simulation.archives import read_arrays
from mixtailor.simulation.streams import stream, stream_seed
from mixtailor.theory import State

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    import numpy.typing as npt

    from mixtailor.simulation.gradients import WorkerGradients
    from mixtailor.simulation.settings import Settings
    from mixtailor.simulation.workers import Workers

__all__ = ["Recorder", "Recording", "read_states", "recorded_rounds", "write_state"]

_TOGETHER = 500  # examples of a full pass in one batch


class Recorder:
    r"""Makes a `State` of a model: resamples of all workers' gradients, and the full gradient.

    .. math:: \nabla F = \frac1n \sum_i \nabla F_i

    with :math:`F_i` the mean loss on all examples of worker i. A resample is one batch of each worker's own examples,
    drawn again, with the n workers in the order of a `State`: Byzantine workers come last. Both have dropout as in
    training, from streams of their own: recording moves nothing of the run.

    Parameters
    ----------
    gradients : WorkerGradients
        Computes the gradients of the workers.
    workers : Workers
        Of the run.
    byzantine : sequence of int
        The Byzantine workers.
    resamples : int
        R; a certificate needs 2, and 10 are better.

    Notes
    -----
    A full pass, and not the gradient on test examples: batches are without bias for the loss that is trained on, and
    once a network has learnt its examples by heart, the test loss has another gradient, which no rule would descend.
    """

    def __init__(
        self, gradients: WorkerGradients, workers: Workers, byzantine: Sequence[int], *, resamples: int = 10
    ) -> None:
        settings = workers.settings
        check_count("Recorder", "resamples", resamples)
        if settings.sends != "gradients":
            raise ValueError(f"States are made of gradients, and this run sends {settings.sends}. Give no states.")
        if settings.spread == "honest" and settings.byzantine:
            raise ValueError(
                "A state has correct gradients of all workers, and with spread='honest' the Byzantine ones have no "
                "data. Give spread='all', or no states."
            )
        lying = set(byzantine)
        self.order = [*(worker for worker in range(settings.n) if worker not in lying), *byzantine]
        self.resamples = resamples
        self._gradients, self._workers = gradients, workers

    def __call__(self, weights: torch.Tensor, round: int) -> State | None:
        """The state of a model ``(d,)`` that stood after `round` rounds; None where its gradients are not finite."""
        seed = self._workers.settings.seed
        rows = []
        for resample in range(self.resamples):
            inputs, labels = self._workers.data.train(self._batches(round, resample))
            dropout = stream_seed(seed, "recorded dropout", round, resample)
            rows.append(self._gradients(weights, inputs, labels, seed=dropout)[0].cpu().numpy().copy())
        gradients, gradient = np.stack(rows), self._full(weights, round)
        if not (np.isfinite(gradients).all() and np.isfinite(gradient).all() and gradient.any()):
            return None
        return State(gradients, gradient, name=f"round {round}")

    def _batches(self, round: int, resample: int) -> npt.NDArray[np.int64]:
        random = stream(self._workers.settings.seed, "recorded batches", round, resample)
        size = self._workers.settings.batch
        parts = [self._workers.batches.parts[worker] for worker in self.order]
        return np.stack([random.choice(part, size, replace=len(part) < size) for part in parts])

    def _full(self, weights: torch.Tensor, round: int) -> npt.NDArray[np.float32]:
        data, parts = self._workers.data, [self._workers.batches.parts[worker] for worker in self.order]
        whole = np.zeros(self._gradients.layout.d)
        for place, part in enumerate(parts):
            for start in range(0, len(part), _TOGETHER):
                inputs, labels = data.train(part[None, start : start + _TOGETHER])
                seed = stream_seed(self._workers.settings.seed, "full pass", round, place, start)
                row = self._gradients(weights, inputs, labels, seed=seed)[0][0]
                whole += labels.numel() / (len(part) * len(parts)) * row.cpu().numpy().astype(np.float64)
        return whole.astype(np.float32)


def recorded_rounds(settings: Settings, states: int) -> tuple[int, ...]:
    """The evaluations at which so many states are recorded: evenly spread, the first and the last among them.

    Examples
    --------
    >>> from mixtailor.simulation import Settings
    >>> recorded_rounds(Settings(rounds=200, evaluate_every=20), 3)
    (0, 100, 200)
    """
    check_count("A recording", "states", states, 0)
    evaluated = [*range(0, settings.rounds, settings.evaluate_every), settings.rounds]
    places = np.linspace(0, len(evaluated) - 1, min(states, len(evaluated))).round().astype(int)
    return tuple(evaluated[place] for place in places)


def write_state(folder: str | os.PathLike[str], state: State) -> Path:
    """Write a state into a folder, whole or not at all: plain arrays, which run no code when they are read."""
    path = Path(folder) / f"{state.name.replace(' ', '-')}.npz"
    arrays: Any = {"gradients": state.gradients, "gradient": state.gradient}
    with atomic_write(path) as file:
        np.savez(file, **arrays)
    return path


@dataclass(frozen=True)
class Recording:
    """What a folder of states is to hold: so many, of so many resamples. The folder says so itself.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Recording(4, 10).begin(folder)
    ...     begun, done = Recording(4, 10).begun(folder), Recording(4, 10).complete(folder)
    >>> begun, done
    (True, False)
    """

    states: int
    resamples: int = 10

    def begin(self, folder: str | os.PathLike[str]) -> None:
        """Remove the states of another recording, and begin this one."""
        self.clear(folder)
        self._write(folder, complete=False)

    def clear(self, folder: str | os.PathLike[str]) -> None:
        """Remove the states of another recording, and what says whose they are."""
        (Path(folder) / "recording.json").unlink(missing_ok=True)
        for path in Path(folder).glob("round-*.npz"):
            path.unlink()

    def end(self, folder: str | os.PathLike[str]) -> None:
        """Mark the recording as complete."""
        self._write(folder, complete=True)

    def begun(self, folder: str | os.PathLike[str]) -> bool:
        """Whether the folder is of this recording, complete or not."""
        return self._told(folder)[:2] == (self.states, self.resamples)

    def complete(self, folder: str | os.PathLike[str]) -> bool:
        """Whether it is, and complete."""
        return self._told(folder) == (self.states, self.resamples, True)

    def _told(self, folder: str | os.PathLike[str]) -> tuple[object, ...]:
        try:
            told = json.loads(read_bounded(Path(folder) / "recording.json", 1 << 16).decode("utf-8"))
            return told["states"], told["resamples"], told["complete"]
        except (OSError, ValueError, KeyError, TypeError):
            return ()

    def _write(self, folder: str | os.PathLike[str], *, complete: bool) -> None:
        with atomic_write(Path(folder) / "recording.json") as file:
            file.write(json.dumps({**asdict(self), "complete": complete}).encode())


def read_states(folder: str | os.PathLike[str]) -> list[State]:
    """The states in a folder, by their rounds.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = write_state(folder, State(np.ones((2, 5, 3)), np.ones(3), name="round 40"))
    ...     [state.name for state in read_states(folder)]
    ['round 40']
    """
    found = []
    # By length first, so that round 40 comes before round 100.
    for path in sorted(Path(folder).glob("round-*.npz"), key=lambda path: (len(path.name), path.name)):
        try:
            stored = read_arrays(path)
            state = State(stored["gradients"], stored["gradient"], name=path.stem.replace("-", " "))
        except Exception as error:  # whatever a file holds that `write_state` did not write
            raise ValueError(f"The state {path} cannot be read: {error}. Remove it, and record it again.") from error
        found.append(state)
    return found
