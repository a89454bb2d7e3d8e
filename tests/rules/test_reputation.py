"""Reputation: counts that are right, distances that are true and cost nothing unless asked, and no say in anything."""

import json
import threading
from unittest import mock

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.rules.reputation import distances_from_result
from mixtailor.updates import Updates

ROWS = np.random.default_rng(0).normal(size=(12, 30))


def far(rows, answer):
    return np.linalg.norm(rows - answer, axis=1)


@pytest.mark.parametrize(
    "rule",
    [mt.Krum(2), mt.MultiKrum(2), mt.NNM(2) >> mt.Krum(2), mt.MDA(2), mt.GeometricMedian(), mt.Medoid()],
    ids=repr,
)
@pytest.mark.parametrize("outlier", [1.0, 1e3, 1e8, 1e20])
def test_free_distances_are_true(rule, outlier):
    """To 1e-6 of each row's own distance, however far a row of weight zero is; without a reading."""
    rows = ROWS.copy()
    rows[4] *= outlier
    result = rule.aggregate(rows)
    if result.weights[4] == 0.0 or outlier == 1.0:
        assert result.distances == pytest.approx(far(rows, result.update), rel=1e-6, abs=1e-6)


def test_one_row_is_measured_in_the_rules_own_norm():
    result = mt.Krum(2, p=3).aggregate(ROWS)
    assert result.distances == pytest.approx(np.linalg.norm(ROWS - result.update, ord=3, axis=1))


@pytest.mark.parametrize("rule", [mt.Comed(), mt.TrimmedMean(2), mt.Mean(), mt.CGE(2)], ids=repr)
def test_unknown_distances_are_none_until_asked(rule):
    """What the rule did not ask for is not known; it is computed from the updates, whatever storage they have."""
    result = rule.aggregate(ROWS)
    assert result.distances is None
    reputation = mt.Reputation()
    reputation.observe(result)
    assert reputation[0].measured == 0 and reputation[0].distance is None
    expected = far(ROWS, result.update)
    assert distances_from_result(result, ROWS) == pytest.approx(expected)
    assert distances_from_result(result, list(ROWS)) == pytest.approx(expected)
    reputation.observe(result, ROWS)
    assert [reputation[k].distance for k in range(12)] == pytest.approx(expected / np.median(expected))


def test_weights_of_another_sum_have_no_free_distances():
    """The identity behind them needs sum one: clipped results are not guessed at."""
    rule = mt.Clipping(0.5) >> mt.Krum(2)
    result = rule.aggregate(ROWS)
    assert result.distances is None
    reputation = mt.Reputation()
    reputation.observe(result, ROWS)
    assert reputation[3].farthest > 0.0


def test_observing_reads_nothing_unless_asked():
    """No pass over the rows without updates=, and none with them where distances are known."""
    known, unknown = mt.Krum(2).aggregate(ROWS), mt.Comed().aggregate(ROWS)
    reputation = mt.Reputation()
    with mock.patch.object(Updates, "distances_to", side_effect=AssertionError("a pass")):
        reputation.observe(known)
        reputation.observe(unknown)
        reputation.observe(known, ROWS)
        with pytest.raises(AssertionError, match="a pass"):
            reputation.observe(unknown, ROWS)


def test_counts_by_hand():
    """Four rounds: Krum chooses one of 12 twice, the median chooses nobody, and a NaN worker is quarantined."""
    sent = ROWS.copy()
    sent[7] = np.nan
    names = [f"worker {k}" for k in range(12)]
    reputation, krum = mt.Reputation(), mt.Krum(2)
    first = krum.aggregate(ROWS, workers=names)
    for result in (first, first, mt.Comed().aggregate(ROWS, workers=names), krum.aggregate(sent, workers=names)):
        reputation.observe(result)
    chosen = names[first.selected[0]]
    assert reputation[chosen].rounds == 4 and reputation[chosen].selected >= 2
    assert sum(reputation[name].selected for name in names) == 3
    assert reputation["worker 0"].expected == pytest.approx(3 / 12)
    assert [reputation[name].quarantined for name in names] == [int(k == 7) for k in range(12)]
    assert reputation["worker 7"].measured == 2 and reputation["worker 1"].measured == 3
    assert len(reputation) == 12 and next(iter(reputation)) == "worker 7"


def test_all_rows_are_no_choice():
    reputation = mt.Reputation()
    reputation.observe(mt.Mean().aggregate(ROWS))
    sent = ROWS.copy()
    sent[0] = np.inf
    reputation.observe(mt.GeometricMedian().aggregate(sent))
    assert all(reputation[k].selected == 0 and reputation[k].expected == 0.0 for k in range(12))


def test_a_skipped_round_counts_its_faults_alone():
    sent = ROWS.copy()
    sent[:3] = np.nan
    reputation = mt.Reputation()
    reputation.observe(mt.Krum(2).aggregate(sent, on_fault="skip"), sent)
    assert [reputation[k].quarantined for k in range(4)] == [1, 1, 1, 0]
    assert all(reputation[k].measured == 0 and reputation[k].expected == 0.0 for k in range(12))


def test_one_round_does_not_drown_the_others():
    """A row at 1e30 counts as a thousand in the mean, and says how far it was."""
    sent = ROWS.copy()
    sent[5] = 1e30
    reputation = mt.Reputation()
    reputation.observe(mt.Krum(2).aggregate(sent))
    assert reputation[5].distance == 1000.0
    for _ in range(3):
        reputation.observe(mt.Krum(2).aggregate(ROWS))
    assert 250.0 < reputation[5].distance < 253.0
    assert reputation[5].farthest > 1e28
    assert next(iter(reputation)) == "5"


def test_what_is_farther_than_numbers_go_can_still_be_written():
    """JSON has no infinity: 1e139 in units of 1e-200 counts as the largest number."""
    sent = 1e-200 * ROWS
    sent[5] = 1e139
    reputation = mt.Reputation()
    reputation.observe(mt.Krum(2).aggregate(sent))
    assert mt.Reputation.from_json(reputation.to_json())[5].farthest == np.finfo(np.float64).max


def test_equal_rows_are_at_the_answer():
    reputation = mt.Reputation()
    reputation.observe(mt.Krum(1).aggregate(np.ones((6, 3))))
    sent = np.ones((6, 3))
    sent[2] += 5.0
    reputation.observe(mt.Krum(1).aggregate(sent))
    assert reputation[0].distance == 0.0 and reputation[2].farthest == 1.0


def test_rows_that_a_rule_did_not_read_do_not_stop_the_observer():
    """Subsampled may leave a NaN row unread; its distance is unknown, and the others' are right."""
    sent = ROWS.copy()
    result = mt.Mean().aggregate(sent)
    sent[3] = np.nan
    found = distances_from_result(result, sent)
    assert np.isnan(found[3]) and np.isfinite(np.delete(found, 3)).all()
    nothing = np.full_like(ROWS, np.nan)
    assert np.isnan(distances_from_result(result, nothing)).all()
    reputation = mt.Reputation()
    reputation.observe(result, nothing)
    assert reputation[0].rounds == 1 and reputation[0].measured == 0


def test_layers_and_wrong_shapes_are_measured():
    sent = [{"a": row[:10], "b": row[10:].reshape(4, 5)} for row in ROWS]
    sent[2] = {"a": ROWS[2][:10]}
    result = mt.TrimmedMean(2).aggregate(sent)
    found = distances_from_result(result, sent)
    answer = np.concatenate([result.update["a"], result.update["b"].ravel()])
    expected = far(ROWS, answer)
    assert np.isnan(found[2]) and np.delete(found, 2) == pytest.approx(np.delete(expected, 2))


def test_json_and_adding():
    """What is written is read back the same, and two halves add up to the whole."""
    results = [mt.Krum(2).aggregate(ROWS * (1 + 9 * (np.arange(12)[:, None] == k))) for k in range(4)]
    whole, first, second = mt.Reputation(), mt.Reputation(), mt.Reputation()
    for k, result in enumerate(results):
        whole.observe(result)
        (first if k < 2 else second).observe(result)
    assert mt.Reputation.from_json(whole.to_json()).summary() == whole.summary()
    first.add(second)
    assert {k: pytest.approx(v) for k, v in first.summary().items()} == whole.summary()
    assert json.loads(whole.to_json())["0"][0] == 4


@pytest.mark.parametrize("counts", [[1, 2], [1, 0, 0.0, 0, 0, 0.0, -1.0], [1, 0, "x", 0, 0, 0.0, 0.0], [True] * 7])
def test_damaged_summaries_are_refused(counts):
    with pytest.raises(ValueError, match="7 numbers that are not negative, unlike 'w'"):
        mt.Reputation.restored({"w": counts})


@pytest.mark.parametrize("text", ["", "3", "[]", '{"w": 3}', '{"v": [0, 0, 0, 0, 0, 0, 0], "w": 3}', "[" * 100_000])
def test_damaged_json_is_refused(text):
    with pytest.raises(ValueError, match="needs a JSON object of lists of numbers, by worker"):
        mt.Reputation.from_json(text)


def test_the_order_is_by_the_share_of_rounds_in_quarantine():
    """One of one before two of three before three of nine, and whoever never took part is among the others."""
    counts = {"nine": (9, 3), "none": (0, 0), "three": (3, 2), "one": (1, 1)}
    reputation = mt.Reputation.restored({name: [n, 0, 0.0, out, 0, 0.0, 0.0] for name, (n, out) in counts.items()})
    assert list(reputation) == ["one", "three", "nine", "none"]


def test_wrong_names_are_refused():
    with pytest.raises(ValueError, match="one name for each of the 12 updates and got 2"):
        mt.Reputation().observe(mt.Mean().aggregate(ROWS), workers=["a", "b"])


def test_the_table_is_plain_text_whatever_the_names():
    """A name cannot command the terminal."""
    reputation = mt.Reputation()
    reputation.observe(mt.Krum(2).aggregate(ROWS, workers=["\x1b[31mred", *(f"w{k}" for k in range(11))]))
    assert "\x1b" not in str(reputation) and "?[31mred" in str(reputation)
    lines = str(reputation).splitlines()
    assert len(lines) == 13 and len({len(line) for line in lines}) == 1
    assert repr(reputation) == "<Reputation of 12 workers>"


def test_threads_lose_no_round():
    reputation, result = mt.Reputation(), mt.Krum(2).aggregate(ROWS)

    def work():
        for _ in range(200):
            reputation.observe(result)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(reputation[k].rounds == 1600 for k in range(12))
