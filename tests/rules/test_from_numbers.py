"""`Rule.weights`: the weights on the updates, from the numbers between them alone."""

import re
import warnings

import numpy as np
import pytest
import samples

import mixtailor as mt

NORMS = (1.0, 2.0, 3.0, np.inf)
# Rules that combine updates and read coordinates, or a vector from outside, to find the weights.
READING = (mt.Aksel, mt.DnC, mt.FLTrust, mt.MoNNA, mt.Omniscient, mt.Sketched, mt.Subsampled)


def inputs(n: int = 12, d: int = 40) -> dict[str, np.ndarray]:
    random = np.random.default_rng(5)
    plain = random.normal(size=(n, d))
    near = 1.0 + 1e-7 * random.normal(size=(n, d))
    near[2] = near[1]
    far = plain.copy()
    far[3] *= 1e8
    return {"random": plain, "near": near, "far": far}


def numbers(rows: np.ndarray) -> dict[str, object]:
    between = {p: np.linalg.norm(rows[:, None] - rows[None], ord=p, axis=2) for p in NORMS}
    return {"distances": between, "products": rows @ rows.T, "norms": np.linalg.norm(rows, axis=1)}


def reads(rule: mt.Rule) -> bool:
    """Whether a rule that combines updates has to read them."""
    if isinstance(rule, READING) or (isinstance(rule, mt.GeometricMedian) and rule.p != 2.0):
        return True
    return isinstance(rule, mt.Bulyan) and not isinstance(rule.selection, (mt.Krum, mt.Mean, mt.GeometricMedian))


@pytest.mark.parametrize("name", inputs())
@pytest.mark.parametrize("rule", samples.everything(), ids=repr)
def test_weights_are_those_of_the_updates(rule: mt.Rule, name: str) -> None:
    """From numbers or from updates: the same weights to rounding, or a sentence where there are none."""
    rows = inputs()[name]
    if isinstance(rule, mt.Omniscient) or rule.asks().reference == "trusted":
        with pytest.raises(ValueError, match="needs"):
            rule.weights(**numbers(rows))
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # an iteration that stops early, in l_p
        try:
            expected = rule.aggregate(rows, entropy=mt.SeededEntropy(3)).weights
        except ValueError as error:  # a filter that is left with too few
            with pytest.raises(ValueError, match=re.escape(str(error))):
                rule.weights(**numbers(rows), entropy=mt.SeededEntropy(3))
            return
    if expected is None or reads(rule):
        with pytest.raises(ValueError, match=r"coordinate|norm") as caught:
            rule.weights(**numbers(rows), entropy=mt.SeededEntropy(3))
        assert "decide from numbers" in str(caught.value)
        return
    found = rule.weights(**numbers(rows), entropy=mt.SeededEntropy(3))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)


@pytest.mark.parametrize("rule", [mt.CAF(2), mt.GeometricMedian(), mt.NNM(2) >> mt.MultiKrum(2), mt.SMEA(2)], ids=repr)
def test_distances_alone_suffice(rule: mt.Rule) -> None:
    """Without inner products only what far updates point to loses digits: 1e-16 of how far they are."""
    for name, rows in inputs().items():
        found = rule.weights(distances=numbers(rows)["distances"][2.0])
        np.testing.assert_allclose(found, rule.aggregate(rows).weights, rtol=0, atol=1e-8, err_msg=name)


def test_far_updates_cannot_use_lost_digits() -> None:
    """At 1e12 spreads a far update's direction is rounding. Its pull stays what its weight allows."""
    rows = inputs()["random"]
    rows[3] = 1e12 * rows[4]
    weights = mt.GeometricMedian().weights(distances=numbers(rows)["distances"][2.0])
    assert weights[3] < 1e-12
    honest = np.delete(rows, 3, axis=0)
    reach = np.linalg.norm(honest - honest.mean(axis=0), axis=1).max()
    assert np.linalg.norm(weights @ rows - honest.mean(axis=0)) < reach


def test_norms_other_than_two() -> None:
    """An array of distances is in the norm that the rule asks for; of others it needs a mapping."""
    rows = inputs()["random"]
    between = numbers(rows)["distances"]
    assert mt.Krum(2, p=3).weights(distances=between[3.0]).argmax() == mt.Krum(2, p=3).aggregate(rows).weights.argmax()
    with pytest.raises(ValueError, match=r"distances=\{3: ...\}"):
        mt.Krum(2, p=3).weights(distances={2.0: between[2.0]})
    with pytest.raises(ValueError, match="distances in another norm"):
        (mt.NNM(2, p=3) >> mt.Krum(2)).weights(distances=between[3.0])


def test_products_without_distances() -> None:
    """Inner products give the distances and the norms."""
    rows = inputs()["random"]
    for rule in (mt.Krum(2), mt.CGE(2), mt.ARC(2) >> mt.GeometricMedian()):
        found = rule.weights(products=rows @ rows.T)
        np.testing.assert_allclose(found, rule.aggregate(rows).weights, rtol=0, atol=1e-12)


def test_float32_numbers_are_taken() -> None:
    """Numbers of another backend in float32 miss symmetry and definiteness by rounding."""
    rows = inputs()["random"].astype(np.float32)
    found = mt.GeometricMedian().weights(products=rows @ rows.T)
    np.testing.assert_allclose(found, mt.GeometricMedian().aggregate(rows).weights, atol=1e-5)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "distances=, products= or norms="),
        ({"distances": np.zeros((5, 4))}, r"distances= needs n x n numbers, here of shape \(5, 5\)"),
        ({"distances": np.eye(5)}, "zeros on the diagonal"),
        ({"distances": np.eye(5) - 1}, "not negative"),
        ({"distances": np.triu(np.ones((5, 5)), 1)}, r"symmetric matrix, and has 1 at \(0, 1\) and 0 at \(1, 0\)"),
        ({"distances": np.full((5, 5), np.nan)}, r"finite numbers, and that at \(0, 0\) is nan"),
        ({"products": -np.eye(5)}, "negative number on the diagonal, and update 0"),
        ({"products": 2 * np.eye(5) - np.ones((5, 5))}, "no vectors"),
        ({"products": np.eye(5), "norms": [1.0, -1.0, 1.0, 1.0, 1.0]}, "norms= needs numbers that are not negative"),
        ({"products": np.eye(5), "norms": np.ones(4)}, "norms= needs n numbers"),
        ({"distances": np.zeros((4, 4))}, r"Krum\(f=1\) needs at least 5 rows"),
    ],
)
def test_what_is_refused(given: dict, said: str) -> None:
    """Shapes, signs, symmetry and definiteness are checked, each with a sentence."""
    with pytest.raises(ValueError, match=said):
        mt.Krum(1).weights(**given)


def test_distances_of_no_vectors() -> None:
    """Krum compares distances and takes any. Where inner products are needed, Euclidean ones are."""
    between = np.ones((6, 6)) - np.eye(6)
    between[0, 1] = between[1, 0] = 30.0  # both are at 1 from all others
    assert mt.Krum(1).weights(distances=between).sum() == 1.0
    with pytest.raises(ValueError, match="of no vectors"):
        mt.CAF(1).weights(distances=between)


def test_inputs_are_not_written_to() -> None:
    """The caller's arrays stay as they are."""
    rows = inputs()["random"]
    given = numbers(rows)
    kept = {p: between.copy() for p, between in given["distances"].items()}
    mt.GeometricMedian().weights(**given)
    assert all(np.array_equal(kept[p], given["distances"][p]) for p in kept)
    given["distances"][2.0][0, 1] = 0.0  # and stay writable
