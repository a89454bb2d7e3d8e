"""Pools in the hands of somebody who has read only the README: what is refused, what is told, what silence can do."""

import warnings

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.mixing import mixtailor as module
from mixtailor.mixing.pools import POOLS
from mixtailor.mixing.registry import make_rule
from mixtailor.rules.promises import NEVER, check_tolerates, rows_for

F, N = 2, 12
HONEST = np.random.default_rng(0).normal(size=(N - F, 4))


@pytest.fixture
def nothing_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_told", set())


def attacks(size: float) -> list[list[np.ndarray]]:
    """Two far updates: equal, opposite, at right angles, and one that the other makes equal to the mean of all."""
    far, across = np.eye(4)[0] * size, np.eye(4)[1] * 1e3 * size
    return [[far, far], [far, -far], [far, across], [far, (N - 1) * far - HONEST.sum(axis=0)]]


def reach(rule: mt.Rule, size: float) -> float:
    """How far from the honest mean the result gets, under the worst of these attacks."""
    rows = [np.vstack([HONEST, *byzantine]) for byzantine in attacks(size)]
    return max(float(np.abs(rule(each) - HONEST.mean(axis=0)).max()) for each in rows)


def test_a_bare_mixtailor_is_the_default_pool() -> None:
    """Of which every rule has a bound. The paper's pool is asked for by its name."""
    assert make_rule("mixtailor", f=2) == make_rule("default_pool", f=2) == mt.MixTailor(mt.default_pool(2))
    assert POOLS["mixtailor"] is mt.default_pool
    assert make_rule("mixtailor", f=2).robust and not make_rule("paper_pool", f=2).robust
    assert max(reach(rule, 1e9) for rule in mt.default_pool(2)) < 5


def test_what_is_called_robust_has_a_bound() -> None:
    """Two of the paper's sixty-four have none, and so have DnC and a mean behind mixing; a clipped mean has one."""
    beside: list[mt.Rule] = [mt.DnC(2), mt.NNM(2) >> mt.Mean(), mt.ARC(2) >> mt.Mean(), mt.Clipping(9.0) >> mt.Mean()]
    pool = [*dict.fromkeys(mt.paper_pool(2)), *beside, mt.Mean(), mt.NNM(2) >> (mt.ARC(2) >> mt.Mean())]
    for rule in pool:
        found = reach(rule, 1e9)
        assert found < 20 if rule.robust else found > 1e6, f"{rule!r} is moved by {found}"
    weak = [rule for rule in mt.paper_pool(2) if not rule.robust]
    assert weak == [
        mt.Bulyan(2, selection=mt.Krum(2), then=mt.Mean()),
        mt.Bulyan(2, selection=mt.Mean(), then=mt.Mean()),
    ]
    assert not mt.Bulyan(2, then=mt.Mean()).robust, "its selection is Krum"
    assert not mt.Subsampled(mt.Mean(), 3).robust and (mt.NNM(2) >> mt.Bucketing(size=2) >> mt.Comed()).robust


@pytest.mark.usefixtures("nothing_told")
def test_a_pool_with_a_rule_without_a_bound_says_so_once() -> None:
    """It names the rule and what to do; copies with another f, and the same pool again, say nothing more."""
    with pytest.warns(mt.NotRobustWarning) as caught:
        pool = mt.MixTailor([mt.Krum(2), mt.Comed(), mt.Mean()])
    assert str(caught[0].message) == (
        "1 of 3 rules of this pool has no bound, Byzantine updates can move the result as far as they like: Mean(). "
        "Use default_pool(f), or leave them out. If they are there on purpose, ignore mixtailor.NotRobustWarning."
    )
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error", mt.NotRobustWarning)
        pool.with_f(1)
        mt.MixTailor([mt.Mean(), mt.Comed()])
        mt.MixTailor(mt.default_pool(2))
        with pytest.raises(mt.NotRobustWarning, match=r"2 of 64 rules .*Bulyan\(f=2, selection=Krum\(f=2\), then=Mean"):
            mt.MixTailor(mt.paper_pool(2))
        mt.NNM(2) >> mt.MixTailor(mt.paper_pool(2))
    with warnings.catch_warnings():
        warnings.simplefilter("error", mt.NotRobustWarning)
        with pytest.raises(mt.NotRobustWarning, match=r"This rule has no bound, .*: NNM\(f=1\) >> Mean\(\)\."):
            module.warn_not_robust(mt.NNM(1) >> mt.Mean())
        module.warn_not_robust(mt.NNM(1) >> mt.Mean())
        module.warn_not_robust(mt.Comed())


@pytest.mark.usefixtures("nothing_told")
def test_a_pool_inside_a_pool_is_counted_once() -> None:
    """By its rules, and not once more as the rule that holds it."""
    with pytest.warns(mt.NotRobustWarning) as caught:
        mt.MixTailor([mt.NNM(2) >> mt.MixTailor([mt.Mean(), mt.DnC(2)]), mt.Krum(2)])
    assert [str(one.message)[:15] for one in caught] == ["2 of 2 rules of"]


def test_an_impossible_f_is_refused() -> None:
    """Three Byzantine updates of five: the median tolerates two, and must not be drawn because the others cannot be."""
    rows = np.array([[1.0], [1.1], [-100.0], [-100.0], [-100.0]])
    rule = mt.MixTailor(mt.default_pool(3))
    assert rule.min_rows() == 7
    with pytest.raises(ValueError, match=r"needs at least 7 rows \(n >= 2f \+ 1, for CAF\(f=3\)\) and got 5"):
        rule(rows)
    with pytest.raises(ValueError, match=r"needs at least 7 rows \(n >= 2f \+ 1, for Comed\(\)\) and got 5"):
        mt.MixTailor([mt.Comed(), mt.TrimmedMean(3)])(rows)
    assert mt.MixTailor([mt.Comed(), mt.Krum(3)]).min_rows() == 9
    assert mt.MixTailor([mt.Comed(), mt.GeometricMedian()]).min_rows() == 1, "no f is stated"
    assert mt.MixTailor([mt.FLTrust(), mt.CGE(3)]).min_rows() == 7
    with pytest.raises(ValueError, match=r"paper_pool needs more than half of the updates honest \(n >= 2f \+ 1\)"):
        mt.paper_pool(3, n=6)
    assert {type(rule) for rule in mt.paper_pool(3, n=7)} == {mt.Comed, mt.GeometricMedian}


def test_a_rule_that_tolerates_f_at_no_n() -> None:
    """It is refused with what it tolerates, however many updates there are."""
    few = mt.Subsampled(mt.Comed(), 5)
    assert (rows_for(few, 2), rows_for(few, 3)) == (5, NEVER)
    rule = mt.MixTailor([mt.Krum(3), few])
    sentence = r"Subsampled\(rule=Comed\(\), k=5\) tolerates 2 Byzantine updates of 50, and f = 3. More updates do not"
    with pytest.raises(ValueError, match=sentence):
        rule(np.zeros((50, 2)))
    check_tolerates(few, 2, 50)
    assert rows_for(mt.Bucketing(size=2) >> mt.Comed(), 3) == 13, "seven buckets"


def test_silence_does_not_choose_the_pool() -> None:
    """Eleven updates allow Bulyan(f=2), ten do not: one that does not come stops the round, and no rule leaves."""
    rule = mt.MixTailor([mt.Krum(2), mt.Comed(), mt.Bulyan(2)], entropy=mt.SeededEntropy(0))
    rows = np.random.default_rng(1).normal(size=(11, 3))
    drawn = {type(rule.aggregate(rows).rule) for _ in range(40)}
    assert drawn == {mt.Krum, mt.Comed, mt.Bulyan}
    with pytest.raises(ValueError, match=r"needs at least 11 rows \(n >= 4f \+ 3, for Bulyan\(f=2\)\) and got 10"):
        rule(rows[:10])
    declared = rule.fitting(10)  # whoever expects one silent worker says so before the first round
    for n in (10, 11, 12):
        kinds = {type(declared.aggregate(np.resize(rows, (n, 3)) + np.arange(n)[:, None]).rule) for _ in range(40)}
        assert kinds == {mt.Krum, mt.Comed}, "the same pool, whoever came"
