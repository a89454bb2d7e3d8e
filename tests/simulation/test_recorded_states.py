"""Recorded states: the run does not notice, and the numbers are those of the workers' own examples."""

from pathlib import Path

import numpy as np
import pytest
import torch

from mixtailor import Comed, Krum
from mixtailor.attacks import Tailored
from mixtailor.simulation import Settings, Simulation, by_label, read_states, synthetic
from mixtailor.simulation.recorded_states import Recording, recorded_rounds

SETTINGS = Settings(n=6, byzantine=2, rounds=20, batch=8, learning_rate=0.1, evaluate_every=5, seed=3)


def simulation(**options: object) -> Simulation:
    return Simulation(synthetic(), "logistic", Comed(), Tailored(0.1), settings=SETTINGS, **options)  # type: ignore[arg-type]  # options of several types


def test_recording_moves_nothing() -> None:
    plain, recorded = simulation().run(), simulation(states=3, resamples=4).run()
    assert torch.equal(plain.weights, recorded.weights) and plain.states == []
    assert [state.name for state in recorded.states] == ["round 0", "round 10", "round 20"]
    assert recorded.states[0].gradients.shape == (4, 6, 210)
    assert not np.array_equal(recorded.states[0].gradients[0], recorded.states[0].gradients[1]), "resamples differ"


def test_batches_are_without_bias_for_the_full_gradient() -> None:
    """Workers with one label each, liars last: means over many resamples come to the gradient of the full pass."""
    state = Simulation(
        synthetic(), "logistic", Comed(), Tailored(0.1), settings=SETTINGS, partition=by_label, states=1, resamples=400
    ).run().states[0]  # fmt: skip
    means = state.gradients.mean(axis=0)
    error = np.linalg.norm(means.mean(axis=0) - state.gradient) / state.length
    assert error < 0.05
    assert np.linalg.norm(means[0] - state.gradient) > 5 * error * state.length, "one worker alone is no full pass"


def test_states_are_files_that_a_resumed_run_goes_on_with(tmp_path: Path) -> None:
    whole = simulation(states=3, resamples=2, folder=tmp_path / "whole")
    whole.run()
    states = read_states(tmp_path / "whole" / "states")
    assert [state.name for state in states] == ["round 0", "round 10", "round 20"]
    kept = simulation(states=3, resamples=2).run().states
    assert all(np.array_equal(a.gradients, b.gradients) for a, b in zip(states, kept, strict=True))
    assert all(np.array_equal(a.gradient, b.gradient) for a, b in zip(states, kept, strict=True))


def test_the_rounds_are_spread() -> None:
    assert recorded_rounds(SETTINGS, 0) == ()
    assert recorded_rounds(SETTINGS, 1) == (0,)
    assert recorded_rounds(SETTINGS, 99) == (0, 5, 10, 15, 20)
    assert recorded_rounds(Settings(rounds=7, evaluate_every=3), 4) == (0, 3, 6, 7)


def test_a_folder_says_what_it_holds(tmp_path: Path) -> None:
    recording = Recording(2, 3)
    assert not recording.begun(tmp_path)
    recording.begin(tmp_path)
    assert recording.begun(tmp_path) and not recording.complete(tmp_path)
    recording.end(tmp_path)
    assert recording.complete(tmp_path) and not Recording(3, 3).begun(tmp_path)
    (tmp_path / "round-1.npz").write_bytes(b"no state")
    with pytest.raises(ValueError, match=r"round-1\.npz cannot be read"):
        read_states(tmp_path)
    recording.clear(tmp_path)
    assert not recording.begun(tmp_path) and read_states(tmp_path) == []


def test_what_has_no_gradients_is_refused() -> None:
    with pytest.raises(ValueError, match="sends deltas"):
        Simulation(synthetic(), "logistic", Krum(1), settings=Settings(n=6, byzantine=1, sends="deltas"), states=1)
    with pytest.raises(ValueError, match="spread='all'"):
        Simulation(
            synthetic(),
            "logistic",
            Krum(1),
            Tailored(0.1),
            settings=Settings(n=6, byzantine=1, spread="honest"),
            states=1,
        )
