"""The sentences say what the records say, and no more."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mixtailor.experiments import Result, Results
from mixtailor.experiments.worst import groups
from mixtailor.report import write
from mixtailor.report.looks import COLOURS, contrast, looks
from mixtailor.report.sights import _accounts
from mixtailor.report.story import byzantine_choices, story
from mixtailor.report.summary import settled, summary
from mixtailor.report.terms import TERMS, explained

CONFIG: dict[str, Any] = {
    "data": "digits", "model": "mlp", "n": 10, "f": 2, "byzantine": 2, "rounds": 10, "evaluate_every": 5,
}  # fmt: skip


def made(rule: str, drawn: list[dict[str, int]], accuracy: float, attack: str = "strong", **more: Any) -> Result:
    """A run of ten rounds, evaluated twice, with the same accuracy both times."""
    byzantine = {"0": 5, "1": 5}
    records = [
        {"round": 5 * k, "accuracy": accuracy, "drawn": part, "selected": {}, "byzantine": byzantine, **more}
        for k, part in enumerate(drawn, 1)
    ]
    config = {**CONFIG, "seed": 0, "rule": {"name": rule}, "attack": {"name": "tailored", "epsilon": 0.1}}
    return Result("panel", rule, attack, "", "", config, records, True)


def runs() -> list[Result]:
    return [
        made("all-knowing", [{"Omniscient()": 5}] * 2, 0.95),
        made("Krum", [{"Krum(f=2)": 5}] * 2, 0.18, selected={"0": 4, "7": 1}),
        made("mixed", [{"Krum(f=2)": 3, "Comed()": 2}, {"Krum(f=2, p=3)": 5}], 0.9, selected={"1": 1, "5": 1}),
    ]


def test_the_story_is_that_of_the_records() -> None:
    (part,) = story(Results({}, runs(), []))
    assert part["text"][0].startswith("10 workers trained a model (mlp) on digits for 10 rounds.")
    assert "2 of the 10 workers were Byzantine and used one attack, strong: minus epsilon times" in part["text"][1]
    assert "ended at 95.0 %" in part["text"][2]
    told = {line["rule"]: line["text"] for line in part["rules"]}
    assert told == {
        "mixed": "mixed drew 3 rules of 2 kinds (Krum in 80 %, Comed in 20 % of the rounds) and ended at 90.0 % "
        "accuracy, 5.0 points below omniscient. On their own, under the same attack: Krum 18.0 %.",
        "Krum": "Krum chose a Byzantine worker in 80 % of its rounds and ended at 18.0 % accuracy, 77.0 points below "
        "omniscient.",
    }


def test_without_the_reference_nothing_is_compared_with_it() -> None:
    (part,) = story(Results({}, runs()[1:], []))
    assert "omniscient" not in " ".join([*part["text"], *(line["text"] for line in part["rules"])])


def test_the_worst_attack_is_named_where_there_are_several() -> None:
    mild = [replace(run, attack="mild", config={**run.config, "attack": {"name": "zero"}}) for run in runs()]
    for run in mild:
        run.records[:] = [{**record, "accuracy": 0.94} for record in run.records]
    (part,) = story(Results({}, [*mild, *runs()], []))
    krum = next(line["text"] for line in part["rules"] if line["rule"] == "Krum")
    assert krum.startswith("Krum: its worst case is strong. It chose a Byzantine worker in 80 %")
    assert "2 attacks were tried, each in runs of its own: mild and strong." in part["text"][1]


def test_no_share_is_claimed_where_byzantine_workers_change() -> None:
    """The records count by worker: where a worker was Byzantine in some rounds only, nobody can tell."""
    (run,) = [run for run in runs() if run.rule == "Krum"]
    assert byzantine_choices([run]) == (0.8, True)
    run.records[1]["byzantine"] = {"0": 3, "1": 5, "2": 2}
    assert byzantine_choices([run]) is None


def test_changing_workers_are_told_and_nobody_is_called_fooled(folder: Path) -> None:
    run = runs()[1]
    config = {**run.config, "identities": "changing", "participation": 0.5}
    text = story(Results({}, [replace(run, config=config)], []))[0]["text"]
    assert "50 % of the workers, drawn again each time, sent an update" in text[0]
    assert "2 of the 10 workers were Byzantine at a time, not always the same ones, and used one attack" in text[1]
    results = Results.load(folder)
    assert summary(results)["see"]["chosen"].startswith("A rule that is fooled")
    for other in results.runs:
        for record in other.records:
            record["byzantine"] = {str(worker): 1 for worker in range(12)} if record["round"] else {}
    assert summary(results)["see"]["chosen"] == ""


def test_runs_without_an_attack_say_so() -> None:
    run = runs()[1]
    calm = replace(run, attack="none", config={**run.config, "attack": {"name": "none"}, "byzantine": 0})
    assert story(Results({}, [calm], []))[0]["text"][1] == "No worker attacked."


def test_the_reference_last_hides_no_attack() -> None:
    """It trains without an attack and stands under every attack's name: the others say what these were."""
    reference, *others = runs()
    reference = replace(reference, config={**reference.config, "attack": {"name": "none"}})
    assert "used one attack, strong: minus" in story(Results({}, [*others, reference], []))[0]["text"][1]


def test_a_run_under_way_does_not_count_beside_a_complete_seed() -> None:
    """A mean of a whole run and of the beginning of another one is no result. Alone, the beginning is shown."""
    whole = made("Krum", [{"Krum(f=2)": 5}] * 2, 0.9)
    early = replace(made("Krum", [{"Krum(f=2)": 5}], 0.3), config={**whole.config, "seed": 1}, complete=False)
    (group,) = groups(settled(Results({}, [whole, early], [])))
    assert group.mean("Krum", "strong") == 90.0
    (alone,) = groups(settled(Results({}, [early], [])))
    assert alone.mean("Krum", "strong") == 30.0


def test_a_run_under_way_has_not_ended() -> None:
    """Its sentence says how far it is, and it is not compared with the reference, which may be farther."""
    reference, krum, _ = runs()
    early = replace(krum, records=krum.records[:1], complete=False)
    (part,) = story(Results({}, [reference, early], []))
    assert part["rules"][0]["text"] == (
        "Krum chose a Byzantine worker in 80 % of its rounds and had 18.0 % accuracy after 5 of 10 rounds."
    )
    assert any("ended at 95.0 %" in text for text in part["text"])
    (part,) = story(Results({}, [replace(reference, complete=False), early], []))
    assert not any("ended" in text for text in part["text"])


@pytest.mark.parametrize(("byzantine", "lead"), [((1.6, 1.8), "stands out"), ((1.1, 9.0), "hides among")])
def test_an_attack_hides_where_an_honest_worker_is_as_far(byzantine: tuple[float, float], lead: str) -> None:
    distances = {True: byzantine, False: (0.9, 1.0, 1.2)}
    workers = [{"distance": far, "lied": lied} for lied, own in distances.items() for far in own]
    chart = {"short": "strong", "accounts": [{"rule": "Krum", "workers": workers}]}
    assert _accounts([chart]).startswith(f"The attack {lead}")


def test_curves_without_draws_claim_none() -> None:
    """Kept curves have accuracies alone: no rule is said to draw or to choose."""
    kept = [
        replace(run, records=[{**record, "drawn": {}, "byzantine": {}} for record in run.records]) for run in runs()[2:]
    ]
    for run in kept:
        for record in run.records:
            record["selected"] = {}
    (part,) = story(Results({}, kept, []))
    assert part["rules"][0]["text"] == "mixed ended at 90.0 % accuracy."


@pytest.mark.parametrize(
    "given", ["Tailored(epsilon=0.1)", {"name": "Tailored(epsilon=0.1)", "digest": "0"}, "tailored"]
)
def test_attacks_are_described_however_they_were_given(given: object) -> None:
    run = runs()[1]
    told = story(Results({}, [replace(run, config={**run.config, "attack": given})], []))[0]["text"][1]
    assert told.endswith("strong: minus epsilon times the mean of the honest updates.")


def test_the_page_begins_with_what_happened_and_each_section_says_what_to_see(folder: Path) -> None:
    text = write(folder).read_text(encoding="utf-8")
    assert text.index("What happened") < text.index("<h2>Worst case") < text.index("Accuracy over the rounds")
    shown = summary(Results.load(folder))
    assert all(shown["see"][key] for key in ("groups", "charts", "draws", "chosen", "accounts", "times")), shown["see"]
    worst = shown["groups"][0]["worst"][-1]
    assert f"{worst['rule']} falls to {worst['accuracy']:.1f} % under {worst['attack']}" in shown["see"]["groups"][0]


def test_terms_are_whole_words_once_and_escaped() -> None:
    shown = str(explained("f and <f> and offer, epsilon=0.1 and epsilon"))
    assert shown.count("<button") == 2 and "&lt;f&gt;" in shown and "offer" in shown
    assert f'aria-describedby="term-{list(TERMS).index("epsilon")}">epsilon</button>=0.1' in shown


def test_a_class_that_was_drawn_looks_like_the_rule_of_its_own() -> None:
    found = looks(Results({}, runs(), []))
    assert found["Omniscient"] == found["all-knowing"]
    assert found["Comed"].colour not in {found[rule].colour for rule in ("all-knowing", "Krum", "mixed")}


def test_rules_that_are_named_first_look_the_same_whatever_was_run() -> None:
    """In one experiment Krum comes second, in the other it is missing or alone."""
    everything = runs()
    alone = [run for run in everything if run.rule == "Krum"]
    first = ("all-knowing", "Krum")
    one, other = (looks(Results({}, chosen, []), first) for chosen in (everything, alone))
    assert one["Krum"] == other["Krum"] != looks(Results({}, alone, []))["Krum"]
    assert one["mixed"].colour not in {one[rule].colour for rule in first}


@pytest.mark.parametrize("paper", ["#ffffff", "#0d1117"])
def test_lines_stand_out_from_the_page(paper: str) -> None:
    assert min(contrast(colour, paper) for colour in COLOURS) >= 3.0
