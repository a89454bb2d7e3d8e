"""The adaptive attack, against its definition."""

import numpy as np
import pytest
from attacks.instances import rows

import mixtailor as mt
from mixtailor.attacks import Adaptive, KnowsDraw

EPSILONS = (0.1, 0.5, 1.0, 10.0)
POOL = mt.MixTailor([mt.Krum(2), mt.Comed(), mt.GeometricMedian(), mt.Comed()], [0.1, 0.2, 0.3, 0.4])


def by_hand(rule, honest, reference):
    """The product with a reference for every epsilon."""
    mean = honest.mean(axis=0)
    return {eps: float(rule(np.vstack([honest, [-eps * mean] * 2])) @ reference) for eps in EPSILONS}


@pytest.mark.parametrize("rule", [mt.Krum(2), mt.Comed(), mt.TrimmedMean(2), mt.Krum(2, p=3), mt.NNM(2) >> mt.Comed()])
def test_the_epsilon_with_the_smallest_product_is_sent(rule) -> None:
    """And the rows are exactly minus epsilon times the mean."""
    honest = rows(seed=3)
    made = Adaptive(rule).craft(honest, 2)
    expected = by_hand(rule, honest, honest.mean(axis=0))
    assert made.facts["tried"] == pytest.approx(expected)
    assert made.facts["epsilon"] == min(expected, key=expected.get)
    np.testing.assert_allclose(made.rows, [-made.facts["epsilon"] * honest.mean(axis=0)] * 2)
    assert made.facts["evaluations"] == 4


@pytest.mark.parametrize("seed", range(5))
def test_the_rows_point_against_the_mean(seed) -> None:
    """The published code has a sign error here, which helps training."""
    honest = rows(seed=seed)
    sent = Adaptive(POOL, against="pool")(honest, 2, rng=seed)
    assert (sent @ honest.mean(axis=0) < 0).all()


def test_against_the_pool_the_products_are_averaged_by_probability() -> None:
    """Each rule's own products, weighted."""
    honest = rows(seed=1)
    tried = Adaptive(POOL, against="pool").craft(honest, 2).facts["tried"]
    tables = [by_hand(rule, honest, honest.mean(axis=0)) for rule in POOL.rules]
    for eps in EPSILONS:
        assert tried[eps] == pytest.approx(np.dot(POOL.probabilities, [table[eps] for table in tables]))


def test_the_unattacked_answer_as_reference() -> None:
    """The rule's own answer on own and honest rows together, for every rule of a pool its own."""
    everyone = rows(12, seed=2)
    honest, own = everyone[:10], everyone[10:]
    tried = Adaptive(POOL, against="pool", reference="unattacked").craft(honest, 2, own=own).facts["tried"]
    tables = [by_hand(rule, honest, rule(everyone)) for rule in POOL.rules]
    for eps in EPSILONS:
        assert tried[eps] == pytest.approx(np.dot(POOL.probabilities, [table[eps] for table in tables]), rel=1e-5)


def test_the_attacker_draws_by_the_pools_probabilities_with_its_own_randomness() -> None:
    """A rule of the pool, seeded by rng alone; the server's next draw is not touched."""
    server = mt.MixTailor([mt.Krum(2), mt.Comed()], [0.25, 0.75], entropy=mt.SeededEntropy(5))
    before = KnowsDraw.draw(server, 12)
    drawn = [Adaptive(server).craft(rows(), 2, rng=seed).facts["rule"] for seed in range(200)]
    assert {type(rule) for rule in drawn} == {mt.Krum, mt.Comed}
    assert 25 <= sum(rule == mt.Krum(2) for rule in drawn) <= 75  # four standard deviations about 50
    assert KnowsDraw.draw(server, 12) == before


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Adaptive(mt.Comed(), ()), "at least one number"),
        (lambda: Adaptive(mt.Comed(), (0.1, 0.0)), "epsilon > 0"),
        (lambda: Adaptive(mt.Comed(), against="all"), "'drawn' or 'pool'"),
        (lambda: Adaptive(mt.Comed(), reference="truth"), "'mean' or 'unattacked'"),
        (lambda: Adaptive(mt.Comed())(rows(), 0), "f >= 1"),
        (lambda: Adaptive(mt.Comed())(rows(3), 3), "more honest rows than Byzantine"),
        (lambda: Adaptive(mt.Bulyan(3))(rows(), 3), "n >= 4f \\+ 3"),
    ],
)
def test_bad_input_gets_a_sentence(make, sentence) -> None:
    """What is needed, and what arrived."""
    with pytest.raises(ValueError, match=sentence):
        make()


def test_a_target_that_is_no_rule_and_a_rule_that_raises() -> None:
    """Both are named."""

    def wrong(_rows):
        raise ArithmeticError("no answer")

    with pytest.raises(TypeError, match="target= as a rule"):
        Adaptive("krum")
    with pytest.raises(RuntimeError, match=r"wrong.* raised ArithmeticError"):
        Adaptive(mt.MixTailor([mt.Comed(), wrong]), against="pool")(rows(), 2)
