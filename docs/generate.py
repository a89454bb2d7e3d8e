"""Writes what the documentation says of classes and commands from the classes and commands themselves: ``make docs``.

Pages of rules, pre-aggregations and attacks are written whole; in other files, what stands between two markers such as
``<!-- rules -->`` and ``<!-- /rules -->``. With ``--check`` nothing is written, and files that would change are named.
"""

import argparse
import dataclasses
import inspect
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import memory_tables
import picture
import reproduction
import typer

from mixtailor.cli import _app, _catalogue
from mixtailor.cli._catalogue import NONE_PUBLISHED

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
INDEX = "index.md"  # of a folder: written by hand, but for its table
KINDS = {
    "rules": (_catalogue.rules, "mixtailor"),
    "preaggregation": (_catalogue.preaggregations, "mixtailor"),
    "attacks": (_catalogue.attacks, "mixtailor.attacks"),
}


# The text of docstrings, as Markdown.


def markdown(text: str) -> str:
    """Prose of a docstring: formulas, literals and citations as Markdown has them."""
    text = re.sub(r"\.\. math:: ((?:.+\n?)(?:[ \t]+.+\n?)*)", _display, text)
    text = re.sub(r":math:`([^`]+)`", lambda found: f"$`{' '.join(found[1].split())}`$", text)
    text = re.sub(r"(?<!`)``([^`]+)``(?!`)", r"`\1`", text)
    return re.sub(r"\[(\d+)\]_", r"[\1]", text)


def _display(found: "re.Match[str]") -> str:
    lines = [line.strip() for line in found[1].splitlines()]
    return "```math\n" + "\n".join(lines) + "\n```\n"


def cell(text: str) -> str:
    """Text inside a table."""
    return text.replace("|", "\\|").replace(" >= ", " ≥ ")


def rows(header: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    made = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(made + ["| " + " | ".join(cell(text) for text in line) + " |" for line in lines])


# Pages.


def signature(kind: type[Any]) -> str:
    """The call, without types: they are with the parameters."""
    parameters = inspect.signature(kind).parameters.values()
    made = {item.name: item.default_factory for item in dataclasses.fields(kind)}
    plain = [parameter.replace(annotation=inspect.Parameter.empty) for parameter in parameters]
    for place, parameter in enumerate(plain):
        factory = made.get(parameter.name, dataclasses.MISSING)
        if factory is not dataclasses.MISSING:  # else the page shows <factory>
            plain[place] = parameter.replace(default=factory())
    return f"{kind.__name__}{inspect.Signature(plain)}"


def coefficient(entry: Any) -> str:
    """The coefficient as a formula, and whose it is where it is not published."""
    if not entry.coefficient:
        stated = getattr(entry.kind, "coefficient", None)  # of a rule around another
        return NONE_PUBLISHED if stated is None else code(stated) + " (ours)"
    return code(entry.coefficient) + (" (ours)" if getattr(entry.kind, "kappa_is_ours", False) else "")


def facts(entry: Any) -> list[tuple[str, str]]:
    """What the class says of itself, for the top of its page."""
    if isinstance(entry, _catalogue.AttackEntry):
        alone = "yes" if entry.alone else "no"
        return [("Name", f"`{entry.name}`"), ("Knows", entry.needs), ("One worker alone", alone)]
    kappa = coefficient(entry)
    known = [("Name", f"`{entry.name}`")]
    if isinstance(entry, _catalogue.RuleEntry):
        known += [("Needs", entry.requirement), ("Tolerates", entry.tolerates)]
        label = "Coefficient κ, p = 2"
    else:
        known += [("n, f behind it", entry.after)]
        label = "Coefficient in front of a rule with κ"
    known += [("Cost", entry.cost), (label, kappa)]
    return known + [(f"No law of {law}", reason) for law, reason in entry.kind.lacks.items()]


def code(text: str) -> str:
    """A formula as it is."""
    return f"`{text}`"


def page(entry: Any, package: str) -> str:
    """The page of one class."""
    doc = entry.doc
    parts = [
        f"# {entry.kind.__name__}",
        markdown(doc.summary),
        f"```python\n{signature(entry.kind)}\n```",
        rows(("", ""), facts(entry)),
    ]
    if doc.body:
        parts.append(markdown(doc.body))
    if doc.parameters:
        listed = [f"- `{item.name}` ({item.kind}): {markdown(item.text)}" for item in doc.parameters]
        parts += ["## Parameters", "\n".join(listed)]
    if "Examples" in doc.sections:
        parts += ["## Example", example(doc.sections["Examples"], entry.kind, package)]
    if "Notes" in doc.sections:
        parts += ["## Notes", markdown(doc.sections["Notes"])]
    if doc.references:
        parts += ["## References", "\n".join(f"{place}. {text}" for place, text in enumerate(doc.references, 1))]
    where = Path(inspect.getfile(entry.kind)).resolve().relative_to(ROOT)
    parts.append(f"Source: [{where.as_posix()}](../../{where.as_posix()}). All pages: [index](../index.md).")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def example(text: str, kind: type[Any], package: str) -> str:
    """Examples, with the imports that a reader needs before them; sentences between them stay sentences."""
    blocks = [f">>> import numpy as np\n>>> from {package} import {kind.__name__}"]
    shown: list[str] = []
    for block in re.split(r"\n\s*\n", text.strip("\n")):
        if block.startswith(">>>"):
            blocks.append(block)
            continue
        if len(blocks) > 1:
            shown.append(fenced(blocks))
            blocks = []
        shown.append(markdown(block))
    return "\n\n".join([*shown, fenced(blocks)] if blocks else shown)


def fenced(blocks: Sequence[str]) -> str:
    """Examples in a fence; the empty line before its end tells doctest where the last output ends."""
    return "```python\n" + "\n".join(blocks) + "\n\n```"


# Tables.


def rule_table(docs: str) -> str:
    lines = [
        (
            f"[{entry.kind.__name__}]({docs}rules/{entry.page}.md)",
            entry.requirement,
            entry.tolerates,
            entry.cost,
            coefficient(entry),
            entry.reference or "–",
        )
        for entry in _catalogue.rules()
    ]
    return rows(("Rule", "Needs", "Tolerates", "Cost", "Coefficient κ (p = 2)", "Reference"), lines)


def preaggregation_table(docs: str) -> str:
    lines = [
        (
            f"[{entry.kind.__name__}]({docs}preaggregation/{entry.page}.md)",
            entry.after,
            entry.cost,
            coefficient(entry),
            entry.reference,
        )
        for entry in _catalogue.preaggregations()
    ]
    return rows(("In front of a rule", "n, f behind it", "Cost", "Coefficient", "Reference"), lines)


def attack_table(docs: str) -> str:
    lines = [
        (
            f"[{entry.kind.__name__}]({docs}attacks/{entry.page}.md)",
            entry.needs,
            entry.doc.summary,
            entry.reference or "–",
        )
        for entry in _catalogue.attacks()
    ]
    return rows(("Attack", "Knows", "What it sends", "Reference"), lines)


def requirement_table(docs: str) -> str:
    """How many rows the rules with an f need, for small f."""
    counts = (1, 2, 3, 4, 5)
    lines = []
    for entry in _catalogue.rules():
        needed = [item.name for item in dataclasses.fields(entry.kind) if item.default is dataclasses.MISSING]
        if needed == ["f"]:
            least = [str(entry.kind(f).min_rows()) for f in counts]
            lines.append((f"[{entry.kind.__name__}]({docs}rules/{entry.page}.md)", entry.requirement, *least))
    return rows(("Rule", "Needs", *(f"f = {f}" for f in counts)), lines)


def command_sections(_docs: str) -> str:
    """Each command with its arguments, options and example."""
    program: Any = typer.main.get_command(_app.app)
    parts = []
    for name, module in _app.COMMANDS.items():
        command = program.commands[name]
        parts += [f"## mixtailor {name}", options(" ".join((command.help or "").split()))]
        lines = [_option(parameter) for parameter in command.params if parameter.name != "help"]
        parts += [rows(("", ""), lines), f"```sh\n{module.EXAMPLE}\n```"]
    return "\n\n".join(parts)


def _option(parameter: Any) -> tuple[str, str]:
    named = parameter.param_type_name == "option"
    title = ", ".join(parameter.opts) if named else (parameter.metavar or parameter.name.upper())
    default = parameter.default
    told = named and isinstance(default, (int, str)) and not isinstance(default, bool) and not parameter.required
    return f"`{title}`", options(parameter.help or "") + (f" Default: `{default}`." if told else "")


def options(text: str) -> str:
    """Options in a sentence as code: a line does not end inside --memory."""
    return re.sub(r"(?<![\w`-])--[a-z]+(?:-[a-z]+)*", r"`\g<0>`", text)


def own_comparison(_docs: str) -> str:
    """The example program, without its docstring."""
    program = (ROOT / "examples" / "own_comparison.py").read_text(encoding="utf-8").split('"""', 2)[2]
    return f"```python\n{program.strip()}\n```"


TABLES: Mapping[str, Callable[[str], str]] = {
    "rules": rule_table,
    "preaggregation": preaggregation_table,
    "attacks": attack_table,
    "requirements": requirement_table,
    "commands": command_sections,
    "own-comparison": own_comparison,
    "worst": lambda _docs: rows(*memory_tables.short(memory_tables.read())),
    "memory-worst": lambda _docs: rows(*memory_tables.worst_cases(memory_tables.read())),
    "memory-draw": lambda _docs: rows(*memory_tables.draw(memory_tables.read())),
    "memory-beside": lambda _docs: rows(*memory_tables.alternatives(memory_tables.read(), ["f = 4"])),
    "memory-alternatives": lambda _docs: rows(*memory_tables.alternatives(memory_tables.read())),
    "paper": lambda _docs: reproduction.sections(),
    "paper-numbers": lambda _docs: reproduction.numbers(),
    "paper-short": lambda _docs: reproduction.numbers(short=True),
    "paper-readings": lambda _docs: reproduction.readings(),
}


def filled(text: str, docs: str) -> str:
    """A file with what stands between its markers written again."""
    for name, table in TABLES.items():
        pattern = re.compile(rf"(<!-- {name} -->).*?(<!-- /{name} -->)", re.DOTALL)
        if pattern.search(text):
            fresh = f"\n\n{table(docs)}\n\n"
            text = pattern.sub(lambda found, fresh=fresh: found[1] + fresh + found[2], text)
    return text


def generated() -> dict[Path, str]:
    """Every generated file and what it should hold."""
    files = {DOCS / "picture.svg": picture.svg()}
    for folder, (entries, package) in KINDS.items():
        for entry in entries():
            files[DOCS / folder / f"{entry.page}.md"] = page(entry, package)
    by_hand = [*sorted(DOCS.glob("*.md")), *sorted(DOCS.glob("tutorials/*.md"))]
    for path in [DOCS.parent / "README.md", *by_hand, *(DOCS / folder / INDEX for folder in KINDS)]:
        text = path.read_text(encoding="utf-8")
        fresh = filled(text, "" if path.parent in (DOCS, DOCS.parent) else "../")
        if fresh != text or "<!-- /" in text:
            files[path] = fresh
    return files


def stale() -> list[Path]:
    """Pages of classes that are no more."""
    wanted = set(generated())
    found = [path for folder in KINDS for path in sorted((DOCS / folder).glob("*.md"))]
    return [path for path in found if path not in wanted and path.name != INDEX]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if something would change")
    options = parser.parse_args(arguments)
    files = generated()
    changed = [path for path, text in files.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    gone = stale()
    for path in [*changed, *gone]:
        print(("would change" if options.check else "wrote" if path in files else "removed"), path.relative_to(ROOT))
    if options.check:
        return 1 if changed or gone else 0
    for path in changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(files[path], encoding="utf-8")
    for path in gone:
        path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
