"""What the README shows, with ten honest workers and two hostile ones: `mixtailor aggregate`, and the training loop."""

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

import mixtailor as mt
from campaigns import _cases
from campaigns._ledger import Tally
from campaigns.bombs.run import BOMBS, _npy
from mixtailor.cli import main

OTHERS = ("mixtailor", "krum", "comed", "nnm >> trimmed_mean", "geometric_median")  # beside the README's own rule
D = 1000


def case(folder: Path, index: int, rng: np.random.Generator, tally: Tally) -> str | None:
    """The command or the training loop: all kinds of files, then all kinds of updates, then again."""
    turn, place = divmod(index, len(KINDS) + len(SENT))
    if place < len(KINDS):
        others = [OTHERS[turn // 4 % len(OTHERS)]] if turn % 4 == 0 else []
        return command(list(KINDS)[place], ["default_pool", *others], folder, rng, tally)
    return loop(list(SENT)[place - len(KINDS)], rng, tally)


def loop(kind: str, rng: np.random.Generator, tally: Tally) -> str | None:
    """The loop of the README, with two workers that send one kind of hostile updates: it must reach its target."""
    tally.count(kind=f"loop: {kind}")
    names = [f"worker-{i}" for i in range(12)]
    target, model = np.ones(200), np.zeros(200)
    server = mt.recommended(f=2, n=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(25):  # of the README's 100: by then 0.9^25 of the way is left, 7 %
            updates: list[Any] = [target - model + rng.normal(size=200) for _ in names]
            updates[10:] = [SENT[kind](np.array(updates[:10]), rng) for _ in range(2)]
            model = model + 0.1 * server(updates, workers=names)
    far = float(abs(model - target).mean())
    return None if far < 0.3 else f"loop, {kind}: {far:.3g} from the target"


class _Raises:
    """What fails as soon as it is looked at."""

    shape, dtype = (200,), np.dtype(float)

    def __array__(self, *_given: Any, **_options: Any) -> Any:
        raise RuntimeError("no array")


# What is sent in place of an update, from the honest ones.
SENT: dict[str, Callable[[np.ndarray, np.random.Generator], Any]] = {
    "as in the README": lambda honest, rng: -10 * honest.mean(axis=0),
    "just as long": lambda honest, rng: -honest.mean(axis=0),
    "far": lambda honest, rng: rng.normal(size=200) + 9e9,
    "the largest numbers": lambda honest, rng: 1.7e308 * rng.choice([-1, 1], 200),
    "the least numbers": lambda honest, rng: np.full(200, 5e-324),
    "NaN": lambda honest, rng: np.where(rng.random(200) < 0.05, np.nan, honest[0]),
    "infinities": lambda honest, rng: np.where(rng.random(200) < 0.05, np.inf, honest[0]),
    "a copy": lambda honest, rng: honest[3],
    "zeros": lambda honest, rng: np.zeros(200),
    "another length": lambda honest, rng: np.zeros(199),
    "a matrix": lambda honest, rng: np.zeros((200, 2)),
    "a number": lambda honest, rng: 1e300,
    "nothing": lambda honest, rng: None,
    "an empty list": lambda honest, rng: [],
    "text": lambda honest, rng: "update.npy",
    "bytes": lambda honest, rng: b"\0" * 1600,
    "a dict": lambda honest, rng: {"w": honest[0]},
    "a list of layers": lambda honest, rng: [honest[0][:100], honest[0][100:]],
    "objects": lambda honest, rng: np.array([10**400] * 200, object),
    "complex": lambda honest, rng: honest[0] + 1j,
    "float16": lambda honest, rng: honest[0].astype(np.float16),
    "float32 at its largest": lambda honest, rng: np.full(200, 3.4e38, np.float32),
    "integers": lambda honest, rng: np.full(200, -(2**63)),
    "flags": lambda honest, rng: np.ones(200, bool),
    "dates": lambda honest, rng: np.full(200, "2026-01-01", "M8[D]"),
    "a masked array": lambda honest, rng: np.ma.masked_array(honest[0], mask=rng.random(200) < 0.5),
    "a tensor": lambda honest, rng: torch.full((200,), 1e38),
    "a bfloat16 tensor": lambda honest, rng: torch.full((200,), -5.0, dtype=torch.bfloat16),
    "a sparse tensor": lambda honest, rng: torch.eye(200)[0].to_sparse(),
    "what raises": lambda honest, rng: _Raises(),
    "a function": lambda honest, rng: print,
}


def command(kind: str, rules: list[str], folder: Path, rng: np.random.Generator, tally: Tally) -> str | None:
    """Two hostile files of one kind, for the README's rule and, in every fourth turn, for another one."""
    tally.count(kind=kind)
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
    for rule in rules:
        tally.count(rule=rule)
        problem = _called(paths, folder / "result.npy", rule, honest)
        if problem is not None:
            return f"{kind}, {rule}: {problem}"
    return None


def _called(paths: list[Path], out: Path, rule: str, honest: np.ndarray) -> str | None:
    """One call: exit code 0, and a result near the honest files."""
    printed = io.StringIO()
    arguments = ["aggregate", *map(str, paths), "-o", str(out), "--rule", rule, "--f", "2"]
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        warnings.simplefilter("ignore")
        code = main(arguments)
    if code:
        return f"exit {code}: {printed.getvalue()[-300:]}"
    if not all(letter.isprintable() or letter == "\n" for letter in printed.getvalue()):
        return "control characters in what was printed"
    result = np.load(out)
    if result.shape != (D,) or result.dtype != np.float64 or not np.isfinite(result).all():
        return f"{result.shape} {result.dtype}, or not finite"
    mean = honest.mean(axis=0)
    reach, far = np.linalg.norm(honest - mean, axis=1).max(), np.linalg.norm(result - mean)
    return None if far <= 1.5 * reach else f"{far:.3g} away where the farthest honest file is {reach:.3g}"


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
