"""Objects named by their file or module: rules, attacks, models, data and partitions, in text and in TOML."""

from pathlib import Path

import numpy as np
import pytest

import mixtailor as mt
from mixtailor import attacks
from mixtailor._references import files_of, is_reference, loaded
from mixtailor.experiments import Experiment, Results, RunConfig, run
from mixtailor.experiments.config import label_of
from mixtailor.mixing.registry import listed

MINE = """
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from beside import SIZE
from torch import nn

import mixtailor as mt
from mixtailor.attacks import Attack


@dataclass(frozen=True)
class Nearest(mt.Rule):
    f: int
    p: float = 2.0
    requirement: ClassVar[str] = "n >= 1"
    cost: ClassVar[str] = "O(nd)"

    def min_rows(self):
        return 1

    def decide(self, updates):
        return updates.mean()


@dataclass(frozen=True)
class Opposite(Attack):
    size: float = SIZE
    needs: ClassVar[str] = "the honest updates"

    def points(self, scene):
        return [scene.honest.combine(np.full(scene.honest.n, -self.size / scene.honest.n))] * scene.f


class Front(mt.NNM):
    pass


def top(rows, f, share=0.5):
    return rows[f]


def made(f):
    return mt.Krum(f)


def annotated(inner: "mt.Rule") -> mt.Rule:
    return inner


ready = mt.Comed()
number = 3


class Net(nn.Module):
    def __init__(self, classes, hidden=4):
        super().__init__()
        self.one, self.two = nn.Linear(4, hidden), nn.Linear(hidden, classes)

    def forward(self, inputs):
        return self.two(self.one(inputs).relu())


def data():
    labels = torch.arange(120) % 2
    return torch.eye(4)[labels] + 0.1 * torch.arange(120).unsqueeze(1) / 120, labels


def halves(labels, workers, random, shift=0):
    return [np.sort(part) for part in np.array_split(np.roll(np.arange(len(labels)), shift), workers)]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a file of objects."""
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "beside.py").write_text("SIZE = 3.0\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mine.py:Nearest", "Nearest(f=1)"),
        ("./mine.py:Nearest(p=3)", "Nearest(f=1, p=3)"),
        ("nnm >> mine.py:Nearest", "NNM(f=1) >> Nearest(f=1)"),
        ("mine.py:Front >> krum", "Front(f=1) >> Krum(f=1)"),
        ("mine.py:top", "Plain(top, f=1)"),
        ("mine.py:top(share=0.25)", "Plain(top, share=0.25, f=1)"),
        ("mine.py:made", "Krum(f=1)"),
        ("mine.py:annotated(inner=comed)", "Comed()"),
        ("mine.py:ready", "Comed()"),
        ("mixtailor(krum, mine.py:top)", "MixTailor([Krum(f=1), Plain(top, f=1)])"),
        ("bulyan(then=mine.py:ready)", "Bulyan(f=1, then=Comed())"),
        ("mixtailor.rules:Medoid", "Medoid()"),
    ],
)
def test_rules_of_ones_own(folder: Path, text: str, shown: str) -> None:
    assert repr(mt.make_rule(text, f=1)) == shown


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("mine.py:Nearst", "mine.py has no 'Nearst'. Did you mean 'Nearest'?"),
        ("yours.py:Nearest", "There is no file 'yours.py'"),
        ("no.such.module:Nearest", "cannot be imported. Write a file with its ending"),
        ("mine.py:Nearest(q=3)", "takes no parameter 'q'"),
        ("mine.py:number", "needs to be a rule, a class of rules or a function"),
        ("subprocess:Popen", "objects that can be called on an (n, d) matrix"),
        ("os:abort", "has no parameter for the (n, d) matrix"),
        ("mine.py:Front", "is a pre-aggregation and needs a rule behind it"),
        ("mine.py:made >> krum", "is no pre-aggregation"),
    ],
)
def test_what_is_wrong_with_a_reference_gets_a_sentence(folder: Path, text: str, words: str) -> None:
    with pytest.raises((ValueError, TypeError)) as caught:
        mt.make_rule(text, f=1)
    assert words in str(caught.value)


def test_what_a_module_imports_and_does_not_find_is_its_own_error(folder: Path) -> None:
    (folder / "broken.py").write_text("import no_such_package_at_all\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_package_at_all"):
        loaded("broken.py:x")


def test_an_edited_file_is_run_again(folder: Path) -> None:
    assert loaded("mine.py:number") == 3
    (folder / "mine.py").write_text(MINE.replace("number = 3", "number = 40"))
    assert loaded("mine.py:number") == 40


def test_attacks_of_ones_own(folder: Path) -> None:
    made = attacks.make("mine.py:Opposite", size=2.0)
    np.testing.assert_allclose(made(np.array([[1.0, 2.0], [3.0, 4.0]]), f=1), [[-4.0, -6.0]])
    with pytest.raises(ValueError, match="takes no parameter 'sise'"):
        attacks.make("mine.py:Opposite", sise=2.0)
    with pytest.raises(TypeError, match="needs to make an attack"):
        attacks.make("mine.py:made", f=1)


def test_what_is_a_reference_and_in_which_files() -> None:
    assert is_reference("a/b-c.py:Net") and is_reference("package.module:Net")
    assert not any(map(is_reference, ("krum", "krum(p=3)", "a b.py:Net", "mine.py:", ":Net", "sum/f", 3)))
    assert files_of('{"name": "nnm >> tests/no_such.py:X"}') == []
    assert [path.name for path in files_of("mixtailor.rules.krum:Krum")] == ["krum.py"]


def test_lists_on_the_command_line() -> None:
    known = {"ALIE 1.5": {"name": "alie", "z": 1.5}}
    assert listed("attack", "ALIE 1.5,mine.py:Opposite(size=2)", known) == [
        known["ALIE 1.5"],
        "mine.py:Opposite(size=2)",
    ]
    with pytest.raises(ValueError, match=r"no attack 'ALIE 1.6' here. Did you mean 'ALIE 1.5'\?"):
        listed("attack", "ALIE 1.6", known)


TOML = """
title = "mine"
[run]
data = "mine.py:data"
model = "mine.py:Net"
model_options = {hidden = 3}
rule = ["comed", "mine.py:Nearest", {name = "mine.py:top", share = 0.1, label = "top"}]
attack = ["mine.py:Opposite(size=5.0)", "none"]
partition = ["mine.py:halves", {name = "mine.py:halves", shift = 5}]
n = 8
rounds = 4
evaluate_every = 2
batch = 4
"""


def test_a_file_names_objects_of_every_kind(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From another folder, too: files are looked for beside the experiment. An edited file makes other runs."""
    (folder / "mine.toml").write_text(TOML)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    experiment = Experiment.read(folder / "mine.toml")
    done = run(experiment, folder / "out")
    assert len(done) == 12 and not any(item.error for item in done), done
    results = Results.load(folder / "out" / "mine")
    assert results.rules() == ["comed", "mine.py:Nearest", "top"]
    assert {found.setting for found in results.runs} == {
        "partition = mine.py:halves",
        "partition = mine.py:halves shift=5",
    }
    assert all(item.skipped for item in run(experiment, folder / "out"))
    before = {item.hash for item in done}
    (folder / "mine.py").write_text(MINE.replace("rows[f]", "rows[0]"))
    assert not before & {entry.config.hash for entry in Experiment.read(folder / "mine.toml").entries()}


def test_hashes_of_runs_without_files_are_as_before() -> None:
    """Results that people have stay valid: the hash of a configuration of names alone is known."""
    config = RunConfig.made({"preset": "digits", "rule": "krum", "attack": "none"})
    assert config.hash == "fc6b827cb53d2442"


def test_labels_leave_folders_out() -> None:
    assert label_of("/home/x/mine.py:Nearest(p=3)") == "mine.py:Nearest(p=3)"
    assert label_of({"name": "../lib/mine.py:Nearest", "p": 3}) == "mine.py:Nearest p=3"
