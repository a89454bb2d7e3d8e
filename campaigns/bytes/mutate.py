"""Damage: bytes changed, cut, doubled, spliced, and numbers made huge."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

HUGE = (0, 1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, 1 << 40, (1 << 63) - 1, (1 << 64) - 1)
WORDS = (
    b"nan", b"1e999", b"-1", b"999999999999999999999", b"null", b"true", b"{}", b"[]", b"[" * 3000, b'{"a":' * 1500,
    b"\x00", b"\xff\xfe", b"|O", b"<f8", b"'shape': (1099511627776,)", b"__import__('os')", b"../../x", b"\n", b'"',
    b'"kind": "object"', b"1_000_000_000", b"9" * 5000,
)  # fmt: skip


def mutated(rng: np.random.Generator, corpus: Sequence[bytes]) -> bytes:
    """One of the corpus, damaged in one place or several."""
    data = bytearray(corpus[rng.integers(len(corpus))])
    for _ in range(int(rng.choice([0, 1, 1, 1, 2, 4, 8]))):
        data = _once(rng, data, corpus)
    return bytes(data[: 1 << 17])


def _once(rng: np.random.Generator, data: bytearray, corpus: Sequence[bytes]) -> bytearray:
    at = int(rng.integers(len(data) + 1))
    length = int(rng.integers(1, 17))
    match rng.integers(9):
        case 0:
            data[at : at + 1] = bytes([int(rng.integers(256))])
        case 1 if at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        case 2:
            del data[at : at + length]
        case 3:
            data[at:at] = data[at : at + length] * int(rng.integers(1, 4))
        case 4:
            return data[:at]
        case 5:
            number = HUGE[rng.integers(len(HUGE))].to_bytes(8, "little" if rng.random() < 0.5 else "big")
            width = int(rng.choice([2, 4, 8]))
            data[at : at + width] = number[:width] if rng.random() < 0.5 else number[-width:]
        case 6:
            other = corpus[rng.integers(len(corpus))]
            data[at:] = other[int(rng.integers(len(other) + 1)) :]
        case 7:
            data[at : at + int(rng.integers(4))] = WORDS[rng.integers(len(WORDS))]
        case _:
            numbers = list(re.finditer(rb"-?\d+", data))
            if numbers:
                chosen = numbers[rng.integers(len(numbers))]
                data[chosen.start() : chosen.end()] = WORDS[rng.integers(6)]
    return data
