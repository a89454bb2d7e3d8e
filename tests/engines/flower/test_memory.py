"""A server holds the replies and little more: what an aggregation adds is of the size of the model, whatever n."""

import tracemalloc

import numpy as np
import pytest
from engines.flower.rounds import LocalGrid, asked, reply

import mixtailor as mt
from mixtailor.engines.flower import RobustStrategy

WIDTH, CLIENTS = 200_000, 24
MODEL = 4 * 4 * WIDTH  # four arrays of float32


@pytest.mark.parametrize(
    "rule",
    [mt.Krum(f=4), mt.Comed(), mt.Bulyan(f=4), mt.NNM(f=4) >> mt.TrimmedMean(f=4), mt.CGE(f=4)],
    ids=repr,
)
def test_extra_memory_is_that_of_a_few_models(rule):
    """The answer and the bytes of the next model are two; the replies would be 24."""
    rng = np.random.default_rng(0)
    own = {f"layer{place}": rng.standard_normal(WIDTH, np.float32) for place in range(4)}
    strategy = RobustStrategy(rule)
    peaks = []
    for traced in (False, True):  # the first may compile, which takes memory of its own
        messages = asked(strategy, own, grid=LocalGrid(range(CLIENTS)))
        replies = [reply(m, {n: v + np.float32(node) for n, v in own.items()}) for node, m in messages.items()]
        if traced:
            tracemalloc.start()
        try:
            _, metrics = strategy.aggregate_train(1, replies)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert metrics["mixtailor-skipped"] == 0
        del replies, messages
    assert 0 < peaks[1] < 4 * MODEL, f"{peaks[1] / MODEL:.1f} models"
