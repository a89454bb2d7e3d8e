"""``python -m campaigns rows --count 1000000``: run one campaign, print what it came to, write the JSON."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

if "load" not in sys.argv:
    os.environ.setdefault("NUMBA_NUM_THREADS", "1")  # updates are tiny here, and cases go side by side

FOLDER = Path("runs") / "campaigns"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run from the command line; 1 if a promise was broken."""
    parser = argparse.ArgumentParser("python -m campaigns", description=__doc__)
    chosen = parser.add_subparsers(dest="campaign", required=True)
    rows = chosen.add_parser("rows", help="adversarial rows for every rule, storage and type")
    rows.add_argument("--count", type=int, default=1_000_000, help="how many cases")
    rows.add_argument("--processes", type=int, default=2)
    kills = chosen.add_parser("kills", help="kill -9 at random moments, and full disks")
    kills.add_argument("--kills", type=int, default=200, help="how many, in all")
    damaged = chosen.add_parser("bytes", help="damaged files for every reader")
    damaged.add_argument("--count", type=int, default=20_000, help="how many for each target")
    more = {
        "races": "files that change while they are read",
        "bombs": "archives and checkpoints that claim more than they are",
        "special": "pipes, devices and links in place of every file",
        "readme": "the command of the README with two hostile files of every kind",
    }
    others = [chosen.add_parser(name, help=text) for name, text in more.items()]
    for each in others:
        each.add_argument("--count", type=int, default=2000, help="how many cases")
    load = chosen.add_parser("load", help="aggregation in a loop, from threads and from forks")
    load.add_argument("--minutes", type=float, default=60.0)
    load.add_argument("--d", type=int, help="coordinates of each of twelve rows; the most that fit, by default")
    flower = chosen.add_parser("flower", help="hostile Flower rounds: replies of every bad kind")
    flower.add_argument("--count", type=int, default=10_000, help="how many rounds")
    memory = chosen.add_parser("memory", help="the same with a memory of the clients: four hostile rounds in a row")
    memory.add_argument("--count", type=int, default=3000, help="how many cases of four rounds")
    for each in (rows, kills, damaged, load, flower, memory, *others):
        each.add_argument("--seed", type=int, default=0, help="what all cases follow from")
        each.add_argument("--state", type=Path, help="where to keep what was tried; the place to resume from")
        each.add_argument("--repeat", metavar="SEED", help="one case alone, by the seed that a failure names")
    given = vars(parser.parse_args(arguments))
    name, seed, repeated = given.pop("campaign"), given.pop("seed"), given.pop("repeat")
    module = importlib.import_module(f"campaigns.{name}.run")
    if repeated is not None:
        problems = module.repeat(repeated)
        found: dict[str, Any] = {"seed": repeated, "failed": len(problems), "failures": problems}
    else:
        given["state"] = given["state"] or FOLDER / f"{name}-{seed}.json"
        amount = given.pop({"kills": "kills", "load": "minutes"}.get(name, "count"))
        found = module.campaign(amount, seed, **given)
        given["state"].parent.mkdir(parents=True, exist_ok=True)
        given["state"].with_suffix(".result.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(found, indent=1))
    return 1 if found["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
