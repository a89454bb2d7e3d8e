"""Sharded replicas, FSDP2 on a mesh of 3 x 2 real processes: the result of one process that sees everything."""

import numpy as np
import pytest
from engines import replica_ranks as body
from engines.processes import run


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """What each of six ranks did."""
    return run(body.everything_else, body.REPLICAS * body.SHARDS, tmp_path_factory.mktemp("replicas"))


def test_every_rule_equals_the_central_result(tmp_path):
    """Every rule for f = 1 on 7 x 2 ranks: the same selection, weights and quarantine; values to 1e-6."""
    cases = [(rule, broken) for rule in body.cases() for broken in (False, True)]
    assert len(cases) > 60 and all(rule.min_rows() <= body.MANY for rule, _ in cases)
    # First here, which compiles every kernel: when six ranks compiled at once, one got a kernel of another type.
    expected = [body.central(rule, body.rows(broken), body.reference()) for rule, broken in cases]
    ranks = run(body.every_rule, body.MANY * body.SHARDS, tmp_path)
    for place, ((rule, _), central) in enumerate(zip(cases, expected, strict=True)):
        for rank in ranks:
            found = rank[place]
            if isinstance(central, tuple):
                assert found == central, rule
                continue
            shard, values, selected, weights, quarantined = found
            own = slice(sum(body.WIDTHS[:shard]), sum(body.WIDTHS[: shard + 1]))
            assert np.allclose(values, central.update[own], rtol=1e-6, atol=1e-6), rule
            assert selected == central.selected, rule
            assert (weights is None) == (central.weights is None), rule
            assert weights is None or np.allclose(weights, central.weights, atol=1e-6), rule
            assert quarantined == [(item.row, item.reason) for item in central.quarantined], rule


@pytest.mark.parametrize("name", body.RULES)
@pytest.mark.parametrize(
    ("training", "centrally", "digits"),
    [("trained", body.centrally, 1e-4), ("mixed", body.centrally_mixed, 1e-5)],
    ids=["two accumulated batches", "mixed precision"],
)
def test_training_equals_that_of_one_process(training, centrally, digits, name, ranks):
    """AdamW, clipped after aggregation. In mixed precision, passes are in bfloat16, sums and rules in float32."""
    central = centrally(body.RULES[name])
    for rank in ranks:
        for parameter, values in rank[training][name].items():
            assert np.allclose(values, central[parameter], rtol=digits, atol=digits / 10), parameter


def test_layers_that_few_replicas_use(ranks):
    for rank in ranks:
        unused, spare, first = rank["spare"]
        assert unused and np.allclose(spare, 1 / body.REPLICAS) and np.allclose(first, 2.0)


def test_mixed_precision_compiled_with_a_scaler(ranks):
    """All replicas overflow once: one step is skipped; one replica alone does: it is quarantined, and scales down."""
    for place, rank in enumerate(ranks):
        model, scales, skipped = rank["half"]
        assert skipped == 1
        assert scales == ([64.0, 32.0, 16.0, 16.0] if place < body.SHARDS else [64.0, 32.0, 32.0, 32.0])
        for parameter, values in model.items():
            assert np.array_equal(values, ranks[0]["half"][0][parameter]) and np.isfinite(values).all()


def test_what_is_not_sharded_as_needed_is_refused_by_name(ranks):
    for rank in ranks:
        said = rank["refused"]
        assert "weight lives on the dimension 'replicate' too" in said["whole mesh"]
        assert "weight is not sharded: each of the 2 ranks" in said["not sharded"]
        assert "weight is a DTensor" in said["peers"]
        assert "needs a mesh with a dimension 'dp'" in said["dimension"]
