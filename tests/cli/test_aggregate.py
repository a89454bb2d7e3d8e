"""``mixtailor aggregate``: answers equal the library's, files are whole, errors are sentences."""

import json
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import mixtailor as mt
from mixtailor.cli import _writing, main
from mixtailor.mixing import mixtailor as mixtailor_module


@pytest.fixture
def arrays(tmp_path):
    rows = np.random.default_rng(0).normal(size=(7, 6, 50)).astype(np.float32)
    paths = [tmp_path / f"w{index}.npy" for index in range(7)]
    for path, row in zip(paths, rows, strict=True):
        np.save(path, row)
    return rows, [str(path) for path in paths], tmp_path


def _models(folder, shift=0.0):
    torch.manual_seed(0)
    base = {"lin.weight": torch.randn(30, 20).to(torch.bfloat16), "lin.bias": torch.randn(30), "steps": torch.tensor(4)}
    save_file(base, folder / "base.safetensors")
    paths = []
    for index in range(7):
        model = {
            "lin.weight": (base["lin.weight"].float() + 0.1 * torch.randn(30, 20)).to(torch.bfloat16),
            "lin.bias": base["lin.bias"] + shift + 0.1 * torch.randn(30),
            "steps": torch.tensor(index),
        }
        paths.append(str(folder / f"m{index}.safetensors"))
        save_file(model, paths[-1])
    return base, paths


@pytest.mark.parametrize(
    ("text", "rule"), [("krum", mt.Krum(2)), ("nnm >> trimmed_mean", mt.NNM(2) >> mt.TrimmedMean(2))]
)
def test_the_answer_is_the_library_s(arrays, text, rule, capsys):
    rows, paths, folder = arrays
    assert main(["aggregate", *paths, "-o", str(folder / "out.npy"), "--rule", text, "--f", "2"]) == 0
    np.testing.assert_allclose(np.load(folder / "out.npy"), rule(rows), rtol=1e-6)
    assert "written to" in capsys.readouterr().out


def test_parameters_and_json(arrays, capsys):
    rows, paths, folder = arrays
    out = folder / "out.npy"
    assert main(["aggregate", *paths, "-o", str(out), "--rule", "krum", "--f", "2", "--set", "p=1", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    expected = mt.Krum(2, p=1).aggregate(rows)
    assert found["rule"] == "Krum(f=2, p=1)" and tuple(found["selected"]) == expected.selected
    assert found["out"] == str(out) and found["passes"] >= 1
    np.testing.assert_array_equal(np.load(out), expected.update)


def test_a_broken_file_is_quarantined_by_name(arrays, capsys):
    rows, paths, folder = arrays
    with open(paths[3], "r+b") as file:
        file.truncate(200)
    assert main(["aggregate", *paths, "-o", str(folder / "out.npy"), "--rule", "comed"]) == 0
    assert "row 3 (w3.npy)" in capsys.readouterr().out
    np.testing.assert_allclose(np.load(folder / "out.npy"), mt.Comed()(np.delete(rows, 3, axis=0)))


def test_safetensors_keep_names_shapes_and_types(tmp_path):
    base, paths = _models(tmp_path)
    out = tmp_path / "out.safetensors"
    assert main(["aggregate", *paths, "-o", str(out), "--rule", "comed"]) == 0
    found = load_file(out)
    models = [load_file(path) for path in paths]
    for name in base:
        assert found[name].dtype == base[name].dtype and found[name].shape == base[name].shape
        stacked = torch.stack([model[name] for model in models])
        torch.testing.assert_close(found[name], stacked.median(dim=0).values)


def test_npz(tmp_path):
    for index in range(3):
        np.savez(tmp_path / f"{index}.npz", a=np.full((2, 3), float(index)), b=np.float32([index]))
    out = tmp_path / "out.npz"
    assert main(["aggregate", *(str(tmp_path / f"{i}.npz") for i in range(3)), "-o", str(out), "--rule", "comed"]) == 0
    with np.load(out) as found:
        assert found["a"].tolist() == [[1.0] * 3] * 2 and found["b"].dtype == np.float32
    assert zipfile.ZipFile(out).testzip() is None


@pytest.mark.parametrize("text", ["cge", "trimmed_mean", "krum"])
def test_differences_to_a_base(tmp_path, text):
    """With a base, the rule sees differences: its answer plus the base, counters as without."""
    base, paths = _models(tmp_path)
    out = tmp_path / "out.safetensors"
    arguments = ["aggregate", *paths, "-o", str(out), "--rule", text, "--f", "1"]
    assert main([*arguments, "--base", str(tmp_path / "base.safetensors")]) == 0
    found, models = load_file(out), [load_file(path) for path in paths]
    names = ("lin.weight", "lin.bias")
    rows = [{name: model[name].float() - base[name].float() for name in names} for model in models]
    answer = mt.make_rule(text, f=1)(rows)
    for name in names:
        expected = (answer[name] + base[name].float()).to(base[name].dtype)
        torch.testing.assert_close(found[name], expected)
    assert found["steps"].item() == 3


def test_a_base_matters_to_rules_of_lengths(tmp_path):
    """Far from zero, lengths of models say nothing and lengths of differences do."""
    _, paths = _models(tmp_path)
    model = load_file(paths[2])
    model["lin.bias"] = model["lin.bias"] * 0.1  # short as a model, long as a difference
    save_file(model, paths[2])
    chosen = []
    for extra in ([], ["--base", str(tmp_path / "base.safetensors")]):
        out = tmp_path / f"out{len(chosen)}.safetensors"
        assert main(["aggregate", *paths, "-o", str(out), "--rule", "cge", "--f", "1", *extra]) == 0
        chosen.append(load_file(out)["lin.bias"])
    assert not torch.allclose(chosen[0], chosen[1], atol=1e-3)


def test_a_base_of_another_shape_is_refused(tmp_path, capsys):
    _, paths = _models(tmp_path)
    save_file({"lin.weight": torch.zeros(3, 3), "lin.bias": torch.zeros(30)}, tmp_path / "other.safetensors")
    arguments = ["aggregate", *paths, "-o", str(tmp_path / "o.safetensors"), "--rule", "comed", "--base"]
    assert main([*arguments, str(tmp_path / "other.safetensors")]) == 1
    assert "The base needs the array 'lin.weight' in shape (30, 20)" in capsys.readouterr().err
    assert main([*arguments, str(tmp_path / "nowhere.safetensors")]) == 1
    assert "The base needs to be a file that can be read" in capsys.readouterr().err
    assert not (tmp_path / "o.safetensors").exists()


def test_a_reference(arrays, capsys):
    rows, paths, folder = arrays
    np.save(folder / "trusted.npy", rows[0])
    arguments = ["aggregate", *paths, "-o", str(folder / "out.npy"), "--rule", "fltrust"]
    assert main(arguments) == 1
    assert capsys.readouterr().err.startswith("FLTrust needs the server's own update")
    assert main([*arguments, "--reference", str(folder / "trusted.npy")]) == 0
    np.testing.assert_allclose(np.load(folder / "out.npy"), mt.FLTrust()(rows, reference=rows[0]), rtol=1e-5)


@pytest.mark.parametrize(
    ("extra", "code", "sentence"),
    [
        (["--rule", "krmu", "--f", "2"], 1, "There is no rule 'krmu'. Did you mean 'krum'?"),
        (["--rule", "krum", "--f", "3"], 1, "Krum(f=3) needs at least 9 rows (n >= 2f + 3) and got 7."),
        (["--rule", "krum", "--f", "-1"], 1, "Krum needs f >= 0"),
        (["--rule", "krum"], 2, "Give --f."),
        (["--f", "2", "--set", "p"], 2, "--set needs NAME=VALUE"),
        (["--rule", "comed", "-o", "out.txt"], 1, "The result needs a name that ends in .npy, .npz, .safetensors"),
        (["--rule", "comed", "-o", "nowhere/out.npy"], 1, "The result needs a folder that exists"),
        (["--rule", "comed", "-o", "out.npz"], 1, "write it to .npy, not to .npz"),
    ],
)
def test_mistakes_get_a_sentence_and_write_nothing(arrays, extra, code, sentence, capsys, monkeypatch):
    _, paths, folder = arrays
    monkeypatch.chdir(folder)
    before = sorted(os.listdir(folder))
    assert main(["aggregate", *paths, "-o", "out.npy", *extra]) == code
    shown = capsys.readouterr()
    assert sentence in shown.err and len(shown.err.splitlines()) == 1 and shown.out == ""
    assert sorted(os.listdir(folder)) == before


def test_an_input_is_never_replaced(arrays, capsys):
    rows, paths, _ = arrays
    assert main(["aggregate", *paths, "-o", paths[1], "--rule", "comed"]) == 1
    assert "one of the files it is made of" in capsys.readouterr().err
    np.testing.assert_array_equal(np.load(paths[1]), rows[1])


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failed_writing_leaves_the_old_file(tmp_path, monkeypatch, failure):
    out = tmp_path / "out.npy"
    np.save(out, np.arange(3.0))

    def fail(_descriptor):
        raise failure

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(failure)):
        _writing.write(out, np.zeros(5))
    assert np.load(out).tolist() == [0.0, 1.0, 2.0] and os.listdir(tmp_path) == ["out.npy"]


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize(
    ("rule", "what"), [("paper_pool", "2 of 64 rules of this pool have"), ("mean", "This rule has")]
)
def test_a_warning_is_a_note(arrays, capsys, monkeypatch, rule, what):
    """A rule without a bound, alone or in a pool, is told of on stderr, in one line, and stdout stays JSON."""
    monkeypatch.setattr(mixtailor_module, "_told", set())
    _, paths, folder = arrays
    f = ["--f", "1"] if rule == "paper_pool" else []
    assert main(["aggregate", *paths, "-o", str(folder / "out.npy"), "--rule", rule, *f, "--json"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith(f"Note: {what} no bound") and len(shown.err.splitlines()) == 1
    assert json.loads(shown.out)["n"] == 7


def test_a_bare_mixtailor_is_the_pool_whose_rules_all_have_a_guarantee(arrays, capsys):
    """The default of the command as well; twin outliers at 9e9 move no result."""
    folder = arrays[2]
    out = folder / "out.npy"
    paths = [str(folder / f"w{place}.npy") for place in range(12)]  # enough for every rule of the paper's pool
    for place, path in enumerate(paths):
        np.save(path, np.random.default_rng(place).normal(size=40) + (9e9 if place > 9 else 0.0))
    for _ in range(20):
        assert main(["aggregate", *paths, "-o", str(out), "--f", "2", "--json"]) == 0
        assert np.abs(np.load(out)).max() < 5
        assert json.loads(capsys.readouterr().out)["rule"] in map(repr, mt.default_pool(2))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--f", "6"], r"needs at least 13 rows (n >= 2f + 1, for CAF(f=6)) and got 7."),
        (
            ["--rule", "comed", "--f", "100"],
            "Comed() tolerates 3 Byzantine updates of 7, and f = 100. For that it needs at",
        ),
        (["--rule", "comed", "--f", "4"], "it needs at least 9 rows (n >= 2f + 1). Lower f, or wait for more workers."),
        (
            ["--rule", "mean", "--f", "1"],
            "Mean() tolerates no Byzantine update of 7, and f = 1. More updates do not change",
        ),
        (["--rule", "krum(f=1)", "--f", "2"], "Krum(f=1) tolerates 1 Byzantine update of 7, and f = 2."),
        (["--rule", "krum", "--f", "3"], "Krum(f=3) needs at least 9 rows (n >= 2f + 3) and got 7."),
    ],
)
def test_an_impossible_f_is_refused(arrays, capsys, options, sentence):
    """Also by rules that take no f; nothing is written."""
    _, paths, folder = arrays
    assert main(["aggregate", *paths, "-o", str(folder / "out.npy"), *options]) == 1
    assert sentence in capsys.readouterr().err and not (folder / "out.npy").exists()
    assert main(["aggregate", *paths, "-o", str(folder / "out.npy"), "--rule", "comed", "--f", "3"]) == 0


def _checkpoints(folder, wrap=lambda model: model):
    base, paths = _models(folder)
    torch.save(wrap(base), folder / "base.pt")
    for index, path in enumerate(paths):
        torch.save(wrap(load_file(path)), folder / f"m{index}.pt")
    return [path.replace(".safetensors", ".pt") for path in paths], paths


@pytest.mark.parametrize("extra", [[], ["--base"]])
@pytest.mark.parametrize("suffix", [".pt", ".bin", ".safetensors"])
def test_checkpoints_answer_as_safetensors_do(tmp_path, extra, suffix):
    """With a base and without, to either format, and types come back as they were."""
    paths, others = _checkpoints(tmp_path, lambda model: {"state_dict": model, "epoch": 3})
    found = []
    for files, end in ((paths, suffix), (others, ".safetensors")):
        out = tmp_path / f"out{len(found)}{end}"
        base = [str(tmp_path / f"base{'.pt' if files is paths else end}")] if extra else []
        assert main(["aggregate", *files, "-o", str(out), "--rule", "krum", "--f", "1", *extra, *base]) == 0
        found.append(load_file(out) if end == ".safetensors" else torch.load(out, weights_only=True))
    assert set(found[0]) == set(found[1])
    for name, tensor in found[1].items():
        assert found[0][name].dtype == tensor.dtype and torch.equal(found[0][name], tensor)


def test_saved_tensors_are_arrays_without_a_name(tmp_path, capsys):
    """A reference may be one, too; what a format cannot hold is refused before anything is computed."""
    rows = torch.randn(5, 30, generator=torch.Generator().manual_seed(0)).bfloat16()
    paths = [str(tmp_path / f"{index}.pt") for index in range(5)]
    for path, row in zip(paths, rows, strict=True):
        torch.save(row, path)
    assert main(["aggregate", *paths, "-o", str(tmp_path / "out.pth"), "--rule", "krum", "--f", "1"]) == 0
    answer = torch.load(tmp_path / "out.pth", weights_only=True)
    assert answer.dtype == torch.bfloat16 and (rows == answer).all(dim=1).any()
    reference = ["--rule", "fltrust", "--reference", paths[0]]
    assert main(["aggregate", *paths, "-o", str(tmp_path / "out.npy"), *reference]) == 0
    assert np.load(tmp_path / "out.npy").shape == (30,)
    capsys.readouterr()
    assert main(["aggregate", *paths, "-o", str(tmp_path / "out.npz"), "--rule", "comed"]) == 1
    assert "one array without a name: write it to .npy, not to .npz" in capsys.readouterr().err


def test_a_hostile_checkpoint_is_named_and_never_executed(tmp_path, capsys):
    class Bomb:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "trace"),)

    paths, _ = _checkpoints(tmp_path)
    torch.save({"lin.weight": Bomb()}, paths[2])
    out = str(tmp_path / "out.pt")
    assert main(["aggregate", *paths, "-o", out, "--rule", "comed"]) == 0
    assert "row 2 (m2.pt)" in (shown := capsys.readouterr().out) and "which are never loaded" in shown
    assert main(["aggregate", *paths, "-o", out, "--rule", "comed", "--base", paths[2]]) == 1
    err = capsys.readouterr().err
    assert "The base needs to be a file that can be read" in err and len(err.splitlines()) == 1
    assert not (tmp_path / "trace").exists()


def test_a_full_disk_is_called_so(tmp_path):
    """torch speaks of unexpected positions."""

    class Full:
        def write(self, data):
            raise OSError(28, "No space left on device")

        def flush(self):
            pass

    with pytest.raises(OSError, match="No space left on device"):
        _writing._checkpoint(Full(), {"w": np.zeros(5)}, ())


def test_a_folder_stands_for_its_files(tmp_path, capsys):
    """By name, without hidden and other files."""
    folder, out = tmp_path / "updates", tmp_path / "out.npy"
    folder.mkdir()
    rows = np.random.default_rng(0).normal(size=(5, 7))
    for place, row in enumerate(rows):
        np.save(folder / f"worker{place}.npy", row)
    (folder / "notes.txt").write_text("no update")
    (folder / ".hidden.npy").write_bytes(b"")
    for _ in range(2):
        assert main(["aggregate", str(folder), "-o", str(out), "--rule", "comed", "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [Path(path).name for path in found["files"]] == [f"worker{place}.npy" for place in range(5)]
        np.testing.assert_allclose(np.load(out), np.median(rows, axis=0))
    (tmp_path / "empty").mkdir()
    assert main(["aggregate", str(tmp_path / "empty"), "-o", str(out), "--rule", "comed"]) == 1
    assert "has no file that ends in .npy" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["-o", "--base", "--reference", "--memory"])
def test_a_folder_of_updates_holds_no_other_file_of_the_call(tmp_path, capsys, option):
    """Else a result would replace an update, and a base or a memory would count as one in the next round."""
    folder = tmp_path / "updates"
    folder.mkdir()
    for place in range(3):
        np.save(folder / f"worker{place}.npy", np.full(4, float(place)))
    rest = [] if option == "-o" else ["-o", str(tmp_path / "out.npy")]
    for path in (folder / "worker0.npy", folder / "new.npz"):
        assert main(["aggregate", str(folder), option, str(path), *rest, "--rule", "comed"]) == 1
        assert f"is for updates, and '{path.name}' is in it" in capsys.readouterr().err
    (tmp_path / "link.npy").symlink_to(folder / "worker0.npy")
    assert main(["aggregate", str(folder), option, str(tmp_path / "link.npy"), *rest, "--rule", "comed"]) == 1
    assert np.load(folder / "worker0.npy").tolist() == [0.0] * 4 and not (tmp_path / "out.npy").exists()


def test_the_result_does_not_share_a_file_with_the_memory(tmp_path, capsys):
    paths, out = [str(tmp_path / f"w{place}.npy") for place in range(3)], str(tmp_path / "out.npy")
    for path in paths:
        np.save(path, np.ones(4))
    assert main(["aggregate", *paths, "-o", out, "--rule", "recommended", "--f", "1", "--memory", out]) == 1
    assert "--memory needs a file of its own" in capsys.readouterr().err and not Path(out).exists()


def test_a_negative_f_is_refused_also_for_rules_that_take_none(tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.ones(4))
    command = ["aggregate", str(tmp_path / "a.npy"), "-o", str(tmp_path / "o.npy"), "--rule", "comed", "--f", "-1"]
    assert main(command) == 1
    assert "Comed needs f >= 0" in capsys.readouterr().err


def test_a_rule_of_ones_own_by_its_file(tmp_path, capsys):
    (tmp_path / "mine.py").write_text("def last(rows):\n    return rows[-1]\n")
    np.save(tmp_path / "a.npy", np.zeros(3))
    code = main(
        ["aggregate", str(tmp_path / "a.npy"), "-o", str(tmp_path / "o.npy"), "--rule", f"{tmp_path}/mine.py:last"]
    )
    assert code == 1 and "Plain(last) needs all updates as one matrix in memory" in capsys.readouterr().err


def test_a_memory_is_kept_in_a_file(tmp_path, capsys):
    """Forty rounds from files: one worker pushes as far as the others vary, and loses its weight."""
    random, state = np.random.default_rng(0), tmp_path / "server.memory"
    files = [tmp_path / f"w{i}.npy" for i in range(6)]
    options = ["-o", str(tmp_path / "out.npy"), "--rule", "memory(view_filter)", "--f", "1", "--memory", str(state)]
    for _ in range(40):
        for i, file in enumerate(files):
            np.save(file, np.full(50, 1.0) if i == 5 else random.normal(size=50))
        assert main(["aggregate", *map(str, files), *options, "--json"]) == 0
        told = json.loads(capsys.readouterr().out)
    assert told["weights"][5] < 0.01
    memory = mt.Memory(mt.ViewFilter(1))
    memory.load(state)
    assert set(memory) == {file.name for file in files} and memory.rounds("w5.npy") == 40
    state.write_bytes(b"damaged")
    assert main(["aggregate", *map(str, files), *options]) == 1
    assert "is not the state of a memory" in capsys.readouterr().err
    krum = ["-o", str(tmp_path / "out.npy"), "--rule", "krum", "--f", "1", "--memory", str(state)]
    assert main(["aggregate", *map(str, files), *krum]) == 1
    assert "needs a rule that remembers" in capsys.readouterr().err


def test_no_file_counts_twice(arrays, capsys):
    """Patterns that overlap would make one Byzantine file two; two links to one file are two workers' matter."""
    _, paths, folder = arrays
    out = str(folder / "out.npy")
    again = str(folder / ".." / folder.name / Path(paths[1]).name)
    assert main(["aggregate", *paths, again, "-o", out, "--rule", "comed"]) == 1
    assert "is given twice. Give one file for each worker." in capsys.readouterr().err and not Path(out).exists()
    os.symlink(paths[1], folder / "link.npy")
    assert main(["aggregate", *paths, str(folder / "link.npy"), "-o", out, "--rule", "comed"]) == 0


def test_no_result_without_its_memory(tmp_path, capsys):
    """Where the state cannot be written, the exit code is 1 and there is no result: neither is half of a round."""
    files = [tmp_path / f"w{i}.npy" for i in range(6)]
    for i, file in enumerate(files):
        np.save(file, np.random.default_rng(i).normal(size=50))
    (tmp_path / "file").write_text("no folder")
    out = tmp_path / "out.npy"
    for state in (tmp_path / "file" / "state", tmp_path / ("s" * 250)):
        options = ["-o", str(out), "--rule", "memory(view_filter)", "--f", "1", "--memory", str(state)]
        assert main(["aggregate", *map(str, files), *options]) == 1
        assert capsys.readouterr().err and not out.exists() and not list(tmp_path.glob(".*"))


def test_two_calls_at_once_do_not_forget_a_round(tmp_path, capsys, monkeypatch):
    """Both read the memory, and the one that wrote it last made it forget the other's round."""
    state = tmp_path / "state"
    for i in range(6):
        np.save(tmp_path / f"w{i}.npy", np.random.default_rng(i).normal(size=50))
    files = [str(tmp_path / f"w{i}.npy") for i in range(6)]

    def call(out: str) -> int:
        options = ["--rule", "memory(view_filter)", "--f", "1", "--memory", str(state)]
        return main(["aggregate", *files, "-o", str(tmp_path / out), *options])

    inner = mt.Memory.aggregate

    def while_another_runs(self, updates, **request):
        monkeypatch.setattr(mt.Memory, "aggregate", inner)
        assert call("other.npy") == 0
        return inner(self, updates, **request)

    for rounds in (1, 2):  # where there was no memory yet, and where there was one
        monkeypatch.setattr(mt.Memory, "aggregate", while_another_runs)
        assert call("out.npy") == 1
        assert "was written by another call since this one read it" in capsys.readouterr().err
        memory = mt.Memory(mt.ViewFilter(1))
        memory.load(state)
        assert memory.rounds("w0.npy") == rounds and not (tmp_path / "out.npy").exists()
    assert call("out.npy") == 0


@pytest.mark.parametrize("kind", ["json", "csv", "headed.csv"])
def test_weights_by_file_name(arrays, kind):
    """Weights come from a JSON object or a CSV, by name, in any order."""
    rows, paths, folder = arrays
    weights = [190, 17834, 400, 2000, 900, 700, 1200]
    table = {os.path.basename(path): weight for path, weight in zip(paths, weights, strict=True)}
    file = folder / f"weights.{kind}"
    lines = [f"{name},{weight}" for name, weight in reversed(table.items())]
    text = json.dumps(table) if kind == "json" else "\n".join(["file,examples", *lines] if "headed" in kind else lines)
    file.write_text(text)
    out = folder / "out.npy"
    arguments = ["aggregate", *paths, "-o", str(out), "--rule", "trimmed_mean", "--f", "1", "--weights", str(file)]
    assert main([*arguments, "--cap", "0.25"]) == 0
    np.testing.assert_array_equal(np.load(out), mt.TrimmedMean(1)(rows, weights=weights, cap=0.25))
    assert main([*arguments, "--share", "0.3"]) == 0
    np.testing.assert_array_equal(np.load(out), mt.TrimmedMean(1)(rows, weights=weights, share=0.3))
    assert main(arguments) == 1  # the heaviest file has 77 % of the weight


def test_f_is_the_weight_of_the_heaviest_for_rules_that_take_no_f(arrays, capsys):
    """One file with nearly all weight is the median, whatever it holds: f = 1 of seven is not tolerated then."""
    rows, paths, folder = arrays
    names = [os.path.basename(path) for path in paths]
    file, out = folder / "weights.json", folder / "out.npy"
    file.write_text(json.dumps({**dict.fromkeys(names, 1), names[3]: 1e9}))
    arguments = ["aggregate", *paths, "-o", str(out), "--rule", "comed", "--f", "1", "--weights", str(file)]
    assert main(arguments) == 1
    assert "Comed() needs share < 1/2 of the weight and got a share of 1. Lower cap=" in capsys.readouterr().err
    assert main([*arguments, "--cap", "0.3"]) == 0
    weights = [1e9 if name == names[3] else 1 for name in names]
    np.testing.assert_array_equal(np.load(out), mt.Comed()(rows, weights=weights, cap=0.3))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"w0.npy": 1}', "has no weight for w1.npy, w2.npy"),
        (json.dumps({f"w{k}.npy": 1 for k in range(8)}), "has weights for w7.npy, which are not among the files"),
        ('{"w0.npy": 1, "w0.npy": 2}', "two weights for one name"),
        ('{"w0.npy": true}', "needs a JSON object of numbers"),
        ("[1, 2, 3]", "needs a JSON object of numbers"),
        ('{"w0.npy": 1' + 400 * "0" + "}", "needs a JSON object of numbers"),
        ("{", "needs a JSON object of numbers"),
        ("[" * 100_000, "needs a JSON object of numbers"),
    ],
)
def test_weights_that_are_wrong(arrays, text, said, capsys):
    """A file of weights that does not fit the files is refused before anything is read or written."""
    _, paths, folder = arrays
    file = folder / "weights.json"
    file.write_text(text)
    out = folder / "out.npy"
    assert main(["aggregate", *paths, "-o", str(out), "--rule", "comed", "--weights", str(file)]) == 1
    assert said in capsys.readouterr().err and not out.exists()
    assert main(["aggregate", *paths, "-o", str(file), "--rule", "comed", "--weights", str(file)]) != 0
    assert file.read_text() == text
