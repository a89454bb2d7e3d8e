"""Bytes from outside: every refusal is a sentence, and memory is bounded by the file's size."""

import gzip
import math
import os
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mixtailor.simulation import DataError, read_cifar, read_idx


def idx(*shape: int, kind: int = 8, elements: bytes | None = None) -> bytes:
    if elements is None:
        count = math.prod(shape)
        elements = (bytes(range(256)) * (count // 256 + 1))[:count]
    return struct.pack(f">HBB{len(shape)}I", 0, kind, len(shape), *shape) + elements


@pytest.mark.parametrize("packed", [False, True])
def test_idx_reads_what_was_written(tmp_path: Path, packed: bool) -> None:
    """Gzip is recognised by content: the name says nothing either way."""
    path = tmp_path / ("plain.gz" if not packed else "packed")
    path.write_bytes(gzip.compress(idx(3, 5, 7)) if packed else idx(3, 5, 7))
    array = read_idx(path)
    assert array.shape == (3, 5, 7) and array.flatten().tolist() == list(range(105))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "truncated: 4 bytes are needed and it ends after 0"),
        (b"\0\0\x08", "truncated"),
        (idx(4, 4)[:7], "truncated"),
        (idx(4, 4)[:-1], "truncated: 28 bytes are needed and it ends after 27"),
        (idx(4, 4) + b"x", "is longer than the 28 bytes"),
        (b"\x89PNG" + idx(4, 4), "two zero bytes"),
        (idx(4, 4, kind=13), "type 13"),
        (idx(2**32 - 1, 2**32 - 1, 2**32 - 1, elements=b"abc"), "truncated|may hold here"),
        (idx(0, 2**32 - 1, 2**32 - 1, 2**32 - 1, elements=b""), "impossible dimensions"),
        (idx(*[1] * 200, elements=b"a"), "impossible dimensions"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_idx_refuses_with_a_sentence(tmp_path: Path, content: bytes, words: str, packed: bool) -> None:
    path = tmp_path / "file"
    path.write_bytes(gzip.compress(content) if packed else content)
    with pytest.raises(DataError, match=words):
        read_idx(path)


def test_a_gzip_bomb_takes_no_memory(tmp_path: Path) -> None:
    """200 MB of zeros in 200 kB, with a header that fits: refused before the memory is taken."""
    size = 200 * 2**20
    path = tmp_path / "bomb.gz"
    with gzip.open(path, "wb", compresslevel=9) as file:
        file.write(struct.pack(">HBBI", 0, 8, 1, size))
        for _ in range(size // 2**20):
            file.write(bytes(2**20))
    tracemalloc.start()
    with pytest.raises(DataError, match=r"64 times its size"):
        read_idx(path)
    with pytest.raises(DataError, match=r"is longer than|not a CIFAR-10 file"):
        read_cifar(path, records=100)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20


@pytest.mark.parametrize("cut", [3, 12, 30, -9, -1])
def test_truncated_gzip_is_told(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "cut.gz"
    path.write_bytes(gzip.compress(idx(40, 40), mtime=0)[:cut])
    with pytest.raises(DataError, match=r"damaged|truncated"):
        read_idx(path)


def answer_or_sentence(path: Path) -> npt.NDArray[np.uint8] | None:
    """What `read_idx` returns, or None if it refused with a sentence about this file."""
    try:
        return read_idx(path)
    except DataError as error:
        sentence = str(error)
    assert sentence.startswith(str(path)) and sentence.endswith(".")
    return None


@given(flips=st.lists(st.tuples(st.integers(0, 10_000), st.integers(1, 255)), min_size=1, max_size=3))
@settings(max_examples=60, deadline=None)
def test_damage_is_an_answer_or_a_sentence(
    tmp_path_factory: pytest.TempPathFactory, flips: list[tuple[int, int]]
) -> None:
    """Whatever bytes change, nothing but a DataError comes out; gzip notices all damage to content."""
    folder = tmp_path_factory.mktemp("flips")
    for name, content in {"plain": idx(20, 30), "packed": gzip.compress(idx(20, 30), mtime=0)}.items():
        damaged = bytearray(content)
        for position, change in flips:
            damaged[position % len(damaged)] ^= change
        path = folder / name
        path.write_bytes(damaged)
        array = answer_or_sentence(path)
        if array is not None:
            assert array.size == 600 if name == "plain" else array.tobytes() == idx(20, 30)[12:]


@given(content=st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_arbitrary_bytes_never_crash_a_reader(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("any") / "file"
    for prefix in (b"", b"\x1f\x8b", b"\x1f\x8b\x08\x08", b"\0\0\x08"):
        path.write_bytes(prefix + content)
        answer_or_sentence(path)
        with pytest.raises(DataError, match=str(path)):
            read_cifar(path)


def test_folders_pipes_and_absent_files_are_refused(tmp_path: Path) -> None:
    """A pipe would block forever."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, tmp_path / "absent"):
        with pytest.raises(DataError, match="not a regular file"):
            read_idx(path)


def test_cifar_records_are_label_then_channels(tmp_path: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (3, 3, 32, 32), dtype=np.uint8)
    labels = np.array([0, 9, 4], np.uint8)
    path = tmp_path / "three.bin"
    path.write_bytes(b"".join(bytes([label]) + image.tobytes() for label, image in zip(labels, images, strict=True)))
    read_images, read_labels = read_cifar(path, records=3)
    assert (read_images == images).all() and (read_labels == labels).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda content: content[:-1], "truncated: 6,146 bytes"),
        (lambda content: content + b"0", "is longer than"),
        (lambda content: content[:3073] + b"\x0a" + content[3074:], "record 1 has label 10"),
    ],
)
def test_cifar_refuses_with_a_sentence(tmp_path: Path, change, words: str) -> None:  # type: ignore[no-untyped-def]  # lambdas above
    path = tmp_path / "two.bin"
    path.write_bytes(change(bytes(2 * 3073)))
    with pytest.raises(DataError, match=words):
        read_cifar(path, records=2)
