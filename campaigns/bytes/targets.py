"""What reads bytes from outside, what it may raise, and a few whole files to damage."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save as to_safetensors

import mixtailor as mt
from mixtailor.experiments import Experiment
from mixtailor.experiments.results import Results
from mixtailor.mixing.audit import AuditTrail, Proof, verify
from mixtailor.mixing.audit.store import read_secret
from mixtailor.simulation import checkpoint, read_states
from mixtailor.simulation.cifar import read_cifar
from mixtailor.simulation.files import DataError
from mixtailor.simulation.idx import read_idx
from mixtailor.simulation.published import Archive, Collection, PublishedFile
from mixtailor.simulation.records import read_records

GOOD = [np.arange(6, dtype=np.float32), np.arange(6, dtype=np.float32) + 1]


@dataclass(frozen=True)
class Target:
    """Something that reads a file.

    Attributes
    ----------
    file : str
        What the file is called; its suffix may decide how it is read.
    read : callable
        Gets the file's path.
    refuses : tuple of exception types
        What it may raise, with a sentence; nothing else, and nothing where this is empty.
    whole : callable
        Files of our own writers.
    """

    file: str
    read: Callable[[Path], object]
    refuses: tuple[type[Exception], ...]
    whole: Callable[[], Sequence[bytes]]


# Updates: a file that cannot be read is its worker's fault, and quarantined.


def _aggregated(path: Path) -> None:
    """One file among three, with f = 1: whatever it holds, there is a finite answer."""
    answer = mt.TrimmedMean(f=1).aggregate([*_others(path), path]).update
    arrays = answer.values() if isinstance(answer, dict) else [answer]
    if not all(np.isfinite(array).all() for array in arrays):
        raise AssertionError("the answer is not finite")


def _others(path: Path) -> list[Path]:
    """Two whole files beside it."""
    others = [path.parent / f"good{k}{path.suffix}" for k in (0, 1)]
    for other, row in zip(others, GOOD, strict=True):
        if not other.exists():
            other.write_bytes(_written(path.suffix, row))
    return others


def _trusted(path: Path) -> None:
    mt.FLTrust()(_others(path), reference=path)


def _written(suffix: str, row: np.ndarray) -> bytes:
    file = io.BytesIO()
    if suffix == ".npy":
        np.save(file, row)
    elif suffix == ".npz":
        np.savez(file, a=row[:2], b=row[2:])
    elif suffix == ".pt":
        torch.save({"a": torch.from_numpy(row[:2].copy()), "b": torch.from_numpy(row[2:].copy())}, file)
    else:
        file.write(to_safetensors({"a": row[:2].copy(), "b": row[2:].copy()}))
    return file.getvalue()


def _npy() -> list[bytes]:
    return [_written(".npy", GOOD[0]), _saved(np.asfortranarray(np.ones((2, 3))))]


def _saved(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def _npz() -> list[bytes]:
    packed = io.BytesIO()
    np.savez_compressed(packed, a=GOOD[0][:2], b=GOOD[0][2:])
    return [_written(".npz", GOOD[0]), packed.getvalue()]


# Data


def _idx() -> list[bytes]:
    plain = bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6])
    return [plain, gzip.compress(plain, mtime=0)]


def _cifar() -> list[bytes]:
    plain = bytes([7] + [1] * 3072 + [9] + [2] * 3072)
    return [gzip.compress(plain, mtime=0), plain]


MEMBER = bytes(range(10))
COLLECTION = Collection(
    "Ten", ("ten",), (PublishedFile("ten.bin", 10, hashlib.sha256(MEMBER).hexdigest()),), (), Archive("ten.tar.gz", 0)
)


def _archive() -> list[bytes]:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        member = tarfile.TarInfo("ten/ten.bin")
        member.size = len(MEMBER)
        archive.addfile(member, io.BytesIO(MEMBER))
    return [gzip.compress(file.getvalue(), mtime=0)]


def _unpacked(path: Path) -> None:
    COLLECTION._unpack(path, list(COLLECTION.files), path.parent / "unpacked")


# Experiments and what runs leave


def _toml() -> list[bytes]:
    text = (
        'title = "x"\n[run]\ndata = "synthetic"\nmodel = "logistic"\nrounds = 5\nn = 7\nf = 1\nseed = [0, 1]\n'
        'rule = ["krum", {name = "comed", label = "median"}]\nattack = {name = "tailored", epsilon = 0.1}\n'
    )
    panels = 'title = "y"\n[run]\npreset = "digits"\nrule = "nnm >> krum"\n[[panels]]\ntitle = "one"\nrun = {f = 2}\n'
    return [text.encode(), panels.encode()]


def _expanded(path: Path) -> None:
    Experiment.read(path).expanded(0.5)


def _records() -> list[bytes]:
    return [b'{"round":0,"accuracy":0.5,"loss":null,"drawn":{"Krum(f=1)":3}}\n{"round":5,"accuracy":0.75}\n']


def _index() -> list[bytes]:
    entry = {"panel": "p", "rule": "krum", "attack": "none", "setting": "", "hash": "ab12", "config": {"seed": 3}}
    return [json.dumps({"name": "x", "entries": [entry]}).encode()]


def _kept() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "checkpoint.npz")
        state = {
            "round": 3, "weights": torch.ones(2), "note": (1, None, {"a"}), "array": np.arange(3),
            "generator": np.random.Generator(np.random.PCG64(1)), "rule": mt.Krum(1),
        }  # fmt: skip
        checkpoint.save(path, state)
        return [path.read_bytes()]


def _state() -> list[bytes]:
    file = io.BytesIO()
    np.savez(file, gradients=np.ones((2, 5, 3)), gradient=np.ones(3))
    return [file.getvalue()]


# The audit


def _log() -> tuple[bytes, bytes, str]:
    with tempfile.TemporaryDirectory() as folder:
        path, pool = Path(folder, "run.audit"), ["Krum(f=1)", "Comed()"]
        rows = {name: hashlib.sha256(name.encode()).digest() for name in ("ann", "bob", "cyn")}
        with AuditTrail.start(path, pool, run="a run") as trail:
            trail.expect([*rows, "dan"])
            trail.draw(rows, pool=pool)
            secret = Path(f"{path}.secret").read_bytes()
            receipt = trail.proof("bob").to_json()
        return path.read_bytes(), secret, receipt


def _secret(path: Path) -> None:
    path.chmod(0o600)
    read_secret(str(path))


def _read_text(path: Path) -> str:
    return path.read_bytes().decode("utf-8", errors="replace")


TARGETS: dict[str, Target] = {
    "npy": Target("row.npy", _aggregated, (), _npy),
    "npz": Target("row.npz", _aggregated, (), _npz),
    "safetensors": Target("row.safetensors", _aggregated, (), lambda: [_written(".safetensors", GOOD[0])]),
    "reference": Target("row.npy", _trusted, (ValueError,), _npy),
    "idx": Target("data-idx2-ubyte", read_idx, (DataError,), _idx),
    "cifar": Target("batch.bin", lambda path: read_cifar(path, records=2), (DataError,), _cifar),
    "archive": Target("ten.tar.gz", _unpacked, (DataError,), _archive),
    "toml": Target("experiment.toml", _expanded, (ValueError,), _toml),
    "records": Target("metrics.jsonl", read_records, (ValueError,), _records),
    "index": Target("experiment.json", lambda path: Results.load(path.parent), (ValueError,), _index),
    "checkpoint": Target("checkpoint.npz", checkpoint.load, (ValueError,), _kept),
    "state": Target("round-1.npz", lambda path: read_states(path.parent), (ValueError,), _state),
    "audit": Target("run.audit", lambda path: str(verify(path)), (), lambda: [_log()[0]]),
    "secret": Target("run.audit.secret", _secret, (ValueError,), lambda: [_log()[1]]),
    "proof": Target(
        "proof.json", lambda path: Proof.from_json(_read_text(path)), (ValueError,), lambda: [_log()[2].encode()]
    ),
    "reputation": Target(
        "reputation.json", lambda path: mt.Reputation.from_json(_read_text(path)), (ValueError,),
        lambda: [b'{"ann": [3, 1, 0.5, 0, 2, 1.5, 1.0]}'],
    ),
    "torch": Target("row.pt", _aggregated, (), lambda: [_written(".pt", GOOD[0])]),
}  # fmt: skip
