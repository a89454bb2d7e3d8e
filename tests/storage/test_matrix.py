"""Arrays in memory: read in place where the kernels can, run by run where they cannot, and given back as they came."""

import numpy as np
import pytest
import torch

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.kernels.space import from_bfloat16, to_bfloat16
from mixtailor.storage import Converted, Matrix

RULES = [mt.Mean(), mt.Comed(), mt.Krum(1), mt.GeometricMedian(), mt.NNM(1) >> mt.TrimmedMean(1)]


def rows(n=7, d=230, dtype=np.float32):
    return np.random.default_rng(n * d).standard_normal((n, d)).astype(dtype)


def assert_in_place(storage, addresses):
    assert isinstance(storage, Matrix)
    for start in (0, 17):
        block = storage.block(start, storage.d)
        assert block.addresses.tolist() == [address + start * storage.dtype.itemsize for address in addresses]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_numpy_is_read_in_place(dtype) -> None:
    """A matrix, rows far apart and in reverse, a list of arrays: every block points into the caller's memory."""
    x = rows(dtype=dtype)
    assert_in_place(receive(x).storage, [row.ctypes.data for row in x])
    wide = rows(7, 500, dtype)[::-1, 3:200]
    assert_in_place(receive(wide).storage, [row.ctypes.data for row in wide])
    arrays = [row.copy().reshape(23, 10) for row in x]
    assert_in_place(receive(arrays).storage, [array.ctypes.data for array in arrays])
    cube = rows(7, 240, dtype).reshape(7, 4, 60)
    assert_in_place(receive(cube).storage, [row.ctypes.data for row in cube])


def test_torch_is_read_in_place() -> None:
    """A CPU tensor, with or without a gradient, and a list of them."""
    x = torch.from_numpy(rows())
    assert_in_place(receive(x).storage, [row.data_ptr() for row in x])
    x = x.clone().requires_grad_()
    assert_in_place(receive(x).storage, [row.data_ptr() for row in x.detach()])
    tensors = [row.clone() for row in x.detach()]
    assert_in_place(receive(tensors).storage, [tensor.data_ptr() for tensor in tensors])


def odd_forms():
    x = rows(7, 231)
    cube = rows(7, 240).reshape(7, 8, 30).transpose(0, 2, 1)
    flexible = np.lib.stride_tricks.as_strided(rows(7, 462), (7, 231), (462 * 4, 8))
    return {
        "by columns": (np.asfortranarray(x), x),
        "transposed": (np.ascontiguousarray(x.T).T, x),
        "every other": (flexible, flexible.copy()),
        "trailing axes swapped": (cube, cube.copy()),
        "list of swapped": (list(cube), cube.copy()),
        "other byte order": (x.astype(">f4"), x),
        "long double": (x.astype(np.longdouble), x.astype(np.float64)),
        "repeated": (np.broadcast_to(x[:, :1], (7, 231)), np.repeat(x[:, :1], 231, axis=1)),
        "unaligned": (np.frombuffer(b"-" + x.tobytes(), np.uint8)[1:].view(np.float32).reshape(7, 231), x),
        "half": (x.astype(np.float16), x.astype(np.float16).astype(np.float32)),
    }


@pytest.mark.parametrize("form", odd_forms())
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_what_cannot_be_read_in_place_gives_the_same_answer(form, rule) -> None:
    """Strides, byte orders and half precision are copied run by run, and come back in the type they had."""
    sent, plain = odd_forms()[form]
    assert isinstance(receive(sent).storage, Converted)
    first = sent[0]
    answer = rule(sent)
    expected = rule(plain.reshape(7, -1)).reshape(first.shape)
    assert answer.dtype == first.dtype and answer.shape == first.shape
    # The result is rounded once, from float64; the expected one to float32 first.
    unit = 1e-3 if form == "half" else 0.0
    np.testing.assert_allclose(answer.astype(np.float64), expected.astype(np.float64), rtol=unit, atol=unit)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_tensors_come_back_as_tensors(dtype, rule) -> None:
    """Type and shape stay; half precision computes in float32; nothing requires a gradient or shares memory."""
    x = torch.from_numpy(rows(7, 240)).to(dtype).reshape(7, 12, 20).requires_grad_()
    answer = rule(x)
    assert answer.dtype == dtype and answer.shape == (12, 20) and not answer.requires_grad
    wide = rule(x.detach().to(torch.float64 if dtype == torch.float64 else torch.float32).numpy())
    unit = {torch.float16: 1e-3, torch.bfloat16: 1e-2}.get(dtype, 0.0)  # rounded once, and not to float32 first
    assert torch.allclose(answer.double(), torch.from_numpy(wide).double(), rtol=unit, atol=unit)
    answer.zero_()
    assert x.detach().abs().sum() > 0


def test_rows_of_another_type_are_understood_in_that_of_most() -> None:
    """A float64 row among float32 rows is converted; what float32 cannot hold is infinite there, and quarantined."""
    x = [*rows(6, 40), rows(6, 40)[2].astype(np.float64)]
    answer = mt.Mean()(x)
    assert answer.dtype == np.float32
    np.testing.assert_allclose(answer, np.mean(x, axis=0), rtol=1e-6, atol=1e-7)
    x[6] = x[6] * 1e200
    result = mt.Comed().aggregate(x)
    assert [(q.row, q.reason) for q in result.quarantined] == [(6, "not finite")]


def test_whole_numbers_as_an_update() -> None:
    """An update that is nothing but whole numbers computes and returns float64."""
    x = np.arange(20, dtype=np.int16).reshape(4, 5)
    assert mt.Mean()(x).tolist() == x.mean(axis=0).tolist()
    assert mt.Mean()(list(x)).dtype == np.float64
    assert mt.Mean()(torch.from_numpy(x)).dtype == torch.float64
    assert mt.Mean()(x.view(np.uint16)).tolist() == x.mean(axis=0).tolist()


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("d", [0, 1, 3])
def test_hardly_any(n, d) -> None:
    """One row, no coordinates, one coordinate."""
    for x in (rows(n, d), torch.from_numpy(rows(n, d)), list(rows(n, d))):
        for rule in (mt.Mean(), mt.Comed(), mt.Medoid(), mt.GeometricMedian()):
            assert tuple(rule(x).shape) == (d,)


class ArrayOnly:
    """Speaks `__array__` and `__array_namespace__`, as a jax array does."""

    def __init__(self, array, device=None):
        self._array, self.device = np.asarray(array), device

    shape = property(lambda self: self._array.shape)

    def __array__(self, dtype=None, copy=None):
        return self._array

    def __array_namespace__(self, api_version=None):
        return ArrayOnly.Space

    class Space:
        @staticmethod
        def asarray(array):
            return ArrayOnly(np.array(array))


class DLPackOnly:
    """Speaks DLPack and nothing else."""

    def __init__(self, array):
        self._array = array

    shape = property(lambda self: self._array.shape)

    def __dlpack__(self, **options):
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self._array.__dlpack_device__()


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_other_libraries(rule) -> None:
    """Arrays of another library come in as they are, in a matrix, list or layers, and the result is one of theirs."""
    x = rows(7, 60)
    expected = rule(x)
    for device in (None, "somewhere"):
        answer = rule(ArrayOnly(x, device))
        assert isinstance(answer, ArrayOnly)
        np.testing.assert_array_equal(answer._array, expected)
    answer = rule([[ArrayOnly(row[:13]), ArrayOnly(row[13:])] for row in x])
    assert all(isinstance(part, ArrayOnly) for part in answer)
    np.testing.assert_allclose(np.concatenate([part._array for part in answer]), expected, rtol=1e-6)
    np.testing.assert_array_equal(rule(DLPackOnly(x)), expected)
    np.testing.assert_array_equal(rule([DLPackOnly(row) for row in x]), expected)


def test_dlpack_is_read_in_place() -> None:
    """Also bfloat16, which numpy has no name for."""
    x = rows(7, 60)
    assert_in_place(receive([DLPackOnly(row) for row in x]).storage, [row.ctypes.data for row in x])
    halves = torch.from_numpy(x).to(torch.bfloat16)
    np.testing.assert_array_equal(
        torch.as_tensor(mt.Comed()([DLPackOnly(row) for row in halves])).float(), mt.Comed()(halves).float()
    )


def test_bfloat16_rounds_as_torch_does() -> None:
    """Halves to even, infinity beyond the range, and every NaN stays one: it would else pass for a sound entry."""
    bits = np.random.default_rng(0).integers(0, 1 << 32, 20_000, dtype=np.uint32)
    bits[:6] = [0x7FFFFFFF, 0xFFFFFFFF, 0x7F800001, 0x7F7FFFFF, 0x00008000, 0x3F808000]
    values = bits.view(np.float32)
    ours, theirs = from_bfloat16(to_bfloat16(values)), torch.from_numpy(values).to(torch.bfloat16).float().numpy()
    np.testing.assert_array_equal(ours, theirs)


def test_digests_are_of_the_bytes_that_came() -> None:
    """The same coordinates have the same digest in place, copied, and on a device."""
    from mixtailor.intake.device import on_device

    x = rows(3, 50)
    arrivals = [receive(x), receive(np.asfortranarray(x)), on_device(torch.from_numpy(x))]
    digests = [arrival.digests() for arrival in arrivals]
    assert digests[0] == digests[1] == digests[2] and len(set(digests[0])) == 3
