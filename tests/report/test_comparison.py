"""`compare`: objects in, a table, a page and figures out; parallel, resumable, and honest about what changed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import mixtailor as mt
from mixtailor.attacks import Tailored
from mixtailor.experiments import ConfigError
from mixtailor.experiments.fingerprints import fingerprint
from mixtailor.simulation import dirichlet

LABELS = torch.arange(300) % 3
INPUTS = torch.eye(4)[LABELS] + 0.1 * torch.randn(300, 4, generator=torch.Generator().manual_seed(0))
SMALL: dict[str, Any] = {"data": (INPUTS, LABELS), "model": "logistic", "seeds": 1, "rounds": 6, "evaluate_every": 2,
                         "batch": 4, "jobs": 1}  # fmt: skip


def first(updates: torch.Tensor) -> torch.Tensor:
    return updates[0]


def evenly(labels: Any, workers: int, random: np.random.Generator) -> list[Any]:
    return list(np.array_split(np.arange(len(labels)), workers))


class Network(nn.Sequential):
    def __init__(self) -> None:
        super().__init__(nn.Linear(4, 3))


def network() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))


def test_objects_of_every_kind(tmp_path: Path) -> None:
    """In two processes, with objects that only this file has; again, and nothing is repeated."""
    rules = [first, mt.Comed(), "krum", {"name": "trimmed_mean", "label": "trimmed"}, mt.MixTailor(mt.paper_pool(f=2))]
    options = {**SMALL, "model": network(), "partitions": [evenly, dirichlet(alpha=0.3)], "out": tmp_path, "jobs": 2}
    found = mt.compare(rules, [Tailored(epsilon=10.0), None, "alie"], **options)
    assert not any(done.error or done.skipped for done in found.finished) and len(found.finished) == 30
    names = ["first", "Comed()", "krum", "trimmed", "MixTailor (64 rules)"]
    assert found.results.rules() == names
    one, other = found.groups()
    assert (one.title, other.title) == tuple(
        f"data, n = 12, f = 2, partition = {name}" for name in ("evenly", "dirichlet alpha=0.3")
    )
    assert one.attacks == ["Tailored(epsilon=10)", "none", "alie"] and set(one.rules) == set(names)
    lines = found.table().splitlines()
    assert lines[0] == one.title and lines[1].split()[-1] == "worst" and len(lines) == 15
    assert str(found).startswith(found.table())
    assert "the mean of the last 3 evaluations and of 1 seed" in str(found) and str(found.folder) in str(found)
    assert "MixTailor (64 rules)" in found.report().read_text(encoding="utf-8")
    assert len(found.figures(["pdf"])) == 6
    assert len(found.figures(["pdf"], style="paper")) == 7, "and all of them side by side"
    assert [path.suffix for path in found.tables()] == [".csv", ".tex"] * 2
    again = mt.compare(rules, [Tailored(epsilon=10.0), None, "alie"], **options)
    assert all(done.skipped for done in again.finished) and again.table() == found.table()


def test_what_changes_an_object_changes_the_run(tmp_path: Path) -> None:
    """The numbers of the data, the weights of a network, the code of a function, what it closes over, a parameter."""

    def made(value: float) -> Any:
        return lambda updates: value * updates[0]

    mt.compare([made(1.0)], **{**SMALL, "model": network}, out=tmp_path)
    for rules, changes in [
        ([made(2.0)], {}),
        ([lambda updates: updates[1]], {}),
        ([made(1.0)], {"data": (INPUTS + 1e-3, LABELS)}),
        ([made(1.0)], {"model": nn.Linear(4, 3)}),
        ([made(1.0)], {"rounds": 7}),
        ([made(1.0)], {"loss": nn.MultiMarginLoss()}),
    ]:
        found = mt.compare(rules, **{**SMALL, "model": network, **changes}, out=tmp_path)
        assert not any(done.skipped for done in found.finished), changes
    assert mt.compare([made(1.0)], **{**SMALL, "model": network}, out=tmp_path).finished[0].skipped


def test_labels_are_given_or_made_to_differ(tmp_path: Path) -> None:
    found = mt.compare({"mine": first, "ours": mt.Comed()}, **SMALL, out=tmp_path)
    assert found.results.rules() == ["mine", "ours"]
    renamed = mt.compare({"theirs": first}, **SMALL, out=tmp_path)
    assert renamed.results.rules() == ["theirs"] and renamed.finished[0].skipped, "a label is no part of a run"
    twice = mt.compare([lambda x: x[0], lambda x: x[1]], **SMALL, out=tmp_path)
    one, other = twice.results.rules()
    assert other == f"{one} (2)"


def test_one_seed_and_the_class_of_a_network(tmp_path: Path) -> None:
    """The page calls the network by its name, and has no column of intervals: one seed has none."""
    page = mt.compare(["comed"], **{**SMALL, "model": Network}, out=tmp_path).report().read_text(encoding="utf-8")
    assert "12 workers trained a model (Network) on data" in re.sub(r"<[^>]+>", "", page)
    assert "Worst case" in page and "bootstrap over the seeds." not in page


@pytest.mark.parametrize(
    ("rules", "more", "words"),
    [
        ([mt.Krum(f=5)], {}, "Krum(f=5) needs at least 13 rows"),
        (["krumm"], {}, "Did you mean 'krum'?"),
        ([mt.NNM(f=2)], {}, "is a pre-aggregation"),
        ([], {}, "at least one rule"),
        (["krum"], {"attacks": Tailored}, "Write Tailored()."),
        (["krum"], {"attacks": int}, "Write mixtailor.attacks.Tailored(epsilon=0.1)"),
        (["krum"], {"seeds": 0}, "at least one seed"),
        (["krum"], {"attacks": "tailord"}, "Did you mean 'tailored'?"),
        (["krum"], {"round": 3}, "Did you mean 'rounds'?"),
        (["krum"], {"momentum": 2.0}, "momentum is 2.0"),
        (["krum"], {"data": "minst"}, "Did you mean 'mnist'?"),
        (["krum"], {"model": "mpl"}, "Did you mean 'mlp'?"),
        (["krum"], {"partitions": "dirichlet(alfa=1)"}, "Did you mean 'alpha'?"),
    ],
)
def test_what_is_wrong_gets_a_sentence_before_anything_runs(
    tmp_path: Path, rules: Any, more: dict[str, Any], words: str
) -> None:
    with pytest.raises((ConfigError, TypeError, ValueError)) as caught:
        mt.compare(rules, **{**SMALL, **more}, out=tmp_path)
    assert words in str(caught.value) and not list(tmp_path.iterdir())


def test_a_rule_that_fails_is_told_and_the_others_are_compared(tmp_path: Path) -> None:
    def broken(updates: torch.Tensor) -> torch.Tensor:
        raise ZeroDivisionError("no")

    with pytest.warns(UserWarning, match=r"Not compared: broken.*ZeroDivisionError: no"):
        found = mt.compare([broken, mt.Comed()], **SMALL, out=tmp_path)
    assert [case.rule for case in found.worst()] == ["Comed()"]
    with pytest.raises(RuntimeError, match="No run of the comparison was made: ZeroDivisionError: no"):
        mt.compare([broken], **SMALL, out=tmp_path)


def test_fingerprints_are_of_what_an_object_does() -> None:
    assert fingerprint(mt.Krum(f=2)) == fingerprint(mt.Krum(f=2)) != fingerprint(mt.Krum(f=3))
    torch.manual_seed(0)
    one, other = network(), network()
    assert fingerprint(one) != fingerprint(other)
    other.load_state_dict(one.state_dict())
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(mt.MixTailor([mt.Comed()])) == fingerprint(mt.MixTailor([mt.Comed()]))
    module: dict[str, Any] = {"__name__": "mine"}
    exec("SIZE = 3\ndef inner(x):\n    return SIZE * x\ndef outer(x):\n    return inner(x[0])", module)  # ours
    before = fingerprint(module["outer"])
    assert fingerprint(module["outer"]) == before
    module["SIZE"] = 4
    assert fingerprint(module["outer"]) != before, "a constant that a function uses, through another one"
    assert fingerprint((1, 2)) != fingerprint((12,)) and fingerprint({"a": 1}) != fingerprint({"a": 1.0})
