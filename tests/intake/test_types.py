"""Types of other libraries: right, or refused with a sentence; labels belong to entries."""

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.intake import arrays
from mixtailor.kernels.space import to_bfloat16

VALUES = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
RULES = [mt.Mean(), mt.Comed(), mt.Krum(1), mt.NNM(1) >> mt.TrimmedMean(1), mt.GeometricMedian()]


def rounded(values: np.ndarray) -> np.ndarray:
    """float32 numbers that bfloat16 holds."""
    bits = to_bfloat16(np.ascontiguousarray(values, np.float32))
    return (bits.astype(np.uint32) << 16).view(np.float32)


def check(dtype: np.dtype, as_floats) -> None:
    """Matrices, columns of others, lists, dicts and lists of lists, as of float32 numbers of the same value."""
    exact = rounded(VALUES)
    bits = to_bfloat16(exact).view(dtype)
    assert np.array_equal(as_floats(bits), exact), "the stand-in holds what it should"
    for rule in RULES:
        expected = rounded(np.asarray(rule(exact)))
        for found in (rule(bits), rule(list(bits)), rule(np.asfortranarray(bits)), rule(list(bits[:, ::-1]))[::-1]):
            assert found.dtype == dtype and np.array_equal(as_floats(found), expected), rule
        if rule != mt.Comed():  # layers of two types: distances over both
            continue
        both = rule([{"half": row, "single": own} for row, own in zip(bits, exact, strict=True)])
        assert np.array_equal(as_floats(both["half"]), expected) and np.array_equal(both["single"], expected)
        assert both["half"].dtype == dtype and both["single"].dtype == np.float32


def test_bfloat16_that_numpy_has_no_name_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in of two opaque bytes, as numpy sees the type of ml_dtypes where that is not installed."""
    stand_in = np.dtype("V2")
    monkeypatch.setattr(arrays, "_is_bfloat16", lambda dtype: dtype == stand_in)
    arrays._numpy_kind.cache_clear()
    try:
        check(stand_in, lambda array: (array.view(np.uint16).astype(np.uint32) << 16).view(np.float32))
        mixed = [to_bfloat16(rounded(VALUES))[0].view(stand_in), *to_bfloat16(rounded(VALUES))[1:]]
        with pytest.raises(mt.FaultError, match=r"1 of 5 updates is of type bfloat16 where most have uint16 \(row 0\)"):
            mt.Mean()(mixed)
    finally:
        arrays._numpy_kind.cache_clear()


def test_bfloat16_of_ml_dtypes() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    check(np.dtype(ml_dtypes.bfloat16), lambda array: np.asarray(array.astype(np.float32)))


def test_bfloat16_of_jax() -> None:
    """The result is jax's again."""
    jnp = pytest.importorskip("jax.numpy")
    half = jnp.full((3, 2), 0.5, jnp.bfloat16)
    for found in (mt.Mean()(half), mt.Mean()(list(half)), mt.Mean()([{"a": row} for row in half])["a"]):
        assert found.dtype == jnp.bfloat16 and found.tolist() == [0.5, 0.5] and type(found) is type(half)


def test_other_narrow_floats_are_refused() -> None:
    """Kernels know nothing of them; what to do is said."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    for name in ("float8_e4m3fn", "float8_e5m2", "float8_e4m3b11fnuz", "float4_e2m1fn", "int4"):
        rows = np.ones((3, 2)).astype(getattr(ml_dtypes, name))
        for sent in (rows, list(rows), [{"a": row} for row in rows]):
            with pytest.raises(
                TypeError, match=f"of {name}, which is not supported; convert it to float32 or bfloat16"
            ):
                mt.Mean()(sent)


def test_torch_has_narrow_floats_too() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="of float8_e5m2, which is not supported; convert it to float32 or bfloat16"):
        mt.Mean()(torch.ones(3, 2).to(torch.float8_e5m2))


def test_types_of_nobody_we_know_are_refused() -> None:
    """A stand-in for them where no package that has any is installed: numpy's own opaque bytes."""
    with pytest.raises(TypeError, match="of void16 where real numbers are needed"):
        mt.Mean()(np.zeros((3, 2), "V2"))


def test_whole_numbers() -> None:
    """One array of integers gives float64; in a state dict integers are counters and keep their type."""
    rows = np.array([[1, 2], [2, 2], [4, 3]], np.int32)
    assert mt.Mean()(rows).dtype == mt.Mean()(list(rows)).dtype == np.float64
    assert mt.Mean()(rows).tolist() == pytest.approx([7 / 3, 7 / 3])
    found = mt.Mean()([{"steps": row, "weights": row.astype(np.float32)} for row in rows])
    assert found["steps"].dtype == np.int32 and found["steps"].tolist() == [2, 2], "the lower median"
    assert found["weights"].dtype == np.float32


class Series:
    """As pandas has them: entries with labels."""

    __module__ = "pandas.core.series"

    def __init__(self, values: list[float], labels: list[str]) -> None:
        self.values, self.shape, self.axes = np.array(values), (len(values),), [np.array(labels)]

    def __array__(self, dtype=None, copy=None) -> np.ndarray:
        return self.values


def labelled(kind) -> None:
    one, other = kind([1.0, 2.0], ["a", "b"]), kind([2.0, 1.0], ["b", "a"])
    assert mt.Comed()([one] * 3).tolist() == [1.0, 2.0]
    result = mt.Comed().aggregate([one, one, other])
    assert [(found.row, found.reason) for found in result.quarantined] == [
        (2, "with other labels, or in another order, than most have")
    ]
    assert result.update.tolist() == [1.0, 2.0]
    with pytest.raises(mt.FaultError, match=r"with other labels, or in another order, than most have \(x\) \(row 1\)"):
        mt.Mean()([{"x": one}, {"x": other}, {"x": one}])
    rule = mt.CenteredClipping(tau=1.0)
    assert rule([one] * 3, reference=one).tolist() == rule([one] * 3, reference=np.array([1.0, 2.0])).tolist() == [1, 2]
    with pytest.raises(
        ValueError, match="The reference needs the labels of one update, in the same order, and has others"
    ):
        rule([one] * 3, reference=other)


def test_labels_that_differ_are_a_fault() -> None:
    """Entries are never matched by position where their labels say otherwise."""
    labelled(Series)


def test_labels_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    labelled(lambda values, labels: pandas.Series(values, index=labels))
    frame = pandas.DataFrame([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], columns=["a", "b"])
    assert mt.Mean()(frame).tolist() == [3.0, 4.0]
    rule = mt.CenteredClipping(tau=100.0)
    assert rule(frame, reference=pandas.Series([3.0, 4.0], index=["a", "b"])).tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match="The reference needs the labels"):
        rule(frame, reference=pandas.Series([4.0, 3.0], index=["b", "a"]))
    with pytest.raises(mt.FaultError, match="with other labels"):
        mt.Mean()([frame, frame[["b", "a"]], frame])
