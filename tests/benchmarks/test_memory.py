"""The batched copies of the recommended recipe: what they share with the library."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from memory import naive_baselines

import mixtailor as mt
from benchmarks.memory import __main__ as command
from benchmarks.memory import recipes, trainings
from benchmarks.memory import views as many
from benchmarks.memory.attacks import ATTACKS, TRYING, resonance
from benchmarks.memory.baselines import ByzantineSGD, Safeguard
from benchmarks.memory.found import RESONANCE, resonant
from mixtailor.memory import views as own
from mixtailor.rules._spectra import filtered
from mixtailor.rules.view_filter import above_noise


def test_views_and_filters_are_those_of_the_library() -> None:
    """Six trainings at once, each as if it were alone."""
    rows = np.random.default_rng(0).normal(size=(2, 3, 12, 40)) * np.linspace(0.2, 2.0, 12)[:, None]
    found = many.view_of(rows)
    for place in np.ndindex(2, 3):
        np.testing.assert_allclose(found[place], own.view_of(rows[place]), atol=1e-10)
        np.testing.assert_allclose(many.together(rows, 30.0)[place], own.together(rows[place], 30.0), atol=1e-10)
    flat = found.reshape(-1, 12, 12)
    views = np.stack([flat, flat[::-1]])
    views[1, 2, :3, :3] += 9.0
    weights, spreads = many.filtered(views, 4)
    weighed = many.view_filter(views, 4)
    for place in range(6):
        alone = filtered(views[:, place], 4)
        np.testing.assert_allclose(weights[place], alone.weights, atol=1e-7)
        assert spreads[place] == pytest.approx(alone.spread)
        alone = above_noise(views[:, place], 4).weights
        np.testing.assert_allclose(weighed[place], alone / alone.sum(), atol=1e-7)
    assert len(np.unique(weighed.round(9))) > 2  # somebody was removed


def test_the_widest_view_and_copies_are_those_of_the_library() -> None:
    """A steady pair of workers in a remembered view, and two pairs that sent the same."""
    random = np.random.default_rng(5)
    rows = random.normal(size=(3, 2, 2, 12, 40))
    views = many.view_of(rows)
    views[1, 0, 1, :2, :2] += 9.0
    rows[0, ..., 3, :] = rows[0, ..., 7, :]
    found, wide = many.copies(rows[0]), many.widest(views)
    for place in np.ndindex(2, 2):
        np.testing.assert_array_equal(wide[place], own.widest(views[(slice(None), *place)]))
        assert found[place].tolist() == own.copies(rows[(0, *place)]).tolist()
    assert (found[..., 3] == 2).all()


def test_the_other_rules_are_those_of_the_library() -> None:
    """The distance filter, and NNM before the geometric median, from inner products."""
    rows = np.random.default_rng(1).normal(size=(12, 12))
    rows[:3] *= 2.0
    expected = mt.DistanceFilter().aggregate(rows).weights
    np.testing.assert_allclose(many.distance_filter(many.gram(rows)), expected)
    assert 0.0 in expected
    expected = (mt.NNM(2) >> mt.GeometricMedian()).aggregate(rows).weights
    np.testing.assert_allclose(many.nearest_median(many.gram(rows), 2, 500), expected, atol=1e-4)


def test_the_recipe_without_a_memory_decides_from_this_round_alone() -> None:
    """With one rule there is no draw: it filters the clipped updates' sketches, and what came before has no part."""
    random = np.random.default_rng(2)
    rows = random.normal(size=(1, 1, 12, 2000)).astype(np.float32)
    rows[0, 0, :4] = 0.6 * rows[0, 0, :4] + 0.8 * rows[0, 0, 5] * np.sign(rows[0, 0, 4])
    recipe = recipes.Forgetting(4, 2000, ("filter 2",))
    for round in range(3):
        found = recipe(rows + np.float32(round % 2), round)
    clipped = rows[0, 0] * many.clip_factors(rows[0, 0]).astype(np.float32)
    weights = above_noise(own.view_of(recipe.sketch(clipped))[None], 4).weights
    np.testing.assert_allclose(found[0, 0], weights @ clipped / weights.sum(), atol=1e-5)


def test_a_short_run(capsys, monkeypatch) -> None:
    """Three attacks, ten rounds: every recipe is printed with its worst case."""
    monkeypatch.setitem(trainings.SETTINGS, "digits", (1, 8, 0.05, 4, 10))
    monkeypatch.setattr(command, "ATTACKS", {name: ATTACKS[name] for name in ("none", "ALIE 1", "split")})
    command.main(["digits", "--seeds", "1", "--momentum", "server", "--identities", "3", "--partition", "0.5"])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed] == ["omniscient", *recipes.recipes(1, 8)]
    assert all("; recommended is " in line for line in printed[2:])


def test_the_worst_case_has_an_interval(capsys, monkeypatch) -> None:
    """All attacks with one seed, then the worst two of each recipe with both, for all recipes."""
    monkeypatch.setitem(trainings.SETTINGS, "digits", (1, 8, 0.05, 4, 10))
    options = ["--attacks", "none; ALIE 1; split", "--worst", "2", "--recipes", "CAF,comed"]
    command.main(["digits", "--f", "2", "--n", "8", "--seeds", "2", *options])
    assert re.search(r"^CAF: [\d.]+, -?[\d.]+ \+- [\d.]+ below omniscient \(", capsys.readouterr().out, re.MULTILINE)


def test_two_recipes_are_compared_by_seed() -> None:
    """Their worst attacks differ: 60 and 58 under one, 50 and 60 under the other."""
    ours = np.array([[60.0, 61.0, 59.0], [49.0, 50.0, 51.0]])
    theirs = np.array([[58.0, 59.0, 57.0], [60.0, 60.0, 60.0]])
    # By seed -9, -9 and -6, of standard deviation 1.73, and Student's 4.30 at two degrees of freedom.
    expected = "-8.0 +- 4.3 above it, -10.0 +- 2.5 where it is least so (split)"
    assert command._compared(ours, theirs, ["ALIE 1", "split"]) == expected


def test_the_pool_without_a_memory_is_that_of_the_library() -> None:
    """Each result is that of one of its two rules, and both are drawn."""
    rows = np.random.default_rng(6).normal(size=(4, 5, 12, 30)).astype(np.float32)
    rows[..., :2, :] += 1.0
    found, drawn = recipes.DefaultPool(2)(rows, 0), set()
    for place in np.ndindex(4, 5):
        results = [rule(rows[place]) for rule in mt.default_pool(2)]
        away = [np.abs(result - found[place]).max() for result in results]
        drawn.add(int(np.argmin(away)))
        assert min(away) < 1e-3 < max(away)
    assert drawn == {0, 1}


@pytest.mark.parametrize("name", command.ATTACKS)
def test_attacks_have_their_shape(name: str) -> None:
    honest = np.random.default_rng(2).normal(size=(2, 8, 30)).astype(np.float32)
    state: dict[str, object] = {}
    for round in range(3):
        sent = command.ATTACKS[name](honest, 4, round, 10, state, np.random.default_rng(round))
        assert sent.shape == (2, 4, 30) and np.isfinite(sent).all()


def test_who_tries_updates_sends_the_most_harmful_of_them() -> None:
    """Against a plain mean: no fixed push of the list does more harm."""
    honest = np.random.default_rng(3).normal(size=(2, 8, 30)).astype(np.float32) + 1.0
    tried: list[np.ndarray] = []
    state = {"tried": lambda sent, _patient: (tried.append(sent), sent.mean(2))[1]}
    sent = TRYING["tries against the mean"](honest, 4, 0, 100, state, np.random.default_rng(4))
    harm = -np.einsum("csd,sd->cs", tried[0].mean(2), honest.mean(1))
    assert len(tried[0]) == 21
    np.testing.assert_allclose(-(sent.mean(1) * honest.mean(1)).sum(-1), harm.max(0), rtol=1e-5)


def test_baselines_are_the_plain_ones() -> None:
    """Four trainings at once, one of which has a worker that drifts, each as if it were alone."""
    random = np.random.default_rng(3)
    rounds = random.normal(size=(30, 2, 2, 9, 20)).astype(np.float32)
    rounds[:, 1, 0, 4:6] += 1.0
    ours, theirs = Safeguard(12, 5, reset=False), ByzantineSGD()
    plain = {place: naive_baselines.SafeguardState.begin(9, 20) for place in np.ndindex(2, 2)}
    other = {place: naive_baselines.ByzantineSGDState.begin(9, np.zeros(20)) for place in np.ndindex(2, 2)}
    for round, rows in enumerate(rounds):
        found, summed = ours(rows, round), theirs(rows, round)
        for place in np.ndindex(2, 2):
            plain[place], expected = naive_baselines.safeguard(plain[place], rows[place], long=12, short=5)
            np.testing.assert_allclose(found[place], expected, atol=1e-5)
            noise, model = float(theirs.noise[place][0]), np.zeros(20)  # at the start: the test on the way is idle
            other[place], expected = naive_baselines.byzantine_sgd(
                other[place], rows[place], model, noise=noise, diameter=1.0
            )
            np.testing.assert_allclose(summed[place], expected, atol=1e-5)
    assert not ours.good[1, 0, 4:6].any()


@pytest.mark.parametrize("name", ["shift 0.3", "pump"])
def test_attacks_that_are_copies_of_the_library(name: str) -> None:
    """Two rounds of each seed at once, each as the library's attack does it."""
    random, state = np.random.default_rng(4), {}
    library = {"shift 0.3": mt.attacks.Shift(0.3), "pump": mt.attacks.Pump(1.2)}[name]
    alone = [library.begin() for _ in range(2)]
    for round in range(2):
        honest, result = random.normal(size=(2, 8, 30)).astype(np.float32), random.normal(size=(2, 30))
        state["result"] = result
        sent = ATTACKS[name](honest, 4, round, 10, state, random)
        for seed in range(2):
            if alone[seed] is not None:
                alone[seed].observe(result[seed])
            expected = library(honest[seed], 4, state=alone[seed])
            np.testing.assert_allclose(sent[seed], expected, atol=1e-5)


def test_a_searched_resonance_starts_pays_back_and_is_the_one_of_the_list() -> None:
    """With a share of zero there is no noise, so that what is sent is the mean and the push."""
    honest = np.random.default_rng(0).normal(size=(1, 8, 30)).astype(np.float32)
    least, most = zip(*((low, high) for _, low, high in RESONANCE), strict=True)
    given = {"size": 1.5, "kept": 1.7, "period": 0.61, "duty": 0.5, "payback": -1.0, "start": 0.5}
    point = [
        (given.get(name, 0.0) - low) / (high - low)
        for (name, _, _), low, high in zip(RESONANCE, least, most, strict=True)
    ]
    searched, plain, state, other = resonant(point), resonance(1.5, 0.0, 0.0), {}, {}
    random = np.random.default_rng(1)
    for round in range(8):
        sent = searched(honest, 3, round, 8, state, random) - honest.mean(1)[:, None]
        push = plain(honest, 3, round, 8, other, random) - honest.mean(1)[:, None]
        expected = 0.0 * push if round < 4 else push if round < 6 else -push
        np.testing.assert_allclose(sent, expected, atol=1e-5)
        assert np.linalg.norm(push[0, 0]) > 1.0


def test_own_data_are_scaled_by_column_and_keep_their_classes(tmp_path, monkeypatch, capsys) -> None:
    """Three classes, one column a million times as large as the other, which alone tells them apart."""
    random, path = np.random.default_rng(0), tmp_path / "own.csv"
    labels = random.integers(3, size=600)
    columns = np.stack([1e6 * random.normal(size=600), labels + 0.1 * random.normal(size=600)], 1)
    rows = [f"{one},{two},class {kind}" for (one, two), kind in zip(columns, labels, strict=True)]
    path.write_text("\n".join(["one,two,label", *rows]))
    command.main([str(path), "--f", "2", "--seeds", "1", "--attacks", "ALIE 1", "--recipes", "recommended"])
    accuracy = re.search(r"recommended: ([\d.]+)", capsys.readouterr().out)
    assert accuracy is not None
    assert float(accuracy[1]) > 90.0


def test_what_was_found_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that runs again replaces its record."""
    monkeypatch.setitem(trainings.SETTINGS, "digits", (1, 8, 0.05, 4, 10))
    kept = tmp_path / "kept.json"
    given = ["digits", "--f", "2", "--attacks", "ALIE 1;none", "--keep", str(kept), "--momentum", "server"]
    both = ["--recipes", "recommended,CAF"]
    for options in ([], [], both, [*both, "--seeds", "3"], ["--byzantine", "3", *both]):
        command.main([*given, *options])
    records = json.loads(kept.read_text())
    assert [(record["seeds"], len(record["recipes"])) for record in records] == [
        ([0, 1], len(recipes.recipes(4, 8))),
        ([0, 1], 2),
        ([0, 2], 2),
        ([0, 1], 2),
    ]
    assert records[0]["options"] == {"f": 2, "momentum": "server"} and records[3]["options"]["byzantine"] == 3
    assert records[1]["attacks"] == 2 and records[1]["recipes"]["CAF"]["attack"] in ("ALIE 1", "none")
    ours = records[1]["recipes"]["recommended"]
    assert ours["below"] == pytest.approx(records[1]["omniscient"] - ours["accuracy"], abs=0.011)
