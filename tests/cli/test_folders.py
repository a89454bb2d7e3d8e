"""``mixtailor aggregate`` on folders of Hugging Face: adapters, whole models, models in several files."""

import errno
import json
import os
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import mixtailor as mt
from mixtailor.cli import main

NAMES = ["ann", "bob", "cyn", "dan", "eve"]
CONFIG = {"peft_type": "LORA", "r": 2, "target_modules": ["q", "v"], "peft_version": "0.21"}


def tensors(place):
    random = np.random.default_rng(place)
    return {name: random.normal(size=(4, 3)).astype(np.float32) for name in ("layer.lora_A", "layer.lora_B")}


@pytest.fixture
def adapters(tmp_path):
    folder = tmp_path / "adapters"
    for place, name in enumerate(NAMES):
        (folder / name).mkdir(parents=True)
        save_file(tensors(place), folder / name / "adapter_model.safetensors")
        (folder / name / "adapter_config.json").write_text(json.dumps(CONFIG))
    return folder


def run(*words):
    return main(["aggregate", *map(str, words)])


def summary(capsys):
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("given", ["folders", "their folder"])
def test_adapters_give_an_adapter(adapters, given, capsys):
    """The rule's result on the tensors, with their names and the configuration; workers are the folders' names."""
    out = adapters.parent / "merged"
    files = [adapters / name for name in NAMES] if given == "folders" else [adapters]
    assert run(*files, "-o", out, "--rule", "krum", "--f", "1", "--json") == 0
    found = load_file(out / "adapter_model.safetensors")
    expected = mt.Krum(1)([tensors(place) for place in range(5)])
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)
    assert json.loads((out / "adapter_config.json").read_text()) == CONFIG
    assert sorted(path.name for path in out.iterdir()) == ["adapter_config.json", "adapter_model.safetensors"]
    assert [path.rsplit("/", 1)[1] for path in summary(capsys)["files"]] == NAMES


def test_versions_and_the_order_of_a_set_are_no_difference(adapters, capsys):
    """PEFT writes sets of modules as lists, in any order, and null for options that it did not have before."""
    other = {**CONFIG, "peft_version": "0.9", "target_modules": ["v", "q"], "new": None}
    (adapters / "bob" / "adapter_config.json").write_text(json.dumps(other))
    assert run(adapters, "-o", adapters.parent / "merged", "--rule", "comed", "--f", "1", "--json") == 0
    assert summary(capsys)["quarantined"] == []


BAD = {
    "another rank": (json.dumps({**CONFIG, "r": 64}), "r = 64 in its adapter_config.json, where most have 2"),
    "another kind": (json.dumps({**CONFIG, "peft_type": "IA3"}), "peft_type"),
    "a key less": (json.dumps({key: CONFIG[key] for key in ("peft_type", "r")}), "target_modules = nothing"),
    "a key more": (json.dumps({**CONFIG, "use_dora": True}), "use_dora"),
    "no JSON": ("{", "cannot be read"),
    "no object": ("[1]", "cannot be read"),
    "deep": ("[" * 100_000, "cannot be read"),
}


@pytest.mark.parametrize("bad", BAD)
def test_a_folder_with_another_configuration_is_quarantined(adapters, bad, capsys):
    """It counts among the f, by its name; the others are aggregated as if it had not come."""
    text, reason = BAD[bad]
    (adapters / "dan" / "adapter_config.json").write_text(text)
    out = adapters.parent / "merged"
    assert run(adapters, "-o", out, "--rule", "comed", "--f", "1", "--json") == 0
    (one,) = summary(capsys)["quarantined"]
    assert one["worker"] == "dan" and reason in one["reason"]
    rest = mt.Comed()([tensors(place) for place in (0, 1, 2, 4)])
    np.testing.assert_allclose(
        load_file(out / "adapter_model.safetensors")["layer.lora_A"], rest["layer.lora_A"], rtol=1e-6
    )
    assert json.loads((out / "adapter_config.json").read_text()) == CONFIG


def test_more_of_them_than_f_are_an_error(adapters, capsys):
    """And nothing is written."""
    for name in ("dan", "eve"):
        (adapters / name / "adapter_config.json").write_text("{}")
    out = adapters.parent / "merged"
    assert run(adapters, "-o", out, "--rule", "krum", "--f", "1") == 1
    assert "dan" in capsys.readouterr().err and not out.exists()


def sharded(folder, place, names=("one", "two")):
    """A model in two files with an index."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "gpt2", "transformers_version": str(place)}))
    parts, table = dict(zip(tensors(place), names, strict=True)), {}
    for tensor, name in parts.items():
        table[tensor] = f"model-{name}.safetensors"
        save_file({tensor: tensors(place)[tensor]}, folder / table[tensor])
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": table}))
    return table


def test_models_in_several_files_are_read_by_their_index(tmp_path, capsys):
    """Also where a worker has one file, or cuts its model otherwise; the result is one file with its configuration."""
    models = tmp_path / "models"
    for place, name in enumerate(NAMES):
        sharded(models / name, place, ("one", "two") if place else ("both", "other"))
    (models / "eve" / "model.safetensors.index.json").unlink()
    for path in (models / "eve").glob("*.safetensors"):
        path.unlink()
    save_file(tensors(4), models / "eve" / "model.safetensors")
    out = tmp_path / "merged"
    assert run(models, "-o", out, "--rule", "comed", "--f", "1", "--json") == 0
    assert summary(capsys)["quarantined"] == []
    expected = mt.Comed()([tensors(place) for place in range(5)])
    for name, values in load_file(out / "model.safetensors").items():
        np.testing.assert_allclose(values, expected[name], rtol=1e-6)
    assert (out / "config.json").exists()
    # The library reads them, too.
    own = mt.Comed()([models / name for name in NAMES])
    np.testing.assert_array_equal(own["layer.lora_A"], load_file(out / "model.safetensors")["layer.lora_A"])


BROKEN = {
    "a way out": lambda table: dict.fromkeys(table, "../ann/model-one.safetensors"),
    "an absolute path": lambda table: dict.fromkeys(table, "/etc/passwd"),
    "a file that is missing": lambda table: dict.fromkeys(table, "model-nine.safetensors"),
    "an index of an index": lambda table: dict.fromkeys(table, "model.safetensors.index.json"),
    "tensors in the wrong file": lambda table: dict(zip(table, reversed(table.values()), strict=True)),
    "a tensor too few": lambda table: dict(list(table.items())[:1]),
    "numbers": lambda table: dict.fromkeys(table, 3),
    "nothing": lambda table: {},
    "a list": lambda table: list(table),
}


@pytest.mark.parametrize("broken", BROKEN)
def test_an_index_that_is_wrong_is_its_workers_fault(broken, tmp_path, capsys):
    """It is quarantined by its name, and no file outside of its folder is read."""
    models = tmp_path / "models"
    for place, name in enumerate(NAMES):
        table = sharded(models / name, place)
    (models / "eve" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": BROKEN[broken](table)}))
    assert run(models, "-o", tmp_path / "merged", "--rule", "comed", "--f", "1", "--json") == 0
    (one,) = summary(capsys)["quarantined"]
    assert one["worker"] == "eve"
    assert any(word in one["reason"] for word in ("its index", "No such file", "without the layer"))


def test_one_worker_does_not_use_up_the_files_that_can_be_open(tmp_path, capsys):
    """Its index names a file for each of a hundred tensors: it is quarantined before they are opened."""
    resource = pytest.importorskip("resource")
    models = tmp_path / "models"
    for place, name in enumerate(NAMES):
        sharded(models / name, place)
    table = {f"tensor-{k}": f"model-{k}.safetensors" for k in range(100)}
    for tensor, name in table.items():
        save_file({tensor: np.ones(1, np.float32)}, models / "ann" / name)
    (models / "ann" / "model.safetensors.index.json").write_text(json.dumps({"weight_map": table}))
    before, used = resource.getrlimit(resource.RLIMIT_NOFILE), len(list(Path("/dev/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (used + 60, before[1]))
    try:
        code = run(models, "-o", tmp_path / "merged", "--rule", "comed", "--f", "1", "--json")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    (one,) = summary(capsys)["quarantined"]
    assert (code, one["worker"]) == (0, "ann") and "names 100 files, far more than most" in one["reason"]


def test_nobody_is_blamed_where_the_machine_opens_no_more_files(adapters, capsys, monkeypatch):
    """Such a worker would be quarantined for what others have opened."""
    known = os.open

    def opened(path, *given, **options):
        if str(path).endswith("eve/adapter_model.safetensors"):
            raise OSError(errno.EMFILE, "Too many open files")
        return known(path, *given, **options)

    monkeypatch.setattr(os, "open", opened)
    assert run(adapters, "-o", adapters.parent / "merged", "--rule", "comed", "--f", "1") == 1
    assert "this process may open no more of them" in capsys.readouterr().err


def test_the_first_folder_does_not_word_the_configuration(adapters, capsys):
    """Orders, versions and null mean the same, but whoever loads the result reads the words: those of most."""
    own = {**CONFIG, "peft_version": "0.0", "target_modules": ["v", "q"], "_name_or_path": "evil", "auto": None}
    (adapters / "ann" / "adapter_config.json").write_text(json.dumps(own))
    out = adapters.parent / "merged"
    assert run(adapters, "-o", out, "--rule", "comed", "--f", "1", "--json") == 0
    assert summary(capsys)["quarantined"] == [] and json.loads((out / "adapter_config.json").read_text()) == CONFIG


def test_a_base_may_be_a_folder(adapters, capsys):
    """Differences to it are aggregated."""
    base = adapters.parent / "base"
    base.mkdir()
    save_file(tensors(9), base / "adapter_model.safetensors")
    out = adapters.parent / "merged"
    assert run(adapters, "-o", out, "--rule", "comed", "--f", "1", "--base", base) == 0
    expected = mt.Comed()([tensors(place) for place in range(5)])
    np.testing.assert_allclose(
        load_file(out / "adapter_model.safetensors")["layer.lora_B"], expected["layer.lora_B"], atol=1e-6
    )


@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("merged.safetensors", "is a folder, with its configuration"),
        ("adapters", "a folder that does not exist yet"),
        ("no/such/merged", "does not. Make it first"),
    ],
)
def test_where_the_result_cannot_go_is_said_before_anything_is_read(adapters, out, message, capsys):
    assert run(adapters, "-o", adapters.parent / out, "--rule", "comed", "--f", "1") == 1
    assert message in capsys.readouterr().err


def test_two_configurations_of_as_many_are_an_error(adapters, capsys):
    """Nobody can say which is right."""
    for name in ("dan", "eve"):
        (adapters / name / "adapter_config.json").write_text(json.dumps({**CONFIG, "r": 4}))
    (adapters / "cyn" / "adapter_config.json").unlink()
    assert run(adapters, "-o", adapters.parent / "merged", "--rule", "comed", "--f", "1") == 1
    assert "2 of 5 have each of two: ann and dan differ" in capsys.readouterr().err


def test_a_changed_folder_changes_its_digest(adapters):
    """What an audited draw commits to is every file of a folder."""
    from mixtailor.intake.files import receive_files

    before = receive_files([adapters / name for name in NAMES]).digests()
    save_file(tensors(77), adapters / "cyn" / "adapter_model.safetensors")
    after = receive_files([adapters / name for name in NAMES]).digests()
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False, True, True]
    assert len(set(before)) == 5


def test_a_file_of_a_folder_among_the_updates_is_not_replaced(tmp_path, capsys):
    """Fewer than half of the updates are folders, so that the result is a file."""
    for place in range(4):
        save_file(tensors(place), tmp_path / f"{place}.safetensors")
    own = tmp_path / "folder" / "model.safetensors"
    own.parent.mkdir()
    save_file(tensors(9), own)
    content = own.read_bytes()
    files = [*(tmp_path / f"{place}.safetensors" for place in range(4)), own.parent]
    assert run(*files, "-o", own, "--rule", "comed") == 1
    assert "which is one of the files it is made of" in capsys.readouterr().err and own.read_bytes() == content
    assert run(*files[:4], "--base", own.parent, "-o", own, "--rule", "comed") == 1 and own.read_bytes() == content
