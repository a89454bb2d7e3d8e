"""``mixtailor aggregate`` as the README calls it, with ten honest files and two hostile ones: no wrong result."""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from campaigns import _cases
from campaigns._ledger import Tally
from campaigns.bombs.run import BOMBS, _npy
from mixtailor.cli import main

RULES = ("mixtailor", "krum", "comed", "nnm >> trimmed_mean", "geometric_median")
D = 1000


def case(folder: Path, rng: np.random.Generator, tally: Tally) -> str | None:
    """One call with two hostile files of one kind: exit code 0, and a result near the honest files."""
    kind, rule = list(KINDS)[int(rng.integers(len(KINDS)))], RULES[int(rng.integers(len(RULES)))]
    tally.count(kind=kind, rule=rule)
    honest = rng.standard_normal((10, D))
    names = [f"update{k}" for k in range(12)]
    hostile = set(rng.choice(12, 2, replace=False).tolist())
    paths, left = [], list(honest)
    for k, name in enumerate(names):
        if k in hostile:
            paths.append(KINDS[kind](folder, name, rng, honest))
            continue
        paths.append(folder / f"{name}.npy")
        np.save(paths[-1], left.pop())
    out, told = folder / "answer.npy", io.StringIO()
    arguments = ["aggregate", *map(str, paths), "-o", str(out), "--rule", rule, "--f", "2"]
    with warnings.catch_warnings(), contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        warnings.simplefilter("ignore")
        code = main(arguments)
    where = f"{kind}, {rule}"
    if code:
        return f"{where}: exit {code}: {told.getvalue()[-300:]}"
    if not all(letter.isprintable() or letter == "\n" for letter in told.getvalue()):
        return f"{where}: control characters in what was printed"
    result = np.load(out)
    if result.shape != (D,) or result.dtype != np.float64 or not np.isfinite(result).all():
        return f"{where}: {result.shape} {result.dtype}, or not finite"
    mean = honest.mean(axis=0)
    reach, far = np.linalg.norm(honest - mean, axis=1).max(), np.linalg.norm(result - mean)
    return None if far <= 1.5 * reach else f"{where}: {far:.3g} away where the farthest honest file is {reach:.3g}"


Make = Callable[[Path, str, np.random.Generator, np.ndarray], Path]


def _row(function: Callable[[np.ndarray, np.random.Generator], Any], name: str = "") -> Make:
    def make(folder: Path, own: str, rng: np.random.Generator, honest: np.ndarray) -> Path:
        path = folder / f"{own}{name}.npy"
        with open(path, "wb") as file:
            np.save(file, np.asarray(function(honest, rng)))
        return path

    return make


def _bytes(suffix: str, function: Callable[[np.random.Generator], bytes]) -> Make:
    def make(folder: Path, own: str, rng: np.random.Generator, _honest: np.ndarray) -> Path:
        path = folder / f"{own}{suffix}"
        path.write_bytes(function(rng))
        return path

    return make


def _placed(function: Callable[[Path], Any]) -> Make:
    def make(folder: Path, own: str, _rng: np.random.Generator, _honest: np.ndarray) -> Path:
        function(folder / f"{own}.npy")
        return folder / f"{own}.npy"

    return make


def _tensor(kind: Any) -> Make:
    def make(folder: Path, own: str, _rng: np.random.Generator, honest: np.ndarray) -> Path:
        torch.save(torch.from_numpy(honest[0]).to(kind), folder / f"{own}.pt")
        return folder / f"{own}.pt"

    return make


def _cut(rng: np.random.Generator) -> bytes:
    out = io.BytesIO()
    np.save(out, rng.standard_normal(D))
    return out.getvalue()[: int(rng.integers(1, 8000))]


KINDS: dict[str, Make] = {
    "far, as in the README": _row(lambda honest, rng: rng.standard_normal(D) + 9e9),
    "the largest numbers": _row(lambda honest, rng: np.full(D, 1.7e308) * rng.choice([-1, 1], D)),
    "NaN": _row(lambda honest, rng: np.where(rng.random(D) < 0.01, np.nan, honest[0])),
    "infinities": _row(lambda honest, rng: np.where(rng.random(D) < 0.01, np.inf, honest[0])),
    "the mean, reversed": _row(lambda honest, rng: -10.0 * honest.mean(axis=0)),
    "a copy": _row(lambda honest, rng: honest[3]),
    "zeros": _row(lambda honest, rng: np.zeros(D)),
    "another shape": _row(lambda honest, rng: np.zeros((D, 2))),
    "float16": _row(lambda honest, rng: honest[0].astype(np.float16)),
    "float32": _row(lambda honest, rng: honest[0].astype(np.float32)),
    "integers": _row(lambda honest, rng: np.ones(D, np.int64)),
    "complex": _row(lambda honest, rng: honest[0] + 1j),
    "bfloat16": _tensor(torch.bfloat16),
    "float8": _tensor(torch.float8_e4m3fn),
    "a name that steers": _row(lambda honest, rng: rng.standard_normal(D) + 9e9, "\x1b[2J\x9b\u202e"),
    "a name that is no text": _row(lambda honest, rng: np.full(D, np.nan), os.fsdecode(b"\xff\xfe")),
    "cut off": _bytes(".npy", _cut),
    "nothing": _bytes(".npy", lambda rng: b""),
    "a pickle": _bytes(".npy", lambda rng: pickle.dumps(np.zeros(D))),
    "random bytes": _bytes(".npy", lambda rng: rng.bytes(8128)),
    "a header that lies": _bytes(".npy", lambda rng: _npy(b"{'descr':'<f8','fortran_order':False,'shape':(1 << 40,)}")),
    **{f"a bomb, {name}": _bytes(".npz" if target == "npz" else ".pt", make) for name, (target, make) in BOMBS.items()},
    "a pipe": _placed(lambda path: os.mkfifo(path)),
    "a device": _placed(lambda path: path.symlink_to("/dev/zero")),
    "a folder": _placed(lambda path: path.mkdir()),
    "no file": _placed(lambda path: None),
}


def campaign(count: int, seed: int, *, state: Path | None = None) -> dict[str, Any]:
    """So many cases."""
    return _cases.campaign("readme", case, count, seed, state)


def repeat(seed: str) -> list[str]:
    """What one case breaks."""
    return _cases.repeat(case, seed)
