"""No storage ever makes anything of size n x d: counted for every exported rule."""

import gc
import tracemalloc
import weakref

import numpy as np
import pytest
import samples
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import mixtailor as mt
from mixtailor.intake.device import on_device
from mixtailor.kernels import tensors
from mixtailor.kernels.space import Space
from mixtailor.rules import Plain
from mixtailor.testing import Case
from mixtailor.updates import reader

D = 60_000


def _one_of_each():
    """Each exported rule once, each pre-aggregation in front of a distance and a columnwise rule, and a mixture."""
    made = {type(rule): rule for rule in reversed(samples.rules()) if not isinstance(rule, Plain)}
    made[mt.DnC] = mt.DnC(1, coordinates=1000)  # its own sample is a matrix, of so many columns
    before = {type(one): one for one in reversed(samples.preaggregations())}
    rules = [*made.values(), *(one >> then for one in before.values() for then in (mt.Comed(), mt.Medoid(p=3)))]
    return [*rules, mt.MixTailor(mt.default_pool(1))]


RULES = _one_of_each()


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch):
    """Runs are bounded whatever d is; short ones let a small d show it."""
    for space in (Space, tensors.Tensors):
        monkeypatch.setattr(space, "run_entries", 1 << 13)
        monkeypatch.setattr(space, "view_entries", 1 << 13)
    monkeypatch.setattr(tensors, "_TILE", 1 << 13)
    monkeypatch.setattr(reader, "_HELD", 1 << 13)  # numbers of several ranges, before they are added


def in_layers(row):
    return {"a": row[: D // 2], "b": [row[D // 2 : D // 2 + 500].reshape(5, 100), row[D // 2 + 500 :]]}


def peak(question):
    """The most memory that numpy and Python held at once while answering."""
    gc.collect()
    tracemalloc.start()
    try:
        question()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def case_of(rule):
    case = Case.of(rule, d=D, extra=5)
    return case, case.rows.astype(np.float32), case.reference.astype(np.float32)


def test_the_counter_counts() -> None:
    """A matrix of all rows is seen by both counters."""
    rows = np.ones((10, D), np.float32)
    assert peak(lambda: np.stack(list(rows))) >= rows.nbytes
    with Allocations([]) as seen:
        torch.stack(list(torch.from_numpy(rows)))
    assert seen.peak >= rows.nbytes and seen.held == 0


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_trees_and_odd_arrays(rule) -> None:
    """Trees are never stacked, and a matrix stored by columns is gathered a run at a time."""
    case, rows, reference = case_of(rule)
    trees = [in_layers(row) for row in rows]
    limit = 2 / 3 * rows.nbytes  # two threads hold a run each, a third of all rows, beside the reference in float64
    for sent, known in ((trees, in_layers(reference)), (np.asfortranarray(rows), reference)):
        case.ask(rule, sent, reference=known)  # kernels compile, caches fill
        used = peak(lambda sent=sent, known=known: case.ask(rule, sent, reference=known))
        assert used < limit, f"{used:,} of {rows.nbytes:,} bytes"


@pytest.mark.parametrize(
    ("rule", "form"),
    [(rule, "npy") for rule in RULES] + [(rule, form) for rule in RULES[::6] for form in ("npz", "packed")],
    ids=repr,
)
def test_files(rule, form, tmp_path) -> None:
    """Files are read a run at a time, compressed ones too."""
    case, rows, reference = case_of(rule)
    if form == "packed":
        rows = np.round(rows, 1)
    paths = []
    for k, row in enumerate(rows):
        paths.append(tmp_path / f"{k}.{'npy' if form == 'npy' else 'npz'}")
        if form == "npy":
            np.save(paths[-1], row)
        else:
            (np.savez if form == "npz" else np.savez_compressed)(paths[-1], a=row[: D // 2], b=row[D // 2 :])
    known = reference if form == "npy" else {"a": reference[: D // 2], "b": reference[D // 2 :]}
    case.ask(rule, paths, reference=known)
    used = peak(lambda: case.ask(rule, paths, reference=known))
    # What unpacks a file takes some 80 kB, whatever its size.
    assert used < rows.nbytes / 2 + 80_000 * (form == "packed") * len(rows), f"{used:,} of {rows.nbytes:,} bytes"


@pytest.mark.parametrize("dtype", [np.float16, np.int8])
def test_other_types(dtype) -> None:
    """Converted run by run."""
    rows = (np.random.default_rng(0).standard_normal((40, D)) * 9).astype(dtype)
    rule = next(rule for rule in RULES if repr(rule) == "Comed()")
    rule(rows)
    assert peak(lambda: rule(rows)) < 40 * D * 4 / 2
    assert peak(lambda: rule(list(rows))) < 40 * D * 4 / 2


class Allocations(TorchDispatchMode):
    """The most bytes of new tensors that were alive at once."""

    def __init__(self, known):
        super().__init__()
        self.known = {tensor.untyped_storage().data_ptr() for tensor in known}
        self.held, self.peak, self._seen = 0, 0, weakref.WeakSet()

    def _free(self, size):
        self.held -= size

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        result = function(*arguments, **(options or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, torch.Tensor):
                storage = tensor.untyped_storage()
                if storage.data_ptr() not in self.known and storage not in self._seen:
                    self._seen.add(storage)
                    self.held += storage.nbytes()
                    self.peak = max(self.peak, self.held)
                    weakref.finalize(storage, self._free, storage.nbytes())
        return result


@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_devices(rule) -> None:
    """A matrix is read in place, lists and trees are stacked a run at a time: counted by what torch allocates."""
    case, rows, reference = case_of(rule)
    x, known = torch.from_numpy(rows), torch.from_numpy(reference)
    for sent, given in ((x, known), ([in_layers(row) for row in x], in_layers(known))):
        with Allocations([x, known]) as seen:
            case.ask(rule, on_device(sent), reference=given)
        assert 0 < seen.peak < rows.nbytes / 2, f"{seen.peak:,} of {rows.nbytes:,} bytes"
