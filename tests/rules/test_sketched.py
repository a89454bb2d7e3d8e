"""Sketched."""

import naive
import numpy as np
import pytest

import mixtailor as mt
from mixtailor import CAF, NNM, Comed, GeometricMedian, Krum, MultiKrum, Sketched
from mixtailor.testing.laws import FixedKey


def rows(n: int = 12, d: int = 5000, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_t(3, size=(n, d)).astype(np.float32)


def test_weights_are_those_of_the_rule_on_sketches() -> None:
    """The result is a combination of the updates themselves, by weights that depend on the sketches alone."""
    x = rows()
    for rule in (Krum(f=2), MultiKrum(f=2), CAF(f=2), GeometricMedian(), NNM(f=2) >> Krum(f=2)):
        result = Sketched(rule, sketch=256).aggregate(x, entropy=FixedKey(1))
        assert result.weights is not None
        np.testing.assert_allclose(result.weights @ x.astype(float), result.update, atol=1e-5)


def test_one_row_is_copied_bit_for_bit() -> None:
    x = rows()
    result = Sketched(Krum(f=2), sketch=64).aggregate(x)
    np.testing.assert_array_equal(result.update, x[result.selected[0]])
    assert result.facts["spread"] == 0.0


def test_a_large_sketch_decides_as_the_rule() -> None:
    """Rows whose scores differ by more than the sketch's error: the same row, whatever is drawn."""
    x = rows(12, 3000) * np.linspace(1.0, 2.0, 12)[:, None].astype(np.float32)
    expected = naive.krum_row(x, 2)
    found = {Sketched(Krum(f=2), sketch=8192).aggregate(x, entropy=FixedKey(s)).selected for s in range(8)}
    assert found == {(expected,)}


@pytest.mark.parametrize("heavy", [False, True])
def test_the_deviation_of_a_squared_distance(heavy: bool) -> None:
    """Unbiased, with a standard deviation of at most sqrt(2/k) of itself, also where one coordinate has the length."""
    x = rows(2, 4000)
    if heavy:
        x[0, 7] = 100.0
    updates = mt.updates.Updates.of(mt.storage.layers.Matrix.of(x))
    true = float(((x[0].astype(float) - x[1]) ** 2).sum())
    k = 128
    found = [((s[0] - s[1]) ** 2).sum() / true for key in range(1500) for s in [updates.sketch(key, k)]]
    assert abs(np.mean(found) - 1.0) < 5 * np.sqrt(2 / k / 1500)
    assert np.std(found) < 1.1 * np.sqrt(2 / k)


@pytest.mark.parametrize("rule", [Krum(f=2), MultiKrum(f=2), GeometricMedian()], ids=repr)
def test_the_guarantee_holds(rule: mt.Rule) -> None:
    """With the error that the distances really have, and the spread that the report names."""
    n, f, k = 12, 2, 64
    kappa = rule.kappa(n, f, 500)
    assert kappa is not None
    for seed in range(10):
        x = rows(n, 500, seed).astype(float)
        x[:f] = x[f:].mean(axis=0) + 3.0 * x[:f]
        result = Sketched(rule, sketch=k).aggregate(x, entropy=FixedKey(seed))
        honest = x[f:]
        variance = ((honest - honest.mean(axis=0)) ** 2).sum(axis=1).mean()
        # The sketch of this call: weights and randomness are those of the key.
        key = int(mt.updates.Call(FixedKey(seed).key("preaggregation")).random.integers(1 << 63))
        sketches = mt.updates.Updates.of(mt.storage.layers.Matrix.of(x)).sketch(key, k)
        off = np.triu_indices(n, 1)
        true, seen = naive.distances(x)[off] ** 2, naive.distances(sketches)[off] ** 2
        error = float(np.abs(seen / true - 1).max())
        assert error < 1.0
        bound = Sketched(rule, sketch=k).kappa_at(error, n, f, 500) * variance
        bound += 2 * error / (1 - error**2) * result.facts["spread"]
        assert ((result.update - honest.mean(axis=0)) ** 2).sum() <= bound


def test_distances_are_never_of_all_coordinates(monkeypatch: pytest.MonkeyPatch) -> None:
    from mixtailor.kernels.space import Numba

    widths: list[int] = []
    original = Numba.pair_lengths

    def counted(self, block, powers):
        widths.append(block.width)
        return original(self, block, powers)

    monkeypatch.setattr(Numba, "pair_lengths", counted)
    Sketched(Krum(f=2), sketch=100)(rows())
    assert sum(widths) == 100


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Sketched(Krum(f=1, p=3), sketch=64), "asks for the norm 3"),
        (lambda: Sketched(mt.FLTrust(), sketch=64), "a vector to trust"),
        (lambda: Sketched(Krum(f=1), sketch=1), "sketch"),
        (lambda: Sketched(Comed(), sketch=64)(rows()), "computes each coordinate by itself"),
        (lambda: Sketched(Krum(f=1), sketch=64).kappa_at(1.0, 9, 1, 5), "below 1"),
    ],
)
def test_wrong_arguments_get_a_sentence(make, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()
