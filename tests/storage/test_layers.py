"""Layers of a model: any nesting, mixed types, hostile rows quarantined and named."""

import itertools
import sys
from collections import OrderedDict, defaultdict, namedtuple
from types import MappingProxyType

import numpy as np
import pytest
import torch

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.kernels import threads
from mixtailor.storage import Layers, Matrix

Pair = namedtuple("Pair", "weight bias")
WIDTHS = (3000, 7, 0, 1, 900)


def rows(n=9, d=3908):
    return np.random.default_rng(d).standard_normal((n, d)).astype(np.float32)


def parts(row):
    return np.split(row, np.cumsum(WIDTHS)[:-1])


def forms():
    def nested(row):
        a, b, c, d, e = parts(row)
        return {"a": a.reshape(50, 60), "rest": [b, (c, {"d": d.reshape(()), "e": e.reshape(3, 300)})]}

    def numbers(row):
        a, b, c, d, e = parts(row)
        return [a, b.tolist(), c, float(d[0]), e]

    return {
        "list": (lambda row: parts(row), lambda t: t),
        "tuple": (lambda row: tuple(parts(row)), list),
        "dict": (lambda row: dict(zip("abcde", parts(row), strict=True)), lambda t: list(t.values())),
        "ordered": (lambda row: OrderedDict(zip("abcde", parts(row), strict=True)), lambda t: list(t.values())),
        "default": (lambda row: defaultdict(list, zip("abcde", parts(row), strict=True)), lambda t: list(t.values())),
        "proxy": (
            lambda row: MappingProxyType(dict(zip("abcde", parts(row), strict=True))),
            lambda t: list(t.values()),
        ),
        "named": (lambda row: [Pair(*parts(row)[:2]), *parts(row)[2:]], lambda t: [*t[0], *t[1:]]),
        "nested": (
            nested,
            lambda t: [t["a"], t["rest"][0], t["rest"][1][0], t["rest"][1][1]["d"], t["rest"][1][1]["e"]],
        ),
        "numbers": (numbers, lambda t: t),
        "tensors": (
            lambda row: OrderedDict(
                (k, torch.from_numpy(v.copy()).requires_grad_()) for k, v in zip("abcde", parts(row), strict=True)
            ),
            lambda t: list(t.values()),
        ),
    }


@pytest.mark.parametrize("form", forms())
@pytest.mark.parametrize("rule", [mt.Krum(1), mt.Comed(), mt.NNM(1) >> mt.Comed(), mt.GeometricMedian(p=3)], ids=repr)
def test_any_nesting(form, rule) -> None:
    """The result is that of the matrix, in the containers, shapes and libraries that one worker used."""
    x = rows()
    make, back = forms()[form]
    answer = rule([make(row) for row in x])
    one = make(x[0])
    if form != "default":  # cannot be made from its items alone
        assert type(answer) is type(one)
    for part, was in zip(back(answer), back(one), strict=True):
        assert np.shape(part) == np.shape(was)
        assert torch.is_tensor(part) == torch.is_tensor(was)
    flat = np.concatenate([np.asarray(part).reshape(-1) for part in back(answer)])
    np.testing.assert_allclose(flat, rule(x), rtol=1e-6, atol=1e-6)


def test_leaves_are_read_in_place() -> None:
    """Every large leaf is read where it is, and small ones share a run."""
    x = rows()
    trees = [parts(row) for row in x]
    storage = receive(trees).storage
    assert isinstance(storage, Layers) and all(isinstance(layer, Matrix) for layer in storage.layers)
    for index, leaf in enumerate(storage.layers):
        assert leaf.block(0, leaf.d).addresses.tolist() == [tree[index].ctypes.data for tree in trees]
    big = receive([[np.zeros(100_000, np.float32), np.zeros(5, np.float32)] for _ in range(4)]).storage
    block = big.block(*big.runs()[0])
    assert block.addresses.tolist() == big.layers[0].block(0, 5).addresses.tolist()


@pytest.mark.parametrize("small", [1024, 4096])
@pytest.mark.parametrize(
    "widths", [[], [0], [1], [5000], [10, 0, 20, 9000, 0, 1, 1, 1024, 1023], [300] * 40, [0, 0, 7]]
)
def test_runs_cover_all_coordinates_once(small, widths) -> None:
    """Runs follow one another without gaps, and pieces of each are the coordinates of their leaves."""
    layers = Layers([Matrix(np.zeros((1, width))) for width in widths], 1)
    runs = layers.ranges(small, 2 * small)
    assert runs[0][0] == 0 and runs[-1][1] == sum(widths)
    assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(runs))
    seen = [np.zeros(width, int) for width in widths]
    for start, stop in runs:
        pieces = layers.pieces(start, stop)
        assert sum(hi - lo for _, lo, hi in pieces) == stop - start
        for leaf, lo, hi in pieces:
            seen[leaf][lo:hi] += 1
    assert all((one == 1).all() for one in seen)


def test_types_are_kept_leaf_by_leaf() -> None:
    """float64, float32, float16 and bfloat16 leaves in one update, each computed from what it holds."""
    x = rows(7, 400)
    types = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
    trees = [[torch.from_numpy(row[k * 100 : k * 100 + 100]).to(t) for k, t in enumerate(types)] for row in x]
    for rule in (mt.Mean(), mt.Comed(), mt.Krum(1), mt.NNM(1) >> mt.Comed()):
        answer = rule(trees)
        assert [part.dtype for part in answer] == types
        wide = rule(np.stack([torch.cat([part.double() for part in tree]).numpy() for tree in trees]))
        for k, part in enumerate(answer):
            assert torch.allclose(part.double(), torch.from_numpy(wide[k * 100 : k * 100 + 100]), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("library", ["numpy", "torch"])
def test_counters_and_flags(library) -> None:
    """Whole numbers take the lower median and truth values the majority of the rows left; neither moves a distance."""
    convert = torch.from_numpy if library == "torch" else lambda array: array
    x = rows(6, 40)
    counters = [5, 3, 1 << 40, 2, 9, 4]
    flags = [True, True, False, True, False, False]
    trees = [
        {"w": convert(row.copy()), "seen": convert(np.array(counters[k])), "on": convert(np.array([flags[k], True]))}
        for k, row in enumerate(x)
    ]
    answer = mt.Krum(1)(trees)
    np.testing.assert_array_equal(np.asarray(answer["w"]), mt.Krum(1)(x))
    assert int(answer["seen"]) == 4 and np.asarray(answer["seen"]).dtype == np.int64 and np.shape(answer["seen"]) == ()
    assert np.asarray(answer["on"]).tolist() == [False, True]
    trees[2]["w"][0] = float("nan")  # its counter leaves with it
    answer = mt.Krum(1)(trees)
    assert int(answer["seen"]) == 4 and np.asarray(answer["on"]).tolist() == [True, True]


def test_only_counters() -> None:
    """Updates without a single coordinate still agree on their counters."""
    trees = [{"a": np.array([k, 10 - k]), "b": np.array(True)} for k in range(5)]
    for rule in (mt.Mean(), mt.Krum(1), mt.Comed(), mt.GeometricMedian()):
        answer = rule(trees)
        assert answer["a"].tolist() == [2, 8] and bool(answer["b"])


def honest(row):
    return {"w": row[:30].reshape(5, 6), "b": row[30:], "n": np.array(7)}


def deep(levels):
    item = [np.zeros(1)]
    for _ in range(levels):
        item = [item]
    return item


def loops():
    item = []
    item.extend([item, item])
    return item


def doubling():
    item = []
    for _ in range(60):
        item = [item, item]
    return item


class Explodes:
    shape = (3,)

    def __array__(self, dtype=None, copy=None):
        raise RuntimeError("boom")


def hostile():
    row = rows(9, 40)[4]
    return {
        "None": (None, "holds None"),
        "text": ("gotcha", "holds str"),
        "bytes": (b"gotcha", "holds bytes"),
        "number": (1.0, "without the layer 'w'"),
        "empty": ({}, "without the layer 'w'"),
        "missing": ({k: v for k, v in honest(row).items() if k != "b"}, "without the layer 'b'"),
        "extra": (honest(row) | {"evil\n" + "x" * 500: row}, "with an extra"),
        "renamed": ({"W": row[:30].reshape(5, 6), "b": row[30:], "n": np.array(7)}, "without the layer 'w'"),
        "shape": (honest(row) | {"w": row[:30].reshape(6, 5)}, r"of shape \(6, 5\) where most have \(5, 6\) \(w\)"),
        "longer": (honest(row) | {"b": row}, r"of shape \(40,\) where most have \(10,\) \(b\)"),
        "integers": (honest(row) | {"b": np.arange(10)}, r"of type int64 where most have float32 \(b\)"),
        "floats for counters": (honest(row) | {"n": np.array(7.0)}, r"of type float64 where most have int64 \(n\)"),
        "complex": (honest(row) | {"b": row[30:].astype(complex)}, "of complex numbers"),
        "objects": (honest(row) | {"b": np.array([None] * 10)}, "of Python objects"),
        "strings": (honest(row) | {"b": np.array(["a"] * 10)}, "of text"),
        "nested None": (honest(row) | {"b": [None]}, "holds None"),
        "deep": (deep(100), "nested beyond"),
        "very deep": (deep(100_000), "nested beyond"),
        "loops": (loops(), "nested beyond"),
        "doubling": (doubling(), "nested beyond"),
        "explodes": (honest(row) | {"b": Explodes()}, "RuntimeError: boom"),
        "huge number": (honest(row) | {"b": [10**400] * 10}, "OverflowError"),
        "sparse": (honest(row) | {"b": torch.from_numpy(row[30:]).to_sparse()}, "dense tensors are needed"),
        "meta": (honest(row) | {"b": torch.empty(10, device="meta")}, "dense tensors are needed"),
        "masked": (honest(row) | {"b": np.ma.array(row[30:], mask=row[30:] > 0)}, "masked"),
        "a type": (honest(row) | {"b": np.ndarray}, "holds type"),
        "nan": (honest(row) | {"b": np.full(10, np.nan, np.float32)}, "not finite"),
        "inf in the last entry": (honest(np.append(row[:39], np.float32(np.inf))), "not finite"),
    }


@pytest.mark.parametrize("case", hostile())
@pytest.mark.parametrize("place", [0, 4])
def test_hostile_rows_are_quarantined_and_named(case, place) -> None:
    """Whatever one worker sends, the round goes on without it, and says why, the first row included."""
    x = rows(9, 40)
    sent, reason = hostile()[case]
    trees = [honest(row) for row in x]
    trees[place] = sent
    left = np.delete(x, place, axis=0)
    for rule in (mt.Krum(1), mt.TrimmedMean(1)):
        result = rule.aggregate(trees, workers=[f"w{k}" for k in range(9)])
        (found,) = result.quarantined
        assert (found.row, found.worker) == (place, f"w{place}")
        with pytest.raises(AssertionError, match=reason):
            raise AssertionError(found.reason)
        assert len(found.reason) < 300 and "\n" not in found.reason
        flat = np.concatenate([result.update["w"].reshape(-1), result.update["b"]])
        np.testing.assert_allclose(flat, rule.lowered(8, 1)(left), rtol=1e-6, atol=1e-7)
    with pytest.raises(mt.FaultError, match="1 of 9 updates is .*row " + str(place)):
        mt.Krum(0)(trees)


def test_one_row_cannot_choose_the_form_of_the_answer() -> None:
    """The containers, their order and the types are those that most sent, also where the first row has others."""
    x = rows(5, 6)
    trees = [[row[:2], row[2:]] for row in x]
    trees[0] = {1: x[0][2:].astype(np.float64), 0: torch.from_numpy(x[0][:2])}
    answer = mt.Comed()(trees)
    assert type(answer) is list and all(type(part) is np.ndarray and part.dtype == np.float32 for part in answer)
    named = [{"a": row[:2], "b": row[2:]} for row in x]
    named[0] = OrderedDict(b=x[0][2:], a=x[0][:2])
    answer = mt.Comed()(named)
    assert type(answer) is dict and list(answer) == ["a", "b"]
    np.testing.assert_array_equal(np.concatenate(list(answer.values())), mt.Comed()(x))


def test_text_among_arrays_is_a_row_of_its_own() -> None:
    """A string in a list of arrays is that worker's fault, not a reason to look for files."""
    x = list(rows(6, 10))
    result = mt.Comed().aggregate([*x[:3], "/etc/passwd", *x[3:]])
    assert [(q.row, q.reason.split(" (")[0]) for q in result.quarantined] == [(3, "not an update")]


def test_a_thousand_layers_cost_a_thousand_layers(monkeypatch) -> None:
    """Calls grow with the number of layers, not with its square."""
    monkeypatch.setattr(threads, "count", lambda: 1)

    def calls(layers):
        x = np.ones((5, layers, 3), np.float32)
        trees = [{f"l{k}.w": layer for k, layer in enumerate(row)} for row in x]
        mt.Krum(1)(trees)
        seen = 0

        def count(_frame, event, _argument):
            nonlocal seen
            seen += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            mt.Krum(1)(trees)
            mt.Comed()(trees)
        finally:
            sys.setprofile(None)
        return seen

    few, many = calls(125), calls(1000)
    assert many < 9 * few


def test_reference_in_layers() -> None:
    """What the caller trusts has the layers of one update; what it lacks is said."""
    x = rows(6, 40)
    trees = [honest(row) for row in x]
    reference = x[:3].mean(axis=0)
    flat = mt.FLTrust()(x, reference=reference)
    answer = mt.FLTrust()(trees, reference=honest(reference))
    np.testing.assert_allclose(np.concatenate([answer["w"].reshape(-1), answer["b"]]), flat, rtol=1e-5)
    with pytest.raises(ValueError, match="lacks b"):
        mt.FLTrust()(trees, reference={"w": reference[:30].reshape(5, 6)})
    with pytest.raises(ValueError, match=r"shape of one update, \(10,\), and got \(40,\)"):
        mt.FLTrust()(trees, reference=honest(reference) | {"b": reference})
    with pytest.raises(ValueError, match="finite entries only"):
        mt.FLTrust()(trees, reference=honest(reference * np.nan))
    with pytest.raises(TypeError, match="layers of one update and is not an update"):
        mt.FLTrust()(trees, reference="yesterday")


def test_a_layer_is_named_as_one() -> None:
    """A layer called "a" does not read as a word, whether most have it or half of them."""
    whole, part = {"a": np.ones(2), "b": np.ones(2)}, {"b": np.ones(2)}
    (fault,) = mt.Comed().aggregate([whole] * 3 + [part]).quarantined
    assert fault.reason == "without the layer 'a'"
    with pytest.raises(ValueError, match=r"2 of 4 have each of two: update 2 is without the layer 'a'\."):
        mt.Comed()([whole, whole, part, part])
