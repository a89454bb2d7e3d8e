"""Trying rows on a target, and searching along a line."""

import math

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import ALIE, Adaptive, BestResponse, LineSearch, MinMax, PoolAttack, Tailored, Trials, Zero
from mixtailor.attacks.base import Scene
from mixtailor.attacks.line_search import golden
from mixtailor.intake import receive
from mixtailor.kernels.space import Numba
from mixtailor.updates import Updates

POOL = mt.MixTailor(mt.paper_pool(2))


def scene(honest, f=2):
    return Scene(Updates.arrived(receive(honest)), f, len(honest) + f, None, None, np.random.default_rng(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("attack", [Tailored(0.3), ALIE(z=1.0), MinMax(direction="sign")], ids=repr)
def test_a_trial_is_what_the_server_would_answer(attack, dtype) -> None:
    """For every rule of the paper's pool: product, length, angle and payoff of the answer on the rows as sent."""
    honest = rows(d=300, dtype=dtype)
    here = scene(honest)
    trials = Trials(POOL, here)
    outcomes = trials.outcomes(attack.points(here))
    sent = np.vstack([honest, attack(honest, 2)])
    mean = honest.astype(float).mean(axis=0)
    for rule, outcome in zip(trials.rules, outcomes, strict=True):
        answer = rule(sent).astype(float)
        cosine = answer @ mean / np.linalg.norm(answer) / np.linalg.norm(mean)
        assert outcome.inner == pytest.approx(answer @ mean, rel=2e-4, abs=1e-4), rule
        assert outcome.length == pytest.approx(np.linalg.norm(answer), rel=2e-4), rule
        assert outcome.angle == pytest.approx(math.acos(np.clip(cosine, -1, 1)), abs=2e-3), rule
        assert outcome.distance == pytest.approx(np.linalg.norm(answer - mean), rel=1e-3, abs=1e-3), rule
        assert -1 <= outcome.payoff <= 1


def test_evaluations_are_counted_and_equal_rules_computed_once() -> None:
    """Of the sixty-four, sixteen comeds are one: 49 different rules."""
    here = scene(rows())
    trials = Trials(POOL, here)
    outcomes = trials.outcomes(Tailored().points(here))
    assert len(outcomes) == 64 and trials.evaluations == 49
    trials.outcomes(Tailored(2.0).points(here))
    assert trials.evaluations == 98


def test_honest_distances_are_measured_once(monkeypatch) -> None:
    """All norms of all candidates: one pass between honest rows, whatever the number of candidates."""
    passes = []
    plain = Numba.pair_lengths
    monkeypatch.setattr(
        Numba,
        "pair_lengths",
        lambda self, block, powers, *rest: (
            passes.append((len(block.addresses), len(powers))) or plain(self, block, powers, *rest)
        ),
    )
    here = scene(rows())
    trials = Trials(mt.MixTailor([mt.Krum(2, p=p) for p in (1, 2, 3, 16, math.inf)]), here)
    for epsilon in (0.1, 0.5, 1.0, 10.0):
        trials.outcomes(Tailored(epsilon).points(here))
    # p = 2 is asked for by the geometry, the others together.
    assert sorted(passes) == [(10, 1), (10, 4)]


def test_randomness_is_the_same_for_all_candidates() -> None:
    """Two candidates that are equal get equal answers from a rule that draws."""
    here = scene(rows())
    trials = Trials(mt.Subsampled(mt.Krum(1), 8), here)
    first = trials.outcome(Tailored().points(here))
    assert trials.outcome(Tailored().points(here)) == first


def test_a_rule_that_raises_is_named() -> None:
    """With what it raised."""

    def broken(_rows):
        raise ZeroDivisionError("division by zero")

    target = mt.MixTailor([mt.Krum(2), mt.Plain(broken)])
    with pytest.raises(RuntimeError, match=r"Plain\(.*broken\) of the target raised ZeroDivisionError"):
        LineSearch(Tailored(), target)(rows(), 2)


def test_plain_callables_are_tried() -> None:
    """They get the matrix of all rows."""
    honest = rows()
    here = scene(honest)
    outcome = Trials(mt.Plain(lambda matrix: matrix.max(axis=0)), here).outcome(Zero().points(here))
    assert outcome.inner == pytest.approx(np.maximum(honest.max(axis=0), 0.0) @ honest.mean(axis=0))


def test_a_target_told_the_honest_rows() -> None:
    """Omniscient is tried as it is, and not moved."""
    here = scene(rows())
    assert Trials(mt.Omniscient(), here).outcome(Tailored(100.0).points(here)).cosine == pytest.approx(1.0)


@pytest.mark.parametrize("target", [mt.Krum(2), mt.Comed(), mt.NNM(2) >> mt.TrimmedMean(2), POOL], ids=repr)
@pytest.mark.parametrize("attack", [Tailored(0.5), ALIE(z=1.5)], ids=repr)
def test_a_search_is_no_worse_than_any_size_it_could_have_tried(attack, target) -> None:
    """Nor than the attack's own size."""
    honest = rows(d=200)
    crafted = LineSearch(attack, target).craft(honest, 2)
    here = scene(honest)
    trials = Trials(target, here)

    def value(points):
        return np.dot(trials.shares, [outcome.inner for outcome in trials.outcomes(points)])

    line = attack.line(here)
    tried = [value([line.at(t)] * 2) for t in np.geomspace(1e-2, 1e2, 12)]
    assert crafted.facts["value"] <= min(*tried, value(attack.points(here))) + 1e-9
    assert crafted.facts["value"] == pytest.approx(value([line.at(crafted.facts["size"])] * 2), rel=1e-6)
    assert crafted.facts["evaluations"] <= 24 * len(set(trials.rules))


def test_distance_as_objective() -> None:
    """The answer goes at least as far from the mean as with the inner product for objective."""
    honest = rows(d=200)
    mean = honest.mean(axis=0)
    far, against = (
        np.linalg.norm(mt.Comed()(np.vstack([honest, attack(honest, 2)])) - mean)
        for attack in (LineSearch(ALIE(z=1.0), mt.Comed(), objective=name) for name in ("distance", "inner"))
    )
    assert far >= against * (1 - 1e-6)


def test_wrong_arguments() -> None:
    """What LineSearch needs, and a requirement that fails on n."""
    with pytest.raises(TypeError, match="rows lie on a line"):
        LineSearch(Zero(), mt.Comed())
    with pytest.raises(TypeError, match="rule or a MixTailor"):
        LineSearch(Tailored(), "krum")
    with pytest.raises(ValueError, match="low < high"):
        LineSearch(Tailored(), mt.Comed(), low=1.0, high=1.0)
    with pytest.raises(ValueError, match=r"Bulyan\(f=3\) needs at least 15 rows \(n >= 4f \+ 3\) and got 12"):
        LineSearch(Tailored(), mt.Bulyan(3))(rows(), 2)


@pytest.mark.parametrize(
    "rule",
    [mt.CenteredClipping(tau=3.0), mt.FLTrust(), mt.MoNNA(2), mt.NNM(2) >> mt.CenteredClipping(tau=3.0)],
    ids=repr,
)
@pytest.mark.parametrize("storage", ["matrix", "layers"])
def test_a_rule_with_a_reference_is_tried_with_the_one_of_the_server(rule, storage) -> None:
    """The value that an attack reports is the server's; without the reference it was that of another server."""
    honest = rows(seed=3)
    reference = honest.mean(axis=0) + 0.3 * np.random.default_rng(1).normal(size=honest.shape[1])
    mean = honest.mean(axis=0)
    given, trusted = honest, reference
    if storage == "layers":
        given, trusted = [[row[:20], row[20:]] for row in honest], [reference[:20], reference[20:]]
    for attack, objective in (
        (Adaptive(rule), lambda result: result @ mean),
        (LineSearch(ALIE(1.0), rule, budget=8), lambda result: result @ mean),
        (PoolAttack(rule, problem="P3", budget=16), lambda result: result @ mean),
        (
            BestResponse(rule, budget=20),
            lambda result: result @ mean / np.linalg.norm(mean) / max(np.linalg.norm(result), np.linalg.norm(mean)),
        ),
    ):
        made = attack.craft(given, 2, rng=0, reference=trusted)
        sent = made.rows if storage == "matrix" else np.stack([np.concatenate(row) for row in made.rows])
        result = rule(np.vstack([honest, sent]), reference=reference)
        assert made.facts["value"] == pytest.approx(objective(result), rel=1e-6), attack


@pytest.mark.parametrize("edge", [0.02, 0.06, 0.09, 0.3, 0.8])
def test_golden_section_keeps_the_best_size_in_its_bracket(edge) -> None:
    """The least value is at the edge of a window, and all sizes below it give one value: the search finds the edge."""
    tried = []

    def value(size):
        tried.append(size)
        return size if size >= edge else 2.0

    golden(value, 0.01, (1.0, 1.0), 2.0, 24)
    assert len(tried) == 24 and min(size for size in tried if size >= edge) == pytest.approx(edge, rel=0.01)
