"""``python -m benchmarks``: measure the claims, print the table, write the JSON.

With ``--publish FILE``, nothing is measured: docs/performance.md, its picture and, where the README has the markers
``<!-- speed -->`` and ``<!-- /speed -->``, a short table there are made of a JSON file. Claims that the file does not
have keep their tables. With claims as well, only their tables are made: for claims that were measured alone, as in
``python -m benchmarks large --publish runs/large.json``.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks._page import fill, page_parts, short, show
from benchmarks._picture import draw
from benchmarks._pipe import ROOT
from benchmarks._plans import PEERS, full, quick, tiny
from benchmarks._run import CLAIMS, run

PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
PICTURE = ROOT / "docs" / "performance.svg"


def publish_some(report: dict[str, Any], claims: Sequence[str], page: Path = PAGE) -> None:
    """Fill the tables of some claims, and put their findings in the place of the older ones in the JSON file."""
    numbers = page.parent / "performance.json"
    whole = json.loads(numbers.read_text())
    kept = [each for each in whole["findings"] if each["claim"] not in claims]
    added = [each for each in report["findings"] if each["claim"] in claims]
    alone = {**whole.get("measured_alone", {}), **dict.fromkeys(claims, report["date"])}
    whole |= {"findings": kept + added, "measured_alone": alone}
    numbers.write_text(json.dumps(whole, indent=1) + "\n")
    parts = page_parts(report)
    told = {claim: f"{parts['machine'].strip()}\n\n{parts[claim]}" for claim in claims}
    fill(page, told | {"missed": page_parts(whole)["missed"]})


def publish(
    report: dict[str, Any], page: Path = PAGE, picture: Path = PICTURE, readme: Path = README
) -> dict[str, Any]:
    """Fill page, picture and README, and return all findings: those of claims that were not measured now are older."""
    numbers = page.parent / "performance.json"
    older = json.loads(numbers.read_text()) if numbers.exists() else {"findings": []}
    measured = {each["claim"] for each in report["findings"]}
    kept = [each for each in older["findings"] if each["claim"] not in measured]
    dates = older.get("measured_alone", {})
    alone = {each["claim"]: dates.get(each["claim"], older["date"]) for each in kept}
    whole = {**report, "findings": report["findings"] + kept, "measured_alone": alone}
    fill(page, {name: part for name, part in page_parts(whole).items() if name not in alone})
    draw(whole, picture)
    numbers.write_text(json.dumps(whole, indent=1) + "\n")
    if "<!-- speed -->" in readme.read_text():
        fill(readme, {"speed": short(whole)})
    return whole


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("claims", nargs="*", metavar="CLAIM", help=f"what to measure: {', '.join(CLAIMS)}; all of them")
    parser.add_argument("--quick", action="store_true", help="fewer samples: a minute or two")
    parser.add_argument("--tiny", action="store_true", help="only show that every claim runs")
    parser.add_argument("--no-peers", action="store_true", help="leave the other libraries out")
    parser.add_argument("--json", type=Path, default=ROOT / "runs" / "benchmarks.json", help="where to write")
    parser.add_argument("--publish", type=Path, metavar="FILE", help="make the page and the picture of a JSON file")
    chosen = parser.parse_args(arguments)
    unknown = sorted(set(chosen.claims) - set(CLAIMS))
    if unknown:
        parser.error(f"there is no claim {unknown[0]!r}; there are {', '.join(CLAIMS)}")
    if chosen.publish is not None:
        report = json.loads(chosen.publish.read_text())
        if chosen.claims:
            publish_some(report, chosen.claims)
            show(report)
            return 0
        show(publish(report))
        return 0
    plan = (tiny if chosen.tiny else quick if chosen.quick else full)()
    if chosen.no_peers:
        plan = type(plan)(**{**vars(plan), "peers": None})
    elif plan.peers is not None and not plan.peers.exists():
        print(f"The peers are not installed ({PEERS.parent.parent.name} is missing): `make bench-peers` does it.")

    start = time.monotonic()

    def say(text: str) -> None:
        text = f"{time.monotonic() - start:4.0f} s  {text}" if text else text
        print(
            f"\r\033[K{text}" if sys.stderr.isatty() else text, end="" if sys.stderr.isatty() else "\n", file=sys.stderr
        )

    def save(report: dict[str, Any]) -> None:
        chosen.json.write_text(json.dumps(report, indent=1) + "\n")

    chosen.json.parent.mkdir(parents=True, exist_ok=True)
    report = run(plan, chosen.claims or CLAIMS, say, save)
    say("")
    save(report)
    show(report)
    print(f"Written to {chosen.json}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
