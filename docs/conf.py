"""The site: ``make docs`` builds it from these pages into ``site/``, with warnings as errors.

The pages are plain Markdown, which the hosting site shows as well. So what only Sphinx understands is added here, while
a page is read: tables of contents, links out of ``docs/``, and formulas.
"""

import re
import shutil
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
REPOSITORY = "https://github.com/mixtailor/mixtailor/blob/main"
REPORT = ROOT / "results" / "demo" / "report.html"
EMBEDDED = "demo.html"  # its name on the site, where report.html is the page about reports
VERSION = re.search(r'"(.+)"', (ROOT / "src/mixtailor/_version.py").read_text(encoding="utf-8"))

project = "mixtailor"
author = "The mixtailor developers"
copyright = author
release = version = VERSION[1] if VERSION else ""
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.autosummary", "numpydoc", "sphinx_copybutton"]
exclude_patterns = ["_templates"]
templates_path = ["_templates"]

default_role = "code"  # `names` in docstrings

html_theme = "furo"
html_title = "mixtailor"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_math_renderer = "mathml"
smartquotes = False  # it makes one dash of the two in --rule, which readers copy
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath"]
myst_links_external_new_tab = False

autodoc_typehints = "none"  # numpydoc's sections have the types
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True  # starts=PLANS, and not the plans
autosummary_ignore_module_all = False
autosummary_imported_members = True
numpydoc_show_class_members = False

CONTENTS = {
    "index": [
        (
            "Start",
            [
                "getting-started",
                "tutorials/see-an-attack",
                "tutorials/own-comparison",
                "tutorials/own-rule-and-attack",
                "tutorials/flower",
                "tutorials/training-loop",
            ],
        ),
        (
            "Use it",
            [
                "choosing",
                "memory",
                "one-round",
                "asynchronous",
                "decentralised",
                "engines/index",
                "engines/flower",
                "engines/distributed",
                "engines/frameworks",
                "engines/torchft",
                "engines/flare",
                "engines/private",
                "engines/files",
                "cli",
                "report",
                "training",
                "extending",
                "own-attack",
                "from-distances",
                "low-rank",
                "storage",
                "audit",
            ],
        ),
        ("Look it up", ["rules/index", "preaggregation/index", "attacks/index", "api/index"]),
        ("Judge it", ["security", "reliability", "mutants", "adversary", "reproduction", "theory", "performance"]),
        ("Work on it", ["architecture", "api-stability", "releasing"]),
    ],
    "rules/index": [("", ["*"])],
    "preaggregation/index": [("", ["*"])],
    "attacks/index": [("", ["*"])],
}


def contents(page: str) -> str:
    """The tables of contents of a page, which show in the navigation alone."""
    parts = []
    for title, pages in CONTENTS.get(page, []):
        caption = f":caption: {title}\n" if title else ""
        parts.append("```{toctree}\n:hidden:\n:glob:\n" + caption + "\n" + "\n".join(pages) + "\n```\n")
    return "\n\n" + "\n".join(parts) if parts else ""


def outward(text: str, page: Path) -> str:
    """Links to what is no page of the site, such as source files, lead to the repository."""

    def target(found: "re.Match[str]") -> str:
        path, anchor = found[1], found[2] or ""
        if "://" in path or path.startswith("mailto:"):
            return found[0]
        full = (page.parent / path).resolve()
        inside = full.is_relative_to(DOCS) and full.suffix in (".md", ".rst", ".svg", ".png")
        return found[0] if inside else f"]({REPOSITORY}/{full.relative_to(ROOT).as_posix()}{anchor})"

    return re.sub(r"\]\(([^)#\s]+)(#[^)\s]*)?\)", target, text)


def formulas(text: str) -> str:
    """Formulas and diagrams as the hosting site writes them, in Sphinx's words."""
    text = re.sub(r"\$`([^`]+)`\$", r"{math}`\1`", text)
    text = re.sub(r"\n\n+```$", "\n```", text, flags=re.MULTILINE)  # doctest needs the empty line, readers do not
    text = re.sub(r"^```mermaid\n\w+ \w+\n(.*?)^```$", diagram, text, flags=re.DOTALL | re.MULTILINE)
    return text.replace("```math\n", "```{math}\n")


def diagram(found: "re.Match[str]") -> str:
    """Boxes and arrows as words and arrows, which need no script and no renderer."""
    named = re.sub(r'\w+\["([^"]+)"\]', r"\1", found[1])
    lines = [line.strip().replace(" --> ", " → ").replace(" & ", ", ") for line in named.splitlines()]
    return "```text\n" + "\n".join(lines) + "\n```"


CITED = re.compile(r'"([A-Za-z][^"`]{20,}?)"(,\s+[^"`]{0,80}?\b(?:19|20)\d\d\b)(,\s+arXiv[: ][\d.]+)?')
NUMBERED = re.compile(r"arXiv[: ](\d{4}\.\d{5}|\d{4}\.\d{4})(?:v\d)?")


def papers(text: str, link: str) -> str:
    """Titles of cited papers, outside of code, as links: to arXiv by its number, else to a search for the title."""

    def linked(found: "re.Match[str]") -> str:
        title = " ".join(found[1].split())
        number = NUMBERED.search(found[0])
        address = "https://scholar.google.com/scholar?q=" + quote_plus(f'"{title}"')
        address = f"https://arxiv.org/abs/{number[1]}" if number else address
        return '"' + link.format(title, address) + '"' + found[2] + (found[3] or "")

    parts = re.split(r"(^```.*?^```$)", text, flags=re.DOTALL | re.MULTILINE)
    return "".join(part if part.startswith("```") else CITED.sub(linked, part) for part in parts)


def units(text: str) -> str:
    """In tables, 5 % and p = 2 stay on one line: in a narrow column the end would begin a line of its own."""

    def kept(row: "re.Match[str]") -> str:
        return re.sub(r"(?<=\d) (?=%)|(?<=\bp) (?==)|(?<=\bp =) (?=\d)", "\N{NO-BREAK SPACE}", row[0])

    return re.sub(r"^\|.*$", kept, text, flags=re.MULTILINE)


def embedded(text: str) -> str:
    """The demo's report in place of the marker, where the demo was run; ``make docs`` runs it."""
    frame = (
        "```{raw} html\n"
        f'<p><a href="../{EMBEDDED}">The report of the demo, alone.</a></p>\n'
        f'<iframe class="report" src="../{EMBEDDED}" title="The report of the demo" loading="lazy"></iframe>\n'
        "```"
    )
    return text.replace("<!-- report -->", frame if REPORT.is_file() else "")


def read(app: Any, page: str, source: list[str]) -> None:
    path = Path(app.env.doc2path(page))
    if path.suffix == ".md":
        source[0] = embedded(units(formulas(papers(outward(source[0], path), "[{}]({})")))) + contents(page)


def docstring(_app: Any, _what: str, _name: str, _object: Any, _options: Any, lines: list[str]) -> None:
    text = papers("\n".join(lines), "`{} <{}>`__")
    lines[:] = re.sub(r"`{0,2}\bdocs/([\w/-]+)\.md`{0,2}", r":doc:`/\1`", text).split("\n")


def signature(
    _app: Any, _what: str, _name: str, _object: Any, _options: Any, arguments: str | None, returned: str | None
) -> tuple[str, str | None] | None:
    """Defaults that are made at each call, or are functions, as readers would write them."""
    if arguments is None:
        return None
    return re.sub(r"<function (?:\w+\.)*(\w+)>", r"\1", arguments.replace("<factory>", "...")), returned


def breakable(_app: Any, _page: str, _template: str, context: dict[str, Any], _doctree: Any) -> None:
    """On a phone, mixtailor.engines.distributed and published_krum_coefficient break between their words."""

    def dots(found: "re.Match[str]") -> str:
        return re.sub(r"(?<=[._])(?=\w)", "<wbr>", found[0])

    if "body" in context:
        names = r'(?<=<h1>)[\w.]+|(?<=descclassname"><span class="pre">)[\w.]+'
        context["body"] = re.sub(names, dots, context["body"])
    for page in (context.get("next"), context.get("prev")):
        if page:
            page["title"] = re.sub(r"^\w+(?:[._]\w+)+$", dots, page["title"])


def finished(app: Any, error: Exception | None) -> None:
    """The demo's report beside the pages."""
    if error is None and REPORT.is_file() and app.builder.format == "html":
        shutil.copyfile(REPORT, Path(app.outdir) / EMBEDDED)


def mathml(tex: str, *, block: bool) -> str:
    """MathML, which browsers show without a script. Sizes of brackets are left to them."""
    from docutils.utils.math.latex2mathml import tex2mathml  # not there where the tests import this file

    plain = re.sub(r"\\[bB]igg?[lrm]?(?![a-z])", "", tex).replace(r"\dots", r"\ldots")
    made = str(tex2mathml(plain, as_block=block))
    # Browsers stretch these to the highest part of the line, and the closing one, with its index, not at all.
    made = re.sub(r"<mo(?: class=\"mathopen\")?>([\u2016\u27e8\u27e9{}])</mo>", r'<mo stretchy="false">\1</mo>', made)
    # The index of a mean, x with a bar and S, is beside it and not below.
    return re.sub(
        r"<munderover>\s*(<mi>.</mi>)\s*(<mi>.</mi>)\s*(<mo [^>]*>\u02c9</mo>)\s*</munderover>",
        r'<msub><mover accent="true">\1\3</mover>\2</msub>',
        made,
    )


def inline(writer: Any, node: Any) -> None:
    writer.body.append(mathml(node.astext(), block=False))
    _skip()


def display(writer: Any, node: Any) -> None:
    shown = "\n".join(mathml(part, block=True) for part in pieces(node.astext()))
    writer.body.append(f'<div class="formula">{shown}</div>')
    _skip()


def pieces(tex: str) -> list[str]:
    """The parts of a formula between wide spaces, which a phone shows below each other."""
    marks = r"\\qquad|\\quad(?![a-z])|\\left(?![a-z])|\\right(?![a-z])|\\begin|\\end|\\?[{}]"
    found, depth = [""], 0
    for token in re.split(f"({marks})", tex):
        depth += (token in ("{", r"\left", r"\begin")) - (token in ("}", r"\right", r"\end"))
        if depth == 0 and token in (r"\qquad", r"\quad"):
            found.append("")
        else:
            found[-1] += token
    return [part for part in found if part.strip()]


def _skip() -> None:
    """What is inside has been written."""
    from docutils.nodes import SkipNode  # as above

    raise SkipNode


def setup(app: Any) -> None:
    app.add_html_math_renderer("mathml", inline_renderers=(inline, None), block_renderers=(display, None))
    app.connect("source-read", read)
    app.connect("autodoc-process-docstring", docstring, priority=400)  # before numpydoc, which rearranges references
    app.connect("autodoc-process-signature", signature)
    app.connect("html-page-context", breakable)
    app.connect("build-finished", finished)
