"""What the base does for every rule: checks, quarantine, lowering f, names, the Aggregation."""

import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
import samples

import mixtailor as mt
from mixtailor.updates import Point, Updates

ROWS = np.random.default_rng(5).normal(size=(12, 40))


def spoiled(*rows: int) -> np.ndarray:
    sent = ROWS.copy()
    sent[list(rows), 3] = np.nan
    return sent


@pytest.mark.parametrize(
    ("make", "error", "sentence"),
    [
        (lambda: mt.Krum(-1), ValueError, r"Krum needs f >= 0, .* got f = -1"),
        (lambda: mt.Krum(1.5), TypeError, "whole number"),
        (lambda: mt.Krum("2"), TypeError, "whole number"),
        (lambda: mt.Krum(True), TypeError, "whole number"),
        (lambda: mt.Krum(1, p=0.5), ValueError, "p from 1 to infinity and got p = 0.5"),
        (lambda: mt.Krum(1, p=math.nan), ValueError, "from 1 to infinity"),
        (lambda: mt.Krum(1, p="2"), TypeError, "from 1 to infinity"),
        (lambda: mt.Krum(1, power=3), ValueError, "power = 2"),
        (lambda: mt.GeometricMedian(tolerance=0.0), ValueError, "tolerance > 0"),
        (lambda: mt.GeometricMedian(limit=0), ValueError, "limit >= 1"),
        (lambda: mt.NNM(1) >> mt.Krum(2), ValueError, "one f"),
        (lambda: mt.NNM(1) >> 3, TypeError, "neither"),
    ],
)
def test_wrong_arguments_raise_at_construction(make, error, sentence) -> None:
    with pytest.raises(error, match=sentence):
        make()


@pytest.mark.parametrize(
    ("part", "parameter", "value"),
    [
        (part, name, value)
        for part in samples.rules() + samples.preaggregations()
        for name, value in (("f", -1), ("p", 0.5))
        if hasattr(part, name)
    ],
    ids=repr,
)
def test_f_and_p_are_checked_wherever_they_are(part, parameter, value) -> None:
    with pytest.raises(ValueError, match=rf"{type(part).__name__} needs .*{parameter} = {value}"):
        dataclasses.replace(part, **{parameter: value})


@pytest.mark.parametrize(
    ("rule", "least", "withstood"),
    [
        (mt.Aksel(), 1, 5),
        (mt.Bulyan(2), 11, 2),
        (mt.CAF(2), 5, 2),
        (mt.CenteredClipping(tau=1.0), 1, 5),
        (mt.CGE(2), 5, 2),
        (mt.Comed(), 1, 5),
        (mt.DnC(2), 5, 2),
        (mt.FLTrust(), 1, 11),
        (mt.GeometricMedian(), 1, 5),
        (mt.Krum(2), 7, 2),
        (mt.MDA(2), 5, 2),
        (mt.Meamed(2), 5, 2),
        (mt.Mean(), 1, 0),
        (mt.Medoid(), 1, 5),
        (mt.MoNNA(2), 5, 2),
        (mt.MultiKrum(2), 7, 2),
        (mt.Omniscient(), 1, 11),
        (mt.Phocas(2), 5, 2),
        (mt.Plain(np.mean), 1, 5),
        (mt.SignVote(), 1, 5),
        (mt.SMEA(2), 5, 2),
        (mt.Subsampled(mt.Krum(2), k=8), 8, 2),
        (mt.TrimmedMean(2), 5, 2),
    ],
    ids=repr,
)
def test_what_each_rule_needs_and_withstands(rule, least, withstood) -> None:
    """The fewest rows, how many of twelve may be faulty, and what its class says of it."""
    assert (rule.min_rows(), rule.tolerates(12)) == (least, withstood)
    assert rule.tolerates(11) == min(withstood, 10)
    assert rule.robust == (type(rule) not in (mt.DnC, mt.Mean)), "no bound is known for these"
    assert rule.reads_all == (type(rule) not in (mt.DnC, mt.Omniscient, mt.Subsampled)), "these sample, or are told"
    ours = (mt.CTMA, mt.MDA, mt.Meamed, mt.MultiKrum, mt.Phocas, mt.SMEA)
    assert rule.kappa_is_ours == (type(rule) in ours), "the notes of these prove theirs"


@pytest.mark.parametrize(
    ("part", "defaults"),
    [
        (mt.Bulyan(1), {"selection": None, "then": None, "p": 2.0}),
        (mt.CenteredClipping(tau=1.0), {"iterations": 1}),
        (mt.DnC(1), {"coordinates": 10_000, "iterations": 5, "fraction": 1.0}),
        (mt.GeometricMedian(), {"p": 2.0, "tolerance": 1e-6, "limit": None}),
        (mt.Krum(1), {"p": 2.0, "power": 2}),
        (mt.MDA(1), {"budget": 100_000}),
        (mt.Medoid(), {"p": 2.0}),
        (mt.MultiKrum(1), {"m": None, "p": 2.0, "power": 2}),
        (mt.NNM(1), {"p": 2.0}),
        (mt.SimilarityFilter(1.0), {"p": 2.0}),
        (mt.SMEA(1), {"budget": 100_000}),
    ],
    ids=repr,
)
def test_results_depend_on_these_defaults(part, defaults) -> None:
    """A default that is changed changes the results of whoever left it out."""
    rebuilt = type(part)(**{name: value for name, value in vars(part).items() if name not in defaults})
    assert {name: getattr(rebuilt, name) for name in defaults} == defaults
    assert (rebuilt >> mt.Mean() if isinstance(part, mt.PreAggregation) else rebuilt).min_rows() >= 1


def test_too_few_rows() -> None:
    with pytest.raises(ValueError) as refusal:
        mt.Krum(3)(ROWS[:8])
    assert str(refusal.value) == (
        "Krum(f=3) needs at least 9 rows (n >= 2f + 3) and got 8. Lower f, or wait for more workers."
    )


@pytest.mark.parametrize("rule", [mt.Mean(), mt.NNM(2) >> mt.Mean(), mt.MixTailor([mt.Comed(), mt.Mean()])], ids=repr)
def test_no_f_to_raise(rule: mt.Rule) -> None:
    """What to do where a rule takes no f, or tolerates less than it declares; and where nothing could tolerate it."""
    with pytest.raises(mt.FaultError) as refusal:
        rule(spoiled(1))
    assert str(refusal.value) == (
        f"1 of 12 updates is not finite (row 1), and {rule!r} tolerates none. Look at this worker, or take a rule that "
        "tolerates 1 of 12, such as Comed()."
    )
    with pytest.raises(mt.FaultError, match="these workers: more than half of the updates have to be sound"):
        rule(spoiled(*range(6)))


def test_more_faults_than_f() -> None:
    with pytest.raises(mt.FaultError) as refusal:
        mt.Krum(2)(spoiled(1, 4, 7))
    assert str(refusal.value) == (
        "3 of 12 updates are not finite (rows 1, 4, 7), and f = 2. Raise f, or look at these workers."
    )
    assert refusal.value.rows == (1, 4, 7)
    assert pickle.loads(pickle.dumps(refusal.value)).rows == (1, 4, 7)  # noqa: S301  # our own bytes


def test_workers_are_named() -> None:
    names = [f"site-{k}" for k in range(12)]
    with pytest.raises(mt.FaultError, match="workers site-1, site-4, site-7"):
        mt.Krum(2)(spoiled(1, 4, 7), workers=names)
    result = mt.Krum(2).aggregate(spoiled(4), workers=names)
    assert [str(item) for item in result.quarantined] == ["row 4 (site-4): not finite"]
    assert "site-4" in str(result)
    with pytest.raises(ValueError, match="one name for each of the 12"):
        mt.Krum(2)(ROWS, workers=["a"])


def test_skip_returns_no_update() -> None:
    """With mixed precision honest workers overflow together: a round is lost, not the run."""
    assert mt.Krum(2)(spoiled(1, 4, 7), on_fault="skip") is None
    result = mt.Krum(2).aggregate(spoiled(1, 4, 7), on_fault="skip")
    assert result.update is None and len(result.quarantined) == 3
    assert "skipped" in str(result)
    with pytest.raises(ValueError, match="skip"):
        mt.Krum(2)(ROWS, on_fault="ignore")


@pytest.mark.parametrize(
    ("rule", "n", "gone", "left"),
    [
        (mt.Krum(2), 12, 2, mt.Krum(2)),  # 10 rows are enough for f = 2: nothing is lowered
        (mt.Krum(4), 12, 2, mt.Krum(3)),  # 10 rows hold f = 3 (needs 9), so one step is enough
        (mt.Krum(4), 11, 4, mt.Krum(2)),  # 7 rows hold f = 2
        (mt.Bulyan(2), 11, 2, mt.Bulyan(1)),
        (mt.NNM(4) >> mt.Krum(4), 12, 2, mt.NNM(3) >> mt.Krum(3)),
        (
            mt.Bulyan(2, selection=mt.Krum(2), then=mt.TrimmedMean(2)),
            11,
            1,
            mt.Bulyan(1, selection=mt.Krum(1), then=mt.TrimmedMean(1)),
        ),
        (mt.Comed(), 12, 5, mt.Comed()),
    ],
    ids=repr,
)
def test_f_is_lowered_as_far_as_needed(rule, n, gone, left) -> None:
    sent = spoiled(*range(gone))[:n]
    result = rule.aggregate(sent)
    assert result.rule == left
    assert len(result.quarantined) == gone
    assert np.allclose(result.update, left(sent[gone:]))


@pytest.mark.parametrize(("f", "gone", "left"), [(3, 1, 2), (2, 2, 0), (1, 1, 0)])
def test_where_no_f_is_low_enough_each_fault_lowers_it_by_one(f, gone, left) -> None:
    """A subsample of all rows is drawn from those left, and what proved a fault is no longer counted."""
    result = mt.Subsampled(mt.Krum(f), k=12).aggregate(spoiled(*range(gone)))
    assert result.rule == mt.Subsampled(mt.Krum(left), k=12)
    assert np.array_equal(result.update, mt.Krum(left)(ROWS[gone:]))


def test_f_reaches_every_part_of_a_rule_of_ones_own() -> None:
    """Parts are found by the fields of a class, also of one that was defined just now."""

    @dataclasses.dataclass(frozen=True)
    class Own(mt.Rule):
        inner: mt.Rule
        before: mt.PreAggregation
        name: str = "own"

        requirement = "what its part needs"
        cost = "nothing"

        def min_rows(self) -> int:
            return self.inner.min_rows()

        def decide(self, updates: Updates) -> Point:
            return self.inner.decide(self.before.prepare(updates))

    rule = Own(mt.Krum(2), mt.NNM(2))
    assert rule.declared_f() == 2 and rule.with_f(2) is rule
    assert rule.with_f(1) == Own(mt.Krum(1), mt.NNM(1))
    assert rule.tolerates(9) == 2 and Own(mt.Comed(), mt.Clipping(1.0)).tolerates(9) == 0, "unless it says more"
    assert repr(rule) == "Own(inner=Krum(f=2), before=NNM(f=2))"


def test_the_same_randomness_on_a_restart() -> None:
    """A fault found half-way does not give the attacker a second draw of the buckets."""

    class Key:
        def key(self, purpose: str) -> bytes:
            return b"k" * 32

    rule = mt.Bucketing(size=2) >> mt.TrimmedMean(2)
    assert np.array_equal(rule(spoiled(11), entropy=Key()), rule(spoiled(11), entropy=Key()))


def test_answer_of_one_row_is_that_row_bit_for_bit() -> None:
    rows = ROWS.astype(np.float32)
    rows[:, 0] = -0.0
    rows[:, 1] = np.float32(1e-44)
    result = mt.Krum(2).aggregate(rows)
    assert result.update.tobytes() == rows[result.selected[0]].tobytes()


def test_aggregation_tells_what_happened() -> None:
    result = mt.MultiKrum(2, m=3).aggregate(spoiled(0))
    assert len(result.selected) == 3 and result.weights[list(result.selected)].sum() == pytest.approx(1)
    assert np.isnan(result.scores[0]) and result.weights[0] == 0
    assert json.loads(json.dumps(result.summary()))["quarantined"] == [
        {"row": 0, "worker": None, "reason": "not finite"}
    ]
    assert mt.GeometricMedian().aggregate(ROWS).iterations > 0
    text = str(result)
    assert "MultiKrum(f=2, m=3) on 12 updates" in text and "row 0: not finite" in text
    assert max(map(len, text.splitlines())) < 200


def test_plain_callables() -> None:
    rule = mt.Plain(lambda rows: rows.max(axis=0))
    assert np.array_equal(rule(ROWS), ROWS.max(axis=0))
    assert np.array_equal(rule(spoiled(2)), np.delete(ROWS, 2, axis=0).max(axis=0))
    for function, sentence in (
        (lambda rows: rows, "vector of 40 coordinates"),
        (lambda rows: rows[0] * np.nan, "not finite"),
        (lambda rows: np.array(["a"] * 40), "real numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=sentence):
            mt.Plain(function)(ROWS)


def test_a_plain_callable_gets_no_files(tmp_path) -> None:
    """Whoever stores updates in files may have more of them than memory."""
    paths = [tmp_path / f"{k}.npy" for k in range(3)]
    for path, row in zip(paths, ROWS, strict=False):
        np.save(path, row)
    with pytest.raises(
        ValueError, match=r"Plain\(mean\) needs all updates as one matrix in memory, and these are files"
    ):
        mt.Plain(np.mean)(paths)


def test_side_knowledge_is_checked() -> None:
    with pytest.raises(ValueError, match="reference"):
        mt.FLTrust()(ROWS)
    with pytest.raises(ValueError, match="shape"):
        mt.FLTrust()(ROWS, reference=np.zeros(3))
    with pytest.raises(ValueError, match="finite"):
        mt.FLTrust()(ROWS, reference=np.full(40, np.nan))
    with pytest.raises(ValueError, match="honest"):
        mt.Omniscient()(ROWS)


def test_concise_repr() -> None:
    assert repr(mt.Krum(2, p=3)) == "Krum(f=2, p=3)"
    assert repr(mt.NNM(2) >> mt.Comed()) == "NNM(f=2) >> Comed()"
    assert eval(repr(mt.Bulyan(1, then=mt.Comed())), vars(mt)) == mt.Bulyan(1, then=mt.Comed())  # noqa: S307


@pytest.mark.parametrize("rule", [mt.Krum(2), mt.Comed(), mt.Mean(), mt.NNM(2) >> mt.Krum(2)], ids=repr)
def test_no_row_left_is_the_same_error(rule) -> None:
    """A round in which every worker sends NaN names them all, or is skipped, in every storage."""
    rows = np.full((12, 5), np.nan)
    for sent in (rows, list(rows), [{"a": row} for row in rows]):
        with pytest.raises(mt.FaultError, match="12 of 12 updates are not finite") as caught:
            rule(sent)
        assert caught.value.rows == tuple(range(12))
        skipped = rule.aggregate(sent, on_fault="skip")
        assert skipped.update is None and len(skipped.quarantined) == 12
