"""The page in a real browser: legend, toggling, hovering, no error, no request, a phone, the dark."""

import json
import os
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from mixtailor.experiments import Results
from mixtailor.report import write
from mixtailor.report.looks import COLOURS, looks
from mixtailor.report.terms import TERMS

_spec = spec_from_file_location("report_driver", Path(__file__).with_name("driver.py"))
assert _spec is not None and _spec.loader is not None
driver = module_from_spec(_spec)
_spec.loader.exec_module(driver)

pytestmark = pytest.mark.skipif(
    not driver.installed() and os.environ.get("MIXTAILOR_BROWSER") != "required",
    reason="chromium and chromedriver are not installed",
)

RULES = ["krum", "MixTailor", "<b>mean</b>"]


@pytest.fixture(scope="module")
def window(folder: Path) -> Iterator[Any]:
    page = write(folder)
    with driver.browser() as opened:
        opened.open(page.resolve().as_uri())
        yield opened


def test_every_rule_is_in_the_legend(window: Any) -> None:
    names = window.run("return [...document.querySelectorAll('#legend button')].map(b => b.dataset.name)")
    assert names == RULES
    assert window.run("return document.querySelectorAll('#charts svg polyline').length") == 6


def test_a_rule_can_be_switched_off_and_on(window: Any) -> None:
    visible = """return [...document.querySelectorAll('#charts g[data-rule]')]
        .filter(g => getComputedStyle(g).display !== 'none').map(g => g.dataset.rule)"""
    assert sorted(window.run(visible)) == sorted(RULES * 2)
    window.run("document.querySelector('#legend button').click()")
    assert "krum" not in window.run(visible)
    assert window.run("return document.querySelector('#legend button').getAttribute('aria-pressed')") == "false"
    window.run("document.querySelector('#legend button').click()")
    assert sorted(window.run(visible)) == sorted(RULES * 2)


def test_hovering_reads_the_chart(window: Any) -> None:
    told = window.run(
        """const svg = document.querySelector('#charts svg'), box = svg.getBoundingClientRect();
        svg.dispatchEvent(new PointerEvent('pointermove', {clientX: box.right - 12, clientY: box.top + 40}));
        const tip = document.getElementById('tip');
        return [tip.hidden, tip.textContent]"""
    )
    assert told[0] is False and "round 12" in told[1] and all(rule in told[1] for rule in RULES)
    window.run("document.querySelector('#charts svg').dispatchEvent(new PointerEvent('pointerleave'))")
    assert window.run("return document.getElementById('tip').hidden") is True


def test_choices_mark_the_byzantine_workers(window: Any) -> None:
    assert window.run("return document.querySelectorAll('#chosen th.byzantine').length") == 2
    assert window.run("return document.querySelectorAll('#draws .bar').length") >= 2
    assert window.run("return document.querySelectorAll('#times .bar').length") == 3


def test_the_account_of_workers_is_drawn_and_tabled(window: Any) -> None:
    """A dot for each worker of the chosen rule, the Byzantine ones marked; another rule shows another account."""
    dots = "return document.querySelectorAll('#standings circle').length"
    assert window.run(dots) == 12
    assert window.run("return document.querySelectorAll('#standings circle.lied').length") == 2
    assert window.run("return document.querySelectorAll('#accounts tbody tr').length") == 12
    assert window.run("return document.querySelectorAll('#accounts th.byzantine').length") == 2
    before = window.run("return document.querySelector('#standings figcaption').textContent")
    window.run(
        """const select = document.querySelector('#pick-rule select');
        select.value = '2'; select.dispatchEvent(new Event('change'));"""
    )
    after = window.run("return document.querySelector('#standings figcaption').textContent")
    assert before == "krum, seed 0" and after == "<b>mean</b>, seed 0"
    assert window.run(dots) == 12


def test_markup_in_names_stays_text(window: Any) -> None:
    assert window.run("return document.querySelectorAll('b').length") == 0
    assert "alert(1)" in window.run("return document.querySelector('h1').textContent")


def test_a_phone_needs_no_sideways_scrolling(window: Any) -> None:
    """At the width of a phone the page is as wide as the window; tables scroll inside themselves."""
    window.command("Emulation.setDeviceMetricsOverride", width=390, height=800, deviceScaleFactor=2, mobile=True)
    try:
        assert window.run("return document.documentElement.scrollWidth") <= 390
        assert window.run("return document.querySelector('#charts svg').getBoundingClientRect().width") > 300
    finally:
        window.command("Emulation.clearDeviceMetricsOverride")


def test_the_dark_is_dark(window: Any) -> None:
    background = "return getComputedStyle(document.body).backgroundColor"
    seen = {}
    for scheme in ("light", "dark"):
        window.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        seen[scheme] = window.run(background)
    assert seen == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}


# Every text that is shown, with its contrast to what is behind it, by WCAG 2.2; browsers give colours in two notations.
CONTRAST = """
const numbers = (text) => {
  const found = text.match(/[\\d.]+(?:e-?\\d+)?/g).map(Number), scale = text.startsWith('color(') ? 1 : 255;
  return [...found.slice(0, 3).map((part) => part / scale), found.length > 3 ? found[3] : 1];
};
const over = (top, below) => top.slice(0, 3).map((part, k) => part * top[3] + below[k] * (1 - top[3]));
const luminance = (colour) => colour.slice(0, 3).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, part, k) => sum + part * [0.2126, 0.7152, 0.0722][k], 0);
const behind = (node) => {
  const own = numbers(getComputedStyle(node).backgroundColor);
  return own[3] === 1 || !node.parentElement ? own : over(own, behind(node.parentElement));
};
for (const details of document.querySelectorAll('details')) details.open = true;
const found = [];
for (const node of document.querySelectorAll('body *:not(script)')) {
  const text = [...node.childNodes].filter((child) => child.nodeType === 3).map((child) => child.data).join('').trim();
  if (!text || !node.getClientRects().length) continue;
  const style = getComputedStyle(node), ground = behind(node);
  const ink = over(numbers(node instanceof SVGElement ? style.fill : style.color), ground);
  let faded = 1;
  for (let at = node; at; at = at.parentElement) faded *= Number(getComputedStyle(at).opacity);
  const [a, b] = [luminance(ink), luminance(ground)].sort((x, y) => y - x);
  found.push([text.slice(0, 40), faded * (a + 0.05) / (b + 0.05)]);
}
return found;
"""


def test_the_measure_of_contrast_sees_a_bad_cell(window: Any) -> None:
    """Text of the colour of its own cell has a contrast near 1: the test below can fail."""
    window.run("document.querySelector('td.heat').style.color = 'rgb(208, 60, 40)';"
               "document.querySelector('td.heat').style.background = 'rgba(208, 60, 40, 0.8)'")  # fmt: skip
    assert min(ratio for _, ratio in window.run(CONTRAST)) < 1.7
    window.run(
        "document.querySelector('td.heat').style.color = document.querySelector('td.heat').style.background = ''"
    )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_the_contrast_of_aa(window: Any, scheme: str) -> None:
    """Also where rules are hidden, and in cells of any accuracy and any share of choices."""
    window.command("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
    window.run("document.querySelector('#legend button').click()")
    window.run("document.querySelectorAll('td.heat').forEach((cell, k) => cell.style.setProperty('--heat', k % 5 / 4))")
    cells = "document.querySelectorAll('td.chosen')"
    colours = json.dumps(list(COLOURS))
    window.run(
        f"const all = {colours}; {cells}.forEach((cell, k) => {{ cell.style.setProperty('--share', 1); "
        "cell.style.setProperty('--c', k % 13 ? all[k % 13 - 1] : 'var(--mark)'); cell.textContent = '9'; })"
    )
    measured = window.run(CONTRAST)
    window.run("document.querySelector('#legend button').click()")
    assert len(measured) > 100
    assert [item for item in measured if item[1] < 4.5] == []


def test_terms_explain_themselves_to_mouse_keyboard_and_finger(window: Any) -> None:
    meaning = "const box = document.getElementById('meaning'); return box.hidden ? null : box.textContent"
    term = "const term = [...document.querySelectorAll('.term')].find(t => t.textContent === 'Byzantine');"
    for show, hide in (
        (
            "term.dispatchEvent(new PointerEvent('pointerenter'))",
            "term.dispatchEvent(new PointerEvent('pointerleave'))",
        ),
        ("term.focus()", "document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'})); term.blur()"),
        ("term.click()", "document.body.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))"),
    ):
        window.run(f"{term} {show}")
        assert window.run(meaning) == TERMS["Byzantine"], show
        window.run(f"{term} {hide}")
        assert window.run(meaning) is None, hide
    described = window.run(f"{term} return document.getElementById(term.getAttribute('aria-describedby')).textContent")
    assert described == TERMS["Byzantine"]


def test_hiding_a_rule_rescales_and_lines_carry_their_names(window: Any) -> None:
    """The mean stays low under the large epsilon: beside the others it is flat, and alone it fills the chart."""
    charts = "document.querySelectorAll('#charts svg')"
    press = "[...document.querySelectorAll('#legend button')].find(b => b.dataset.name === arguments[0]).click()"
    scale = """const select = document.querySelector("#scale select"); select.value = arguments[0];
        select.dispatchEvent(new Event("change"))"""
    heights = f"return [...{charts}[1].querySelectorAll('polyline')].map(line => line.getBBox().height)"
    before = window.run(heights)
    for name in RULES[:2]:
        window.run(press, name)
    after = window.run(heights)
    window.run(scale, "all")
    whole = window.run(heights)
    window.run(scale, "fit")
    for name in RULES[:2]:
        window.run(press, name)
    assert len(before) == 3 and len(after) == 1
    assert after[0] > 2 * before[2] and whole[0] < after[0]
    assert window.run(heights) == before
    labels = window.run(f"return [...{charts}[0].querySelectorAll('circle + text.label')].map(t => t.textContent)")
    assert sorted(labels) == sorted(RULES)
    assert window.run(f"return [...{charts}[0].querySelectorAll('.axis')].map(t => t.textContent)") == [
        "round",
        "test accuracy (%)",
    ]


def test_hiding_the_failed_rule_leaves_out_the_start(window: Any) -> None:
    """Before training every rule is at chance: if that counted, the axis would begin there whatever is hidden."""
    lowest = "return Number(document.querySelector('#charts svg .grid + text').textContent)"
    press = "[...document.querySelectorAll('#legend button')].find(b => b.dataset.name === arguments[0]).click()"
    first = window.run(
        """const lines = JSON.parse(document.getElementById("data").textContent).charts[0].series;
        return lines.filter(line => line.rule !== arguments[0])
            .map(line => [line.rounds[0], line.low[0], Math.min(...line.low.slice(1))])""",
        "krum",
    )
    before = window.run(lowest)
    window.run(press, "krum")
    after = window.run(lowest)
    window.run(press, "krum")
    assert all(line[0] == 0 for line in first)
    start, trained = min(line[1] for line in first), min(line[2] for line in first)
    assert before <= start < after <= trained
    assert window.run(lowest) == before


def test_a_strip_shows_the_draws_in_the_colours_of_their_rules(window: Any, folder: Path) -> None:
    known = {name: look.colour for name, look in looks(Results.load(folder)).items()}
    drawn = window.run(
        """return [...document.querySelector('#charts svg').querySelectorAll('.strip rect')]
        .map(r => [r.dataset.drawn, r.getAttribute('fill')])"""
    )
    assert {name for name, _ in drawn} <= {"Krum", "Comed", "GeometricMedian", "Bulyan"} and len(drawn) >= 4
    assert all(colour == known[name] for name, colour in drawn)
    assert known["Krum"] == known["krum"]
    line = window.run("return document.querySelector('#charts g[data-rule=krum] polyline').getAttribute('stroke')")
    assert line == known["krum"]


def test_arrow_keys_read_a_chart(window: Any) -> None:
    press = "document.querySelector('#charts svg').dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))"
    shown = (
        "const tip = document.getElementById('tip'); return tip.hidden ? null : tip.querySelector('strong').textContent"
    )
    window.run(press, "ArrowLeft")
    assert window.run(shown) == "round 12"
    window.run(press, "ArrowLeft")
    assert window.run(shown) == "round 9"
    window.run(press, "Escape")
    assert window.run(shown) is None


def test_a_phone_sees_the_worst_column_and_is_not_covered(window: Any) -> None:
    """The legend is one line that scrolls sideways, and the last column stays beside the first."""
    window.command("Emulation.setDeviceMetricsOverride", width=320, height=640, deviceScaleFactor=2, mobile=True)
    try:
        assert window.run("return document.getElementById('legend').offsetHeight") <= 80
        window.run("document.querySelector('.worst .wide').scrollLeft = 0")
        box = "document.querySelector('.worst td.pinned').getBoundingClientRect()"
        assert 0 < window.run(f"return {box}.left") < window.run(f"return {box}.right") <= 320
        window.run("document.querySelectorAll('.term')[0].click()")
        edge = "const b = document.getElementById('meaning').getBoundingClientRect(); return [b.left, b.right]"
        left, right = window.run(edge)
        assert left >= 0 and right <= 320
        window.run("document.body.dispatchEvent(new PointerEvent('pointerdown', {bubbles: true}))")
    finally:
        window.command("Emulation.clearDeviceMetricsOverride")


def test_no_error_and_no_request(window: Any) -> None:
    """The console is empty, and the file itself is all that was ever asked for."""
    assert [entry for entry in window.log("browser") if entry["level"] in ("SEVERE", "WARNING")] == []
    sent = [json.loads(entry["message"])["message"] for entry in window.log("performance")]
    asked = [m["params"]["request"]["url"] for m in sent if m["method"] == "Network.requestWillBeSent"]
    assert asked, "the log of requests works"
    assert all(
        url.startswith(("file://", "data:")) and (url.startswith("data:") or url.endswith("report.html"))
        for url in asked
    )
