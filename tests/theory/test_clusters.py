"""How many rules a pool really has."""

import json
import math
from dataclasses import asdict

import numpy as np
import pytest

from mixtailor.theory import cluster_products, cluster_results

FAMILIES = np.eye(4)


def sixteen_of_each(rng, noise, states=5):
    """64 rules in four families whose answers are orthogonal, each rule within `noise` of its family."""
    return np.repeat(FAMILIES, 16, axis=0)[None] + noise * rng.uniform(-1, 1, size=(states, 64, 4)) / 4


def test_sixteen_alike_count_as_one():
    """Four families of sixteen: 64 rules, four clusters, M/q = 4."""
    size = cluster_results(sixteen_of_each(np.random.default_rng(0), 0.05))
    assert size.clusters == 4 and size.labels == tuple(np.repeat(range(4), 16))
    assert size.ratio == pytest.approx(4.0) and size.diversity == pytest.approx(4.0)
    assert size.per_state == (4,) * 5


def test_probabilities_move_the_ratio():
    """Masses 1/2, 1/4, 1/4: the likeliest cluster leaves M/q = 2; the entropy is 1.5 bits, so 2^1.5 equal rules."""
    size = cluster_results(np.eye(3)[None], probabilities=[0.5, 0.25, 0.25])
    assert size.clusters == 3 and size.ratio == pytest.approx(2.0) and size.diversity == pytest.approx(2**1.5)


def test_no_chains():
    """Answers 1, 1.07, 1.15 and 1.22: neighbours are alike, the ends are not; a cluster's rules are alike in pairs."""
    size = cluster_results(np.array([1.0, 1.07, 1.15, 1.22])[None, :, None], scales=[1.0])
    assert size.clusters == 2 and size.labels == (0, 0, 1, 1)


def test_tolerance_is_relative_to_the_state():
    """Small gradients late in training are judged by their own size."""
    answers = sixteen_of_each(np.random.default_rng(1), 0.05)
    assert cluster_results(1e-6 * answers).labels == cluster_results(answers).labels


def test_a_broken_rule_does_not_move_the_scale():
    """One answer of 1e9 does not make all others look alike."""
    size = cluster_results(np.array([[[1.0, 0.0], [0.0, 1.0], [1e9, 0.0]]]))
    assert size.clusters == 3


def test_alike_in_half_of_the_states():
    """Two rules that agree in two states of three are one cluster over all, and two in the third state."""
    answers = np.array([[[1.0, 0.0], [1.0, 0.0]], [[0.0, 1.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    size = cluster_results(answers)
    assert size.clusters == 1 and size.per_state == (1, 1, 2)


def test_inner_products_give_the_same():
    """Distances from the Gram matrix agree with those from the answers."""
    answers = sixteen_of_each(np.random.default_rng(2), 0.2)
    products = answers @ answers.swapaxes(1, 2)
    for tolerance in (0.01, 0.05, 0.1, 0.5, 2.0):
        assert cluster_products(products, tolerance=tolerance) == cluster_results(answers, tolerance=tolerance)


def test_one_rule_and_zero_answers():
    """A single rule is a cluster; answers that are all zero are alike."""
    assert cluster_results([[[1.0, 2.0]]]).clusters == 1
    assert cluster_results(np.zeros((2, 3, 4))).clusters == 1


def test_prints_and_becomes_json():
    """A person reads two lines, a machine reads the fields."""
    size = cluster_results(np.eye(3)[None])
    assert str(size).startswith("3 rules form 3 clusters") and json.loads(json.dumps(asdict(size)))["clusters"] == 3


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: cluster_results(np.eye(3)), "3 axes"),
        (lambda: cluster_results(np.eye(3)[None], tolerance=-1.0), "tolerance >= 0"),
        (lambda: cluster_results(np.eye(3)[None], scales=[0.0]), "one scale above zero"),
        (lambda: cluster_results([[[math.nan]]]), "1 of 1 are not"),
        (lambda: cluster_products(np.zeros((1, 2, 3))), "square matrix"),
        (lambda: cluster_products([[[1.0, 0.5], [0.0, 1.0]]]), "symmetric"),
    ],
)
def test_errors_say_what_is_needed(call, sentence):
    """Wrong numbers get a sentence."""
    with pytest.raises(ValueError, match=sentence):
        call()
