"""Coefficients by searching for the worst input."""

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.testing.robustness import excess
from mixtailor.theory import kappa_lower_bound


@pytest.mark.parametrize(("rule", "known"), [(mt.Comed(), 1.5), (mt.TrimmedMean(2), 2 / 3)])
def test_sharp_coefficients_are_found(rule, known) -> None:
    """n = 7, f = 2: the worst cases are known, and the search is at them, up to rounding not beyond."""
    found = kappa_lower_bound(rule, 7, 2, dimensions=(1,), steps=200, seeds=1)
    assert found.published == pytest.approx(known)
    assert 0.95 * known < found.lower <= known * (1 + 1e-9) and not found.grows
    assert excess(rule(found.rows), found.rows, 2) == pytest.approx(found.lower)


@pytest.mark.parametrize("rule", [mt.Krum(1), mt.GeometricMedian(), mt.Krum(1, p=3)])
def test_no_search_passes_a_declared_coefficient(rule) -> None:
    """Adversarial inputs, not random ones."""
    found = kappa_lower_bound(rule, 6, 1, dimensions=(2,), steps=200, seeds=1)
    assert 0 < found.lower <= found.published


def test_a_users_own_rule_gets_a_figure() -> None:
    """Any callable; one that follows a single row has no coefficient, and the search says so."""
    found = kappa_lower_bound(lambda rows: rows.max(axis=0), 5, 1, dimensions=(1,), steps=60, seeds=1)
    assert found.grows and found.published is None and "none declared" in str(found)
    kept = kappa_lower_bound(lambda rows: np.median(rows, axis=0), 5, 1, dimensions=(1,), steps=60, seeds=1)
    assert not kept.grows


def test_bad_input() -> None:
    """A sentence each."""
    with pytest.raises(ValueError, match="0 < f < n/2"):
        kappa_lower_bound(mt.Comed(), 4, 2)
    with pytest.raises(ValueError, match="n >= 2f \\+ 3"):
        kappa_lower_bound(mt.Krum(2), 6, 2)
    with pytest.raises(ValueError, match="at least one dimension"):
        kappa_lower_bound(mt.Comed(), 5, 1, dimensions=())
