"""RobustTailor as the server of a simulation: probabilities from the server's own examples, each round."""

from typing import Any

import pytest
import torch

from mixtailor import Comed, GeometricMedian, Krum, MixTailor
from mixtailor.attacks import Adaptive, Tailored
from mixtailor.experiments import RunConfig
from mixtailor.experiments.building import simulation_of
from mixtailor.simulation import Settings, Simulation, synthetic
from mixtailor.theory import RobustTailor

POOL = (Krum(f=2), Comed(), GeometricMedian())


def settings(**changes: Any) -> Settings:
    table: dict[str, Any] = {
        "n": 12,
        "byzantine": 2,
        "rounds": 30,
        "batch": 8,
        "learning_rate": 0.1,
        "evaluate_every": 10,
    }
    return Settings(**{**table, **changes})


def drawn(outcome: Any) -> dict[str, int]:
    counts: dict[str, int] = {}
    for record in outcome.records:
        for rule, count in record["drawn"].items():
            counts[rule] = counts.get(rule, 0) + count
    return counts


def test_a_rule_that_the_simulated_attacks_break_is_hardly_drawn() -> None:
    """Against a small epsilon Krum is broken on the server's own examples: the uniform draw takes it for a third."""
    for kind in ({}, {"momentum": 0.0, "worker_momentum": 0.9}, {"sends": "models", "local_learning_rate": 0.1}):
        outcome = Simulation(
            synthetic(), "logistic", RobustTailor(POOL, 2), Tailored(epsilon=0.1), settings=settings(**kind)
        ).run()
        counts = drawn(outcome)
        assert sum(counts.values()) == 30
        if not kind:
            uniform = drawn(
                Simulation(synthetic(), "logistic", MixTailor(POOL), Tailored(epsilon=0.1), settings=settings()).run()
            )
            assert counts.get(repr(POOL[0]), 0) < uniform[repr(POOL[0])]


def test_what_arrives_plays_no_part_in_the_probabilities(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first round's game is the same under every attack; its rows are as many as workers take part."""
    seen: list[torch.Tensor] = []
    made = RobustTailor.for_round

    def watched(self: RobustTailor, public: Any, **options: Any) -> Any:
        seen.append(public.clone())
        return made(self, public, **options)

    monkeypatch.setattr(RobustTailor, "for_round", watched)
    for attack in (None, Tailored(epsilon=10.0), Adaptive(MixTailor(POOL))):
        changes: dict[str, Any] = {"rounds": 1, "participation": 0.75}
        Simulation(synthetic(), "logistic", RobustTailor(POOL, 2), attack, settings=settings(**changes)).run()
    assert len(seen) == 3 and len(seen[0]) == 9
    assert torch.equal(seen[0], seen[1]) and torch.equal(seen[0], seen[2])
    assert len(torch.unique(seen[0], dim=0)) == 9


def test_a_run_repeats_and_resumes_with_the_same_bits(tmp_path: Any) -> None:
    """Probabilities and draws follow from the seed; a folder of the uniform draw is refused."""
    table = {"data": "synthetic", "model": "logistic", "rule": "robust_tailor", "rounds": 12, "evaluate_every": 6}
    table |= {"attack": "adaptive", "n": 12, "f": 2}
    config = RunConfig.made(table)
    whole = simulation_of(config).run()
    first = simulation_of(config, folder=tmp_path)
    first._evaluated()
    for _ in range(5):
        first._one_round()
        first._round += 1
    first._save()
    assert torch.equal(simulation_of(config, folder=tmp_path).run().weights, whole.weights)
    four = {"name": "pool", "rules": ["krum", "comed", "geometric_median", "bulyan"]}
    with pytest.raises(ValueError, match="other settings, rule, attack or data"):
        simulation_of(RunConfig.made({**table, "rule": four}), folder=tmp_path)


def test_its_parameters_are_checked() -> None:
    """A wrong one is refused, and so are rules that n forbids, as in any pool that is given by its rules."""
    with pytest.raises(ValueError, match="takes no parameter 'step'"):
        RunConfig.made({"rule": {"name": "robust_tailor", "step": 3}, "attack": "none"})
    with pytest.raises(ValueError, match="needs at least 19 rows"):
        RunConfig.made({"data": "synthetic", "model": "logistic", "rule": "robust_tailor", "n": 12, "f": 4})
