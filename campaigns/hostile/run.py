"""``python -m campaigns.hostile.run``: the cases for us and for the peers (`make bench-peers`), in Markdown."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from campaigns.hostile.cases import CASES

ROOT = Path(__file__).resolve().parents[2]
PEERS = ROOT / ".venv-peers" / "bin" / "python"
Cells = dict[str, dict[str, str]]


def asked(python: Path, module: str) -> dict[str, Any]:
    """All verdicts of one environment."""
    done = subprocess.run(
        [str(python), "-m", "campaigns.hostile.ask", module], cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def by_library(cells: Cells) -> dict[str, Cells]:
    """The verdicts of each library, by rule; of the forms that a rule takes, the one that keeps most cases."""
    found: dict[str, Cells] = {}
    for task, verdicts in cells.items():
        rule, _, where = task.partition(" @ ")
        rules = found.setdefault(where.partition(" (")[0], {})
        if rule not in rules or _kept(verdicts) > _kept(rules[rule]):
            rules[rule] = verdicts
    return found


def _kept(verdicts: dict[str, str]) -> int:
    return sum(verdict == "kept" for verdict in verdicts.values())


def tables(cells: Cells) -> str:
    """How many rules of each library keep each case; and what came of those that do not."""
    libraries = by_library(cells)
    lines = [
        "| | " + " | ".join(f"{library} ({len(rules)} rules)" for library, rules in libraries.items()) + " |",
        "|---" * (1 + len(libraries)) + "|",
    ]
    for case in CASES:
        counts = [sum(verdicts[case.name] == "kept" for verdicts in rules.values()) for rules in libraries.values()]
        lines.append(f"| {case.name} | " + " | ".join(map(str, counts)) + " |")
    lines.append("")
    for library, rules in libraries.items():
        for case in CASES:
            failed = Counter(verdicts[case.name] for verdicts in rules.values() if verdicts[case.name] != "kept")
            for verdict, _ in failed.most_common():
                named = ", ".join(rule for rule, verdicts in rules.items() if verdicts[case.name] == verdict)
                lines.append(f"- {library}, {case.name}: {verdict} ({named})")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; 1 if a case is not kept by a rule of ours."""
    parser = argparse.ArgumentParser("python -m campaigns.hostile.run", description=__doc__)
    parser.add_argument("--json", type=Path, help="write all verdicts there")
    chosen = parser.parse_args(arguments)
    found = asked(Path(sys.executable), "campaigns.hostile.ours")
    ours = all(verdict == "kept" for verdicts in found["cells"].values() for verdict in verdicts.values())
    if PEERS.exists():
        other = asked(PEERS, "benchmarks.peers.tasks")
        found = {"cells": {**found["cells"], **other["cells"]}, "versions": {**found["versions"], **other["versions"]}}
    else:
        print("The peers are not installed: `make bench-peers` does it.", file=sys.stderr)
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(tables(found["cells"]))
    return 0 if ours else 1


if __name__ == "__main__":
    sys.exit(main())
