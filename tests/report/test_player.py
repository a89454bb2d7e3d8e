"""The round player: what goes into the page, and the page under command of a browser."""

import json
import os
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

from mixtailor.experiments import Results  # needs torch, see above
from mixtailor.report import write  # as above
from mixtailor.report.player import fresh_looks, player  # as above

_spec = spec_from_file_location("report_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None and _spec.loader is not None
driver = module_from_spec(_spec)
_spec.loader.exec_module(driver)

browser = pytest.mark.skipif(
    not driver.installed() and os.environ.get("MIXTAILOR_BROWSER") != "required",
    reason="chromium and chromedriver are not installed",
)


def test_the_player_has_every_rule_of_the_first_seed(folder: Path) -> None:
    results = Results.load(folder)
    made = player([("one", [run for run in results.runs if run.attack == "tailored epsilon=0.1"])])
    (scene,) = made["scenes"]
    assert [take["rule"] for take in scene["takes"]] == ["krum", "MixTailor", "<b>mean</b>"]
    assert {take["seed"] for take in scene["takes"]} == {0}
    assert all([frame["round"] for frame in take["frames"]] == [1, 7, 12] for take in scene["takes"])
    assert "krum" in scene["takes"][0]["others"]


def test_too_many_frames_are_thinned(folder: Path) -> None:
    """First every second frame goes, then whole charts; the first and the last rounds stay."""
    results = Results.load(folder)
    whole = player([("one", results.runs)])
    size = len(json.dumps(whole["scenes"]))
    fewer = player([("one", results.runs)], size - size // 4)
    assert fewer["thinned"] and not whole["thinned"]
    assert [frame["round"] for frame in fewer["scenes"][0]["takes"][0]["frames"]] == [1, 12]
    assert player([("one", results.runs)], 100)["scenes"] == []


def test_a_rule_of_the_player_alone_has_a_colour(folder: Path) -> None:
    """And one whose class is known elsewhere looks as it does there."""
    made = player([("one", Results.load(folder).runs)])
    known = {"Krum": {"colour": "#123456", "dash": ()}, "krum": {"colour": "#123456", "dash": ()}}
    found = fresh_looks(made, known)
    assert found["Comed"]["colour"].startswith("#") and found["Comed"] == found["Comed()"]
    assert all(look["colour"] == "#123456" for name, look in found.items() if name.startswith("Krum("))


def test_a_report_without_frames_has_no_player(tmp_path: Path) -> None:
    from mixtailor import Krum
    from mixtailor.simulation import Settings, Simulation, synthetic

    settings = Settings(n=9, rounds=2, evaluate_every=1, batch=4)
    for frames in (0, 2):
        Simulation(
            synthetic(), "logistic", Krum(f=2), settings=settings, folder=tmp_path / str(frames), frames=frames
        ).run()
    assert 'id="stage"' not in write(tmp_path / "0").read_text()
    assert 'id="stage"' in write(tmp_path / "2").read_text()


@pytest.fixture(scope="module")
def window(folder: Path) -> Iterator[Any]:
    page = write(folder)
    with driver.browser() as opened:
        opened.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
        opened.open(page.resolve().as_uri())
        yield opened


def says(window: Any) -> str:
    return str(window.run("return document.getElementById('says').textContent"))


def choose(window: Any, name: str, text: str) -> None:
    window.run(
        """const select = document.querySelector(`#${arguments[0]} select`);
        select.value = [...select.options].findIndex(o => o.text.includes(arguments[1]));
        select.dispatchEvent(new Event('change'));""",
        name,
        text,
    )


def value(window: Any, name: str) -> int:
    """Of the row of a rule: percent of the honest mean."""
    found = "[...document.querySelectorAll('#results .row')].find(row => row.querySelector('.name').firstChild.data"
    text = window.run(f"return {found} === arguments[0]).querySelector('.value').textContent", name)
    return int(text.split("\u00a0")[0])


@browser
def test_it_opens_on_the_server_that_draws(window: Any) -> None:
    assert window.run("return document.querySelector('#server select').selectedOptions[0].text") == "MixTailor"
    assert says(window).startswith("Round 1 of 12. The server drew ")
    marks = "return ['honest', 'byzantine', 'truth'].map(c => document.querySelectorAll(`#stage .${c}`).length)"
    assert window.run(marks) == [10, 2, 1]
    assert window.run("return document.querySelectorAll('#ticks i').length") == 3


@browser
def test_scrubbing_keys_and_playing_go_through_the_rounds(window: Any) -> None:
    window.run("const s = document.getElementById('scrub'); s.value = 1; s.dispatchEvent(new Event('input'))")
    assert says(window).startswith("Round 7 of 12.")
    press = "document.getElementById('stage').dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))"
    for key, round in (("ArrowRight", 12), ("ArrowRight", 12), ("Home", 1), ("ArrowRight", 7), ("ArrowLeft", 1)):
        window.run(press, key)
        assert says(window).startswith(f"Round {round} of 12."), key
    window.run(press, " ")
    assert "Pause" in window.run("return document.getElementById('play').textContent")
    script = """const done = arguments[0], says = document.getElementById('says'),
        look = () => says.textContent.startsWith('Round 7 ') ? done(true) : setTimeout(look, 50); look();"""
    assert window.wait(script) is True
    window.run("document.getElementById('play').click()")
    assert "Play" in window.run("return document.getElementById('play').textContent")


@browser
def test_being_the_attacker(window: Any) -> None:
    """The mean goes (10 - 2 epsilon) / 12 of the way: 80 % at 0.2, and backwards at 10."""
    choose(window, "server", "mean")
    window.run("document.querySelector('#modes button[value=attacker]').click()")
    move = "const e = document.getElementById('epsilon'); e.value = arguments[0]; e.dispatchEvent(new Event('input'))"
    window.run(move, 3)
    assert value(window, "<b>mean</b>") == 80 and "−0.2 times the honest mean" in says(window)
    window.run(move, 8)
    assert value(window, "<b>mean</b>") == -83
    assert "<b>mean</b>" in says(window) and "backwards" in says(window)
    lines = window.run("return [...document.querySelectorAll('#curves polyline')].map(l => l.dataset.line)")
    assert "<b>mean</b>" in lines and "krum" in lines
    window.run("document.querySelector('#modes button[value=happened]').click()")
    assert window.run("return document.getElementById('attack').hidden") is True


@browser
def test_the_other_attack_and_the_other_height(window: Any) -> None:
    choose(window, "scene", "epsilon=10")
    choose(window, "server", "mean")
    assert value(window, "<b>mean</b>") == -83 and "goes backwards" in says(window)
    height = "return document.querySelector('#stage .honest').getAttribute('cy')"
    before = window.run(height)
    window.run("document.querySelector('#views button[value=whole]').click()")
    assert window.run(height) != before
    assert "whole distance" in window.run("return document.getElementById('hides').textContent")
    window.run("document.querySelector('#views button[value=plane]').click()")
    choose(window, "scene", "epsilon=0.1")


@browser
def test_a_rule_can_be_picked_and_a_mark_explains_itself(window: Any) -> None:
    window.run("document.querySelectorAll('#results .row')[1].click()")
    assert window.run("return document.querySelectorAll('#results .row[aria-pressed=true]').length") == 1
    assert window.run("return document.querySelectorAll('#stage .chosen-result').length") == 2
    told = window.run(
        """const mark = document.querySelector('#stage .byzantine');
        mark.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true, clientX: 9, clientY: 9}));
        return document.getElementById('tip').textContent"""
    )
    assert "Byzantine: -0.1 along the honest mean" in told


@browser
@pytest.mark.parametrize("mode", ["happened", "attacker"])
def test_a_phone_has_it_all_in_its_width(window: Any, mode: str) -> None:
    """Nothing sticks out at 320 pixels, and what is touched is 44 pixels high."""
    window.command("Emulation.setDeviceMetricsOverride", width=320, height=700, deviceScaleFactor=2, mobile=True)
    try:
        window.run(f"document.querySelector('#modes button[value={mode}]').click()")
        assert window.run("return document.documentElement.scrollWidth") <= 320
        small = """return [...document.querySelectorAll('#player button:not(.term), #player select')]
            .filter(b => b.getClientRects().length && b.getBoundingClientRect().height < 44).map(b => b.textContent)"""
        assert window.run(small) == []
        assert window.run("return document.getElementById('stage').getBoundingClientRect().width") > 280
    finally:
        window.command("Emulation.clearDeviceMetricsOverride")


@browser
def test_nothing_went_wrong(window: Any) -> None:
    assert [entry for entry in window.log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
