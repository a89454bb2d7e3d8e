"""Rows sliced over real processes answer as the rows of one process do."""

import numpy as np
import pytest
import torch
from engines import sharded_ranks
from engines.processes import run

import mixtailor as mt
from mixtailor.testing.laws import FixedKey


def _whole(answers, name):
    return np.concatenate([answer[name] for answer in answers])


def _tied(scores):
    best, second = np.partition(scores, 1)[:2]
    return second - best <= 1e-12 * abs(second)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of three ranks did."""
    return run(sharded_ranks.everything, 3, tmp_path_factory.mktemp("sharded"))


def test_every_rule_equals_the_central_answer(ranks):
    """Same selection, values to 1e-6, the same rows quarantined: for every exported rule, chain and mixture."""
    found = [rank["every_rule"] for rank in ranks]
    for place, (rule, case) in enumerate(sharded_ranks.cases()):
        asked = [case.rows, *([sharded_ranks.broken(case)] if case.f else [])]
        for turn, rows in enumerate(asked):
            central = sharded_ranks.ask(rule, case, rows, case.reference)
            parts = [answers[place][turn] for answers in found]
            assert all(one["selected"] == parts[0]["selected"] for one in parts), rule
            assert np.allclose(_whole(parts, "update"), central.update, rtol=1e-6, atol=1e-6), rule
            if central.scores is None or not _tied(central.scores[~np.isnan(central.scores)]):
                assert parts[0]["selected"] == central.selected, rule
            if central.weights is not None:
                assert np.allclose(parts[0]["weights"], central.weights, atol=1e-6), rule
            for one in parts:
                assert one["quarantined"] == [(item.row, item.reason) for item in central.quarantined], rule


def test_storages_far_rows_and_many_rows(ranks):
    """Types, tensors, the path of a device, layers; a row 1e12 away; fewer coordinates than ranks; large sums."""
    found = [rank["other_storages"] for rank in ranks]
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(9, 50))
    rows[-1] *= 1e12
    rules = {repr(rule): rule for rule in (mt.Krum(2), mt.Comed(), mt.GeometricMedian(), mt.Bulyan(1), mt.Krum(2, p=3))}
    chain = mt.NNM(2) >> mt.TrimmedMean(2)
    rules[repr(chain)] = chain
    sent = {
        "float32": rows.astype(np.float32),
        "float16": np.clip(rows, -6e4, 6e4).astype(np.float16),
        "bfloat16": torch.from_numpy(rows).to(torch.bfloat16),
    }
    for key in found[0]:
        if isinstance(key, tuple):
            kind, rule = key
            central = rules[rule](sent.get(kind, rows), entropy=FixedKey(0))
            whole = np.concatenate([answer[key] for answer in found])
            exact = torch.as_tensor(central).to(torch.float64).numpy()
            assert np.allclose(whole, exact, rtol=1e-6, atol=1e-6), key
    assert np.allclose(_whole(found, "few"), np.median(rows[:, :2], axis=0))
    wide = rng.normal(size=(200, 9))
    assert np.array_equal(_whole(found, "wide"), mt.Krum(3, p=np.inf)(wide))
    assert np.array_equal(_whole(found, "wide 2"), mt.Krum(3)(wide))


def test_all_ranks_name_the_faults_of_all_slices(ranks):
    """A rank that saw nothing wrong in its slice raises with the others, and names the same rows."""
    assert [rank["too_many_faults"] for rank in ranks] == [(1, 4)] * 3


def test_slices_cover_every_coordinate_once():
    from mixtailor.engines.distributed.lane import bounds

    for d in (0, 1, 5, 12):
        for count in (1, 2, 5, 7):
            slices = [bounds(d, count, rank) for rank in range(count)]
            assert [i for start, stop in slices for i in range(start, stop)] == list(range(d))


@pytest.mark.parametrize("d", [3, 4])
def test_one_slice_needs_its_width(d):
    """A slice of another width is refused with both numbers, before anything is sent."""
    from mixtailor.engines.distributed.exchange import sharded

    class Six:
        d, start, stop = 6, 0, 6

    with pytest.raises(ValueError, match=f"needs 6 coordinates and has {d}"):
        sharded(np.ones((3, d)), Six())
