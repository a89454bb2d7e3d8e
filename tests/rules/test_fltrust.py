"""FLTrust."""

import naive
import numpy as np
import pytest
from attacked import FAR, attacked

from mixtailor.preaggregation import NNM
from mixtailor.rules import FLTrust


def test_by_hand() -> None:
    """About (0, 5): cosines 1, 3/5 and -1; lengths become 5; (1 * (0, 5) + 3/5 * (4, 3)) / (8/5) = (1.5, 4.25)."""
    rows = np.array([[0.0, 2.0], [4.0, 3.0], [0.0, -7.0]])
    result = FLTrust().aggregate(rows, reference=np.array([0.0, 5.0]))
    assert result.scores is not None
    np.testing.assert_allclose(result.scores, [1.0, 0.6, 0.0], atol=1e-15)
    np.testing.assert_allclose(result.update, [1.5, 4.25], rtol=1e-15)


def test_needs_a_reference() -> None:
    """Without the server's own update there is nothing to trust."""
    with pytest.raises(ValueError, match=r"needs the server's own update and got none.*reference="):
        FLTrust()(np.ones((3, 2)))


@pytest.mark.parametrize("reference", [[0.0, 1.0], [0.0, 0.0]])
def test_where_no_row_is_trusted_the_answer_is_zero(reference: list[float]) -> None:
    """Rows that point elsewhere, or a reference without a direction, make no step."""
    rows = np.array([[1.0, 0.0], [2.0, -1.0], [0.0, 0.0]], np.float32)
    result = FLTrust().aggregate(rows, reference=np.array(reference))
    assert result.update.dtype == np.float32
    np.testing.assert_array_equal(result.update, [0.0, 0.0])
    np.testing.assert_array_equal(result.scores, [0.0, 0.0, 0.0])


def test_one_row_suffices() -> None:
    """The requirement is n >= 1."""
    np.testing.assert_allclose(FLTrust()(np.array([[3.0, 4.0]]), reference=np.array([1.0, 0.0])), [0.6, 0.8])


@pytest.mark.parametrize("seed", range(8))
def test_agrees_with_the_oracle(seed: int) -> None:
    """Angles, lengths and weights as the definition has them."""
    random = np.random.default_rng(seed)
    rows = random.normal(size=(int(random.integers(1, 20)), 30)) * random.choice([1e-30, 1.0, 1e30])
    reference = random.normal(size=30)
    expected = naive.fltrust(rows, trusted=reference)
    np.testing.assert_allclose(FLTrust()(rows, reference=reference), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("far", [*FAR, 1e130])
def test_far_rows_cost_no_digits(far: float) -> None:
    """A row counts by its direction, however long it is."""
    rows = attacked(far, outliers=3, dtype=np.float64)
    reference = np.ones(40)
    answer = FLTrust()(rows, reference=reference)
    assert np.linalg.norm(answer - naive.fltrust(rows, trusted=reference)) < 1e-6


def test_a_row_too_long_to_measure_has_no_say() -> None:
    """Beyond 1e140, which float64 cannot square, it is a fault."""
    rows = np.array([[1.0, 0.0, 0.0], [1.7e308, 1.7e308, 1.7e308], [1e200, 1.0, 0.0]])
    np.testing.assert_allclose(FLTrust()(rows, reference=np.array([2.0, 0.0, 0.0])), [2.0, 0.0, 0.0])


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_a_reference_at_the_end_of_its_type_is_shortened_until_it_fits(dtype: type) -> None:
    """Turned to one coordinate, a reference with four at the largest number would be twice that number."""
    largest = np.finfo(dtype).max
    rows = np.array([[1.0, 0.0, 0.0, 0.0]] * 3, dtype)
    answer = FLTrust()(rows, reference=np.full(4, largest, dtype))
    assert np.isfinite(answer).all()
    np.testing.assert_allclose(answer[0], largest, rtol=1e-3)
    layers = FLTrust()([[row[:1], row[1:]] for row in rows], reference=[np.full(k, largest, dtype) for k in (1, 3)])
    np.testing.assert_array_equal(np.concatenate(layers), answer)


def test_a_faulty_row_does_not_reach_the_answer() -> None:
    """Nearly all rows may be faulty."""
    rows = np.full((4, 2), np.nan)
    rows[2] = [3.0, 0.0]
    result = FLTrust().aggregate(rows, reference=np.array([1.0, 0.0]))
    np.testing.assert_allclose(result.update, [1.0, 0.0])
    assert [fault.row for fault in result.quarantined] == [0, 1, 3]


def test_behind_a_pre_aggregation() -> None:
    """Mixed rows have lengths and angles too."""
    rows = attacked(5.0, outliers=2, dtype=np.float64)
    reference = np.linspace(0, 1, 40)
    expected = naive.fltrust(naive.nnm(rows, 2), trusted=reference)
    np.testing.assert_allclose((NNM(f=2) >> FLTrust())(rows, reference=reference), expected, rtol=1e-9)


def test_a_product_that_is_no_number_earns_no_trust() -> None:
    """Half of the products overflow upwards and half downwards: the row is at right angles to the reference."""
    across = np.repeat([1.0, -1.0], 512)
    result = FLTrust().aggregate(np.array([across, np.ones(1024)]), reference=np.full(1024, np.finfo(np.float64).max))
    assert result.scores is not None
    np.testing.assert_array_equal(result.scores, [0.0, 1.0])
