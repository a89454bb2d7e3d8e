"""How many rules a pool really has."""

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.attacks import Tailored
from mixtailor.theory import State, cluster_results, effective_size


def states(count=3, *, spread=1.0):
    random = np.random.default_rng(0)
    return [State(0.5 + spread * random.normal(size=(1, 12, 40)), np.full(40, 0.5)) for _ in range(count)]


def test_it_is_the_clustering_of_the_answers() -> None:
    """As if all answers had been computed and handed over."""
    pool = [mt.Krum(2), mt.Comed(), mt.GeometricMedian(), mt.Mean(), mt.Comed()]
    known = states()
    answers = [[rule(state.gradients[0]) for rule in pool] for state in known]
    scales = [state.length for state in known]
    for tolerance in (0.05, 0.3, 1.0):
        found = effective_size(pool, known, f=2, tolerance=tolerance)
        assert found == cluster_results(answers, tolerance=tolerance, scales=scales)
    assert found.labels[1] == found.labels[4]


def test_an_attack_changes_what_counts_as_alike() -> None:
    """In calm rounds mean and medians answer alike; far rows part the mean from the others."""
    known = states(spread=0.6)
    pool = [mt.Mean(), mt.Comed(), mt.TrimmedMean(2)]
    assert effective_size(pool, known, f=2, tolerance=0.5).labels == (0, 0, 0)
    assert effective_size(pool, known, f=2, attacks=(Tailored(10.0),), tolerance=0.5).labels == (0, 1, 1)


def test_the_papers_sixty_four_are_far_fewer() -> None:
    """Sixteen equal medians and sixteen medians of one kind: breaking the likeliest cluster leaves M/q near 4."""
    found = effective_size(mt.paper_pool(2), states(), f=2, attacks=(None, Tailored(0.1)))
    assert found.rules == 64 and found.clusters <= 24 and 1.5 < found.ratio <= 4.0


def test_probabilities_count() -> None:
    """A mixture that draws one rule only is one rule."""
    pool = mt.MixTailor([mt.Krum(2), mt.Comed()], [1.0, 0.0])
    assert effective_size(pool, states(), f=2).rules == 1


def test_bad_input() -> None:
    """A sentence."""
    with pytest.raises(ValueError, match="at least one of attacks"):
        effective_size([mt.Comed()], states(), f=2, attacks=())
    with pytest.raises(TypeError, match=r"theory\.State"):
        effective_size([mt.Comed()], [np.ones(3)], f=2)
