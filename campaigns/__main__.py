"""``python -m campaigns rows --count 1000000``: run one campaign, print what it came to, write the JSON."""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # updates are tiny here, and cases go side by side

FOLDER = Path("runs") / "campaigns"


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; 1 if a promise was broken."""
    parser = argparse.ArgumentParser("python -m campaigns", description=__doc__)
    chosen = parser.add_subparsers(dest="campaign", required=True)
    rows = chosen.add_parser("rows", help="adversarial rows for every rule, home and type")
    rows.add_argument("--count", type=int, default=1_000_000, help="how many cases")
    rows.add_argument("--processes", type=int, default=2)
    for each in (rows,):
        each.add_argument("--seed", type=int, default=0, help="what all cases follow from")
        each.add_argument("--state", type=Path, help="where to keep what was tried; the place to resume from")
        each.add_argument("--repeat", metavar="SEED", help="one case alone, by the seed that a failure names")
    given = parser.parse_args(arguments)
    state = given.state or FOLDER / f"{given.campaign}-{given.seed}.json"
    found = _repeated(given) if given.repeat is not None else _run(given, state)
    print(json.dumps(found, indent=1))
    return 1 if found["failed"] else 0


def _run(given: argparse.Namespace, state: Path) -> dict[str, Any]:
    from campaigns.rows.run import campaign

    found = campaign(given.count, given.seed, state=state, processes=given.processes)
    state.with_suffix(".result.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return found


def _repeated(given: argparse.Namespace) -> dict[str, Any]:
    from campaigns.rows.run import repeat

    problems = repeat(given.repeat)
    return {"seed": given.repeat, "failed": len(problems), "failures": problems}


if __name__ == "__main__":
    sys.exit(main())
