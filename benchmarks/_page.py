"""The table of a JSON file, for the terminal and for a page."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks._findings import Finding, from_json
from benchmarks._run import CLAIMS
from benchmarks._table import ROWS

__all__ = ["HEADINGS", "fill", "markdown", "missed", "page_parts", "rows", "short", "show", "times"]

HEADINGS = (
    "",
    "ms (quartiles)",
    "x mean",
    "at most",
    "a row at 1e30",
    "fastest peer",
    "its ms",
    "faster",
    "at least",
    "MB",
)

# What has a table of its own; the multiples of the mean for runs without peers.
_OWN_SECTIONS = [
    *(claim for claim in CLAIMS if claim not in ("far_row", "against_peers")),
    "agreement",
]


def _by_row(findings: Sequence[Finding], claim: str, size: str | None = None) -> dict[str, Finding]:
    return {each.what: each for each in findings if each.claim == claim and size in (None, each.size)}


def _mark(finding: Finding | None, text: str) -> str:
    """A number that misses its limit is marked, wherever it stands."""
    return text + (" (!)" if finding is not None and finding.met is False else "")


def times(value: float) -> str:
    """A ratio with the digits that mean something."""
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def rows(report: Mapping[str, Any]) -> list[list[str]]:
    """The table's cells, row by row."""
    findings = from_json(report["findings"])
    own, far = _by_row(findings, "multiple_of_the_mean"), _by_row(findings, "far_row")
    peers = _by_row(findings, "against_peers")
    size = next((each.size for each in own.values()), None)
    memory = _by_row(findings, "peak_memory", size)
    cells = []
    for row in ROWS:
        mine = own.get(row.name)
        if mine is None:
            continue
        distant, rival = far.get(row.name), peers.get(row.name)
        most = memory.get(row.memory or "")
        low, high = mine.facts["quartiles"]
        adds = "+" if row.name.startswith("NNM") else ""
        peer = "" if rival is None else rival.facts["peer"] + ("*" if rival.note else "")
        cells.append(
            [
                row.name,
                f"{mine.facts['milliseconds']:.2f} ({low:.2f} - {high:.2f})",
                _mark(mine, f"{mine.facts['multiple']:.1f}"),
                "" if row.limit is None else f"{adds}{row.limit:g}",
                "" if distant is None else _mark(distant, f"{distant.facts['multiple']:.1f}"),
                peer,
                "" if rival is None else f"{rival.facts['peer_milliseconds']:.0f}",
                "" if rival is None else _mark(rival, f"{times(rival.value)}x"),
                "" if row.faster is None else f"{row.faster:g}x",
                "" if most is None else _mark(most, f"{most.value:.1f}"),
            ]
        )
    return cells


def missed(report: Mapping[str, Any]) -> list[str]:
    """A line for every limit that was not kept."""
    return [
        f"{each.claim}: {each.what}{' at ' + each.size if each.size else ''}: {each.value:.3g} {each.unit}, "
        f"{'at least' if each.at_least else 'at most'} {each.limit:.3g}"
        for each in from_json(report["findings"])
        if each.met is False
    ]


def _about(report: Mapping[str, Any]) -> str:
    machine, versions = report["machine"], report["versions"]
    parts = [
        f"{machine['processor']}, {machine['cores']} cores, {machine['memory_gb']} GB, {machine['system']}, "
        f"Python {machine['python']}",
        ", ".join(f"{name} {version}" for name, version in versions.items()),
    ]
    peers = report.get("peers", {}).get("versions")
    if peers:
        parts.append("peers: " + ", ".join(f"{name} {version}" for name, version in peers.items()))
    return "; ".join(parts) + "."


def show(report: Mapping[str, Any]) -> None:
    """Print the table, with rich where it is installed, and what was missed."""
    cells = rows(report)
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(line[k]) for line in (HEADINGS, *cells)) for k in range(len(HEADINGS))]
        for line in (HEADINGS, *cells):
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    else:
        table = Table(box=None, header_style="bold")
        for k, heading in enumerate(HEADINGS):
            table.add_column(heading, justify="left" if k in (0, 5) else "right")
        for line in cells:
            table.add_row(*line)
        console = Console()
        console.print(table) if console.width >= 150 else Console(width=170).print(table)
    if cells:
        print(f"\n{_means(report)}")
    late = missed(report)
    print(f"\n{len(late)} limits not kept" + ("." if not late else ":"))
    for line in late:
        print(f"  {line}")
    print(f"\n{_about(report)} Took {report['minutes']} minutes, load {report['machine']['load']} at the start.")


def _means(report: Mapping[str, Any]) -> str:
    each = ", ".join(f"{name} {milliseconds:.2f} ms" for name, milliseconds in report["means"].items())
    return f"The mean: {each}. The yardstick is {report['yardstick']}."


def markdown(headings: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, numbers to the right."""
    rule = ["---" if k == 0 else "---:" for k in range(len(headings))]
    return "\n".join("| " + " | ".join(line) + " |" for line in (headings, rule, *cells))


def page_parts(report: Mapping[str, Any]) -> dict[str, str]:
    """What goes between the markers of docs/performance.md."""
    findings = from_json(report["findings"])
    parts = {
        "machine": f"Measured {report['date']} on {_about(report)} Load at the start: {report['machine']['load']}.\n\n"
        + (_means(report) if "means" in report else ""),
        "table": markdown(HEADINGS, rows(report)),
        "missed": "\n".join(f"- {line}" for line in missed(report)) or "Every limit was kept.",
    }
    parts["peers"] = markdown(
        ("", "fastest peer", "faster", "fastest with our definition", "faster", "the first differs"),
        [
            [
                each.what,
                each.facts["peer"],
                f"{times(each.value)}x",
                each.facts["peer_alike"] or "",
                "" if each.facts["faster_alike"] is None else f"{times(each.facts['faster_alike'])}x",
                each.note,
            ]
            for each in findings
            if each.claim == "against_peers"
        ],
    )
    for claim in _OWN_SECTIONS:
        lines = [
            [
                each.what,
                each.size,
                _mark(each, f"{each.value:.3g} {each.unit}"),
                "" if each.limit is None else f"{each.limit:.3g}",
                each.note,
            ]
            for each in findings
            if each.claim == claim
        ]
        parts[claim] = markdown(("", "size", "measured", "limit", ""), lines) if lines else "Not measured in this run."
    return parts


IN_README = ("Comed", "TrimmedMean", "Krum, p = 2", "GeometricMedian, p = 2", "Bulyan")


def short(report: Mapping[str, Any]) -> str:
    """The README's table: milliseconds, multiples of the mean, the fastest peer, for a few rules."""
    lines = [line for line in rows(report) if line[0] in IN_README]
    shown = [[line[0], line[1].partition(" ")[0], line[2], line[5], line[6], line[7]] for line in lines]
    return markdown(("", "ms", "x mean", "fastest peer", "its ms", "faster"), shown)


def fill(page: Path, parts: Mapping[str, str]) -> None:
    """Write the parts between their markers, ``<!-- name -->`` and ``<!-- /name -->``."""
    text = page.read_text()
    for name, part in parts.items():
        pattern = re.compile(f"(<!-- {name} -->\n).*?(<!-- /{name} -->)", re.DOTALL)
        text, count = pattern.subn(lambda match, part=part: f"{match[1]}{part}\n{match[2]}", text)  # type: ignore[misc]  # bound now, not later
        if count == 0:
            raise ValueError(f"{page.name} needs the markers <!-- {name} --> and <!-- /{name} --> and has none.")
    page.write_text(text)
