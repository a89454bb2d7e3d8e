"""Certificates on recorded states."""

import json

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.attacks import ALIE, Decoy, SignFlip, Tailored, TwinOutliers, Zero
from mixtailor.theory import State, certify, mixture_condition
from mixtailor.theory.states import intervals


def states(count=2, *, strength=0.5, resamples=6, n=12, d=40, seed=0, dtype=np.float64):
    random = np.random.default_rng(seed)
    truth = np.full(d, strength)
    return [
        State((truth + random.normal(size=(resamples, n, d))).astype(dtype), truth.astype(dtype)) for _ in range(count)
    ]


def test_products_are_the_means_over_resamples() -> None:
    """E[U] . grad F of each rule and of the mixture, from the rows themselves."""
    known = states()
    pool = mt.MixTailor([mt.Krum(2), mt.Comed(), mt.Comed()], [0.5, 0.3, 0.2])
    found = certify(pool, known, [Tailored(1.0)], f=2).attacks[0]
    for place, state in enumerate(known):
        received = [np.vstack([rows[:10], Tailored(1.0)(rows[:10], 2)]) for rows in state.gradients]
        products = {
            rule: np.mean([rule(rows) @ state.gradient for rows in received]) for rule in (mt.Krum(2), mt.Comed())
        }
        for rule in found.rules:
            expected = products[mt.Krum(2) if "Krum" in rule.rule else mt.Comed()]
            assert rule.products[place].value == pytest.approx(expected)
            assert rule.products[place].low < expected < rule.products[place].high
        assert found.products[place].value == pytest.approx(0.5 * products[mt.Krum(2)] + 0.5 * products[mt.Comed()])
    assert [(rule.rule, rule.count) for rule in found.rules] == [("Krum(f=2)", 1), ("Comed()", 2)]


def test_moments_by_hand() -> None:
    """E|U|^r / E|G|^r with G a random honest row, at the attack's own size."""
    known = states(1)
    found = certify([mt.Comed()], known, [Tailored(1.0)], f=2).attacks[0].rules[0]
    norms = np.linalg.norm(known[0].gradients[:, :10], axis=2)
    answers = [mt.Comed()(np.vstack([rows[:10], [-rows[:10].mean(axis=0)] * 2])) for rows in known[0].gradients]
    for r, moment in zip((2, 3, 4), found.moments, strict=True):
        assert moment == pytest.approx((np.linalg.norm(answers, axis=1) ** r).mean() / (norms**r).mean())
    assert found.length == pytest.approx(np.linalg.norm(answers, axis=1).mean())


def test_an_attack_that_points_nowhere_is_no_proof_of_descent() -> None:
    """Where grad F is next to nothing, rows have a large product with their own mean, out of noise; the certificate,
    with a gradient from other data, shows nothing."""
    random = np.random.default_rng(1)
    truth = 1e-6 * random.normal(size=200)
    known = [State(truth + random.normal(size=(10, 12, 200)), truth)]
    naive = np.mean([mt.Comed()(rows) @ rows.mean(axis=0) for rows in known[0].gradients])
    assert naive > 10.0
    assert certify([mt.Comed()], known, [Zero()], f=2).verdict == "not shown"


def test_the_three_verdicts() -> None:
    """Krum falls to a small epsilon, the median does not, and between them it depends on the probabilities."""
    known = states()
    assert certify(mt.Krum(2), known, [Tailored(0.1)], f=2).verdict == "broken"
    assert certify(mt.Comed(), known, [Tailored(0.1)], f=2).verdict == "holds on these states"
    rarely = mt.MixTailor([mt.Krum(2), mt.Comed()], [0.1, 0.9])
    assert certify(rarely, known, [Tailored(0.1)], f=2).verdict == "holds on these states"
    often = mt.MixTailor([mt.Krum(2), mt.Comed()], [0.97, 0.03])
    assert certify(often, known, [Tailored(0.1)], f=2).verdict == "broken"
    both = certify(rarely, known, [Tailored(0.1), SignFlip()], f=2)
    assert [attack.verdict for attack in both.attacks] == ["holds on these states"] * 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("rule", "attack", "bounded"),
    [
        (mt.Mean(), ALIE(1.5), False),
        (mt.Comed(), ALIE(1.5), True),
        (mt.Krum(2), Tailored(0.1), True),
        (mt.GeometricMedian(), Tailored(0.1), True),
        (mt.Bulyan(2, then=mt.Mean()), TwinOutliers(), False),
        (mt.Bulyan(2, selection=mt.Mean(), then=mt.Mean()), Decoy(), False),
        (mt.Bulyan(2), TwinOutliers(), True),
    ],
    ids=repr,
)
def test_sizes_are_swept_to_the_end_of_the_type(rule, attack, bounded, dtype) -> None:
    """A moment at one size shows nothing: averages grow with the attack without end and are broken by that alone."""
    known = states(1, strength=2.0, resamples=2, dtype=dtype)
    found = certify(rule, known, [attack], f=2)
    only = found.attacks[0].rules[0]
    assert only.bounded is bounded and found.attacks[0].bounded is bounded
    if bounded:
        assert max(only.swept) < 1e3
    else:
        assert only.swept[0] > (1e60 if dtype == np.float32 else 1e100) and found.verdict == "broken"


def test_the_sufficient_condition_is_the_papers() -> None:
    """For a uniform pool, margin and verdict are those of M/q > 1 + lambda L / beta."""
    known = states(strength=1.0)
    pool = [mt.Comed(), mt.TrimmedMean(2), mt.GeometricMedian(), mt.Krum(2)]
    for strength in (0.1, 10.0):
        found = certify(pool, known, [Tailored(strength)], f=2)
        verdict = found.attacks[0]
        condition = mixture_condition(
            4, 4 - verdict.holding, largest=verdict.largest, lipschitz=found.lipschitz, beta=verdict.beta
        )
        assert verdict.margin == pytest.approx(condition.margin) and verdict.sufficient is condition.holds
    assert found.lipschitz == pytest.approx(np.sqrt(40))


def test_the_page_the_table_and_the_json_agree() -> None:
    """All name the verdict, the rules and the states."""
    found = certify([mt.Krum(2), mt.Comed()], states(), [Tailored(0.1), Zero()], f=2)
    data = json.loads(found.to_json())
    assert data["verdict"] == found.verdict and len(data["attacks"]) == 2
    assert data["attacks"][0]["rules"][0]["products"][0]["value"] == found.attacks[0].rules[0].products[0].value
    assert found.verdict in str(found) and "Tailored()" in str(found) and "1/1/0" in str(found)
    assert found.table().count("\n") == 4 and "Comed()" in found.table()


def test_the_same_seed_gives_the_same_certificate() -> None:
    """Bootstrap, attackers and rules that draw."""
    pool = [mt.Subsampled(mt.Krum(2), 8), mt.Comed()]
    first, second = (certify(pool, states(), [Tailored(0.5)], f=2, seed=3) for _ in range(2))
    assert first == second


def test_a_mixture_of_one_rule_is_judged_as_the_rule() -> None:
    """Not by draws of its own, by which verdicts on the border differed."""
    found = certify([mt.Krum(2)], states(strength=0.05), [Tailored(1.0), Zero()], f=2)
    for attack in found.attacks:
        assert attack.products == attack.rules[0].products


def test_intervals_hold_what_they_promise() -> None:
    """Means of ten normal numbers: 95 % intervals miss in about one of twenty trials, and not in one of eight."""
    random = np.random.default_rng(0)
    samples = random.normal(size=(10, 400))
    found = intervals(samples, confidence=0.95, draws=400, rng=random)
    missed = np.mean([not interval.low <= 0.0 <= interval.high for interval in found])
    assert 0.01 <= missed <= 0.1
    alone = intervals(np.ones(1), confidence=0.95, draws=20, rng=random)[0]
    assert alone.low == -np.inf and alone.high == np.inf


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: certify([mt.Comed()], [], [Zero()], f=2), "at least one state"),
        (lambda: certify([mt.Comed()], states(resamples=1), [Zero()], f=2), "at least 2 resamples"),
        (lambda: certify([mt.Comed()], states(), [], f=2), "at least one attack"),
        (lambda: certify([mt.Comed()], states(), [Zero()], f=2, confidence=1.0), "confidence below 1"),
        (lambda: certify([mt.Comed()], states(), [Zero()], f=6), "0 < f < n/2"),
        (lambda: certify([mt.Comed()], states() + states(d=3), [Zero()], f=2), "same workers and coordinates"),
        (lambda: certify([mt.Bulyan(4)], states(), [Zero()], f=2), "n >= 4f|least demanding"),
        (lambda: State(np.ones((2, 3)), np.ones(3)), "3 axes"),
        (lambda: State(np.ones((2, 3, 4)), np.ones(3)), "4 coordinates"),
        (lambda: State(np.ones((2, 3, 4)), np.zeros(4)), "not zero"),
        (lambda: State(np.full((2, 3, 4), np.nan), np.ones(4)), "finite"),
    ],
)
def test_bad_input(call, sentence) -> None:
    """A sentence each."""
    with pytest.raises(ValueError, match=sentence):
        call()
