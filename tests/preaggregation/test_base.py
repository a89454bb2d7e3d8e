"""`>>`: what a rule behind a pre-aggregation is told, and what is refused."""

import pickle
from dataclasses import dataclass
from typing import ClassVar

import naive
import numpy as np
import pytest
from attacked import attacked, seen

from mixtailor import FaultError, SeededEntropy
from mixtailor.preaggregation import ARC, NNM, Both, Bucketing, Chain, Clipping, PreAggregation, Resampling
from mixtailor.rules import Comed, Krum, Mean, Plain
from mixtailor.updates import Updates


def told(before: PreAggregation, n: int, f: int, **options: str) -> int:
    """The f that Krum works with behind a pre-aggregation of n rows, found from the scores it gives."""
    rows = attacked(3.0, n=n, outliers=0, dtype=np.float64)
    chain = Chain(before, Krum(f=f), **options)  # type: ignore[arg-type]  # options of several types
    found = np.asarray(chain.decide(seen(rows, 5)).facts["scores"])
    mixed = before.prepare(seen(rows, 5)).matrix()
    for candidate in range(n):
        if len(mixed) - candidate - 2 >= 1:
            scores = naive.krum_scores(mixed, len(mixed) - candidate - 2).astype(float)
            if np.allclose(scores, found, rtol=1e-6):
                return candidate
    raise AssertionError("no f gives these scores")


def test_types() -> None:
    """With a rule or a callable it is a rule, with another pre-aggregation a pre-aggregation."""
    assert isinstance(NNM(f=1) >> Krum(f=1), Chain)
    assert isinstance(NNM(f=1) >> ARC(f=1), Both)
    assert isinstance(NNM(f=1) >> ARC(f=1) >> Krum(f=1), Chain)
    assert isinstance((NNM(f=1) >> (lambda rows: rows.mean(axis=0))).rule, Plain)
    with pytest.raises(TypeError, match="neither"):
        NNM(f=1) >> 3  # type: ignore[operator]  # that is the point


def test_how_it_prints() -> None:
    """As it is written."""
    assert repr(Bucketing(size=2) >> NNM(f=1) >> Krum(f=1, p=3)) == "Bucketing(size=2) >> NNM(f=1) >> Krum(f=1, p=3)"


@pytest.mark.parametrize(
    ("before", "n", "f", "expected"),
    [
        (NNM(f=2), 12, 2, 2),
        (ARC(f=2), 12, 2, 2),
        (Clipping(3.0), 12, 2, 2),
        (Bucketing(size=2), 14, 2, 2),
        (Resampling(repeats=2), 12, 2, 4),
        (Resampling(repeats=2) >> Resampling(repeats=2), 12, 1, 4),
    ],
)
def test_the_rule_is_told_the_mapped_f(before: PreAggregation, n: int, f: int, expected: int) -> None:
    """What can be faulty of the rows it sees, and not of those received."""
    assert told(before, n, f) == expected


def test_f_after_declared_keeps_f() -> None:
    """The paper's behaviour, also in what n is needed."""
    assert told(Resampling(repeats=2), 12, 2, f_after="declared") == 2
    assert Chain(Resampling(repeats=2), Krum(f=2)).min_rows() == 11
    assert Chain(Resampling(repeats=2), Krum(f=2), f_after="declared").min_rows() == 7
    with pytest.raises(ValueError, match="'mapped' or 'declared' and is 'both'"):
        Chain(NNM(f=1), Krum(f=1), f_after="both")  # type: ignore[arg-type]  # that is the point


def test_a_part_in_the_middle_is_told_the_mapped_f_too() -> None:
    """NNM behind resampling mixes over n - s f rows, however the chain is bracketed."""
    rows = attacked(3.0, n=12, outliers=0, dtype=np.float64)
    tickets = np.random.default_rng(5).permutation(24).tolist()
    expected = naive.krum(naive.nnm(naive.resampling(rows, tickets, 2), 2), 2)
    before = Resampling(repeats=2)
    for rule in (before >> NNM(f=1) >> Krum(f=1), before >> (NNM(f=1) >> Krum(f=1))):
        updates = seen(rows, 5)
        np.testing.assert_allclose(updates.at(rule.decide(updates)), expected, rtol=1e-12)


def test_different_f_on_both_sides_are_refused() -> None:
    """One f is declared, that of the rows as received."""
    with pytest.raises(ValueError, match=r"NNM\(f=1\) >> Krum\(f=2\) needs one f on both sides of >> and got 1 and 2"):
        NNM(f=1) >> Krum(f=2)
    with pytest.raises(ValueError, match=r"NNM\(f=1\) >> ARC\(f=2\) needs one f"):
        NNM(f=1) >> ARC(f=2)
    with pytest.raises(ValueError, match="needs one f"):
        NNM(f=1) >> Bucketing(size=2) >> Krum(f=2)


def test_both_maps_twice() -> None:
    """n and f go through one after the other."""
    assert (Bucketing(size=3) >> Resampling(repeats=2)).after(11, 1) == (4, 2)
    assert (Resampling(repeats=2) >> Bucketing(size=3)).after(11, 1) == (4, 2)


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("f", [0, 1, 3])
def test_min_rows_is_the_least_that_works(size: int, f: int) -> None:
    """Found by search, and equal to what counting up finds."""
    rule = Bucketing(size=size) >> Krum(f=f)
    least = next(n for n in range(1, 200) if -(-n // size) >= 2 * f + 3)
    assert rule.min_rows() == least
    rule(np.random.default_rng(0).normal(size=(least, 3)))
    with pytest.raises(ValueError, match=f"at least {least} rows .* and got {least - 1}"):
        rule(np.zeros((least - 1, 3)))


def test_a_rule_without_f_withstands_what_is_left_of_it() -> None:
    """Comed behind buckets of two tolerates less than half of the buckets, behind resampling half of that."""
    assert (Bucketing(size=2) >> Comed()).tolerates(12) == 2
    assert (Resampling(repeats=2) >> Comed()).tolerates(12) == 2
    assert (NNM(f=3) >> Comed()).tolerates(12) == 3


@pytest.mark.parametrize("before", [Clipping(1.0), Bucketing(size=2), Resampling(repeats=2)], ids=repr)
def test_a_mean_withstands_no_faulty_row_behind_anything(before: PreAggregation) -> None:
    """As on its own, also where the part in front declares an f, unless it bounds what the mean sees."""
    rule, rows = before >> Mean(), np.ones((5, 3))
    assert (rule.tolerates(5), rule.min_rows(), (NNM(f=2) >> Mean()).tolerates(5)) == (0, 1, 0)
    assert ((NNM(f=2) >> before >> Mean()).tolerates(9), (ARC(f=2) >> Mean()).tolerates(9)) == (2 * before.bounds, 2)
    for gone in (1, 5):
        rows[:gone] = np.nan
        with pytest.raises(FaultError, match=f"{gone} of 5 updates .* not finite .* tolerates none"):
            rule(rows)


@dataclass(frozen=True)
class Worst(PreAggregation):
    """Nothing that comes out can be trusted."""

    cost: ClassVar[str] = "nothing"

    def after(self, n: int, f: int) -> tuple[int, int]:
        return n, n

    def prepare(self, updates: Updates) -> Updates:
        return updates


class Boast(Plain):
    """The largest of each coordinate, which tolerates everything, it says."""

    def tolerates(self, n: int) -> int:
        return n


def test_what_no_number_of_rows_makes_good_is_refused() -> None:
    with pytest.raises(ValueError, match=r"needs more rows than any n gives it \(n >= 1 behind .*\)\. Lower f"):
        (Worst() >> Comed()).min_rows()


def test_of_no_rows_nothing_is_made() -> None:
    """Whatever a rule claims to tolerate: one row has to be left."""
    boast = Boast(lambda rows: rows.max(axis=0))
    rows = np.full((4, 2), np.nan)
    for rule in (boast, Clipping(9.0) >> boast):
        assert rule.tolerates(4) == 4
        with pytest.raises(FaultError, match=r"4 of 4 updates are not finite .* tolerates 3"):
            rule(rows)


@pytest.mark.parametrize("rule", [Resampling(repeats=2) >> Krum(f=1), NNM(f=1) >> Krum(f=1)], ids=repr)
def test_what_was_applied_is_the_rule_as_it_was_declared(rule: Chain) -> None:
    """Though Krum works with f = 2 behind resampling."""
    result = rule.aggregate(attacked(3.0, n=12, outliers=0, dtype=np.float64), entropy=SeededEntropy(1))
    assert result.rule == rule


def test_faulty_rows_lower_f_in_all_parts() -> None:
    """Nine rows less two with f = 2: NNM and Krum go on with what seven allow, and name the two."""
    rows = attacked(3.0, n=9, outliers=0, dtype=np.float64)
    rows[[2, 6], 0] = np.nan
    result = (NNM(f=2) >> Krum(f=2)).aggregate(rows)
    left = np.delete(rows, [2, 6], axis=0)
    np.testing.assert_allclose(result.update, naive.krum(naive.nnm(left, 2), 2), rtol=1e-12)
    assert [fault.row for fault in result.quarantined] == [2, 6]
    shorter = (NNM(f=2) >> Krum(f=2)).aggregate(rows[:8])
    left = np.delete(rows[:8], [2, 6], axis=0)
    np.testing.assert_allclose(shorter.update, naive.krum(naive.nnm(left, 1), 1), rtol=1e-12)


def test_laws_that_are_missing_add_up() -> None:
    """What either part lacks, the whole lacks."""
    chain = Clipping(1.0) >> NNM(f=1) >> Mean()
    assert set(chain.missing_laws()) == {"translation", "scale"}
    assert set((NNM(f=1) >> Mean()).missing_laws()) == set()


def test_it_pickles() -> None:
    """As every part does."""
    chain = Bucketing(size=2) >> NNM(f=1) >> Krum(f=1)
    assert pickle.loads(pickle.dumps(chain)) == chain  # noqa: S301  # our own bytes
