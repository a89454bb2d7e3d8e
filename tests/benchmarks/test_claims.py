"""Every claim is measured by a file named after it, and the table has every row that is promised."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks import _own, _run
from benchmarks.__main__ import publish, publish_some
from benchmarks._data import FAR, SCALE, gradients
from benchmarks._findings import Finding, from_json, to_json
from benchmarks._page import HEADINGS, fill, missed, page_parts, rows, short
from benchmarks._picture import draw
from benchmarks._plans import tiny
from benchmarks._table import ROWS, tasks_of_table
from benchmarks._worker import peak

ROOT = Path(__file__).resolve().parents[2]

# The table as it was promised: the limit in units of the mean, and how many times faster than the fastest peer.
PROMISED = {
    "Comed": (1.6, 60),
    "TrimmedMean": (2, 30),
    "Meamed": (3, 60),
    "Krum, p = 2": (2.5, 8),
    "MultiKrum, p = 2": (3, 8),
    "Krum, any integer p up to 16, any magnitude": (9, None),
    "all 16 distance matrices of the paper's pool": (12, None),
    "GeometricMedian, p = 2": (3.5, 12),
    "Bulyan": (7, 40),
    "GeometricMedian, other p, a pass": (2.5, None),
    "NNM >> Krum": (1.5, None),
    "NNM >> GeometricMedian": (1.5, None),
    "NNM >> Comed": (8, None),
    "NNM >> TrimmedMean": (8, None),
    "NNM >> Krum p = 3": (8, None),
    "MixTailor, the paper's pool, mean of 64 rules": (15, None),
    "SMEA": (8, None),
    "CAF": (8, None),
    "DnC": (8, None),
    "MDA": (8, None),
    "recommended, ViewFilter": (10, None),
    "recommended, ViewFilter, bound 3": (10, None),
}


@pytest.fixture(scope="module")
def report() -> dict[str, object]:
    """A run at the least size, without the claims that start other processes."""
    return _run.run(
        tiny(),
        (
            "multiple_of_the_mean",
            "far_row",
            "small_updates",
            "adaptive_attack",
            "scaling_with_n",
            "many_workers",
            "round",
        ),
    )


def test_the_table_has_every_row_that_is_promised() -> None:
    limits = {row.name: (row.limit, row.faster) for row in ROWS}
    assert {name: limits.get(name) for name in PROMISED} == PROMISED


def test_the_pool_of_the_table_is_the_papers() -> None:
    """Sixty-four places, of which the sixteen equal comeds are timed once."""
    timed = [name for name in tasks_of_table() if name.startswith("pool ")]
    assert len(timed) == 64 - 15
    assert set(tasks_of_table()) <= set(_own.tasks(12, 2))


def test_a_chosen_draw_runs_the_rule_of_its_place() -> None:
    import mixtailor as mt

    pool = mt.paper_pool(2)
    sample = gradients(12, 64, 2)
    for place in (0, 16, 33, 63):
        assert mt.MixTailor(pool, entropy=_own.Chosen(place)).aggregate(sample).rule == pool[place]


def test_every_claim_has_its_file() -> None:
    assert all((ROOT / "benchmarks" / f"{claim}.py").exists() for claim in _run.CLAIMS)


def test_rows_look_like_gradients() -> None:
    sample = gradients(12, 4096, 2)
    assert sample.dtype == np.float32
    assert 0.1 * SCALE < np.median(np.abs(sample)) < 10 * SCALE
    assert np.abs(sample).max() > 20 * np.median(np.abs(sample))  # a normal distribution has 7
    same = [(i, j) for i in range(12) for j in range(i) if np.array_equal(sample[i], sample[j])]
    assert len(same) == 1  # the two tailored ones
    tailored = sample[list(same[0])]
    honest = np.delete(sample, same[0], axis=0)
    np.testing.assert_allclose(tailored[0], -0.1 * honest.mean(axis=0), atol=1e-3 * SCALE)
    far = gradients(12, 4096, 2, "far")
    assert (np.abs(far) == np.float32(FAR)).all(axis=1).sum() == 1
    assert np.abs(gradients(12, 4096, 2, "tiny")).max() < 1e-26
    np.testing.assert_array_equal(sample, gradients(12, 4096, 2))


def test_every_claim_is_measured_at_a_tiny_size(report: dict[str, object]) -> None:
    found = from_json(report["findings"])
    by_claim = {claim: [each.what for each in found if each.claim == claim] for claim in _run.CLAIMS}
    assert by_claim["multiple_of_the_mean"] == by_claim["far_row"] == [row.name for row in ROWS]
    assert by_claim["small_updates"] == [row.name for row in ROWS if row.limit is not None]
    assert "the pool of 64, 4 epsilons" in by_claim["adaptive_attack"]
    assert {"Krum, 12 to 14 rows", "Comed, 14 to 16 rows", "MDA, n alone"} <= set(by_claim["scaling_with_n"])
    assert [each.limit for each in found if each.claim == "round"] == [1.3, 1.3]
    assert all(np.isfinite(each.value) for each in found)


def test_a_report_survives_json_and_fills_page_and_picture(report: dict[str, object], tmp_path: Path) -> None:
    peer = {"peer": "Other (torch)", "peer_milliseconds": 30.0, "milliseconds": 1.5}
    peer |= {"peer_alike": None, "faster_alike": None}
    added = Finding("against_peers", "Comed", "(12, 640)", 20.0, "x faster", 60, at_least=True, facts=peer)
    findings = [*from_json(report["findings"]), added]
    whole = json.loads(json.dumps({**report, "findings": to_json(findings)}))
    assert from_json(whole["findings"]) == findings
    assert [line[0] for line in rows(whole)] == [row.name for row in ROWS]
    comed = dict(zip(HEADINGS, rows(whole)[0], strict=True))
    assert (comed["fastest peer"], comed["its ms"], comed["faster"]) == ("Other (torch)", "30", "20x (!)")
    assert "against_peers: Comed at (12, 640): 20 x faster, at least 60" in missed(whole)
    page = tmp_path / "performance.md"
    page.write_text((ROOT / "docs" / "performance.md").read_text())
    fill(page, page_parts(whole))
    assert "Other (torch)" in page.read_text()
    assert "Other (torch)" in short(whole)
    draw(whole, tmp_path / "picture.svg")
    assert "20 times faster" in (tmp_path / "picture.svg").read_text()


def test_claims_that_were_not_measured_keep_their_tables(report: dict[str, object], tmp_path: Path) -> None:
    """A report of some claims replaces their tables and findings, and no others."""
    page, readme = tmp_path / "performance.md", tmp_path / "README.md"
    page.write_text((ROOT / "docs" / "performance.md").read_text())
    (tmp_path / "performance.json").write_text((ROOT / "docs" / "performance.json").read_text())
    readme.write_text("no table of speeds here\n")
    whole = json.loads(json.dumps(report))
    publish(whole, page, tmp_path / "picture.svg", readme)
    first = page.read_text()
    some = {
        **whole,
        "findings": [each for each in whole["findings"] if each["claim"] != "scaling_with_n"],
        "date": "later",
    }
    published = publish(some, page, tmp_path / "picture.svg", readme)
    assert published["measured_alone"]["scaling_with_n"] == whole["date"]
    assert "small_updates" not in published["measured_alone"]
    second = page.read_text()
    table = [text.partition("<!-- scaling_with_n -->")[2].partition("<!-- /")[0] for text in (first, second)]
    assert table[0] == table[1] != ""
    assert "Measured later" in second


def test_some_claims_are_published_alone(report: dict[str, object], tmp_path: Path) -> None:
    """Their tables change, and so does the list of what was missed; the others stay as they are."""
    page = tmp_path / "performance.md"
    page.write_text((ROOT / "docs" / "performance.md").read_text())
    (tmp_path / "performance.json").write_text((ROOT / "docs" / "performance.json").read_text())
    before = page.read_text()
    publish_some(json.loads(json.dumps(report)), ["many_workers"], page)
    after = page.read_text()
    assert "(20, 640)" in after and "(1000, 65,536)" not in after
    section = "<!-- peak_memory -->"
    assert after.split(section)[2:] == before.split(section)[2:] and after.split(section)[1] == before.split(section)[1]
    numbers = json.loads((tmp_path / "performance.json").read_text())
    assert {each["size"] for each in numbers["findings"] if each["claim"] == "many_workers"} == {"(20, 640)"}
    assert numbers["measured_alone"]["many_workers"] == report["date"]


def test_every_claim_has_its_place_on_the_page(report: dict[str, object]) -> None:
    """A claim of its own table, or a row of the tables of rules and peers."""
    shown = {"multiple_of_the_mean": "table", "far_row": "table", "against_peers": "peers"}
    parts, page = page_parts(report), (ROOT / "docs" / "performance.md").read_text()
    for claim in _run.CLAIMS:
        name = shown.get(claim, claim)
        assert name in parts and f"<!-- {name} -->" in page, claim


def test_peak_memory_sees_what_is_taken_and_given_back() -> None:
    def take_and_give_back() -> None:
        np.ones(8_000_000)

    assert 60e6 < peak(take_and_give_back) < 80e6
    assert peak(lambda: None) < 2e6
