"""Peers: `robust_all_reduce`, the hook of DistributedDataParallel and the optimizer, with real processes."""

import numpy as np
import pytest
import torch
from engines import late_ranks, peer_ranks
from engines.processes import run

import mixtailor as mt
from mixtailor.engines.distributed import Peers, RobustOptimizer, hosts, robust_all_reduce
from mixtailor.engines.distributed.keys import source_of


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of five ranks did."""
    return run(peer_ranks.everything, 5, tmp_path_factory.mktemp("peers"))


def test_all_ranks_get_the_central_answer(ranks):
    """Five ranks, four rules, three types, and what goes wrong: NaN, another length, more faults than f."""
    found = [rank["answers"] for rank in ranks]
    rows = torch.from_numpy(peer_ranks.vectors(5))
    for place, rule in enumerate(peer_ranks.RULES):
        for kind in (torch.float64, torch.float32, torch.bfloat16):
            central = rule.aggregate(rows.to(kind), entropy=mt.SeededEntropy(3))
            for answer in found:
                values, drawn, selected = answer[place, str(kind)]
                assert np.allclose(values, central.update.to(torch.float64).numpy(), rtol=1e-6, atol=1e-6)
                assert drawn == repr(central.rule) and selected == central.selected
    left = mt.Krum(1).lowered(4, 1)
    for answer in found:
        values, quarantined = answer["NaN"]
        assert np.allclose(values, left(rows[[0, 1, 2, 4]])) and quarantined == [(3, "not finite")]
        assert answer["skipped"] == ((0, 4), True, [0.0] * 7)
        assert np.allclose(answer["reference"], mt.FLTrust()(rows, reference=rows.mean(dim=0)))
        shorter = mt.FLTrust()(rows[:, :11], reference=rows.mean(dim=0)[:11])
        assert np.allclose(answer["shorter reference"], shorter)
    for rank in (0, 1, 3, 4):
        values, ((row, reason),) = found[rank]["short"]
        assert np.allclose(values, left(rows[[0, 1, 3, 4]])) and row == 2 and "20 coordinates" in reason
    assert "this rank has 20" in found[2]["short"]
    assert len({answer["key"] for answer in found}) == 1 and len(found[0]["key"]) == 32 and any(found[0]["key"])


@pytest.mark.parametrize("place", range(len(peer_ranks.BY_LENGTH)))
def test_lengths_may_change_between_calls(place, ranks):
    """Slices leave by the length that is expected; a rank, most or all may have another now."""
    rows, rule = peer_ranks.vectors(5), peer_ranks.BY_LENGTH[place]
    for rank, found in enumerate(item["answers"]["lengths"][place] for item in ranks):
        for answer, (most, odd) in zip(found, peer_ranks.LENGTHS, strict=True):
            if most == odd:
                assert np.array_equal(answer, rule(rows[:, :most]))
            elif rank == 1:
                assert f"this rank has {odd} coordinates" in answer and f"most have {most}" in answer
            else:
                assert np.array_equal(answer, rule.lowered(4, 1)(rows[[0, 2, 3, 4], :most]))


def test_a_call_that_starts_again_draws_once(ranks):
    """Each call takes the keys that a call in one process takes, also where the length was not the expected one."""
    entropy, rule, rows = mt.SeededEntropy(9), peer_ranks.RULES[-1], peer_ranks.vectors(5)
    central = [repr(rule.aggregate(rows[:, :d], entropy=entropy).rule) for d in peer_ranks.DRAWN]
    for found in ranks:
        assert found["answers"]["drawn"] == central


def test_a_call_that_fails_leaves_tensors_as_they_were(ranks):
    for found in ranks:
        assert found["answers"]["untouched"] == ((0, 1, 2), True)


def test_ranks_that_know_the_length_wait_for_slices_and_sums_alone(ranks):
    for found in ranks:
        quick, plain, answer = found["answers"]["messages"]
        assert (quick, plain) == (2, 2)
        assert np.array_equal(answer, mt.Krum(1)(peer_ranks.vectors(5)))


def test_ranks_on_different_processors_get_the_same_answer(ranks):
    for found in ranks:
        assert np.array_equal(found["answers"]["unlike"], mt.Krum(1)(peer_ranks.vectors(5)))


def test_other_settings_compute_otherwise(monkeypatch):
    """What splits a sum differently gives another number, which an int64 holds; the host is the same."""
    once, where = hosts.computing.__wrapped__(), hosts.host.__wrapped__()
    assert once == hosts.computing.__wrapped__() and 0 <= once < 2**63 and 0 <= where < 2**63
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "17")
    assert hosts.computing.__wrapped__() != once and hosts.host.__wrapped__() == where


def test_hook_is_exact_across_buckets(ranks):
    """Krum over the whole vector takes a row that Krum on either bucket does not."""
    rows = peer_ranks.gradients(5, width=4)
    whole = mt.Krum(1).aggregate(rows.reshape(5, -1))
    by_bucket = [mt.Krum(1).aggregate(rows[:, half]).selected for half in (0, 1)]
    assert whole.selected not in by_bucket and by_bucket[0] != by_bucket[1]
    (chosen,) = whole.selected
    for steps, buckets in (rank["hooked"] for rank in ranks):
        assert max(buckets) >= 1, "the model needs several buckets for this test to say anything"
        for first, second, selected in steps:
            assert selected == whole.selected
            assert (first, second) == pytest.approx(tuple(rows[chosen, :, 0]))


@pytest.mark.parametrize("body", ["registered", "optimized"])
def test_training_withstands_a_rank_with_poisoned_labels(body, ranks):
    """All ranks end with the same model, and it is the honest one."""
    found = [rank[body] for rank in ranks]
    assert all(np.array_equal(model, found[0]) for model in found)
    assert np.allclose(found[0], [1.0, -2.0, 0.5, 0.3], atol=0.15)


def test_whole_numbers_are_refused():
    with pytest.raises(TypeError, match=r"floating-point numbers and got torch\.int64"):
        robust_all_reduce(torch.ones(3, dtype=torch.int64), mt.Mean())


def test_what_is_no_tensor_or_no_optimizer_gets_a_sentence():
    """An array cannot be overwritten on every rank, and parameters are what an optimizer is made of."""
    with pytest.raises(TypeError, match=r"needs a torch tensor.* got ndarray\. Write torch\.from_numpy"):
        robust_all_reduce(np.ones(3), mt.Mean())
    with pytest.raises(TypeError, match=r"needs an optimizer and got generator\. Write RobustOptimizer\(torch"):
        RobustOptimizer(torch.nn.Linear(2, 1).parameters(), Peers(mt.Mean()))


def test_source_is_the_rules_own():
    """A seeded mixture keeps its seed on ranks, also behind a pre-aggregation."""
    seeded = mt.SeededEntropy(4)
    pool = [mt.Krum(1), mt.Comed()]
    assert source_of(mt.NNM(1) >> mt.MixTailor(pool, entropy=seeded)) is seeded
    assert source_of(mt.MixTailor(pool)) == mt.SystemEntropy()


def test_a_late_rank_is_waited_for_as_long_as_the_group_waits(tmp_path):
    """Late, it is in the answer. Absent, the others' backward fails when the group's time is over, with no answer."""
    found = run(late_ranks.late, 3, tmp_path)
    assert [waited for waited, _, _ in found] == [[1.0, 1.0]] * 3  # the median of what 0, 1 and 2 sent
    for rank, (_, said, without_answer) in enumerate(found):
        assert without_answer and (said is None) == (rank == late_ranks.LATE)
