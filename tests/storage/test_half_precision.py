"""float16 and bfloat16 compute in float32 or better: distances and statistics against the oracle."""

import naive
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.updates import Updates

KINDS = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@settings(max_examples=25, deadline=None)
@given(
    n=st.integers(1, 64),
    d=st.integers(1, 10_000),
    p=st.sampled_from([*map(float, range(1, 17)), 2.5, np.inf]),
    kind=st.sampled_from(sorted(KINDS)),
    size=st.sampled_from([1e-3, 1.0, 1e3]),
    seed=st.integers(0, 1000),
)
def test_distances_and_median(n: int, d: int, p: float, kind: str, size: float, seed: int) -> None:
    """What the rows hold is widened exactly, so nothing but the result is rounded to half precision."""
    rng = np.random.default_rng(seed)
    tails = np.clip(size * rng.standard_t(3, size=(n, d)), -60000, 60000)  # float16 ends at 65504
    rows = torch.from_numpy(tails).to(KINDS[kind])
    rows[rng.integers(n)] = rows[rng.integers(n)]
    exact = rows.to(torch.float64).numpy()
    found, expected = Updates.arrived(receive(rows)).distances(p), naive.distances(exact, p).astype(np.float64)
    assert np.abs(found - expected).max() <= 1e-5 * expected.max(initial=0.0)
    assert (found[expected == 0.0] == 0.0).all()
    median = mt.Comed()(rows)
    assert median.dtype == rows.dtype
    assert torch.equal(median, torch.from_numpy(naive.comed(exact).astype(np.float32)).to(rows.dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_sums_beyond_half_precision(kind: str) -> None:
    """Seventy thousand and more is no float16, and squares of 300 neither: sums are not formed in it."""
    rows = torch.full((9, 400), 60000.0).to(KINDS[kind])
    rows[:3] = 300.0
    rows[8] = -60000.0
    mean = rows.to(torch.float64).mean(0).to(rows.dtype)
    assert torch.equal(mt.Mean()(rows), mean)
    assert torch.equal(mt.Krum(2)(rows), rows[4])
    assert torch.isfinite(mt.GeometricMedian()(rows)).all()
