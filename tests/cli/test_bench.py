"""Rules timed on the user's machine: that it measures, not what."""

import json

import numpy as np
import pytest

from mixtailor.cli import main
from mixtailor.cli._timing import gradients, interleaved


def test_rules_are_timed_in_multiples_of_the_mean(capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["bench", "--n", "9", "--d", "500", "--f", "2", "--seconds", "0.01"]
    assert main([*arguments, "--rules", "krum,nnm >> comed,default_pool", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [each["rule"] for each in found["rules"]] == ["krum", "nnm >> comed", "default_pool"]
    for each in found["rules"]:
        assert each["milliseconds"] > 0 and each["calls"] >= 1
        assert each["multiple"] == pytest.approx(each["milliseconds"] / found["mean_milliseconds"])
    assert found["rules"][2]["calls"] >= 32, "one draw is no pool"
    assert main(arguments) == 0
    shown = capsys.readouterr().out
    assert "paper_pool" in shown and "bulyan" not in shown, "nine rows are too few for it"


def test_rows_look_like_gradients() -> None:
    rows = gradients(12, 3_000_000, 2)
    honest, lies = rows[:10], rows[10:]
    np.testing.assert_allclose(lies[0], -0.1 * honest.mean(axis=0), atol=1e-7)
    assert 1e-5 < np.median(np.abs(honest)) < 1e-3 and np.abs(honest).max() > 20 * np.median(np.abs(honest))
    similar = np.corrcoef(honest)[np.triu_indices(10, 1)]
    assert similar.min() > 0.05 and similar.max() < 0.5, "a shared direction, and no row twice"


def test_calls_take_turns() -> None:
    order: list[str] = []
    found = interleaved({name: lambda name=name: order.append(name) for name in "ab"}, 0.0, least={"b": 3})
    assert [len(found[name]) for name in "ab"] == [1, 3]
    assert order[:2] == ["a", "b"] and sorted(order[2:4]) == ["a", "b"] and order[4:] == ["b", "b"]


@pytest.mark.parametrize(
    ("options", "code", "sentence"),
    [
        (["--rules", "krumm"], 1, "Did you mean 'krum'"),
        (["--rules", "krum", "--n", "5"], 1, "needs at least 7 rows"),
        (["--f", "6"], 1, "more than half of the rows honest"),
        (["--d", "900000000000"], 1, "Lower --n or --d"),
        (["--n", "2"], 2, "--help"),
    ],
)
def test_mistakes_get_a_sentence(
    options: list[str], code: int, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", *options]) == code
    assert sentence in capsys.readouterr().err
