"""The documentation agrees with the code: pages, tables, formulas, examples, links."""

import doctest
import importlib.util
import json
import re
import sys
import tomllib
from pathlib import Path

import numpy as np
import pytest

from mixtailor.attacks import registry as attack_registry
from mixtailor.cli import _app, _catalogue
from mixtailor.cli._formulas import Letter
from mixtailor.mixing import registry

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in DOCS.rglob("*.md"))
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS


def _loaded(name):
    if str(DOCS) not in sys.path:
        sys.path.insert(0, str(DOCS))
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("folder", "kinds"),
    [
        ("rules", registry.own_rules()),
        ("preaggregation", registry.own_preaggregations()),
        ("attacks", attack_registry.own_attacks()),
    ],
)
def test_every_class_has_its_page(folder, kinds):
    """Whatever is exported has a page named after its file, with its name as title."""
    for kind in kinds.values():
        page = DOCS / folder / f"{kind.__module__.rpartition('.')[2]}.md"
        assert page.is_file(), f"{kind.__name__} has no page {page.relative_to(ROOT)}: run make docs"
        assert page.read_text(encoding="utf-8").startswith(f"# {kind.__name__}\n")


def test_every_command_has_its_section():
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for name, module in _app.COMMANDS.items():
        assert f"## mixtailor {name}\n" in text
        assert module.EXAMPLE in text


def test_regenerating_changes_nothing(capsys):
    """Generated pages, tables and the picture are those that the classes give now."""
    assert _loaded("generate").main(["--check"]) == 0, f"run make docs: {capsys.readouterr().out}"


def test_a_changed_page_is_noticed(tmp_path, monkeypatch):
    """The check above can fail: an edited table is written again."""
    generate = _loaded("generate")
    text = "a\n<!-- rules -->\nedited by hand\n<!-- /rules -->\nb\n"
    fresh = generate.filled(text, "")
    assert "edited by hand" not in fresh and "rules/krum.md" in fresh
    assert generate.filled(fresh, "") == fresh


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(page):
    result = doctest.testfile(str(ROOT / page), module_relative=False, optionflags=FLAGS, encoding="utf-8")
    assert result.failed == 0


@pytest.mark.parametrize("page", sorted(path.name for path in (DOCS / "tutorials").glob("*.md")))
def test_tutorials_show_programs_that_run(page):
    """A block of a tutorial that is no doctest is part of an example, and the suite runs every example."""
    programs = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "examples").rglob("*.py")))
    text = (DOCS / "tutorials" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    assert blocks
    for block in blocks:
        assert block.startswith(">>>") or block in programs, f"no example has:\n{block}"


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", *PAGES])
def test_links_lead_somewhere(page):
    path = ROOT / page
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (path.parent / target).exists(), f"{page} links to {target}"


def test_extras_that_are_named_exist():
    """Whoever pastes `pip install "mixtailor[flower]"` gets what it says, from a page, an example or an error."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    files = [ROOT / "README.md", *DOCS.rglob("*.md"), *(ROOT / "examples").rglob("*.md"), *(ROOT / "src").rglob("*.py")]
    named = {
        (extra, path.name)
        for path in files
        for found in re.findall(r"mixtailor\[([a-z, ]+)\]", path.read_text(encoding="utf-8"))
        for extra in re.split(", ?", found)
    }
    assert {extra for extra, _ in named} >= {"all", "cli", "flower"}
    assert [each for each in sorted(named) if each[0] not in extras] == []


def test_the_index_lists_every_page():
    """Whatever page is added under docs/, a reader finds it from the index, or from an index that it lists."""
    listed = set()
    for index in [DOCS / "index.md", *sorted(DOCS.glob("*/index.md"))]:
        links = re.findall(r"\]\(([^)#]+)[^)]*\)", index.read_text(encoding="utf-8"))
        listed |= {(index.parent / target).resolve() for target in links if "://" not in target}
    missing = [page for page in PAGES if page != "docs/index.md" and (ROOT / page).resolve() not in listed]
    assert missing == [], f"docs/index.md lists no {', '.join(missing)}"


def test_options_keep_their_dashes_on_the_site():
    """`--rule` in a sentence is copied from there, and a shell knows no other dash."""
    assert _loaded("conf").smartquotes is False


def test_the_site_lists_every_page():
    """Sphinx refuses a page that no table of contents has; here it is seen without building the site."""
    conf = _loaded("conf")
    named = {page for parts in conf.CONTENTS.values() for _, pages in parts for page in pages}
    listed = {f"docs/{page}.md" for page in named}
    listed |= {page for page in PAGES if f"{page.split('/')[1]}/index" in conf.CONTENTS}
    assert set(PAGES) - listed == {"docs/index.md"}
    assert named - {"*", "api/index"} <= {page[5:-3] for page in PAGES}


def test_the_report_of_the_demo_replaces_no_page():
    """It is copied beside the pages, under a name that no page has; it had that of the page about reports."""
    conf = _loaded("conf")
    assert conf.EMBEDDED.endswith(".html")
    assert not (DOCS / conf.EMBEDDED).with_suffix(".md").exists()
    assert not getattr(conf, "html_extra_path", [])


def test_pages_of_the_site_link_out_of_docs_and_show_formulas():
    """Links to pages stay, links to files lead to the repository, and formulas are written as Sphinx reads them."""
    conf = _loaded("conf")
    text = "[a](../choosing.md#x) [b](../../src/mixtailor/rules/krum.py) [c](https://x.org/y) [d](#e)"
    there = f"{conf.REPOSITORY}/src/mixtailor/rules/krum.py"
    expected = f"[a](../choosing.md#x) [b]({there}) [c](https://x.org/y) [d](#e)"
    assert conf.outward(text, DOCS / "rules" / "krum.md") == expected
    assert conf.formulas("a $`x_i`$ b\n```math\ny\n```\n") == "a {math}`x_i` b\n```{math}\ny\n```\n"
    assert conf.formulas("```python\n>>> 1\n1\n\n```\n") == "```python\n>>> 1\n1\n```\n"


def test_long_formulas_and_names_break_on_a_phone():
    """A formula at its wide spaces outside of brackets; a name after its dots and underscores."""
    conf = _loaded("conf")
    assert conf.pieces(r"a \quad b, \qquad \text{if \quad c}") == ["a ", " b, ", r" \text{if \quad c}"]
    context = {"next": {"title": "mixtailor.engines"}, "prev": {"title": "krum_beta"}, "body": "<h1>a.b</h1>"}
    conf.breakable(None, "", "", context, None)
    assert context["next"]["title"] == "mixtailor.<wbr>engines"
    assert context["prev"]["title"] == "krum_<wbr>beta"
    assert context["body"] == "<h1>a.<wbr>b</h1>"


def test_percent_signs_stay_with_their_numbers_in_tables():
    conf = _loaded("conf")
    assert conf.units("90 % here\n| a | 90 % |\n") == "90 % here\n| a | 90\N{NO-BREAK SPACE}% |\n"


def test_cited_papers_are_links_and_diagrams_are_words():
    """By arXiv's number where there is one, else by a search; code keeps its quotes."""
    conf = _loaded("conf")
    cited = (
        'Yin, "A Paper With A Long Enough Title", ICML 2018. Xie, "Another Paper With A Title", arXiv:1802.10116, 2018.'
        ' Douillard, "A Third Paper With A Title", 2023, arXiv:2311.08105.'
    )
    linked = conf.papers(cited, "[{}]({})")
    assert "https://scholar.google.com/scholar?q=%22A+Paper+With+A+Long+Enough+Title%22" in linked
    assert '"[Another Paper With A Title](https://arxiv.org/abs/1802.10116)"' in linked
    assert '"[A Third Paper With A Title](https://arxiv.org/abs/2311.08105)"' in linked
    assert conf.papers(f"```text\n{cited}\n```\n", "[{}]({})") == f"```text\n{cited}\n```\n"
    assert conf.formulas('```mermaid\nflowchart TD\n    a["x.y"] --> b & c\n```\n') == "```text\nx.y → b, c\n```\n"


def _number(text, **letters):
    """A formula of the tables, computed."""
    python = re.sub(r"(?<=[0-9a-z)]) ?(?=\()", "*", text).replace("floor*(", "math.floor(").replace("^", "**")
    python = re.sub(r"(?<=[0-9])(?=[a-z])", "*", python)
    return eval(python, {"math": __import__("math")}, letters)  # noqa: S307  # a formula of our own


@pytest.mark.parametrize("entry", [e for e in _catalogue.rules() if e.coefficient], ids=lambda e: e.name)
@pytest.mark.parametrize(("n", "f"), [(11, 1), (12, 2), (40, 7)])
def test_formulas_are_those_of_the_code(entry, n, f):
    """What the tables print is what `kappa` computes."""
    rule = entry.kind(f) if entry.tolerates == "f" else entry.kind()
    assert _number(entry.coefficient, n=n, f=f) == pytest.approx(rule.kappa(n, f, 1000))


@pytest.mark.parametrize("entry", [e for e in _catalogue.rules() if "n" in e.tolerates], ids=lambda e: e.name)
def test_what_is_withstood_is_what_the_code_says(entry):
    if entry.tolerates.startswith(("floor", "n - ")) and entry.name != "centered_clipping":
        assert _number(entry.tolerates, n=12) == entry.kind().tolerates(12)


def test_letters_are_written_as_people_write_them():
    n, f = Letter.named("n"), Letter.named("f")
    assert str(8 * f / (n - f) * (1 + n)) == "8f/(n - f) (1 + n)"
    assert str(4 * (1 + f / (n - 2 * f)) ** 2) == "4(1 + f/(n - 2f))^2"
    assert str(n - f - (n // 2 + 1 - f)) == "n - floor(n/2) - 1"
    assert str(n - n) == "0"


def test_the_picture_shows_what_the_readme_says():
    """Each attack breaks its own rule, MixTailor keeps 95 % or more under all three, and draws both of its rules."""
    picture = _loaded("picture")
    runs = json.loads(picture.NUMBERS.read_text(encoding="utf-8"))
    assert list(runs) == list(picture.PANELS)
    for broken, panel in zip(("mean", "krum", "comed"), runs.values(), strict=True):
        last = {name: np.mean(run["accuracy"][-5:]) for name, run in panel.items()}
        assert last[broken] < 60 < 95.0 < last["mixtailor"]
        assert last["mixtailor"] > max(last[name] for name in ("krum", "comed"))
        assert set(panel["mixtailor"]["drawn"]) == {0, 1} and len(panel["mixtailor"]["drawn"]) == picture.ROUNDS


def test_labels_of_the_picture_do_not_cover_each_other():
    heights = sorted(_loaded("picture").spread({"a": 10.0, "b": 11.0, "c": 40.0}).values())
    assert np.diff(heights).min() > 14.9


def test_tables_of_the_memory_show_the_record_with_the_most_seeds() -> None:
    tables = _loaded("memory_tables")

    def record(seeds: tuple[int, int], accuracy: float, **options: object) -> dict[str, object]:
        ours = {"accuracy": accuracy, "below": 96.0 - accuracy, "interval": 0.5, "attack": "ALIE 1"}
        higher = {**ours, "accuracy": accuracy + 1.0, "above": [0.1, 0.5]}
        others = {
            "ViewFilter with memory": {**ours, "above": [0.4, 0.1]},
            "ViewFilter(bound=3) with memory": higher,
            "CAF": {**ours, "above": [1.0, 0.2]},
        }
        recipes = {"recommended": ours, **others}
        options = {"f": 4, "momentum": "server", **options}
        return {"data": "digits", "options": options, "seeds": seeds, "omniscient": 96.0, "recipes": recipes}

    records = [record((10, 19), 93.0), record((10, 39), 92.0), record((10, 19), 90.5, byzantine=5)]
    header, lines = tables.worst_cases(records)
    first = ["f = 4", "digits", "server", "96.0", "92.0", "4.0 ± 0.5", "ALIE 1", "4"]
    assert lines[0] == first and len(header) == len(first)
    assert lines[1][0] == "five Byzantine, four declared" and lines[1][-1] == "6 below the right f; 1.5"
    before = [*records[:2], {**records[2], "form": "before"}]
    assert tables.worst_cases(before)[1][1][2:] == [
        "server †",
        "96.0",
        "90.5",
        "5.5 ± 0.5",
        "ALIE 1",
        "6 below the right f",
    ]
    assert tables.draw(records)[1] == [["digits", "server", "10 to 39", "92.0", "92.0", "93.0", "0.1 ± 0.5", "yes"]]
    apart = [record((10, 19), 80.0, f=2, partition="label")]
    title, found = tables.alternatives(apart)
    assert title == ["", "one label per worker, f = 2, server"] and found[0] == ["recommended", "16.0 ± 0.5"]
