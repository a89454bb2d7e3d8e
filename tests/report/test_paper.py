"""Figures and tables for a paper: their size, their looks, and what they say."""

import csv
import io
import json
import re
from pathlib import Path

import pytest

from mixtailor.cli import main
from mixtailor.experiments import Results
from mixtailor.experiments.worst import Group, groups, worst_cases
from mixtailor.report import draw, tables
from mixtailor.report.figures import COLUMN, draw_results
from mixtailor.report.looks import looks
from mixtailor.report.tables import as_csv, as_latex, escaped


def test_a_figure_is_as_wide_as_a_column_with_the_legend_below_the_axes(folder: Path) -> None:
    written = draw(folder, ["svg"], style="paper")
    assert [path.name[:2] for path in written] == ["01", "02", "00"]
    svg = written[0].read_text(encoding="utf-8")
    size = re.search(r'width="([\d.]+)pt" height="([\d.]+)pt"', svg)
    assert size is not None and float(size[1]) == pytest.approx(72 * COLUMN)
    legend = svg[svg.index('id="legend_1"') :]
    heights = [float(found) for found in re.findall(r'<text [^>]*?y="([\d.]+)"', legend)]
    axis = re.search(r'<g id="patch_2">\s*<path d="M [\d.]+ ([\d.]+)', svg)
    assert axis is not None and len(heights) == 3 and min(heights) > float(axis[1])


def test_the_colours_are_those_of_the_page_and_markers_tell_rules_apart(folder: Path) -> None:
    results = Results.load(folder)
    known = looks(results)
    for path in draw(folder, ["svg"], style="paper") + draw(folder, ["svg"]):
        svg = path.read_text(encoding="utf-8")
        assert all(f"stroke: {known[rule].colour}" in svg for rule in results.rules()), path.name
    assert len({known[rule].marker for rule in results.rules()}) == len(results.rules())


def test_the_same_results_give_the_same_bytes(folder: Path, tmp_path: Path) -> None:
    results = Results.load(folder)
    kinds = ["pdf", "svg", "png"]
    first, second = (draw_results(results, tmp_path / name, kinds, style="paper") for name in "ab")
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
    assert first[0].read_bytes().startswith(b"%PDF") and b"/Type3" not in first[0].read_bytes()


def test_an_unknown_style_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="'page' or 'paper', not 'poster'"):
        draw(folder, style="poster")


def test_tables_have_the_numbers_of_the_page(folder: Path) -> None:
    (group,) = groups(Results.load(folder))
    found = tables(folder)
    assert [path.name for path in found] == ["table-01.csv", "table-01.tex"]
    rows = list(csv.DictReader(io.StringIO(found[0].read_text(encoding="utf-8"))))
    for row, case in zip(rows, worst_cases(group), strict=True):
        assert row["rule"] == case.rule and row["worst_attack"] == case.attack
        assert float(row["worst"]) == pytest.approx(case.accuracy, abs=1e-4)
        for attack in group.attacks:
            assert float(row[attack]) == pytest.approx(group.mean(case.rule, attack), abs=1e-4)
    latex = found[1].read_text(encoding="utf-8")
    assert r"\textless{}b\textgreater{}mean\textless{}/b\textgreater{} & " in latex
    assert latex.count(r" \\" + "\n") == 4


def test_signs_of_latex_and_formulas_of_spreadsheets_stay_text() -> None:
    assert escaped("a_b & 5 % of $x^2$ {\\}") == (r"a\_b \& 5 \% of \$x\textasciicircum{}2\$ \{\textbackslash{}\}")
    group = Group("two\nlines", ["=1+1"], ["x"], {"=1+1": {"x": {0: 1.0}}})
    assert "\n'=1+1," in as_csv(group)
    assert as_latex(group).startswith("% Needs \\usepackage{booktabs}. two lines. ")


def test_a_rule_without_a_worst_case_is_in_the_tables_without_one() -> None:
    group = Group("t", ["a", "b"], ["x", "y"], {"a": {"x": {0: 1.0}, "y": {0: 2.0}}, "b": {"x": {0: 3.0}}})
    assert as_csv(group).splitlines()[2] == "b,3.0,,,,,,"
    assert r"b & \textbf{3.0} & -- & -- \\" in as_latex(group)


def test_the_command_writes_figures_and_tables(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(folder), "--style", "paper", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told["figures"]) == 9 and len(told["tables"]) == 2
    assert all(Path(path).parent.name == "paper" and Path(path).exists() for path in told["figures"] + told["tables"])
