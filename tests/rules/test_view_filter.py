"""ViewFilter: what its bound means."""

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.rules._spectra import filtered
from mixtailor.rules.view_filter import above_noise


def test_nobody_is_removed_where_no_view_spreads_more_than_the_bound() -> None:
    """Four of twelve stand out by between two and three times of what remains without them."""
    rows = np.random.default_rng(0).normal(size=(12, 400))
    rows[8:, 0] += 22.0
    rows -= rows.mean(axis=0)
    views = (rows @ rows.T / 400.0)[None]
    level = filtered(views, 4).spread
    assert 2.0 < np.linalg.eigvalsh(views[0])[-1] / 12.0 / level < 3.0
    assert above_noise(views, 4, bound=2.0).weights[8:].max() < 0.5
    assert (above_noise(views, 4, bound=3.0).weights == 1.0).all()


def test_a_bound_is_above_zero() -> None:
    with pytest.raises(ValueError, match=r"ViewFilter needs bound > 0"):
        mt.ViewFilter(1, bound=0.0)
    assert repr(mt.ViewFilter(1, bound=3.0)) == "ViewFilter(f=1, bound=3)"
