"""The page in a real browser: legend, toggling, hovering, no error, no request, a phone, the dark."""

import json
import os
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import pytest

from mixtailor.report import write

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


def test_choices_mark_the_liars(window: Any) -> None:
    assert window.run("return document.querySelectorAll('#chosen th.liar').length") == 2
    assert window.run("return document.querySelectorAll('#draws .bar').length") >= 2
    assert window.run("return document.querySelectorAll('#times .bar').length") == 3


def test_the_account_of_workers_is_drawn_and_tabled(window: Any) -> None:
    """A dot for each worker of the chosen rule, the liars marked; another rule shows another account."""
    dots = "return document.querySelectorAll('#standings circle').length"
    assert window.run(dots) == 12
    assert window.run("return document.querySelectorAll('#standings circle.lied').length") == 2
    assert window.run("return document.querySelectorAll('#accounts tbody tr').length") == 12
    assert window.run("return document.querySelectorAll('#accounts th.liar').length") == 2
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
