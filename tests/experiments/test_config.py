"""An experiment as data: what it becomes, and what is refused with which sentence."""

from pathlib import Path
from typing import Any

import pytest
import torch

from mixtailor import Krum, MixTailor
from mixtailor.attacks import (
    ALIE,
    BestResponse,
    Drift,
    Informed,
    LabelFlip,
    LineSearch,
    Roles,
    Schedule,
    Tailored,
    Zero,
)
from mixtailor.experiments import PRESETS, Experiment, RunConfig, building
from mixtailor.experiments.building import make_attack, settings_of, simulation_of
from mixtailor.experiments.errors import ConfigError
from mixtailor.mixing.registry import make_rule
from mixtailor.preaggregation import Chain
from mixtailor.simulation import Cosine, Dataset

TINY = {"data": "synthetic", "model": "logistic", "rounds": 4, "evaluate_every": 2, "batch": 4, "rule": "comed"}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"learning_rat": 0.1}, "there is no key 'learning_rat'. Did you mean 'learning_rate'?"),
        ({"momentum": 1.5}, "momentum is 1.5: input should be less than 1"),
        ({"data": "minst"}, "there is no data set 'minst'. Did you mean 'mnist'?"),
        ({"preset": "mnits"}, "there is no preset 'mnits'. Did you mean 'mnist'?"),
        ({"rule": "krumm"}, "There is no rule 'krumm'. Did you mean 'krum'?"),
        ({"rule": {"name": "krum", "pp": 3}}, "'krum' takes no parameter 'pp'. Did you mean 'p'?"),
        ({"rule": {"p": 3}}, "needs a name"),
        ({"rule": "nmm >> krum"}, "There is no pre-aggregation 'nmm'. Did you mean 'nnm'?"),
        ({"attack": "tailord"}, "There is no attack 'tailord'. Did you mean 'tailored'?"),
        ({"attack": {"name": "tailored", "epsilom": 1}}, "'tailored' takes no parameter 'epsilom'"),
        ({"attack": {"name": "tailored", "epsilon": -1.0}}, "epsilon > 0"),
        ({"attack": {"name": "none", "z": 1}}, "'none' takes no parameter 'z'"),
        ({"attack": {"name": "line_search"}}, "needs the parameter 'attack'"),
        ({"attack": {"name": "tailored", "knowledge": "seees"}}, "no level of knowledge 'seees'. Did you mean 'sees'?"),
        ({"partition": "by_labels"}, "There is no partition 'by_labels'. Did you mean 'by_label'?"),
        (
            {"partition": {"name": "dirichlet", "alfa": 1}},
            "'dirichlet' takes no parameter 'alfa'. Did you mean 'alpha'?",
        ),
        ({"rate": "cosinus"}, "There is no rate 'cosinus'. Did you mean 'cosine'?"),
        ({"model_options": {"hiden": 3}}, "'logistic' takes no parameter 'hiden'. It has none."),
        ({"rule": "krum", "f": 5}, "Krum(f=5) needs at least 13 rows (n >= 2f + 3) and got 12"),
        (
            {"rule": "comed", "f": 4, "n": 8},
            "Comed() tolerates 3 Byzantine updates of 8, and f = 4. For that it needs at least 9 rows (n >= 2f + 1). "
            "Lower f, or wait for more workers. To see what more Byzantine workers do to it, lower f and "
            "give byzantine = 4.",
        ),
        ({"byzantine": 11}, "two honest workers"),
        ({"sends": "models", "worker_momentum": 0.9}, "local_momentum"),
        ({"identities": "sometimes"}, "identities is 'sometimes': input should be 'fixed' or 'changing'"),
        ({"identities": 0}, "identities is 0: input should be greater than or equal to 1"),
        ({"attack": {"name": "schedule", "attack": "alie", "start": 1.5}}, "a share of the rounds below 1"),
        ({"attack": {"name": "split", "attack": "aly"}}, "There is no attack 'aly'"),
        ({"rounds": "many"}, "rounds is 'many': input should be a valid integer"),
    ],
)
def test_what_is_wrong_gets_a_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.made({**TINY, **changes}, "file.toml")
    assert str(caught.value).startswith("file.toml: ") and words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("titel = 'x'", "there is no key 'titel'. Did you mean 'title'?"),
        ("title = 'x'\n[rum]", "there is no key 'rum'. Did you mean 'run'?"),
        ("title = ", "is not valid TOML"),
        ("title = 'x'\n[run]\nseed = []\nrule = 'mean'", "The list of 'seed' is empty"),
        ("title = 'x'\n[[claims]]\ntext = 'a'\nrule = 'b'\nthan = 1.0\nif = 2", "there is no key 'claims.0.if'"),
    ],
)
def test_a_wrong_file_gets_a_sentence(text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Experiment.parse(text, "mine").entries()
    assert words in str(caught.value)


def test_lists_make_a_sweep_and_parameters_stay_lists() -> None:
    text = """
    title = "x"
    [run]
    preset = "digits"
    rule = ["krum", "comed", "mean"]
    attack = {name = "random_epsilon", epsilons = [0.1, 10.0]}
    momentum = [0.0, 0.9]
    seed = [3, 4]
    """
    entries = Experiment.parse(text).entries()
    assert len(entries) == 12 and len({entry.config.hash for entry in entries}) == 12
    assert {entry.setting for entry in entries} == {"momentum = 0.0", "momentum = 0.9"}
    assert entries[0].config.attack == {"name": "random_epsilon", "epsilons": [0.1, 10.0]}
    assert {entry.config.seed for entry in entries} == {3, 4}


def test_the_network_is_a_reading_of_a_preset() -> None:
    """It names the model and its options, and what is given beside it wins."""
    run = {"preset": "mnist", "rule": "comed"}
    config = RunConfig.made({**run, "network": "code"})
    assert (config.model, config.model_options) == ("mlp", {"hidden": 100})
    assert config.hash == RunConfig.made({**run, "model": "mlp", "model_options": {"hidden": 100}}).hash
    assert RunConfig.made({**run, "network": "text"}).hash == RunConfig.made(run).hash
    for table, message in [
        ({**run, "network": "cod"}, "Did you mean 'code'"),
        ({"rule": "comed", "network": "code"}, "needs a preset"),
        ({"preset": "digits", "rule": "comed", "network": "code"}, "no network for the preset 'digits'"),
    ]:
        with pytest.raises(ConfigError, match=message):
            RunConfig.made(table)


def test_panels_override_what_all_runs_have() -> None:
    text = """
    title = "x"
    run = {preset = "digits", rule = "mean", f = 2}
    panels = [{title = "a"}, {title = "b", run = {f = 4, byzantine = 3}}]
    """
    one, two = Experiment.parse(text).entries()
    assert (one.panel, one.config.f, one.config.byzantine) == ("a", 2, 2)
    assert (two.panel, two.config.f, two.config.byzantine) == ("b", 4, 3)


def test_impossible_combinations_are_left_out_only_when_asked() -> None:
    text = 'title = "x"\nrun = {preset = "digits", rule = ["bulyan", "comed"], f = [2, 4]}\n'
    with pytest.raises(ConfigError, match="Bulyan"):
        Experiment.parse(text).entries()
    expanded = Experiment.parse("leave_out_impossible = true\n" + text).expanded()
    assert len(expanded.entries) == 3
    assert len(expanded.left_out) == 1 and "Bulyan(f=4) needs at least 19 rows" in expanded.left_out[0]


def test_more_byzantine_workers_than_declared_are_an_experiment() -> None:
    """f is what the server declares, and must be possible; how many there are is what the experiment is about."""
    config = RunConfig.made({**TINY, "n": 8, "f": 3, "byzantine": 4})
    assert simulation_of(config).run().records[-1]["round"] == 4
    for rule in ("mean", "omniscient", "geometric_median"):  # promises nothing, knows everything, tolerates f
        RunConfig.made({**TINY, "rule": rule, "n": 9, "f": 4})


def test_a_hash_is_of_what_decides_the_outcome() -> None:
    """Presets, defaults and labels change nothing; every other key does."""
    plain = RunConfig.made({"preset": "digits", "rule": "krum"})
    spelt = RunConfig.made({**PRESETS["digits"], "rule": {"name": "krum", "label": "K"}, "f": 2})
    assert plain.hash == spelt.hash and len(plain.hash) == 16
    for changes in ({"seed": 1}, {"f": 1}, {"momentum": 0.5}, {"rule": {"name": "krum", "p": 3}}, {"batch": 8}):
        assert RunConfig.made({"preset": "digits", "rule": "krum", **changes}).hash != plain.hash


def test_scale_keeps_the_number_of_evaluations() -> None:
    scaled = RunConfig.made({"preset": "mnist", "rule": "krum"}).scaled(0.05)
    assert (scaled.rounds, scaled.evaluate_every) == (2_500, 50)
    assert RunConfig.made({"preset": "mnist", "rule": "krum"}).scaled(1e-9).rounds == 1


def test_both_readings_of_epsilon() -> None:
    text = 'title = "x"\nrun = {rule = "krum", attack = ["tailored", {name = "alie", z = 1.0}]}'
    experiment = Experiment.parse(text).changed(scale_of_epsilon="sum/f")
    first, second = experiment.entries()
    assert first.config.attack == {"name": "tailored", "scale": "sum/f"} and first.attack == "tailored"
    assert second.config.attack == {"name": "alie", "z": 1.0}


def test_rules_are_built_in_all_their_forms() -> None:
    pool = make_rule({"name": "paper_pool", "without": ["bulyan"]}, f=4, n=12)
    assert isinstance(pool, MixTailor) and len(pool.rules) == 48
    forbidden = make_rule("paper_pool", f=4, n=12)
    assert isinstance(forbidden, MixTailor) and len(forbidden.rules) == 48, "what n forbids leaves from the start"
    own = make_rule({"name": "pool", "rules": ["krum", {"name": "krum", "p": 3}]}, f=2, n=12)
    assert isinstance(own, MixTailor) and own.rules == (Krum(f=2), Krum(f=2, p=3))
    chain = make_rule({"name": "resampling >> paper_pool", "repeats": 2, "f_after": "declared"}, f=2, n=12)
    assert isinstance(chain, Chain) and chain.f_after == "declared" and isinstance(chain.rule, MixTailor)
    assert repr(make_rule("nnm >> trimmed_mean", f=2, n=12)) == "NNM(f=2) >> TrimmedMean(f=2)"


def test_attacks_are_built_in_all_their_forms() -> None:
    rule = Krum(f=2)
    assert make_attack("none", rule=rule, classes=10) is None
    assert make_attack({"name": "label_flip"}, rule=rule, classes=7) == LabelFlip(classes=7)
    searched = make_attack({"name": "line_search", "attack": {"name": "alie", "z": 1.0}}, rule=rule, classes=10)
    assert searched == LineSearch(ALIE(z=1.0), rule)
    informed = make_attack({"name": "tailored", "knowledge": ["knows_pool", "oblivious"]}, rule=rule, classes=10)
    assert isinstance(informed, Informed) and repr(informed) == "KnowsPool() | Oblivious() | Tailored()"
    against = make_attack({"name": "fang_krum", "target": "server"}, rule=rule, classes=10)
    assert getattr(against, "target", None) is rule
    assert make_attack({"name": "tailored", "epsilon": 2.0}, rule=rule, classes=10) == Tailored(epsilon=2.0)


def test_attacks_are_built_inside_one_another() -> None:
    """A schedule may start at a share of the rounds; wrapped attacks get their targets."""
    rule = Krum(f=2)
    sleeper = {"name": "schedule", "attack": "best_response", "start": 0.7}
    assert make_attack(sleeper, rule=rule, classes=10, rounds=200) == Schedule(BestResponse(rule), start=140)
    blinding = {"name": "roles", "attack": {"name": "alie", "z": 0.5}, "other": "zero"}
    assert make_attack(blinding, rule=rule, classes=10) == Roles(ALIE(z=0.5), Zero())
    made = simulation_of(RunConfig.made({**TINY, "attack": {**sleeper, "attack": "drift"}}).scaled(5.0))
    assert made._adversary.attack == Schedule(Drift(), start=14)


@pytest.mark.parametrize(("preset", "shape"), [("mnist-small", (32, 196)), ("cifar10-small", (32, 192))])
def test_small_presets_pool_and_can_be_told_apart(preset: str, shape: tuple[int, int], monkeypatch: Any) -> None:
    """Images are averaged before the network sees them, and the whole images make another run."""
    side = {"mnist-small": (1, 28), "cifar10-small": (3, 32)}[preset]
    images, labels = torch.zeros(40, side[0], side[1], side[1], dtype=torch.uint8), torch.arange(40) % 10
    data = Dataset("blank", 10, images, labels, images, labels)
    monkeypatch.setattr(building, "load_data", lambda name, folder: data)
    building._loaded.cache_clear()
    config = RunConfig.made({"preset": preset, "rule": "comed"})
    assert simulation_of(config).layout.shapes[0] == shape
    building._loaded.cache_clear()
    assert config.model_copy(update={"pooled": 1}).hash != config.hash


def test_settings_take_every_key() -> None:
    config = RunConfig.made({**TINY, "rate": "cosine", "participation": 0.5, "byzantine": 1, "weight_decay": 0.0})
    settings = settings_of(config)
    assert settings.rate == Cosine() and settings.taking_part == 6 and settings.weight_decay == 0.0


def test_models_take_their_options() -> None:
    config = RunConfig.made({**TINY, "model": "mlp", "model_options": {"hidden": 3}})
    assert simulation_of(config).layout.shapes[0] == (3, 20)


def test_a_file_without_run_gets_one_sentence() -> None:
    text = 'rule = "krum"\ndata = "digits"\nrounds = 3\nseed = [0, 1]\n'
    with pytest.raises(ConfigError) as caught:
        Experiment.parse(text, "mine")
    assert str(caught.value) == (
        "mine has no table [run], and rule, data, rounds, seed belong there. Write the line [run] above them."
    )


def test_a_file_without_a_title_has_its_name() -> None:
    assert Experiment.parse('[run]\nrule = "krum"\n', "mine").title == "mine"


def test_a_file_that_runs_nothing_is_refused(tmp_path: Path) -> None:
    """It made no run, wrote an empty page and exited 0."""
    (tmp_path / "mine.toml").write_text('title = "x"')
    with pytest.raises(ConfigError, match=r"^mine\.toml has no table \[run\], so that there is nothing to run\. Write"):
        Experiment.read(tmp_path / "mine.toml")


def test_several_unknown_keys_are_one_sentence() -> None:
    with pytest.raises(ConfigError) as caught:
        Experiment.parse('title = "x"\ncolour = 1\nshape = 2\n[run]\nrule = "krum"', "mine")
    assert str(caught.value).startswith("mine: there are no keys 'colour', 'shape'. Known are claims, ")


def test_a_file_that_is_no_toml_is_called_by_its_whole_name(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text('title = "x"\n[run\n')
    with pytest.raises(ConfigError, match=r"^mine\.toml is not valid TOML: Expected .* line 2"):
        Experiment.read(tmp_path / "mine.toml")
