"""The paper's figures and tables as files: each parses, and each of its runs does two rounds."""

from pathlib import Path

import pytest

from mixtailor.experiments import Experiment, Results, run, shipped, shipped_names
from mixtailor.experiments.claims import numbers_beside, verdicts
from mixtailor.experiments.errors import ConfigError
from mixtailor.experiments.running import execute

WANTED = {
    "fig1", "krum-fails", "non-iid", "random", "four-byzantine", "adaptive", "ablation", "alie", "momentum",
    "comed-learning-rate", "time", "hyper-parameters", "readings",
}  # fmt: skip


def test_every_figure_and_table_is_here() -> None:
    assert set(shipped_names()) == WANTED
    with pytest.raises(ConfigError, match="Did you mean 'fig1'"):
        shipped("fig11")


@pytest.mark.parametrize("name", sorted(WANTED - {"hyper-parameters"}))
def test_each_shipped_run_does_two_rounds(name: str, tmp_path: Path) -> None:
    """On digits and a small network in place of the published data, everything else as in the file."""
    experiment = shipped(name)
    configs = {}
    for entry in experiment.entries():
        small = entry.config.model_copy(
            update={"data": "digits", "model": "mlp", "rounds": 2, "evaluate_every": 1, "seed": 0, "batch": 4}
        )
        configs[small.hash] = small
    for config in configs.values():
        done = execute(config.rule["name"], config.model_dump(), str(tmp_path / config.hash), None)
        assert done.error is None, f"{config.rule} under {config.attack}: {done.error}"


def test_claims_and_numbers_speak_of_lines_that_exist() -> None:
    """A claim about a rule or a panel that no run has would never be measured."""
    for name in WANTED - {"hyper-parameters"}:
        experiment = shipped(name)
        entries = experiment.entries()
        lines = {(entry.panel, entry.rule) for entry in entries}
        panels = {entry.panel for entry in entries}
        for claim in experiment.claims:
            others = [claim.than] if isinstance(claim.than, str) else claim.than if isinstance(claim.than, list) else []
            for panel in claim.in_panels or []:
                assert {(panel, rule) for rule in others} <= lines, (name, claim.text)
            for panel in claim.worst_of or claim.panels or panels:
                if claim.in_panels:
                    others = []
                assert {(panel, rule) for rule in [claim.rule, *others]} <= lines, (name, claim.text)
        for number in experiment.numbers:
            assert (number.panel, number.rule) in lines, (name, number)


def test_a_part_of_a_figure() -> None:
    """Panels by a piece of their title, with what the paper says of them and nothing else; the whole keeps its page."""
    whole, part = shipped("fig1"), shipped("fig1").of_panels("mnist, EPSILON = 0.1")
    assert [panel.title for panel in part.panels] == ["MNIST, epsilon = 0.1"] and part.name == "fig1-mnist-epsilon-0.1"
    assert {entry.config.hash for entry in part.entries()} < {entry.config.hash for entry in whole.entries()}
    assert part.claims and all(claim.panels in (None, ["MNIST, epsilon = 0.1"]) for claim in part.claims)
    assert len(part.claims) < len(whole.claims)
    with pytest.raises(ConfigError, match=r"no panel with 'EMNIST'.*MNIST, epsilon = 0\.1; MNIST, epsilon = 10"):
        whole.of_panels("EMNIST")
    with pytest.raises(ConfigError, match="one alone, 'Adaptive attack on MNIST'"):
        shipped("adaptive").of_panels("MNIST")


def test_both_readings_of_the_network() -> None:
    """The published figures take the code's perceptron on MNIST; either reading of either data set can be chosen."""

    def models(experiment: Experiment) -> set[tuple[str, str]]:
        return {(entry.config.data, entry.config.model) for entry in experiment.entries()}

    assert models(shipped("fig1")) == {("mnist", "mlp"), ("cifar10", "cnn")}
    assert models(shipped("fig1").changed({"network": "text"})) == {("mnist", "cnn"), ("cifar10", "cnn")}
    assert models(shipped("fig1").changed({"network": "code"})) == {("mnist", "mlp"), ("cifar10", "large_cnn")}
    for name in WANTED - {"hyper-parameters"}:
        options = [x.config.model_options for x in shipped(name).entries() if x.config.data == "mnist"]
        assert options and all(option == {"hidden": 100} for option in options), name


def test_the_paper_s_hyper_parameters_are_our_presets(tmp_path: Path) -> None:
    assert run(shipped("hyper-parameters"), tmp_path) == []
    beside = numbers_beside(Results.load(tmp_path / "hyper-parameters"))
    assert len(beside) == 10 and all(ours == number.low for number, ours in beside)


def test_one_of_the_paper_s_own_runs(shared_data: Path, tmp_path: Path) -> None:
    """The adaptive figure on the published MNIST, one round: numbers stand beside ours, claims get their verdicts."""
    experiment = shipped("adaptive").changed(seeds=[0])
    done = run(experiment, tmp_path, scale=1 / 50_000, data=shared_data)
    assert [item.error for item in done] == [None] * 7
    results = Results.load(tmp_path / "adaptive")
    beside = numbers_beside(results)
    assert [(number.rule, number.low) for number, _ in beside][:2] == [("comed", 85.0), ("krum", 83.0)]
    assert all(ours is not None and 0 <= ours <= 100 for _, ours in beside)
    assert all(verdict.margin is not None for verdict in verdicts(results))
