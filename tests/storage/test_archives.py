"""Archives that are made to be more than they are: names that share bytes, and headers that cost time."""

import copy
import io
import struct
import time
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mixtailor as mt
from mixtailor.cli import main
from mixtailor.storage.files import opened
from mixtailor.storage.files.formats import contents
from mixtailor.storage.files.opened import Unreadable


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def with_header(text: bytes) -> bytes:
    return b"\x93NUMPY\x02\x00" + struct.pack("<I", len(text)) + text + bytes(4)


def aliased(names: list[str], content: bytes, *, local: bool = False, method: int = zipfile.ZIP_STORED) -> bytes:
    """An archive whose directory points all names at the same bytes."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        archive.writestr(names[0], content)
        for name in names[1:]:
            other: Any = copy.copy(archive.filelist[0])
            other.filename = other.orig_filename = names[0] if local else name
            archive.filelist.append(other)
    return out.getvalue()


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_packing_that_has_no_bound_is_refused(method: int, tmp_path: Path) -> None:
    """zipfile unpacks these whole: 256 bytes of bzip2 took 50 MB. numpy writes neither."""
    paths = [tmp_path / f"{k}.npz" for k in range(4)]
    for path in paths:
        np.savez_compressed(path, a=np.ones(400_000, np.float32))
    with zipfile.ZipFile(paths[2], "w", method) as archive:
        archive.writestr("a.npy", npy(np.ones(400_000, np.float32)))
    tracemalloc.start()
    try:
        with pytest.raises(Unreadable, match=r"'a.npy' is packed in a way that numpy does not write \(2.npz\)"):
            contents(paths[2])
        assert tracemalloc.get_traced_memory()[1] < 1e6
    finally:
        tracemalloc.stop()
    assert [one.row for one in mt.Comed().aggregate(paths).quarantined] == [2]


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("place", [0, 3])
def test_names_that_share_bytes_are_refused(place: int, method: int, tmp_path: Path) -> None:
    """Under a base of another array the same bytes are another update; the result stays near the honest ones."""
    rng = np.random.default_rng(0)
    base = {"a": np.zeros(50, np.float32), "b": np.full(50, 100, np.float32)}
    np.savez(tmp_path / "base.npz", **base)
    paths = [tmp_path / f"{k}.npz" for k in range(5)]
    for path in paths:
        np.savez(path, **{name: part + rng.normal(0, 0.01, 50).astype(np.float32) for name, part in base.items()})
    paths[place].write_bytes(aliased(["a.npy", "b.npy"], npy(base["b"]), method=method))
    result = mt.Comed().aggregate(paths)
    assert [one.row for one in result.quarantined] == [place]
    assert "points beside 'b.npy'" in result.quarantined[0].reason
    out = tmp_path / "out.npz"
    arguments = ["aggregate", *map(str, paths), "-o", str(out), "--rule", "trimmed_mean", "--f", "1"]
    assert main([*arguments, "--base", str(tmp_path / "base.npz")]) == 0
    with np.load(out) as found:
        assert all(np.abs(found[name] - base[name]).max() < 0.1 for name in base)


def test_members_that_overlap_are_refused(tmp_path: Path) -> None:
    """Also under one name, and where only a part is shared."""
    path = tmp_path / "a.npz"
    path.write_bytes(aliased(["a.npy", "b.npy"], npy(np.ones(3)), local=True))
    with pytest.raises(TypeError, match="its members overlap"):
        contents(path)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("b.npy", npy(np.ones(3)))
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("a.npy", npy(np.ones(3)) + inner.getvalue())
        info: Any = copy.copy(zipfile.ZipFile(io.BytesIO(inner.getvalue())).filelist[0])
        info.header_offset = out.getvalue().index(b"PK\x03\x04", 10)
        archive.filelist.append(info)
    path.write_bytes(out.getvalue())
    with pytest.raises(TypeError, match="its members overlap"):
        contents(path)


def test_a_base_is_found_by_name_whatever_the_order(tmp_path: Path) -> None:
    """The first file decides the order of the result, and nothing else."""
    base = {"a": np.zeros(9, np.float32), "b": np.full(9, 100, np.float32), "c": np.full(9, -7, np.float32)}
    np.savez(tmp_path / "base.npz", **base)
    paths = [tmp_path / f"{k}.npz" for k in range(5)]
    for k, path in enumerate(paths):
        names = list(base)[k % 3 :] + list(base)[: k % 3]
        np.savez(path, **{name: base[name] + np.float32(0.5) for name in names})
    out = tmp_path / "out.npz"
    arguments = ["aggregate", *map(str, paths), "-o", str(out), "--base", str(tmp_path / "base.npz")]
    assert main([*arguments, "--rule", "krum", "--f", "1"]) == 0
    with np.load(out) as found:
        assert all((found[name] == base[name] + 0.5).all() for name in base)


REPEATED = b"{" + b"'descr':'<f4','shape':(1,)," * 2300 + b"'fortran_order':False}"


@pytest.mark.parametrize("header", [REPEATED, REPEATED[:3900] + b"'fortran_order':False}", b"(" * 60000])
def test_a_thousand_headers_take_no_longer_than_their_bytes(header: bytes, tmp_path: Path) -> None:
    """Headers of 64 kB that pack to a hundred bytes took a minute; no more of them is parsed than the file is long."""
    path = tmp_path / "a.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for k in range(1000):
            archive.writestr(f"{k}.npy", with_header(header))
    assert path.stat().st_size < 400_000
    before = time.process_time()
    with pytest.raises(TypeError, match=r"claims|no description"):
        contents(path)
    assert time.process_time() - before < 2.0


def test_a_thousand_honest_arrays_are_read(tmp_path: Path) -> None:
    """The bound on headers is none for what numpy writes, also of the smallest arrays."""
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "a.npz", **{f"{k}": np.float32([k]) for k in range(1000)})
        assert len(contents(tmp_path / "a.npz")) == 1000


def test_a_directory_of_holes_is_not_read(tmp_path: Path) -> None:
    """Three gigabytes that cost whoever made them nothing, and that zipfile would read at one go."""
    size = 3 << 30
    path = tmp_path / "a.npz"
    with path.open("wb") as file:
        file.truncate(size)
        file.seek(size - 22)
        file.write(struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 1, 1, size - 1000, 900, 0))
    tracemalloc.start()
    try:
        with pytest.raises(TypeError, match="central directory"):
            contents(path)
        assert tracemalloc.get_traced_memory()[1] < 1 << 27
    finally:
        tracemalloc.stop()


def test_a_long_compressed_array_is_read_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What bounds the directory is no bound for the arrays."""
    monkeypatch.setattr(opened, "_MOST", 5000)
    values = np.random.default_rng(0).normal(size=10_000)
    np.savez_compressed(tmp_path / "a.npz", w=values)
    (found,) = contents(tmp_path / "a.npz").values()
    assert np.array_equal(found.run(0, 10_000), values)
