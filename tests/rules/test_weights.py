"""Weights: each update counts as so many equal ones, and f by the weight that may be Byzantine."""

import numpy as np
import pytest
import samples

import mixtailor as mt
from mixtailor.rules.part import walk
from mixtailor.rules.weighting import capped

WEIGHTED = [rule for rule in samples.everything() if all(part.takes_weights() for part in walk(rule))]
WEIGHTED += [mt.NNM(1) >> rule for rule in (mt.TrimmedMean(1), mt.GeometricMedian(), mt.MultiKrum(1), mt.Mean())]
UNWEIGHTED = [rule for rule in samples.everything() if not all(part.takes_weights() for part in walk(rule))]
MASS = np.array([1, 3, 2, 1, 4, 2, 1, 2])  # of sum 16, so that one update of mean weight is two


def rows(n: int = 8, d: int = 7, dtype: type = np.float64) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(n, d)).astype(dtype)


def test_which_rules_take_weights() -> None:
    """No rule of which this page says that it takes weights is left out by accident."""
    kinds = {type(rule) for rule in WEIGHTED}
    named = {mt.Mean, mt.Comed, mt.TrimmedMean, mt.GeometricMedian, mt.Krum, mt.MultiKrum, mt.MixTailor}
    assert {*named, mt.CTMA, mt.Sketched, mt.CAF, mt.ViewFilter, mt.DistanceFilter} <= kinds


@pytest.mark.parametrize("rule", WEIGHTED, ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_equal_weights_change_no_bit(rule: mt.Rule, dtype: type) -> None:
    """The law: equal weights of any size give the unweighted result, bit for bit."""
    updates = rows(12, dtype=dtype)
    plain = rule(updates, entropy=mt.SeededEntropy(1))
    for weight in (1.0, 0.1, 17834.0):
        assert np.array_equal(rule(updates, weights=[weight] * 12, entropy=mt.SeededEntropy(1)), plain)
    assert np.array_equal(rule(updates, weights=[5.0] * 12, cap=1 / 12, entropy=mt.SeededEntropy(1)), plain)


@pytest.mark.parametrize("rule", WEIGHTED, ids=repr)
def test_the_weighted_form_itself_agrees(rule: mt.Rule) -> None:
    """With share= equal weights take no short cut: the weighted form gives the unweighted result to rounding."""
    updates = rows(12)
    plain = rule(updates, entropy=mt.SeededEntropy(1))
    f = rule.declared_f() or 0
    found = rule(updates, weights=[3.0] * 12, share=f / 12, entropy=mt.SeededEntropy(1))
    np.testing.assert_allclose(found, plain, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("faulty", [2, 3, 4])
@pytest.mark.parametrize(
    "rule",
    [
        mt.Mean(),
        mt.Comed(),
        mt.TrimmedMean(0),
        mt.GeometricMedian(),
        mt.DistanceFilter(),
        mt.DistanceFilter(p=3),
        mt.CTMA(0),
        mt.CTMA(0, rule=mt.Comed()),
        mt.Sketched(mt.CTMA(0), sketch=64),
        mt.NNM(0) >> mt.Mean(),
        mt.NNM(0) >> mt.Comed(),
        mt.NNM(0) >> mt.TrimmedMean(0),
        mt.NNM(0) >> mt.GeometricMedian(),
        mt.NNM(0, p=3) >> mt.TrimmedMean(0),
    ],
    ids=repr,
)
def test_integer_weights_are_repeated_rows(rule: mt.Rule, faulty: int, dtype: type) -> None:
    """The law: weights 3 and 1 are three equal updates and one, and a share of the weight is f of the repeated."""
    updates = rows(dtype=dtype)
    repeated = rule.with_f(faulty)(np.repeat(updates, MASS, axis=0))
    found = rule(updates, weights=MASS, share=faulty / 16)
    np.testing.assert_allclose(found, repeated, atol=2e-6 if dtype is np.float32 else 5e-6)
    if not any(isinstance(part, mt.GeometricMedian) for part in walk(rule)) and dtype is np.float64:
        np.testing.assert_allclose(found, repeated, atol=1e-12)


@pytest.mark.parametrize("faulty", [0, 2, 4])
@pytest.mark.parametrize("kind", [mt.CAF, mt.ViewFilter])
def test_integer_weights_for_filters(kind: type, faulty: int) -> None:
    """The least weight that a filter leaves is in units of the mean weight, here 2 repeated updates.

    So it may stop a step earlier than on repeated updates, and then has what these had before that step.
    """
    same = 0
    for seed in range(20):
        updates = np.random.default_rng(seed).normal(size=(8, 7))
        updates[0] += 3.0  # sticks out, with one sixteenth of the weight
        found = kind(0).aggregate(updates, weights=MASS, share=faulty / 16)
        repeated = kind(faulty).aggregate(np.repeat(updates, MASS, axis=0))
        assert found.iterations <= repeated.iterations
        if np.allclose(found.update, repeated.update, atol=1e-9):
            same += 1
    assert same >= 15


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0])
@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("faulty", [2, 3, 4])
def test_integer_weights_for_krum(faulty: int, power: int, p: float) -> None:
    """The update that Krum leaves out besides f has the mean weight, here 2: one more than a repeated one."""
    for seed in range(20):
        updates = np.random.default_rng(seed).normal(size=(8, 7))
        repeated = np.repeat(updates, MASS, axis=0)
        krum = mt.Krum(faulty + 1, p=p, power=power)(repeated)
        assert np.array_equal(mt.Krum(0, p=p, power=power)(updates, weights=MASS, share=faulty / 16), krum)
        found = mt.MultiKrum(0, p=p, power=power)(updates, weights=MASS, share=faulty / 16)
        scores = mt.Krum(faulty + 1, p=p, power=power).aggregate(repeated).scores
        order = np.argsort(scores, kind="stable")[: 16 - faulty]
        np.testing.assert_allclose(found, repeated[order].mean(axis=0), atol=1e-12)


@pytest.mark.parametrize("share", [None, 0.2])
@pytest.mark.parametrize("rule", [*WEIGHTED, mt.MultiKrum(2, m=4)], ids=repr)
def test_no_weight_is_no_update(rule: mt.Rule, share: float | None) -> None:
    """An update of weight 0 counts like one that never came, in the mean weight too."""
    for seed in range(20):
        random = np.random.default_rng([seed, 2])
        updates, weights = random.normal(size=(14, 5)), random.integers(1, 5, size=14)
        weights[[2, 7, 11]], updates[7] = 0, 1e6
        left = weights > 0
        request: dict = {} if share is None else {"share": share}
        try:
            expected = rule(updates[left], weights=weights[left], entropy=mt.SeededEntropy(seed), **request)
        except ValueError:  # too much of the weight
            with pytest.raises(ValueError, match="of the weight"):
                rule(updates, weights=weights, **request)
            continue
        found = rule(updates, weights=weights, entropy=mt.SeededEntropy(seed), **request)
        np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("rule", WEIGHTED, ids=repr)
def test_a_heavy_minority_of_mass_cannot_win(rule: mt.Rule) -> None:
    """Nine of twelve updates are Byzantine, far away, and have less than a tenth of the weight."""
    if isinstance(rule, mt.Mean) or any(isinstance(part, mt.Mean) for part in walk(rule)):
        pytest.skip("a mean tolerates none, and NNM before it was given a share that it does")
    for far in (10.0, 1e8, 1e15):
        updates = rows(12)
        updates[3:] = far * (1 + np.abs(updates[3:]))
        weights = np.array([100.0] * 3 + [1.0] * 9)
        found = rule(updates, weights=weights, share=0.1, entropy=mt.SeededEntropy(1))
        honest = updates[:3]
        assert np.abs(found - honest.mean(axis=0)).max() < 3 * np.ptp(honest, axis=0).max(), far


@pytest.mark.parametrize("rule", UNWEIGHTED, ids=repr)
def test_others_say_so(rule: mt.Rule) -> None:
    """A rule without a weighted form refuses weights with a sentence, even equal ones."""
    n = max(12, rule.min_rows())
    with pytest.raises(ValueError, match=r"has no form with weights. Mean, Comed"):
        rule(rows(n), weights=[1.0] * n)


def test_storages_agree() -> None:
    """Tensors, as the device has them, and layers give what the matrix gives."""
    torch = pytest.importorskip("torch")
    from mixtailor.kernels.columnwise import WeightedMedian, WeightedTrimmed
    from mixtailor.kernels.space import NUMBA, Block
    from mixtailor.kernels.tensors import Tensors

    updates, mass = rows(), tuple(MASS.astype(float).tolist())
    for statistic in (WeightedMedian(mass), WeightedTrimmed(mass, 2.5), WeightedMedian((8.0, *mass[1:]))):
        there, sound = Tensors(torch.device("cpu")).columns(torch.from_numpy(updates), statistic)
        here, fine = NUMBA.columns(Block.of(updates), statistic)
        assert bool(sound) and fine
        np.testing.assert_allclose(there.numpy(), here, atol=1e-14)
    layers = [{"a": row[:3], "b": row[3:].reshape(2, 2)} for row in updates]
    found = mt.Comed()(layers, weights=MASS)
    assert np.array_equal(np.concatenate([found["a"], found["b"].ravel()]), mt.Comed()(updates, weights=MASS))


def test_values_by_hand() -> None:
    """A median and a trimmed mean that one can check in the head."""
    column = np.array([[1.0], [2.0], [3.0], [10.0]])
    assert mt.Comed()(column, weights=[1, 1, 1, 3]).item() == 6.5
    assert mt.Comed()(column, weights=[1, 1, 1, 2]).item() == 3.0
    # Without 1.5 of 8 at either end: 0.5 of the 2, all of the 3, 3.5 of the 10.
    assert mt.TrimmedMean(1)(column, weights=[1, 1, 1, 5], share=1.5 / 8).item() == pytest.approx((1 + 3 + 35) / 5)
    assert mt.Mean()(column, weights=[0, 0, 1, 1]).item() == 6.5


def test_caps() -> None:
    """No update has more than the cap; what is over is spread as the others weigh, and the sum stays."""
    found = capped(np.array([17834.0, 190.0, 400.0, 2000.0, 900.0]), 0.25)
    assert found.max() == pytest.approx(0.25 * 21324.0) and found.sum() == pytest.approx(21324.0)
    assert found[2] / found[1] == pytest.approx(400 / 190)
    column = np.array([[9e9], [1.0], [2.0], [3.0], [4.0]])
    assert mt.Comed()(column, weights=[17834, 190, 400, 2000, 900]).item() == 9e9
    assert mt.Comed()(column, weights=[17834, 190, 400, 2000, 900], cap=0.25).item() < 5.0
    with pytest.raises(ValueError, match=r"cap= needs to be from 1/n = 0.2 to 1"):
        mt.Comed()(column, weights=[1, 2, 3, 4, 5], cap=0.1)


def test_f_counts_the_heaviest() -> None:
    """Without share=, f Byzantine updates may be the heaviest ones."""
    column = np.array([[9e9], [1.0], [2.0], [3.0], [4.0]])
    with pytest.raises(ValueError, match=r"TrimmedMean\(f=1\) needs share < 1/2 of the weight and got a share of 0.6"):
        mt.TrimmedMean(1)(column, weights=[6, 1, 1, 1, 1])
    assert mt.TrimmedMean(1)(column, weights=[6, 1, 1, 1, 1], cap=0.3).item() < 5.0
    with pytest.raises(ValueError, match=r"Krum\(f=1\) needs share <= \(1 - 3/n\) / 2 = 0.2 of the weight"):
        mt.Krum(1)(column, weights=[3, 2, 2, 2, 2])


def test_faults_leave_with_their_weight() -> None:
    """A quarantined update's weight no longer counts, on either side."""
    updates = rows()
    broken = updates.copy()
    broken[0, 0] = np.nan
    found = mt.TrimmedMean(2).aggregate(broken, weights=MASS, share=4 / 16)
    assert [item.row for item in found.quarantined] == [0]
    expected = mt.TrimmedMean(2)(updates[1:], weights=MASS[1:], share=3 / 15)
    np.testing.assert_allclose(found.update, expected, atol=1e-12)
    broken[4, 0] = np.inf  # weight 4, together above the share of 4
    with pytest.raises(mt.FaultError):
        mt.TrimmedMean(2)(broken, weights=MASS, share=4 / 16)


@pytest.mark.parametrize(
    ("request_", "said"),
    [
        ({"weights": [1.0, 2.0]}, "one number for each of the 8 updates"),
        ({"weights": [-1.0] + [1.0] * 7}, "not negative"),
        ({"weights": [np.nan] + [1.0] * 7}, "finite"),
        ({"weights": [0.0] * 8}, "at least one of them positive"),
        ({"weights": [1.0] * 8, "share": 1.0}, "share= needs"),
        ({"weights": [1.0] * 8, "share": "half"}, "share= needs"),
        ({"weights": "12345678"}, "a sequence of numbers"),
        ({"weights": dict.fromkeys(range(8), 1.0)}, "a sequence of numbers"),
        ({"weights": ["1"] * 8}, "a sequence of numbers"),
        ({"cap": 0.5}, "say something about weights="),
    ],
)
def test_what_is_refused(request_: dict, said: str) -> None:
    """Weights are checked, each with a sentence."""
    with pytest.raises(ValueError, match=said):
        mt.Comed()(rows(), **request_)


@pytest.mark.parametrize(
    "rule",
    [mt.TrimmedMean(2), mt.GeometricMedian(), mt.CTMA(2), mt.NNM(2) >> mt.TrimmedMean(2)],
    ids=repr,
)
def test_coefficients(rule: mt.Rule) -> None:
    """At a share f/n the coefficient is the unweighted one."""
    assert rule.weighted_kappa(2 / 12, 5) == pytest.approx(rule.kappa(12, 2, 5))
    assert mt.Comed().weighted_kappa(0.25, 5) == pytest.approx(mt.Comed().kappa(10**9, 10**9 // 4, 5), rel=1e-6)
    assert mt.Krum(1).weighted_kappa(0.1, 5) is None
