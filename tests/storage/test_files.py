"""Files: the results of the arrays they hold, strict parsing, and nothing in a file ever executed."""

import hashlib
import io
import json
import os
import pickle
import struct
import zipfile

import numpy as np
import pytest
import torch
from safetensors.numpy import save_file
from safetensors.torch import save_file as save_tensors

import mixtailor as mt
from mixtailor.intake import receive
from mixtailor.storage import Converted, Layers
from mixtailor.storage.files.opened import File
from mixtailor.updates import Updates

RULES = [mt.Mean(), mt.Comed(), mt.Krum(1), mt.NNM(1) >> mt.Comed(), mt.GeometricMedian(p=3), mt.DnC(1)]


def rows(n=7, d=900):
    return np.random.default_rng(n + d).standard_normal((n, d)).astype(np.float32)


def layers(row):
    return {
        "w": row[:600].reshape(20, 30),
        "empty": row[:0].reshape(0, 4),
        "b": row[600:899],
        "s": row[899].reshape(()),
    }


def save(folder, form, x):
    folder.mkdir(exist_ok=True)
    paths = []
    for k, row in enumerate(x):
        path = folder / f"{k}{'.npz' if 'npz' in form else '.' + form}"
        if form == "npy":
            np.save(path, row.reshape(30, 30))
        elif form == "npz":
            np.savez(path, **layers(row))
        elif form == "npz packed":
            np.savez_compressed(path, **layers(row))
        else:
            save_file({name: np.array(layer) for name, layer in layers(row).items()}, path)
        paths.append(path)
    return paths


FORMS = ["npy", "npz", "npz packed", "safetensors"]


def flat(answer):
    if isinstance(answer, dict):
        return np.concatenate([answer[name].reshape(-1) for name in ("w", "b", "s")])
    return answer.reshape(-1)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_files_answer_as_arrays(form, rule, tmp_path) -> None:
    """Values, shapes, names and their order; paths may be text."""
    x = rows()
    paths = save(tmp_path, form, x)
    entropy = mt.SeededEntropy(1)
    answer = rule([str(path) for path in paths], entropy=entropy)
    np.testing.assert_allclose(flat(answer), rule(x, entropy=mt.SeededEntropy(1)), rtol=1e-6, atol=1e-7)
    if form == "npy":
        assert answer.shape == (30, 30)
    else:
        assert {name: part.shape for name, part in answer.items()} == {
            "w": (20, 30),
            "empty": (0, 4),
            "b": (299,),
            "s": (),
        }
        assert "npz" not in form or list(answer) == ["w", "empty", "b", "s"]
    assert all(part.dtype == np.float32 for part in (answer.values() if isinstance(answer, dict) else [answer]))


@pytest.mark.parametrize("form", FORMS)
def test_a_file_as_reference(form, tmp_path) -> None:
    """What the server trusts may be a file too."""
    x = rows()
    paths = save(tmp_path, form, x)
    expected = mt.FLTrust()(x[1:], reference=x[0])
    np.testing.assert_allclose(flat(mt.FLTrust()(paths[1:], reference=paths[0])), expected, rtol=1e-5, atol=1e-7)
    with pytest.raises(ValueError, match="The reference needs to be a file that can be read"):
        mt.FLTrust()(paths[1:], reference=tmp_path / "none.npy")


def test_types(tmp_path) -> None:
    """float16, bfloat16 (back as float32, exactly), float64, other byte orders, columns first, counters and flags."""
    x = rows(5, 60)
    for k, row in enumerate(x):
        save_tensors(
            {
                "half": torch.from_numpy(row).half(),
                "brain": torch.from_numpy(row).bfloat16(),
                "double": torch.from_numpy(row).double(),
                "seen": torch.tensor([k, 9 - k]),
                "on": torch.tensor(k < 3),
            },
            tmp_path / f"{k}.safetensors",
        )
        np.save(tmp_path / f"{k}.npy", np.asfortranarray(row.reshape(6, 10).astype(">f4")))
    answer = mt.Krum(1)([tmp_path / f"{k}.safetensors" for k in range(5)])
    chosen = mt.Krum(1).aggregate(x).selected[0]
    assert answer["half"].dtype == np.float16 and answer["double"].dtype == np.float64
    np.testing.assert_array_equal(answer["half"], x[chosen].astype(np.float16))
    np.testing.assert_array_equal(answer["brain"], torch.from_numpy(x[chosen]).bfloat16().float().numpy())
    assert answer["seen"].tolist() == [2, 7] and answer["seen"].dtype == np.int64 and bool(answer["on"])
    by_columns = mt.Krum(1)([tmp_path / f"{k}.npy" for k in range(5)])
    np.testing.assert_array_equal(by_columns, x[chosen].reshape(6, 10))
    np.testing.assert_array_equal(
        mt.FLTrust()([tmp_path / f"{k}.npy" for k in range(5)], reference=x[0].reshape(6, 10)),
        mt.FLTrust()([tmp_path / f"{k}.npy" for k in range(5)], reference=tmp_path / "0.npy"),
    )


class Bomb:
    """Leaves a trace when it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return os.mkdir, (str(self.trace),)


def npy_bytes(array=None, header=None):
    out = io.BytesIO()
    if header is None:
        np.save(out, array)
        return out.getvalue()
    text = header.encode("latin-1")
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text


def tensors_bytes(header, data=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def broken_npy(trace):
    good = npy_bytes(rows(1, 900)[0].reshape(30, 30))
    objects = io.BytesIO()
    np.save(objects, np.array([Bomb(trace)], object), allow_pickle=True)
    described = "{'descr': %s, 'fortran_order': False, 'shape': %s, }"
    return {
        "empty": (b"", "no .npy array"),
        "truncated header": (good[:40], "claims"),
        "truncated": (good[:-1], "3727 bytes where its header promises 3728"),
        "longer": (good + b"x", "3729 bytes where"),
        "a pickle": (pickle.dumps(Bomb(trace)), "no .npy array"),
        "pickled objects": (objects.getvalue(), "pickled Python objects, which are never loaded"),
        "objects claimed": (npy_bytes(header=described % ("'|O'", "(30, 30)")), "pickled Python objects"),
        "record": (npy_bytes(header=described % ("[('a', '<f4')]", "(30, 30)")), "of type"),
        "comma type": (npy_bytes(header=described % ("'f4,f4'", "(30, 30)")), "of type"),
        "complex": (npy_bytes(np.zeros((30, 30), complex)), "complex numbers"),
        "code": (npy_bytes(header=described % (f"__import__('os').mkdir({str(trace)!r})", "(3,)")), "no description"),
        "negative": (npy_bytes(header=described % ("'<f4'", "(-30, -30)")), "no description"),
        "huge": (npy_bytes(header=described % ("'<f4'", "(1 << 60, )")), "no description"),
        "larger than the disk": (npy_bytes(header=described % ("'<f4'", "(1000000, 1000000, 1000)")), "promises"),
        "truth as shape": (npy_bytes(header=described % ("'<f4'", "(True, 30)")), "no description"),
        "no keys": (npy_bytes(header="{}"), "no description"),
        "deep header": (npy_bytes(header="(" * 4000), "no description"),
        "long header": (npy_bytes(header=" " * 5000), "claims"),
        "version": (b"\x93NUMPY\x09\x00" + good[8:], "unknown version"),
        "header beyond the file": (good[:8] + b"\xff\xff" + good[10:200], "claims"),
        "random": (np.random.default_rng(0).bytes(3728), "no .npy array"),
        "another shape": (npy_bytes(rows(1, 900)[0]), r"of shape \(900,\) where most have \(30, 30\)"),
        "integers": (npy_bytes(np.zeros((30, 30), np.int32)), "of type int32 where most have float32"),
        "by columns": (npy_bytes(np.asfortranarray(rows(1, 900).reshape(30, 30))), "stored by columns"),
        "nan": (npy_bytes(np.full((30, 30), np.nan, np.float32)), "not finite"),
    }


def zipped(members, method=zipfile.ZIP_STORED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return out.getvalue()


def broken_npz(trace):
    row = rows(1, 900)[0]
    members = [(f"{name}.npy", npy_bytes(layer)) for name, layer in layers(row).items()]
    good, packed = zipped(members), zipped(members, zipfile.ZIP_DEFLATED)
    objects = io.BytesIO()
    np.save(objects, np.array([Bomb(trace)], object), allow_pickle=True)
    spoilt = bytearray(packed)
    spoilt[200:203] = b"\x00\xff\x00"
    lying = bytearray(good)
    place = good.index(b"PK\x03\x04", 10)
    lying[place : place + 4] = b"????"
    return {
        "empty": (b"", "unreadable"),
        "truncated": (good[:-200], "unreadable"),
        "head only": (good[:100], "unreadable"),
        "a pickle": (pickle.dumps(Bomb(trace)), "unreadable"),
        "pickled objects": (zipped([*members[1:], ("w.npy", objects.getvalue())]), "never loaded"),
        "packed objects": (zipped([*members[1:], ("w.npy", objects.getvalue())], zipfile.ZIP_DEFLATED), "never loaded"),
        "a pickle inside": (zipped([*members, ("evil.pkl", pickle.dumps(Bomb(trace)))]), "no plain .npy array"),
        "spoilt stream": (bytes(spoilt), "unreadable"),
        "spoilt directory": (bytes(lying), "unreadable"),
        "truncated member": (zipped([("w.npy", members[0][1][:-9]), *members[1:]]), "promises"),
        "missing": (zipped(members[1:]), "without the layer 'w'"),
        "extra": (zipped([*members, ("z.npy", members[0][1])]), "with an extra array, the layer 'z'"),
        "nothing": (zipped([]), "without the layer 'w'"),
        "bomb": (zipped([*members[1:], ("w.npy", npy_bytes(np.zeros(3_000_000)))], zipfile.ZIP_DEFLATED), "of shape"),
    }


def broken_safetensors(trace):
    data = bytes(4 * 900)

    def entry(shape, first, last, dtype="F32"):
        return {"dtype": dtype, "shape": shape, "data_offsets": [first, last]}

    good = {
        "w": entry([20, 30], 0, 2400),
        "empty": entry([0, 4], 2400, 2400),
        "b": entry([299], 2400, 3596),
        "s": entry([], 3596, 3600),
    }
    return {
        "empty": (b"", "too short"),
        "only a length": (struct.pack("<Q", 1 << 63), "claims"),
        "a pickle": (pickle.dumps(Bomb(trace)), "unreadable"),
        "truncated": (tensors_bytes(good, data[:-1]), "promises"),
        "longer": (tensors_bytes(good, data + b"x"), "promises"),
        "no json": (tensors_bytes(b"w" * 40, data), "no description"),
        "not a dict": (tensors_bytes([], b""), "no description"),
        "deep": (tensors_bytes(b"[" * 100_000, data), "no description"),
        "twice": (tensors_bytes(b'{"w": 1, "w": 2}', data), "no description"),
        "overlap": (tensors_bytes({**good, "b": entry([299], 2396, 3592)}, data), "overlap or leave gaps"),
        "outside": (
            tensors_bytes({**good, "b": entry([299], 1 << 50, (1 << 50) + 1196)}, data),
            "overlap or leave gaps",
        ),
        "negative": (tensors_bytes({**good, "b": entry([299], -1196, 0)}, data), "bytes that its shape needs"),
        "wrong size": (tensors_bytes({**good, "b": entry([298], 2400, 3596)}, data), "bytes that its shape needs"),
        "fraction": (tensors_bytes({**good, "b": entry([299.0], 2400, 3596)}, data), "no description"),
        "type": (tensors_bytes({**good, "b": entry([299], 2400, 3596, "F8_E4M3")}, data), "of type 'F8_E4M3'"),
        "odd type": (tensors_bytes({**good, "b": entry([299], 2400, 3596, {})}, data), "of type"),
        "more keys": (tensors_bytes({**good, "b": entry([299], 2400, 3596) | {"x": 1}}, data), "no description"),
        "renamed": (
            tensors_bytes({("v" if k == "w" else k): v for k, v in good.items()}, data),
            "without the layer 'w'",
        ),
        "integers": (tensors_bytes({**good, "w": entry([20, 30], 0, 2400, "I32")}, data), "of type int32"),
    }


BROKEN = {"npy": broken_npy, "npz": broken_npz, "safetensors": broken_safetensors}


@pytest.mark.parametrize(("form", "case"), [(form, case) for form, make in BROKEN.items() for case in make("trace")])
def test_broken_files_are_quarantined_and_named(form, case, tmp_path) -> None:
    """A file that is not what it says is its worker's fault; the round goes on, and nothing in it was executed."""
    x = rows()
    paths = save(tmp_path, form, x)
    trace = tmp_path / "trace"
    data, reason = BROKEN[form](trace)[case]
    paths[0].write_bytes(data)
    result = mt.Krum(1).aggregate(paths, workers=[f"w{k}" for k in range(7)])
    assert not trace.exists()
    (found,) = result.quarantined
    assert (found.row, found.worker) == (0, "w0") and len(found.reason) < 300
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(found.reason)
    np.testing.assert_allclose(flat(result.update), mt.Krum(1).lowered(6, 1)(x[1:]), rtol=1e-6)
    with pytest.raises(mt.FaultError, match=r"1 of 7 updates is .*row 0"):
        mt.Krum(0)(paths)


def test_paths_that_lead_nowhere(tmp_path) -> None:
    """No such file, a directory, a pipe, an unknown name, a zero byte, no path at all."""
    x = rows()
    paths = save(tmp_path, "npy", x)
    (tmp_path / "dir.npy").mkdir()
    os.mkfifo(tmp_path / "pipe.npy")
    (tmp_path / "model.h5").write_bytes(pickle.dumps(Bomb(tmp_path / "trace")))
    for odd, reason in {
        tmp_path / "none.npy": "unreadable: No such file or directory (none.npy)",
        tmp_path / "dir.npy": "unreadable: a directory (dir.npy)",
        tmp_path / "pipe.npy": "unreadable: not a file (pipe.npy)",
        tmp_path / "model.h5": "unreadable: 'model.h5' is not one of .npy, .npz, .safetensors, .pt, .pth, .bin",
        str(tmp_path / "a\0.npy"): "unreadable: embedded null byte",
        17: "int where most are files",
        None: "NoneType where most are files",
    }.items():
        (found,) = mt.Comed().aggregate([odd, *paths]).quarantined
        assert (found.row, found.reason) == (0, reason)
    assert not (tmp_path / "trace").exists()


def test_nothing_but_broken_files(tmp_path) -> None:
    """Where no row is sound there is nobody to quarantine, and one sentence says what is needed."""
    with pytest.raises(
        ValueError, match="files that can be read, and none of these 2 can: row 0 is unreadable: No such"
    ):
        mt.Mean()([tmp_path / "a.npy", tmp_path / "b.npy"])
    with pytest.raises(ValueError, match="got text: 'one'"):
        mt.Mean()(["one", "two"])


def test_files_that_change_or_break_while_they_are_read(tmp_path) -> None:
    """A file that is shortened or rewritten between two passes is a fault, not a crash and not a second chance."""
    x = rows(7, 900)
    for spoil in (
        lambda path: os.truncate(path, 200),
        lambda path: path.write_bytes(npy_bytes(np.full((30, 30), 1e3, np.float32))),
    ):
        paths = save(tmp_path, "npy", x)
        rule = Spoils(lambda path=paths[3], spoil=spoil: spoil(path))
        result = rule.aggregate(paths)
        assert [q.row for q in result.quarantined] == [3]
        np.testing.assert_allclose(flat(result.update), np.delete(x, 3, axis=0).mean(axis=0), rtol=1e-5, atol=1e-6)
    paths = save(tmp_path, "npy", x)
    for path in paths:  # opened before, and replaced by a new file since: the old one is read on
        os.replace(save(tmp_path / "next", "npy", x * 2)[0], path) if path is paths[0] else None
    assert not mt.Mean().aggregate(paths).quarantined


class Spoils(mt.Mean):
    """Reads all rows, lets something happen, and returns their mean."""

    def __init__(self, happens):
        object.__setattr__(self, "happens", happens)

    def tolerates(self, n):
        return 1

    def decide(self, updates):
        updates.distances()
        if updates.n == 7:
            self.happens()
        return updates.mean()


def test_compressed_members_are_streamed(tmp_path, monkeypatch) -> None:
    """In order and from the beginning once a pass; a statistic and the rows it is compared to share one reading.

    The first pass goes on where the header of the array ends.
    """
    x = rows(7, 40_000)
    paths = []
    for k, row in enumerate(x):
        np.savez_compressed(tmp_path / f"{k}.npz", w=row)
        paths.append(tmp_path / f"{k}.npz")
    monkeypatch.setattr("mixtailor.kernels.space.Space.run_entries", 1 << 13)
    view = Updates.arrived(receive(paths))
    assert isinstance(view.reader.storage, Converted) and len(view.reader.storage.runs()) > 20
    opened = []
    original = zipfile.ZipFile.open
    monkeypatch.setattr(zipfile.ZipFile, "open", lambda self, *a, **k: opened.append(1) or original(self, *a, **k))
    from mixtailor.updates import Median

    apart = view.distances_to(view.columns(Median()), 1.0)
    assert len(opened) == 0
    np.testing.assert_allclose(apart, np.abs(x - np.median(x, axis=0)).sum(axis=1), rtol=1e-6)
    view.distances((2.0, 3.0))
    assert len(opened) == 7


def test_plain_callables_are_refused(tmp_path) -> None:
    """A callable would need all files in memory at once."""
    for form in ("npy", "safetensors"):
        with pytest.raises(ValueError, match="one matrix in memory, and these are files"):
            mt.Plain(lambda rows: rows[0])(save(tmp_path, form, rows()))


def test_handles_are_closed(tmp_path) -> None:
    """Files are open while their view lives, and not longer."""
    paths = save(tmp_path, "npz packed", rows())
    before = len(os.listdir("/dev/fd"))
    view = Updates.arrived(receive(paths))
    assert isinstance(view.reader.storage, Layers) and len(os.listdir("/dev/fd")) >= before + 7
    del view
    mt.Krum(1)(paths)
    assert len(os.listdir("/dev/fd")) == before


def test_digests_are_those_of_the_files(tmp_path) -> None:
    """Of all bytes that a worker sent, as any tool computes them; the header is among them."""
    paths = save(tmp_path, "npy", rows())
    expected = [hashlib.sha256(path.read_bytes()).digest() for path in paths]
    assert receive(paths).digests() == expected


def test_a_file_reads_no_further_than_it_is(tmp_path) -> None:
    """A short read is an error, not an end without one."""
    path = tmp_path / "a.npy"
    path.write_bytes(b"12345")
    file = File(path)
    assert file.read(1, 3) == b"234" and file.read(5, 0) == b""
    with pytest.raises(TypeError, match="it ends before its data do"):
        file.read(3, 9)
