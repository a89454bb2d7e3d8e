"""Low-rank updates against the dense products they stand for."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import save_file

import mixtailor as mt
from mixtailor.cli import _folders, main
from mixtailor.lowrank import Factors, aggregate_low_rank, read_adapter, truncated, write_adapter
from mixtailor.lowrank.factors import products

SHAPES = {"q": (7, 5), "v": (4, 9)}


def _update(random: np.random.Generator, rank: int, scale: float = 1.0) -> dict[str, Factors]:
    return {
        name: Factors(scale * random.normal(size=(rows, rank)), random.normal(size=(rank, columns)))
        for name, (rows, columns) in SHAPES.items()
    }


def _dense(update: Any) -> np.ndarray:
    return np.concatenate([np.ravel(update[name].left @ update[name].right) for name in SHAPES])


def _updates(n: int = 9, hostile: int = 2, seed: int = 0) -> list[dict[str, Factors]]:
    random = np.random.default_rng(seed)
    return [_update(random, 1 + place % 3, 1e6 if place < hostile else 1.0) for place in range(n)]


def test_products_are_those_of_the_dense_updates() -> None:
    """Ranks differ between updates."""
    updates = _updates()
    rows = np.stack([_dense(update) for update in updates])
    assert np.allclose(products(updates), rows @ rows.T, rtol=1e-12)


@pytest.mark.parametrize(
    "rule",
    [
        mt.Krum(f=2),
        mt.MultiKrum(f=2),
        mt.CAF(f=2),
        mt.GeometricMedian(),
        mt.NNM(f=2) >> mt.GeometricMedian(),
        mt.MDA(f=2),
    ],
    ids=repr,
)
def test_rules_decide_as_on_dense_updates(rule: mt.Rule) -> None:
    updates = _updates()
    result = aggregate_low_rank(rule, updates)
    expected = rule(np.stack([_dense(update) for update in updates]))
    assert np.allclose(_dense(result.update), expected, atol=1e-6)


def test_other_factors_of_the_same_product_change_nothing() -> None:
    """(B T, T^-1 A) is the same update. A rule on the factors themselves would be moved by it."""
    updates, random = _updates(), np.random.default_rng(1)
    turned = []
    for update in updates:
        layers = {}
        for name, (left, right) in update.items():
            change = random.normal(size=(left.shape[1], left.shape[1])) + 3 * np.eye(left.shape[1])
            layers[name] = Factors(left @ change, np.linalg.solve(change, right))
        turned.append(layers)
    rule = mt.MultiKrum(f=2)
    assert np.array_equal(aggregate_low_rank(rule, updates).weights, aggregate_low_rank(rule, turned).weights)


def test_truncation_says_what_it_loses() -> None:
    updates = _updates(hostile=0)
    whole = aggregate_low_rank(mt.GeometricMedian(), updates)
    short = aggregate_low_rank(mt.GeometricMedian(), updates, rank=2)
    assert all(short.update[name].left.shape[1] == 2 for name in SHAPES)
    lost = np.linalg.norm(_dense(short.update) - _dense(whole.update))
    assert lost == pytest.approx(short.facts["error"]) and lost > 0
    exact = aggregate_low_rank(mt.GeometricMedian(), updates, rank=50)
    assert np.allclose(_dense(exact.update), _dense(whole.update)) and exact.facts["error"] < 1e-9


def test_no_truncation_is_nearer() -> None:
    """Against the dense singular value decomposition."""
    random = np.random.default_rng(0)
    both = Factors(random.normal(size=(6, 5)), random.normal(size=(5, 8)))
    nearest, lost = truncated(both, 2)
    left, values, right = np.linalg.svd(both.left @ both.right)
    assert np.allclose(nearest.left @ nearest.right, left[:, :2] * values[:2] @ right[:2])
    assert lost == pytest.approx(np.linalg.norm(values[2:]))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda update: update | {"q": Factors(update["q"].left * np.nan, update["q"].right)}, "not finite"),
        (lambda update: update | {"q": Factors(update["q"].left * 1e300, update["q"].right * 1e300)}, "not finite"),
        (lambda update: {"q": update["q"]}, "'v' is missing"),
        (lambda update: update | {"extra": update["q"]}, "in few updates only"),
        (lambda update: update | {"q": update["v"]}, "another shape"),
        (lambda update: update | {"q": (update["q"].left, update["v"].right[:0])}, "factors of shapes"),
        (lambda update: update | {"q": "nothing"}, "no pair"),
    ],
)
def test_faults_are_removed_by_name(change: Any, reason: str) -> None:
    updates: list[Any] = list(_updates(hostile=0))
    updates[3] = change(updates[3])
    result = aggregate_low_rank(mt.MultiKrum(f=2), updates, workers=[f"site-{place}" for place in range(9)])
    assert [each.worker for each in result.quarantined] == ["site-3"] and reason in result.quarantined[0].reason
    rest = np.stack([_dense(update) for place, update in enumerate(updates) if place != 3])
    assert np.allclose(_dense(result.update), mt.MultiKrum(f=2)(rest))


def test_more_faults_than_f() -> None:
    updates: list[Any] = list(_updates(hostile=0))
    for place in range(3):
        updates[place] = {"q": "nothing"}
    with pytest.raises(mt.FaultError, match="3 of 9 updates are"):
        aggregate_low_rank(mt.MultiKrum(f=2), updates)


def test_columnwise_rules_refuse() -> None:
    with pytest.raises(ValueError, match="each coordinate by itself"):
        aggregate_low_rank(mt.Comed(), _updates())


def test_a_pool_reports_what_it_drew() -> None:
    pool = mt.MixTailor([mt.MultiKrum(f=2), mt.CAF(f=2)])
    drawn = {repr(aggregate_low_rank(pool, _updates()).rule) for _ in range(40)}
    assert drawn == {"MultiKrum(f=2)", "CAF(f=2)"}


# Adapters in folders.


def _folder(path: Path, update: Any, alpha: float = 4.0, **config: Any) -> Path:
    safetensors = pytest.importorskip("safetensors.numpy")
    path.mkdir()
    tensors = {}
    for name, (left, right) in update.items():
        tensors[f"base_model.model.{name}.lora_A.weight"] = right.astype(np.float32)
        tensors[f"base_model.model.{name}.lora_B.weight"] = left.astype(np.float32)
    safetensors.save_file(tensors, path / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "r": 2, "lora_alpha": alpha, **config}
    (path / "adapter_config.json").write_text(json.dumps(settings))
    return path


def test_scaling_is_part_of_the_update(tmp_path: Path) -> None:
    update = _update(np.random.default_rng(0), 2)
    plain = read_adapter(_folder(tmp_path / "plain", update))
    stabilised = read_adapter(_folder(tmp_path / "rslora", update, use_rslora=True))
    pattern = read_adapter(_folder(tmp_path / "pattern", update, alpha_pattern={"q": 8}))
    left = update["q"].left.astype(np.float32)
    assert np.allclose(plain.layers["base_model.model.q"].left, 2 * left)
    assert np.allclose(stabilised.layers["base_model.model.q"].left, 4 / np.sqrt(2) * left)
    assert np.allclose(pattern.layers["base_model.model.q"].left, 4 * left)
    assert np.allclose(pattern.layers["base_model.model.v"].left, 2 * update["v"].left.astype(np.float32))


def test_written_adapters_are_read_alike(tmp_path: Path) -> None:
    """Also with ranks that differ between layers."""
    random = np.random.default_rng(0)
    layers = {f"base_model.model.{name}": each for name, each in _update(random, 3).items()}
    layers["base_model.model.q"] = Factors(
        *(
            part[:, :1] if side else part[:1]
            for side, part in ((1, layers["base_model.model.q"].left), (0, layers["base_model.model.q"].right))
        )
    )
    write_adapter(tmp_path / "out", layers, {"peft_type": "LORA", "r": 99, "lora_alpha": 7, "use_rslora": True})
    found = read_adapter(tmp_path / "out")
    for name, factors in layers.items():
        again = found.layers[name]
        assert np.allclose(again.left @ again.right, factors.left @ factors.right, atol=1e-5)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({"peft_type": "IA3"}, "no LoRA adapter"),
        ({"use_dora": True}, "no LoRA adapter"),
        ({"lora_alpha": "x"}, "lora_alpha"),
    ],
)
def test_other_adapters_are_refused(tmp_path: Path, config: dict[str, Any], words: str) -> None:
    folder = _folder(tmp_path / "other", _update(np.random.default_rng(0), 2))
    settings = json.loads((folder / "adapter_config.json").read_text())
    (folder / "adapter_config.json").write_text(json.dumps(settings | config))
    with pytest.raises(ValueError, match=words):
        read_adapter(folder)


# On the command line.


def test_aggregate_lora(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nine folders: one far away, one of another method, one for another model. The result is that of the others."""
    pytest.importorskip("typer")
    updates = _updates(hostile=1)
    for place, update in enumerate(updates):
        _folder(tmp_path / f"site-{place}", update, base_model_name_or_path="other" if place == 2 else "tiny")
    (tmp_path / "site-1" / "adapter_config.json").write_text("{}")
    folders = [str(tmp_path / f"site-{place}") for place in range(9)]
    options = ["--rule", "multi_krum", "--f", "3", "--lora", "0", "-o", str(tmp_path / "out")]
    assert main(["aggregate", *folders, *options]) == 0
    said = capsys.readouterr().out
    assert "site-1" in said and 'base_model_name_or_path = "other"' in said
    found = read_adapter(tmp_path / "out")
    assert found.config["base_model_name_or_path"] == "tiny"
    kept = [read_adapter(folder).layers for place, folder in enumerate(folders) if place not in (1, 2)]
    rows = np.stack([_dense({name: layers[f"base_model.model.{name}"] for name in SHAPES}) for layers in kept])
    result = _dense({name: found.layers[f"base_model.model.{name}"] for name in SHAPES})
    assert np.allclose(result, mt.MultiKrum(f=2)(rows), atol=1e-4) and np.abs(result).max() < 100


def _complex(folder: Path) -> None:
    header = {"base_model.model.q.lora_A.weight": {"dtype": "F8_E4M3", "shape": [2, 5], "data_offsets": [0, 10]}}
    text = json.dumps(header).encode()
    (folder / "adapter_model.safetensors").write_bytes(len(text).to_bytes(8, "little") + text + bytes(10))


def _no_rank(folder: Path) -> None:
    tensors = {
        f"base_model.model.{name}.lora_{side}.weight": np.zeros(shape, np.float32)
        for name, (rows, columns) in SHAPES.items()
        for side, shape in (("A", (0, columns)), ("B", (rows, 0)))
    }
    save_file(tensors, folder / "adapter_model.safetensors")


def _holes(folder: Path) -> None:
    """A matrix of 4 TB that takes no place on the disk."""
    name, size = "base_model.model.q.lora_A.weight", 1 << 42
    header = {name: {"dtype": "F32", "shape": [1, size // 4], "data_offsets": [0, size]}}
    text = json.dumps(header).encode()
    with (folder / "adapter_model.safetensors").open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        file.truncate(8 + len(text) + size)


def _configured(**changes: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        path = folder / "adapter_config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


HOSTILE = {
    "a type of nobody": _complex,
    "no rank": _no_rank,
    "holes": _holes,
    "an integer beyond float64": _configured(lora_alpha=10**400),
    "factors that overflow": _configured(lora_alpha=1e308, alpha_pattern={"q": 1e308}),
    "a library to import": _configured(auto_mapping={"parent_library": "os", "base_model_class": "x"}),
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_no_adapter_stops_or_steers_the_others(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first folder is hostile: it is named, and the result has the others' configuration."""
    pytest.importorskip("typer")
    for place, update in enumerate(_updates(hostile=0)):
        _folder(tmp_path / f"site-{place}", update)
    HOSTILE[kind](tmp_path / "site-0")
    folders = [str(tmp_path / f"site-{place}") for place in range(9)]
    options = ["--rule", "multi_krum", "--f", "2", "--lora", "0", "--json", "-o", str(tmp_path / "out")]
    assert main(["aggregate", *folders, *options]) == 0
    assert [one["worker"] for one in json.loads(capsys.readouterr().out)["quarantined"]] == ["site-0"]
    assert "auto_mapping" not in read_adapter(tmp_path / "out").config


def test_a_file_that_grew_since_its_size_was_asked_is_not_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit is that of the file which is read, whatever was in its place a moment before."""
    pytest.importorskip("typer")
    folders = [_folder(tmp_path / f"site-{place}", update) for place, update in enumerate(_updates(hostile=0))]
    known = _folders.most_bytes

    def asked(files: Sequence[Path]) -> int:
        most = known(files)
        _holes(folders[3])
        return most

    monkeypatch.setattr(_folders, "most_bytes", asked)
    options = ["--rule", "multi_krum", "--f", "2", "--lora", "0", "--json", "-o", str(tmp_path / "out")]
    assert main(["aggregate", *map(str, folders), *options]) == 0
    (one,) = json.loads(capsys.readouterr().out)["quarantined"]
    assert one["worker"] == "site-3" and "far more than most" in one["reason"]


def test_two_configurations_of_equally_many(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("typer")
    folders = [_folder(tmp_path / f"site-{place}", update) for place, update in enumerate(_updates(hostile=0))][:8]
    for folder in folders[:4]:
        _configured(task_type="other")(folder)
    options = ["--rule", "multi_krum", "--f", "2", "--lora", "0", "-o", str(tmp_path / "out")]
    assert main(["aggregate", *map(str, folders), *options]) == 1
    assert "4 of 8 have each of two" in capsys.readouterr().err


def test_aggregate_lora_alone(tmp_path: Path) -> None:
    """Other inputs and an output that exists are refused."""
    pytest.importorskip("typer")
    folder = _folder(tmp_path / "site", _update(np.random.default_rng(0), 2))
    given = ["aggregate", str(folder), "--rule", "geometric_median", "--lora", "2"]
    assert main([*given, "-o", str(tmp_path)]) == 1
    assert main([*given, "-o", str(tmp_path / "out"), "--base", str(folder)]) == 2


def test_aggregate_lora_says_what_the_rank_loses(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the Frobenius norm, to people and to machines; stacked factors lose nothing."""
    pytest.importorskip("typer")
    updates = _updates(hostile=0)
    folders = [_folder(tmp_path / f"site-{place}", update) for place, update in enumerate(updates)]
    given = ["aggregate", *map(str, folders), "--rule", "multi_krum", "--f", "2"]
    lost = aggregate_low_rank(mt.MultiKrum(2), [read_adapter(folder).layers for folder in folders], rank=1).facts[
        "error"
    ]
    assert main([*given, "--lora", "1", "-o", str(tmp_path / "short")]) == 0
    assert f"rank loses   {lost:.3g} (Frobenius norm" in capsys.readouterr().out
    assert main([*given, "--lora", "1", "--json", "-o", str(tmp_path / "again")]) == 0
    assert json.loads(capsys.readouterr().out)["error"] == pytest.approx(lost) and lost > 0.0
    assert main([*given, "--lora", "0", "-o", str(tmp_path / "stacked")]) == 0
    assert "loses" not in capsys.readouterr().out
