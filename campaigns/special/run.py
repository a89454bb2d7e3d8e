"""Every file that is read, with something else in its place: a sentence or a quarantine, at once."""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mixtailor as mt
from campaigns import _cases
from campaigns._ledger import Tally
from mixtailor.experiments import Experiment
from mixtailor.experiments.results import Results
from mixtailor.intake.files import receive_files
from mixtailor.simulation import checkpoint, read_states
from mixtailor.simulation.idx import read_idx
from mixtailor.simulation.own import read_data
from mixtailor.simulation.records import Records

PATIENCE = 20  # seconds


def case(folder: Path, index: int, rng: np.random.Generator, tally: Tally) -> str | None:
    """One place, one thing in it."""
    place, kind = list(PLACES)[index % len(PLACES)], list(KINDS)[index // len(PLACES) % len(KINDS)]
    tally.count(place=place, kind=kind)
    before = len(os.listdir("/dev/fd"))
    signal.signal(signal.SIGALRM, _hangs)
    signal.alarm(PATIENCE)
    try:
        told = PLACES[place](folder, KINDS[kind], rng)
    except ValueError as refusal:
        told = str(refusal)
        if not told.endswith("."):
            return f"{place}, {kind}: no sentence: {refusal!r}"
    finally:
        signal.alarm(0)
    gc.collect()
    if "root:" in told:
        return f"{place}, {kind}: a file of ours is in {told[:80]!r}"
    if len(os.listdir("/dev/fd")) > before:
        return f"{place}, {kind}: a file was left open"
    return None


def _hangs(*_: Any) -> None:
    raise TimeoutError("it hangs")


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 42)


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


KINDS: dict[str, Callable[[Path], Any]] = {
    "a pipe": lambda path: os.mkfifo(path),
    "a link to /dev/zero": lambda path: path.symlink_to("/dev/zero"),
    "a link to /dev/full": lambda path: path.symlink_to("/dev/full"),
    "a link to a file outside": lambda path: path.symlink_to("/etc/passwd"),
    "a link to itself": _loop,
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a folder": lambda path: path.mkdir(),
    "a file of holes": _sparse,
    "nothing": lambda path: None,
    "an empty file": lambda path: path.write_bytes(b""),
}
Make = Callable[[Path], Any]


def _update(folder: Path, make: Make, rng: np.random.Generator) -> str:
    suffix = str(rng.choice([".npy", ".npz", ".safetensors", ".pt"]))
    paths = [folder / f"{k}.npy" for k in range(3)]
    for path in paths:
        np.save(path, rng.standard_normal(20))
    make(folder / f"x{suffix}")
    result = mt.TrimmedMean(f=1).aggregate([*paths, folder / f"x{suffix}"])
    if len(result.quarantined) != 1 or not np.isfinite(result.update).all():
        raise AssertionError(str(result))
    return str(result)


def _trusted(folder: Path, make: Make, rng: np.random.Generator) -> str:
    paths = [folder / f"{k}.npy" for k in range(3)]
    for path in paths:
        np.save(path, rng.standard_normal(20))
    make(folder / "x.npy")
    if rng.random() < 0.5:
        mt.Comed()(receive_files(paths, base=folder / "x.npy"))
    else:
        mt.FLTrust()(paths, reference=folder / "x.npy")
    raise AssertionError("it was taken")


def _experiment(name: str) -> Callable[[Path, Make, np.random.Generator], str]:
    def read(folder: Path, make: Make, rng: np.random.Generator) -> str:
        entry = {"panel": "p", "rule": "r", "attack": "a", "setting": "", "hash": "aaaa", "config": {"seed": 0}}
        home, own = folder / "demo", folder / "runs" / "aaaa"
        home.mkdir()
        own.mkdir(parents=True)
        if name != "experiment.json":
            (home / "experiment.json").write_text(json.dumps({"title": "t", "entries": [entry]}))
        make((home if name == "experiment.json" else own) / name)
        return str([one["error"] for one in Results.load(home).missing])

    return read


def _one(name: str, read: Callable[[Path], Any]) -> Callable[[Path, Make, np.random.Generator], str]:
    def placed(folder: Path, make: Make, _rng: np.random.Generator) -> str:
        make(folder / name)
        try:
            return str(read(folder / name))
        except OSError as error:  # the system's own words, which commands print as a sentence
            return str(error)

    return placed


PLACES: dict[str, Callable[[Path, Make, np.random.Generator], str]] = {
    "an update": _update,
    "a base or a reference": _trusted,
    "experiment.json": _experiment("experiment.json"),
    "metrics.jsonl": _experiment("metrics.jsonl"),
    "error.txt": _experiment("error.txt"),
    "TOML": _one("x.toml", lambda path: Experiment.read(path)),
    "idx": _one("x", read_idx),
    "CSV data": _one("x.csv", lambda path: read_data(str(path))),
    "npz data": _one("x.npz", lambda path: read_data(str(path))),
    "a memory": _one("memory.npz", lambda path: mt.recommended(f=1).load(path)),
    "records": _one("x.jsonl", lambda path: len(Records(path))),
    "checkpoint": _one("x.npz", checkpoint.load),
    "states": _one("round-1.npz", lambda path: len(read_states(path.parent))),
}


def campaign(count: int, seed: int, *, state: Path | None = None) -> dict[str, Any]:
    """So many cases."""
    return _cases.campaign("special", case, count, seed, state)


def repeat(seed: str) -> list[str]:
    """What one case breaks."""
    return _cases.repeat(case, seed)
