"""Differences to a base are what a rule sees, and are never made. That all rules agree on them is a law elsewhere."""

import dataclasses

import numpy as np
import pytest
import samples

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.rules.part import walk
from mixtailor.updates import Updates


def _differences(models, base):
    received = receive([*models, base])
    n = len(models)
    return dataclasses.replace(received, received=tuple(range(n)), n=n, base=True)


def _models(n=13, seed=0):
    rng = np.random.default_rng(seed)
    base = {"a": 10 * rng.standard_normal((4, 5)), "b": rng.standard_normal(7)}
    rows = [{name: 0.1 * rng.standard_normal(part.shape) for name, part in base.items()} for _ in range(n)]
    return rows, base, [{name: base[name] + row[name] for name in base} for row in rows]


def _flat(update):
    return np.concatenate([update["a"].reshape(-1), update["b"]])


WEIGHTED = [rule for rule in samples.rules() if all(part.takes_weights() for part in walk(rule))]


@pytest.mark.parametrize("rule", WEIGHTED, ids=repr)
def test_weighted_differences(rule):
    """Differences that are never made count by their weights as those that are."""
    rows, base, models = _models(max(13, rule.min_rows() + 1))
    side = {"reference": rows[0], "weights": np.linspace(0.5, 2.0, len(rows)), "cap": 0.1}
    expected = rule.aggregate(rows, **side, entropy=mt.SeededEntropy(3))
    found = rule.aggregate(_differences(models, base), **side, entropy=mt.SeededEntropy(3))
    np.testing.assert_allclose(_flat(found.update), _flat(expected.update), rtol=0, atol=1e-7)
    assert found.selected == expected.selected


@pytest.mark.parametrize("rule", [mt.Krum(f=2), mt.Comed(), mt.SignVote(), mt.CGE(f=2)], ids=repr)
def test_faulty_rows_are_named_as_received(rule):
    """A model that is not finite is named by its row, and the result is that of the others."""
    rows, base, models = _models()
    models[4] = {**models[4], "b": np.full(7, np.nan)}
    result = rule.aggregate(_differences(models, base))
    assert [found.row for found in result.quarantined] == [4]
    others = rule.with_f(2).aggregate([row for place, row in enumerate(rows) if place != 4])
    np.testing.assert_allclose(_flat(result.update), _flat(others.update), rtol=0, atol=1e-9)


def test_small_differences_of_large_weights_keep_their_digits():
    """Differences of float32 models come from the models, and are exact where they can be."""
    base = np.full(1000, 1000.0, np.float32)
    steps = np.float32(2.0**-13) * np.arange(1, 6, dtype=np.float32)
    rows = Updates.arrived(_differences([base + step for step in steps], base))
    np.testing.assert_array_equal(rows.norms(np.inf), steps)
    np.testing.assert_array_equal(rows.at(rows.row(0)), np.full(1000, steps[0]))
    np.testing.assert_array_equal(mt.Comed()(_differences([base + step for step in steps], base)), base * 0 + steps[2])
