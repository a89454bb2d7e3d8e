"""Tensors on a device, asked for on the CPU: the results of the CPU, brought to the host once a pass."""

from collections import OrderedDict

import numpy as np
import pytest
import samples
import torch
from torch.utils._python_dispatch import TorchDispatchMode

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.intake.device import on_device
from mixtailor.kernels.columnwise import Around, Median, Sign, Trimmed
from mixtailor.kernels.tensors import Tensors
from mixtailor.testing import Case
from mixtailor.updates import Updates


@pytest.fixture
def short_runs(monkeypatch):
    """Many runs from few coordinates."""
    monkeypatch.setattr(Tensors, "run_entries", 1 << 10)
    monkeypatch.setattr(Tensors, "view_entries", 1 << 10)


def layers(row):
    return OrderedDict(a=row[:60].reshape(6, 10), b=[row[60:61].reshape(()), row[61:]], n=torch.tensor(3))


def flat(answer):
    return torch.cat([answer["a"].reshape(-1), answer["b"][0].reshape(-1), answer["b"][1]])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("rule", samples.everything(), ids=repr)
def test_equals_the_cpu(rule, dtype, short_runs) -> None:
    """For every exported rule: the same selection, and values to 1e-6, for a matrix, a list and layers of tensors."""
    case = Case.of(rule, d=2600, extra=2)
    rows = case.rows.astype(dtype)
    rows[0] *= 1e3
    expected = case.ask(rule, rows, reference=case.reference.astype(dtype))
    spread = np.abs(rows[1:] - np.median(rows, axis=0)).max()
    x, reference = torch.from_numpy(rows), torch.from_numpy(case.reference.astype(dtype))
    for sent, known, back in (
        (on_device(x), reference, lambda answer: answer),
        (on_device([row.reshape(65, 40).T.contiguous().T for row in x]), reference, lambda answer: answer.reshape(-1)),
        (on_device([layers(row) for row in x]), layers(reference), flat),
    ):
        assert isinstance(sent.storage.space, Tensors) and len(sent.storage.runs()) > 1
        result = case.ask(rule, sent, reference=known)
        answer = back(result.update)
        assert answer.dtype == x.dtype and answer.device == x.device
        assert np.abs(answer.numpy() - expected.update).max() <= 1e-6 * spread
        assert result.selected == expected.selected and repr(result.rule) == repr(expected.rule)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("rule", [mt.Mean(), mt.Comed(), mt.Krum(1), mt.NNM(1) >> mt.Meamed(1)], ids=repr)
def test_half_precision(rule, dtype) -> None:
    """Computed as the CPU computes it, in float32 or better, and rounded once."""
    x = torch.from_numpy(np.random.default_rng(0).standard_normal((8, 500))).to(dtype)
    answer = rule(on_device(x))
    assert answer.dtype == dtype
    assert torch.allclose(answer.float(), rule(x).float(), rtol=1e-2, atol=1e-3)
    assert torch.equal(mt.Krum(1)(on_device(x)), mt.Krum(1)(x))


def test_close_rows_on_large_weights() -> None:
    """Differences of 1e-4 on weights of size 1 are right: they are formed as such, and not from a Gram matrix."""
    rng = np.random.default_rng(3)
    x = (1 + 1e-4 * rng.standard_normal((9, 4000))).astype(np.float32)
    x[4] *= 1e20
    ours, dense = Updates.arrived(on_device(torch.from_numpy(x))), Updates.arrived(receive(x))
    for p in (1.0, 2.0, 2.5, 7.0, 16.0, np.inf):
        # Between the rows, the CPU computes norms other than 2 in float32.
        digits = 1e-12 if p in (2.0, np.inf) else 1e-6
        np.testing.assert_allclose(ours.distances(p), dense.distances(p), rtol=digits)
        np.testing.assert_allclose(ours.norms(p), dense.norms(p), rtol=1e-12)
        mean = [view.distances_to(view.mean([0, 1, 2]), p) for view in (ours, dense)]
        np.testing.assert_allclose(*mean, rtol=1e-9)


def test_all_queries(short_runs) -> None:
    """Every query, on views too."""
    rng = np.random.default_rng(1)
    x = rng.standard_normal((7, 900)).astype(np.float32)
    vector = rng.standard_normal(900)
    answers = []
    for view, given in (
        (Updates.arrived(on_device(torch.from_numpy(x))), torch.from_numpy(vector)),
        (Updates.arrived(receive(x)), vector),
    ):
        point, columns = view.given(given), view.columns(Median())
        mixed = view.mix(np.abs(rng.standard_normal((4, 7))) * 0 + np.eye(7)[:4] * 0.5 + 1 / 14)
        wider = view.beside(point, columns, view.mean())
        answers.append(
            [
                view.products(),
                view.products(point),
                view.dots(point),
                view.dot(point, columns),
                view.distances_to(columns, 3.0),
                mixed.distances(2.0),
                mixed.distances(4.0),
                mixed.take([0, 2]).distances(1.0),
                wider.distances(2.0),
                wider.distances((1.0, np.inf))[1],
                wider.coordinates(np.array([3, 77, 899])),
                view.coordinates(np.array([0, 500])),
                np.asarray(view.at(mixed.columns(Trimmed(1)))),
                np.asarray(view.at(wider.columns(Around(5)))),
                np.asarray(view.at(wider.mean())),
                np.asarray(view.at(point)),
                np.asarray(mixed.matrix()),
            ]
        )
    for ours, dense in zip(*answers, strict=True):
        np.testing.assert_allclose(ours, dense, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("statistic", [Median(), Trimmed(2), Around(4), Around(5, 1), Sign()], ids=repr)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_columns(statistic, dtype) -> None:
    """Ties, denormals, zeros of both signs and the largest numbers: as the kernels have them."""
    rng = np.random.default_rng(0)
    largest = np.finfo(dtype).max
    pools = {
        0.0: [0.0, -0.0, 1e-40, -1e-40, 3e-41],
        1e-15: [0.0, -0.0, 1.0, -1.0, 2.0, 3.5, 1e-40],
        1e-6 * largest: [largest, -largest, *largest * rng.uniform(-1, 1, 200)],
    }
    for n in (7, 8):
        for least, pool in pools.items():  # sums of mixed magnitudes depend on their order
            x = rng.choice(np.array(pool, dtype), size=(n, 4000))
            dense, ours = Updates.arrived(receive(x)), Updates.arrived(on_device(torch.from_numpy(x)))
            np.testing.assert_allclose(
                ours.at(ours.columns(statistic)).numpy(), dense.at(dense.columns(statistic)), rtol=1e-6, atol=least
            )


@pytest.mark.parametrize("rule", samples.everything(), ids=repr)
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_faulty_rows_are_found(rule, value, short_runs) -> None:
    """A non-finite entry is found on the device as on the CPU, and the same rows leave."""
    case = Case.of(rule, d=2600, extra=3)
    rows = case.rows.astype(np.float32)
    rows[2, 1234] = value
    outcomes = []
    for sent, known in ((rows, case.reference), (on_device(torch.from_numpy(rows)), torch.from_numpy(case.reference))):
        try:
            result = case.ask(rule, sent, reference=known)
            outcomes.append((result.selected, result.quarantined, np.asarray(result.update)))
        except mt.FaultError as error:
            outcomes.append((str(error), error.rows, np.zeros(1)))
    assert outcomes[0][:2] == outcomes[1][:2]
    np.testing.assert_allclose(outcomes[1][2], outcomes[0][2], rtol=1e-5, atol=1e-5)


class Transfers(TorchDispatchMode):
    """Counts what a device would have to wait for: reading one number, and tensors that become host arrays."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        name = str(function)
        if any(
            word in name for word in ("_local_scalar_dense", "nonzero", "is_nonzero", "equal.default", "masked_select")
        ):
            self.waits.append(name)
        return function(*arguments, **(options or {}))


@pytest.mark.parametrize("rule", samples.everything(), ids=repr)
def test_nothing_waits_for_the_device_inside_a_pass(rule, short_runs, monkeypatch) -> None:
    """No operation of a pass reads a number back; the results of a pass are brought at once when it is over."""
    case = Case.of(rule, d=2600, extra=2)
    rows = torch.from_numpy(case.rows.astype(np.float32))
    collect, inside = Tensors.collect, []

    def watched(self, jobs, finite, *, threaded):
        def run(job):
            with Transfers() as seen:
                found = job()
            inside.extend(seen.waits)
            assert not isinstance(found, np.ndarray)
            return found

        return collect(self, [lambda job=job: run(job) for job in jobs], finite, threaded=threaded)

    monkeypatch.setattr(Tensors, "collect", watched)
    case.ask(rule, on_device(rows), reference=torch.from_numpy(case.reference.astype(np.float32)))
    assert not inside


def test_counters_and_structure() -> None:
    """Integer leaves take the lower median on their device; a row of another structure is quarantined."""
    rows = torch.randn(5, 100, generator=torch.Generator().manual_seed(0))
    trees = [layers(row) for row in rows]
    for k, tree in enumerate(trees):
        tree["n"] = torch.tensor(k, dtype=torch.int32)
    trees[1] = {"a": rows[1]}
    result = mt.Comed().aggregate(on_device(trees))
    assert [q.row for q in result.quarantined] == [1] and int(result.update["n"]) == 2
    assert result.update["n"].dtype == torch.int32 and type(result.update) is OrderedDict


def test_plain_callables_get_tensors() -> None:
    """A callable gets the matrix as a tensor, on the device, and may return one."""
    x = torch.arange(12.0).reshape(3, 4)
    rule = mt.Plain(lambda rows: rows.max(dim=0).values)
    assert torch.equal(rule(on_device(x)), x[2]) and torch.equal(rule(on_device(list(x))), x[2])
    for bad, message in (
        (lambda rows: rows[0] * float("nan"), "not finite"),
        (lambda rows: rows, "shape"),
        (lambda rows: rows[0].to(torch.complex64), "real numbers"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            mt.Plain(bad)(on_device(x))


@pytest.mark.parametrize("shape", [(1, 0), (3, 0), (1, 5), (4, 1), (3, 2, 2)])
def test_hardly_any(shape) -> None:
    """One row, no coordinates."""
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    for rule in (mt.Mean(), mt.Comed(), mt.Medoid(), mt.GeometricMedian()):
        assert torch.allclose(rule(on_device(x)), rule(x), atol=1e-6)


def test_bad_input() -> None:
    """The sentences of the other storages."""
    for bad in (torch.zeros(3), torch.zeros(0, 3), []):
        with pytest.raises(ValueError, match="Updates need"):
            on_device(bad)
    with pytest.raises(TypeError, match="complex"):
        on_device([torch.zeros(3, dtype=torch.complex64)])


def test_devices_without_float64() -> None:
    """Where a device has no float64, sums accumulate in float32."""
    assert Tensors(torch.device("mps")).wide == torch.float32
    assert Tensors(torch.device("cpu")).wide == torch.float64
