"""A worker that keeps its file mapped and changes it between two readings is named, whatever it changes."""

import hashlib
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import mixtailor as mt
from mixtailor.intake.files import receive_files
from mixtailor.mixing.audit import AuditTrail
from mixtailor.storage.files.opened import BLOCK, CHANGED, File

RULES = [
    mt.Krum(2), mt.MultiKrum(2), mt.Medoid(), mt.GeometricMedian(), mt.NNM(2) >> mt.Comed(), mt.NNM(2) >> mt.Krum(2),
    mt.Bulyan(1), mt.DnC(2), mt.MDA(2), mt.CenteredClipping(tau=100.0), mt.Aksel(),
]  # fmt: skip
FORMS = [(".npy", np.nan), (".npy", 1e9), (".npz", 1e9), (".safetensors", np.nan), (".pt", 1e9)]
N, D, MALLORY = 9, 30_000, 4


def written(folder: Path, form: str) -> tuple[np.ndarray, list[Path]]:
    """Honest files, and one that is their mean: every rule likes it."""
    rows = np.random.default_rng(3).standard_normal((N, D)).astype(np.float32)
    rows[MALLORY] = np.delete(rows, MALLORY, axis=0).mean(axis=0)
    paths = [folder / f"{k}{form}" for k in range(N)]
    for path, row in zip(paths, rows, strict=True):
        if form == ".npy":
            np.save(path, row)
        elif form == ".npz":
            np.savez(path, a=row[:9000], b=row[9000:])
        elif form == ".safetensors":
            save_file({"a": row[:9000], "b": row[9000:]}, path)
        else:
            torch = pytest.importorskip("torch")
            torch.save({"a": torch.from_numpy(row[:9000].copy()), "b": torch.from_numpy(row[9000:].copy())}, path)
    return rows, paths


@contextmanager
def mapped(path: Path) -> Iterator[mmap.mmap]:
    """A file's pages, dirty before anybody opens it, so that its times do not tell of what is written later."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as pages:
        for place in range(0, len(pages), 512):
            pages[place] = pages[place]
        yield pages


def after_the_first_pass(paths: list[Path], happens: Callable[[], None], **options: Any) -> Any:
    """What was received, with something that happens once all of it was read for the first time."""
    arrival, read = receive_files(paths, **options), [0.0]

    def hook(share: float) -> None:
        read[0] += share
        if 1.0 - 1e-9 <= read[0] < 2.0:
            read[0] = 2.0
            happens()

    return replace(arrival, watch=hook)


def flat(update: Any) -> np.ndarray:
    return np.concatenate([update["a"], update["b"]]) if isinstance(update, dict) else update


def spoilt(pages: mmap.mmap, value: float) -> None:
    """Other numbers in the middle, where every format has nothing but numbers."""
    start = len(pages) // 2 // 64 * 64
    pages[start : start + 8000] = np.full(2000, value, np.float32).tobytes()


@pytest.mark.parametrize(("form", "value"), FORMS)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_row_that_changed_after_it_was_judged(rule: Any, form: str, value: float, tmp_path: Path) -> None:
    """The result is made of the others, or of the row as it was first read; the hook leaves nothing to luck."""
    rows, paths = written(tmp_path, form)
    with mapped(paths[MALLORY]) as pages:
        before = os.stat(paths[MALLORY])
        result = rule.aggregate(after_the_first_pass(paths, lambda: spoilt(pages, value)), entropy=mt.SeededEntropy(1))
        assert os.stat(paths[MALLORY]).st_mtime_ns == before.st_mtime_ns
    found = flat(result.update)
    assert np.isfinite(found).all() and np.abs(found).max() < np.abs(rows).max() + 1.0
    assert {(one.row, one.reason) for one in result.quarantined} <= {(MALLORY, CHANGED)}
    if type(rule) in (mt.Krum, mt.Medoid):
        assert result.quarantined


def test_a_base_that_changes_is_an_error_and_no_endless_loop(tmp_path: Path) -> None:
    """Nobody is to blame for it among the workers, and without it there is nothing to add the result to."""
    _, paths = written(tmp_path, ".npy")
    with mapped(paths[0]) as pages:
        arrival = after_the_first_pass(paths[1:], lambda: spoilt(pages, 5.0), base=paths[0])
        with pytest.raises(ValueError, match=f"The base needs to be a file that can be read, and is {CHANGED}"):
            mt.Krum(2)(arrival)
    arrival = after_the_first_pass(paths[1:], lambda: os.utime(paths[0]), base=paths[0])
    with pytest.raises(ValueError, match="The base needs"):
        mt.Krum(2)(arrival)


def test_a_base_that_cannot_be_unpacked_is_an_error_that_says_so(tmp_path: Path) -> None:
    """Its header is sound, and its numbers are not; whether or not a reference asks for them first."""
    _, paths = written(tmp_path, ".npz")
    base = tmp_path / "base.npz"
    np.savez_compressed(base, a=np.zeros(9000, np.float32), b=np.random.default_rng(0).random(21_000, np.float32))
    content = bytearray(base.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 4000] = bytes(4000)
    base.write_bytes(content)
    with pytest.raises(ValueError, match=r"The base needs to be a file .* and is unreadable: .*base.npz"):
        receive_files(paths, base=base)


@pytest.mark.parametrize("size", [1, BLOCK - 1, BLOCK, BLOCK + 3, 5 * BLOCK + 17])
def test_any_byte_that_changes_is_noticed(size: int, tmp_path: Path) -> None:
    """In the first block and in the last, whatever its length; what was not read before may be anything."""
    path = tmp_path / "a.npy"
    content = np.random.default_rng(size).bytes(size)
    for place in {0, size // 2, size - 1}:
        path.write_bytes(content)
        file = File(path)
        assert file.read(0, size) == content and file.read(place, 1) == content[place : place + 1]
        with path.open("r+b") as other:
            other.seek(place)
            other.write(bytes([content[place] ^ 1]))
        with pytest.raises(TypeError, match=CHANGED):
            file.read(place, 1)
    if size > 2 * BLOCK:
        path.write_bytes(content)
        file = File(path)
        file.read(0, 10)
        with path.open("r+b") as other:
            other.seek(2 * BLOCK)
            other.write(b"new")
        assert file.read(2 * BLOCK, 3) == b"new"


def test_two_blocks_of_zeros_and_a_swap_are_told_apart(tmp_path: Path) -> None:
    """Words that change places, and a block that becomes nothing but zeros."""
    path = tmp_path / "a.npy"
    for first, second in [(b"abcdefgh", b"efghabcd"), (b"abcd" * 9, bytes(36)), (bytes(36), b"abcd" * 9)]:
        path.write_bytes(first)
        file = File(path)
        assert file.read(0, len(first)) == first
        path.write_bytes(second)
        with pytest.raises(TypeError, match=CHANGED):
            file.read(0, 4)


def test_an_audited_round_goes_on(tmp_path: Path) -> None:
    """A file that breaks while digests are made is its worker's fault, like any other."""
    _, paths = written(tmp_path, ".npy")
    arrival = receive_files(paths)
    os.truncate(paths[2], 300)
    trail = tmp_path / "run.audit"
    pool = [mt.Comed(), mt.Krum(2)]
    with AuditTrail.start(trail, pool) as audit:
        result = mt.MixTailor(pool, audit=audit).aggregate(arrival, workers=[path.name for path in paths])
    assert [one.row for one in result.quarantined] == [2] and np.isfinite(flat(result.update)).all()


def test_the_digest_is_of_the_bytes_that_were_aggregated(tmp_path: Path) -> None:
    """A file put in the place of another one is not the one that was received, and one that changed is out."""
    rows, paths = written(tmp_path, ".npy")
    arrival, sent = receive_files(paths), [hashlib.sha256(path.read_bytes()).digest() for path in paths]
    np.save(tmp_path / "other.npy", np.zeros(D, np.float32))
    os.replace(tmp_path / "other.npy", paths[MALLORY])
    assert arrival.digests() == sent
    assert np.array_equal(mt.Mean()(arrival), mt.Mean()(rows))
    with mapped(paths[0]) as pages:
        arrival = receive_files(paths)
        original, pages[5] = pages[5], 0  # in the header, which has been read
        changed = arrival.digests()[0]
        assert changed is not None and changed not in sent
        pages[5] = original
        result = mt.Comed().aggregate(arrival)
    assert [(one.row, one.reason) for one in result.quarantined] == [(0, CHANGED)]
