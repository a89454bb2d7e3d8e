"""Names, types and places that a worker chooses: what is printed, what is replaced, and which exit code it is."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import mixtailor as mt
from mixtailor._checks import shown
from mixtailor.cli import main
from mixtailor.cli._output import complain, say, show_json
from mixtailor.mixing.audit import AuditTrail

EVIL = "w\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7f.npy"
BYTES = b"w\xff\xfe\x80.npy"


def written(folder: Path, *names: str) -> list[str]:
    rows = np.random.default_rng(0).normal(size=(5 + len(names), 40)).astype(np.float32)
    paths = [os.path.join(folder, name) for name in (*(f"h{k}.npy" for k in range(5)), *names)]
    for path, row in zip(paths, rows, strict=True):
        with open(path, "wb") as file:
            np.save(file, row)
    return paths


def harmless(text: str) -> bool:
    return all(letter.isprintable() or letter == "\n" for letter in text)


@pytest.mark.parametrize("extra", [[], ["--json"]])
@pytest.mark.parametrize("broken", [False, True])
def test_names_never_steer_a_terminal(extra: list[str], broken: bool, tmp_path: Path, capsys) -> None:
    """Selected or quarantined, in a table, in JSON, in an error: control characters are shown and not sent."""
    paths = written(tmp_path, EVIL, os.fsdecode(BYTES))
    if broken:
        Path(paths[-2]).write_bytes(b"x")
    out = tmp_path / f"o{EVIL}"
    for rule in ("krum", "comed"):
        assert main(["aggregate", *paths, "-o", str(out), "--rule", rule, "--f", "1", *extra]) == 0
        told = capsys.readouterr()
        assert harmless(told.out) and harmless(told.err) and out.exists()
        if extra:
            assert json.loads(told.out)["files"] == paths
    assert main(["aggregate", *paths, "-o", str(tmp_path / EVIL / "x.npy"), "--rule", "comed"]) == 1
    assert harmless(capsys.readouterr().err)


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_a_name_that_cannot_be_printed_is_no_failure(encoding: str, extra: list[str], tmp_path: Path) -> None:
    """In a real process, whatever stdout can write: the result is there, and the exit code says so."""
    paths = written(tmp_path, os.fsdecode(BYTES), "grün-\U0001f600.npy")
    out = tmp_path / "out.npy"
    arguments = [sys.executable, "-m", "mixtailor", "aggregate", *paths, "-o", str(out), "--rule", "krum", "--f", "1"]
    done = subprocess.run(
        [*arguments, *extra], capture_output=True, check=False, env={**os.environ, "PYTHONIOENCODING": encoding}
    )
    assert done.returncode == 0 and out.exists(), done.stderr
    if extra:
        assert [os.fsencode(name) for name in json.loads(done.stdout.decode(encoding))["files"]] == [
            os.fsencode(path) for path in paths
        ]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a disk that is always full is Linux's")
@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_exit_0_means_written(extra: list[str], tmp_path: Path) -> None:
    """What cannot be told does not undo the result: stdout on a full disk, or read by nobody."""
    paths = written(tmp_path)
    out = tmp_path / "out.npy"
    arguments = [sys.executable, "-m", "mixtailor", "aggregate", *paths, "-o", str(out), "--rule", "comed", *extra]
    reading, writing = os.pipe()
    os.close(reading)
    for stdout in (os.open("/dev/full", os.O_WRONLY), writing):
        done = subprocess.run(arguments, stdout=stdout, stderr=subprocess.PIPE, check=False)
        os.close(stdout)
        assert done.returncode == 0 and out.exists(), done.stderr
        assert b"is written, but what happened could not be printed" in done.stderr
        out.unlink()


@pytest.mark.parametrize("option", ["--reference", "--base", None])
@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_no_input_is_replaced(option: str | None, link, tmp_path: Path, capsys) -> None:
    """Neither an update nor the reference nor the base, by whatever name it is reached."""
    paths = written(tmp_path)
    own = paths[0]
    content = Path(own).read_bytes()
    if link is not None:
        link(own, tmp_path / "other.npy")
    out = own if link is None else str(tmp_path / "other.npy")
    files = paths if option is None else paths[1:]
    given = [] if option is None else [option, own]
    rule = ["--rule", "fltrust"] if option == "--reference" else ["--rule", "comed"]
    assert main(["aggregate", *files, "-o", out, *rule, *given]) == 1
    assert "which is one of the files it is made of" in capsys.readouterr().err
    assert Path(own).read_bytes() == content


def test_an_audited_round_takes_any_name(tmp_path: Path) -> None:
    """File names are bytes: those that are no text are shown by their escapes."""
    paths = written(tmp_path, EVIL, os.fsdecode(BYTES))
    pool = [mt.Comed(), mt.Krum(2)]
    with AuditTrail.start(tmp_path / "run.audit", pool) as audit:
        result = mt.MixTailor(pool, audit=audit).aggregate(paths, workers=[os.path.basename(path) for path in paths])
        assert audit.proof(shown(EVIL)).worker == shown(EVIL)
    assert np.isfinite(result.update).all() and harmless(str(result))


def test_faults_are_told_without_control_characters(tmp_path: Path) -> None:
    """Also by the library itself: its sentences are printed by whoever catches them."""
    paths = written(tmp_path, EVIL)
    Path(paths[-1]).write_bytes(b"x")
    names = [os.path.basename(path) for path in paths]
    assert harmless(str(mt.Comed().aggregate(paths, workers=names)))
    with pytest.raises(mt.FaultError) as caught:
        mt.Mean()(paths, workers=names)
    assert harmless(str(caught.value)) and shown(EVIL) in str(caught.value)


def test_what_the_commands_print_with(monkeypatch, capsys) -> None:
    say(EVIL + "\nsecond line")
    complain(EVIL)
    show_json({"a": EVIL, "b": "grün \U0001f600 \U000e0001"})
    told = capsys.readouterr()
    assert harmless(told.out) and harmless(told.err) and "second line" in told.out
    out = io.TextIOWrapper(io.BytesIO(), "ascii")
    monkeypatch.setattr(sys, "stdout", out)
    show_json({"b": "grün \U0001f600 \U000e0001"})
    out.flush()
    assert json.loads(out.buffer.getvalue())["b"] == "grün \U0001f600 \U000e0001"


def test_one_file_does_not_decide_the_type(tmp_path: Path) -> None:
    """One bfloat16 file that sorts first rounds nobody's result; a base has the say where there is one."""
    torch = pytest.importorskip("torch")
    from safetensors.torch import load_file, save_file

    rows = torch.randn(5, 30, generator=torch.Generator().manual_seed(0))
    paths = [str(tmp_path / f"{k}.safetensors") for k in range(5)]
    for k, path in enumerate(paths):
        save_file({"w": rows[k].bfloat16() if k == 0 else rows[k]}, path)
    out = str(tmp_path / "out.safetensors")
    assert main(["aggregate", *paths, "-o", out, "--rule", "comed"]) == 0
    found = load_file(out)["w"]
    assert found.dtype == torch.float32 and not torch.equal(found, found.bfloat16().float())
    for kind in (torch.bfloat16, torch.float32, torch.float64):
        save_file({"w": torch.zeros(30, dtype=kind)}, tmp_path / "base.safetensors")
        arguments = ["aggregate", *paths, "-o", out, "--rule", "comed", "--base", str(tmp_path / "base.safetensors")]
        assert main(arguments) == 0
        assert load_file(out)["w"].dtype == kind


def test_of_two_types_the_wider(tmp_path: Path) -> None:
    """Where equally many files have each, the order of the files decides nothing."""
    for first, second in ((np.float32, np.float64), (np.float64, np.float32), (np.float16, np.float32)):
        for k in range(4):
            np.save(tmp_path / f"{k}.npy", np.ones(3, first if k < 2 else second))
        assert mt.Comed()([tmp_path / f"{k}.npy" for k in range(4)]).dtype == max(np.dtype(first), np.dtype(second))


def test_a_folder_in_the_place_of_a_file_is_one_worker(tmp_path: Path, capsys) -> None:
    """A worker that puts a folder of ten files where its update belongs must not outvote five others."""
    paths = written(tmp_path, "w.npy")
    updates = [np.load(path) for path in paths[:5]]
    os.remove(paths[5])
    os.mkdir(paths[5])
    for k in range(10):
        np.save(os.path.join(paths[5], f"{k}.npy"), np.full(40, 9e9, np.float32))
    out = tmp_path / "results" / "out.npy"
    out.parent.mkdir()
    for given in (paths, [str(tmp_path)]):  # by name, or as an entry of the folder of updates
        assert main(["aggregate", *given, "-o", str(out), "--rule", "comed", "--f", "1", "--json"]) == 0
        printed = json.loads(capsys.readouterr().out)
        assert printed["n"] == 6 and [one["row"] for one in printed["quarantined"]] == [5]
        np.testing.assert_array_equal(np.load(out), mt.Comed()(updates))
