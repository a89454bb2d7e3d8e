"""Torch checkpoints: the results of their tensors, a sentence for everything else, and nothing ever executed."""

import io
import os
import pickle
import re
import struct
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.storage import Layers
from mixtailor.storage.files import checkpoints
from mixtailor.storage.files.formats import contents


def models(n=5):
    torch.manual_seed(0)
    return [
        {
            "w": torch.randn(20, 30),
            "columns": torch.randn(7, 4).t(),
            "brain": torch.randn(11).bfloat16(),
            "slice": torch.randn(9)[3:],
            "empty": torch.zeros(0, 4),
            "scale": torch.randn(()),
            "seen": torch.tensor(k),
            "on": torch.tensor(k < 3),
        }
        for k in range(n)
    ]


def save(folder, items, suffix=".pt"):
    paths = [folder / f"{k}{suffix}" for k in range(len(items))]
    for path, item in zip(paths, items, strict=True):
        torch.save(item, path)
    return paths


@pytest.mark.parametrize("suffix", checkpoints.SUFFIXES)
@pytest.mark.parametrize("rule", [mt.Comed(), mt.Krum(1), mt.NNM(1) >> mt.TrimmedMean(1)], ids=repr)
def test_a_checkpoint_answers_as_its_tensors(rule, suffix, tmp_path) -> None:
    """Names, order, shapes and types; slices, transposes and empty tensors, too; bfloat16 comes back as float32."""
    found = models()
    answer = rule(save(tmp_path, found, suffix))
    expected = rule(found)
    assert list(answer) == list(found[0])
    for name, tensor in expected.items():
        assert answer[name].shape == tuple(tensor.shape)
        torch.testing.assert_close(torch.from_numpy(answer[name]), tensor.float() if name == "brain" else tensor)


def test_what_is_saved_beside_the_state_dict_is_left_out(tmp_path) -> None:
    plain, found = tmp_path / "plain", models()
    plain.mkdir()
    expected = mt.Comed()(save(plain, found))
    for wrapper in ("state_dict", "model_state_dict", "model"):
        answer = mt.Comed()(save(tmp_path, [{wrapper: model, "epoch": 3, "lr": 0.1} for model in found]))
        assert all(np.array_equal(answer[name], expected[name]) for name in expected)


def test_parameters_a_module_s_state_and_one_tensor(tmp_path) -> None:
    layers = [torch.nn.Linear(3, 2) for _ in range(3)]
    answer = mt.Comed()(save(tmp_path, [layer.state_dict(keep_vars=True) for layer in layers]))
    weights = torch.stack([layer.weight.detach() for layer in layers])
    np.testing.assert_array_equal(answer["weight"], weights.median(dim=0).values.numpy())
    np.testing.assert_array_equal(mt.Comed()(save(tmp_path, list(weights))), answer["weight"])


def test_formats_may_differ(tmp_path) -> None:
    """Names and shapes say which array is which, whatever wrote them."""
    from safetensors.torch import save_file

    found = [{"w": model["w"], "scale": model["scale"]} for model in models()]
    paths = save(tmp_path, found)
    np.savez(tmp_path / "1.npz", **{name: value.numpy() for name, value in found[1].items()})
    save_file(found[2], tmp_path / "2.safetensors")
    paths[1:3] = [tmp_path / "1.npz", tmp_path / "2.safetensors"]
    result = mt.Krum(1).aggregate(paths)
    assert result.quarantined == () and result.selected == mt.Krum(1).aggregate(found).selected


def test_nothing_of_a_tensor_s_size_is_loaded(tmp_path) -> None:
    """The storage knows where the numbers are; torch has made none of them."""
    paths = save(tmp_path, [{"w": torch.ones(1000), "b": torch.ones(3)} for _ in range(3)])
    storage = receive(paths).storage
    assert isinstance(storage, Layers)
    for path, parts in zip(paths, zip(*(layer.sources for layer in storage.layers), strict=True), strict=True):
        data = path.read_bytes()
        assert [data[part.offset : part.offset + 8] for part in parts] == [struct.pack("<2f", 1.0, 1.0)] * 2


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def saved(item, **options):
    out = io.BytesIO()
    torch.save(item, out, **options)
    return out.getvalue()


def changed(data, name, content, compression=zipfile.ZIP_STORED):
    """The archive with another content of one member."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w", compression) as new:
        for member in old.namelist():
            new.writestr(member, content if member.endswith(name) else old.read(member))
    return out.getvalue()


def broken(trace):
    w = torch.ones(20, 30)
    good = saved({"w": w})
    bomb = pickle.dumps({"w": Bomb(trace)}, protocol=2)
    hollow = pickle.dumps({"w": 1}, protocol=2)
    return {
        "a pickle": (pickle.dumps({"w": Bomb(trace)}), "no checkpoint of torch.save"),
        "a bomb": (changed(good, "data.pkl", bomb), "it holds Python objects .*mkdir.*which are never loaded"),
        "a bomb, older format": (saved(Bomb(trace), _use_new_zipfile_serialization=False), "save it again"),
        "the older format": (saved({"w": w}, _use_new_zipfile_serialization=False), "save it again"),
        "a module": (saved(torch.nn.Linear(2, 2)), "it holds Python objects .torch.nn.modules.linear.Linear"),
        "an array of numpy": (saved({"w": w.numpy()}), "it holds Python objects"),
        "text": (saved({"w": "text"}), "whose entry 'w' is no tensor but str"),
        "a number": (saved({"w": w, "epoch": 3}), "whose entry 'epoch' is no tensor but int; leave it out"),
        "a list": (saved([w]), "a checkpoint of list where a state dict is needed"),
        "a nest": (saved({"net": {"w": w}}), "with a mapping 'net' in it; save the state dict that is meant by itself"),
        "two states": (saved({"model": {"w": w}, "state_dict": {"w": w}}), "with 'state_dict' and 'model'"),
        "a number as name": (saved({3: w}), "the name '3', which is no text"),
        "sparse": (saved({"w": w.to_sparse()}), "of a sparse, nested or quantised tensor"),
        "tied": (saved({"w": w, "head": w}), "'w' and 'head' share memory; save one of the two"),
        "overlapping": (saved({"w": w, "head": w[3:]}), "share memory"),
        "complex": (saved({"w": w + 1j}), "of type complex64 where real numbers are needed"),
        "eight bits": (saved({"w": w.to(torch.float8_e4m3fn)}), "of type float8_e4m3fn"),
        "negated": (saved({"w": torch._neg_view(w)}), "a view of another order"),
        "another order": (saved({"w": w.view(4, 5, 30).permute(1, 0, 2)}), "save it with .contiguous()"),
        "spread": (saved({"w": torch.ones(30).expand(20, 30)}), "save it with .contiguous()"),
        "without data": (saved({"w": w.to("meta")}), "does not have the bytes"),
        "another byte order": (changed(good, "byteorder", b"big"), "of another byte order"),
        "compressed": (changed(good, "none", b"", zipfile.ZIP_DEFLATED), "compressed"),
        "a program": (changed(good, "version", b"3").replace(b"version", b"constants.pkl"), "unreadable"),
        "short of data": (changed(good, "data/0", b"\0" * 8), "unreadable"),
        "cut off": (good[: len(good) // 2], "unreadable"),
        "no checkpoint": (
            changed(good, "data.pkl", b"nonsense"),
            "it holds no pickle of torch.save .2.pt.: .*opcode b'n' unknown",
        ),
        "an empty pickle": (changed(good, "data.pkl", hollow), "no tensor but int"),
        "empty": (b"", "no checkpoint of torch.save"),
        "another shape": (saved({"w": torch.ones(3)}), r"of shape \(3,\)"),
    }


@pytest.mark.parametrize("name", broken(None))
@pytest.mark.filterwarnings("ignore::UserWarning")  # of torch, for what these files are made with
def test_whatever_else_a_file_holds_is_a_sentence(name, tmp_path) -> None:
    """Quarantined and named, alone or among sound files, and nothing in it was executed."""
    trace = tmp_path / "trace"
    data, sentence = broken(trace)[name]
    paths = save(tmp_path, [{"w": torch.full((20, 30), float(k))} for k in range(5)])
    paths[2].write_bytes(data)
    result = mt.Comed().aggregate(paths)
    (left,) = result.quarantined
    assert left.row == 2 and re.search(sentence, left.reason), left.reason
    assert list(result.update) == ["w"] and (result.update["w"] == 2.0).all()
    if name != "another shape":
        with pytest.raises(ValueError, match=sentence):
            mt.Comed()([paths[2]])
    assert not trace.exists()


@pytest.mark.filterwarnings("ignore")  # torch's quantisation warns of its end
def test_a_quantised_tensor_is_a_sentence(tmp_path) -> None:
    quantised = torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)
    with pytest.raises(ValueError, match="of quantised tensors where real numbers are needed; save them dequantised"):
        mt.Comed()(save(tmp_path, [{"w": quantised}]))


def test_checkpoints_are_read_without_torch(tmp_path) -> None:
    """Nothing of torch is imported, so nothing of it can be called by a file."""
    paths = save(tmp_path, [{"w": torch.full((3,), float(k))} for k in range(3)])
    code = (
        "import sys, mixtailor as mt; sys.modules['torch'] = None; "
        f"print(mt.Comed()({[str(path) for path in paths]!r})['w'].tolist())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[1.0, 1.0, 1.0]"


def test_writing_one_needs_torch(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(
        ImportError, match=r'Writing a torch checkpoint needs `torch`. Install it with: pip install "mix'
    ):
        checkpoints.needed_torch()


class Claims:
    """A call that torch allows, and that takes as many bytes as it is told."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments

    def __reduce__(self):
        return self.function, self.arguments


def greedy():
    """Files of about a kilobyte that claim three gigabytes, as an entry, beside the state, and as its names."""
    size, w = 3 << 30, torch.full((20, 30), 2.0)
    return {
        "an entry": saved({"w": Claims(bytearray, size)}),
        "beside the state": saved({"state_dict": {"w": w}, "extra": Claims(bytearray, size)}),
        "an attribute": saved({"w": w, "b": Claims(bytearray, size)}),
        "a set": saved({"w": w, "b": Claims(set, (1, 2))}),
        "a tensor": changed(saved({"w": w}), "data.pkl", pickle.dumps({"w": Claims(bytearray, size)}, protocol=2)),
        "many": saved({f"w{k}": Claims(bytearray, size >> 4) for k in range(16)}),
    }


@pytest.mark.parametrize("name", greedy())
def test_memory_is_bounded_by_the_size_of_the_file(name, tmp_path) -> None:
    """torch.load(weights_only=True) lets a file of a kilobyte take gigabytes."""
    paths = save(tmp_path, [{"w": torch.full((20, 30), float(k))} for k in range(5)])
    paths[2].write_bytes(greedy()[name])
    contents(paths[0])
    tracemalloc.start()
    try:
        contents(paths[2])
    except TypeError as error:
        assert "unreadable" in str(error) or "is no tensor but" in str(error)  # noqa: PT017  # both ends are fine
    taken = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert taken < 100 * paths[2].stat().st_size + 100_000
    assert (mt.Comed()(paths)["w"] == 2.0).all()


def test_a_pickle_of_tuples_in_tuples_ends(tmp_path) -> None:
    """As a name, each level would double the time of a hash; here it is not hashed."""
    nested = b"\x80\x02}K\x01" + b"q\x00h\x00\x86" * 60 + b"K\x01s."
    paths = save(tmp_path, [{"w": torch.full((20, 30), float(k))} for k in range(5)])
    paths[2].write_bytes(changed(paths[0].read_bytes(), "data.pkl", nested))
    (left,) = mt.Comed().aggregate(paths).quarantined
    assert left.reason == "a state dict with the name 'tuple', which is no text"


@pytest.mark.parametrize("seed", range(4))
def test_the_outline_is_what_torch_loads(seed, tmp_path) -> None:
    """Shapes, types and bytes of every tensor, of whatever a state dict may hold, are those that torch finds."""
    rng = np.random.default_rng(seed)
    types = [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool]
    types += [torch.int8, torch.int16, torch.int32, torch.uint16]
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).state_dict()
    for k in range(30):
        shape = tuple(int(length) for length in rng.integers(0, 5, rng.integers(0, 4)))
        tensor = (torch.rand(shape) * 100).to(types[rng.integers(len(types))])
        model[f"t{k}"] = tensor.t() if tensor.ndim == 2 and rng.random() < 0.5 else tensor
    path = tmp_path / "a.pt"
    torch.save({"model": model, "epoch": 3, "optimizer": {"lr": [0.1, None], 4: (1, 2)}}, path)
    loaded = torch.load(path, weights_only=True)["model"]
    found = contents(path)
    assert [name for (name,) in found] == list(loaded)
    for (name,), part in found.items():
        assert part.kind.name == str(loaded[name].dtype).removeprefix("torch.")
        values = part.run(0, part.size).reshape(part.kind.shape, order="F" if part.kind.by_columns else "C")
        half = part.kind.name == "bfloat16"
        found_tensor = torch.from_numpy(values.view(np.int16).copy() if half else values.copy())
        expected = loaded[name].contiguous()
        assert torch.equal(found_tensor.view(torch.bfloat16) if half else found_tensor.to(expected.dtype), expected)
