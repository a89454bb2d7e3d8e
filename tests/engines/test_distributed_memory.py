"""A memory among ranks, with real processes."""

import numpy as np
from engines import memory_ranks
from engines.processes import run

import mixtailor as mt


def test_ranks_share_one_memory(tmp_path):
    """Every rank ends with the same key, memory and result, those of a memory in one process."""
    ranks = run(memory_ranks.everything, 4, tmp_path)
    (result, weights, state), *_ = ranks[0]
    assert weights[3] < 0.01
    for (other, _, kept), *_ in ranks[1:]:
        assert np.array_equal(other, result) and kept["key"] == state["key"]
        assert np.allclose(kept["means"], state["means"], atol=1e-6)
    central = mt.Memory(mt.ViewFilter(1), key=state["key"])
    for round in range(memory_ranks.ROUNDS):
        expected = central(memory_ranks.vectors(round, 4))
    assert np.allclose(result, expected, atol=1e-9)
    # A state that was restored on one rank alone is an error on every rank, and teaches nobody.
    for rank, (_, (sentence, _), _, _) in enumerate(ranks):
        assert "Restore the same state on all ranks" in sentence, rank
    assert all(not known for _, (_, known), *_ in ranks[1:])
    # After a reset they agree on one secret again, and two secrets are an error.
    assert len({key for _, _, key, _ in ranks}) == 1
    assert all("Restore the same state on all ranks" in sentence for *_, sentence in ranks)
