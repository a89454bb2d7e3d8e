"""``python -m campaigns.mutants``: plant faults until all were tried or the time is over; tell what survived."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

for name in ("NUMBA_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ[name] = "1"  # a child of a fork has one thread

import pytest  # noqa: E402  # after the lines above

from campaigns.mutants.running import Campaign, all_mutants, chosen_mutants, verdicts  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
RESULTS = Path("runs/campaigns/mutants.jsonl")
TESTS = (
    "tests/rules", "tests/mixing", "tests/preaggregation", "tests/theory/test_kappa.py", "tests/test_laws.py",
    "tests/test_oracle.py", "tests/test_known_defects.py", "tests/test_robustness.py", "tests/test_exact_selection.py",
    "tests/updates/test_many_norms.py", "tests/campaigns/test_found.py",
    "src/mixtailor/rules", "src/mixtailor/mixing", "src/mixtailor/preaggregation",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    """Run from the command line; 1 if fewer than 95 of 100 were killed."""
    parser = argparse.ArgumentParser("python -m campaigns.mutants", description=__doc__)
    parser.add_argument("--results", type=Path, default=RESULTS, help="where to go on from")
    parser.add_argument("--seed", type=int, default=0, help="the order in which faults are tried")
    parser.add_argument("--minutes", type=float, default=24 * 60.0, help="when to stop")
    parser.add_argument("--matching", default="", help="only files whose path contains this")
    parser.add_argument("--again", action="store_true", help="try those again that survived")
    parser.add_argument("--tests", nargs="*", default=list(TESTS), help="where the tests are")
    parser.add_argument("--tell", action="store_true", help="only tell what was found so far")
    given = parser.parse_args(arguments)
    given.results.parent.mkdir(parents=True, exist_ok=True)
    if given.again:
        kept = [found for found in verdicts(given.results) if found["verdict"] == "killed"]
        given.results.write_text("".join(json.dumps(found) + "\n" for found in kept), encoding="utf-8")
    if not given.tell:
        wanted = chosen_mutants(ROOT, given.results, given.seed, given.matching)
        campaign = Campaign(ROOT, wanted, given.results, time.time() + 60 * given.minutes)
        options = ["-q", "-s", "-p", "no:cacheprovider", "-p", "no:xdist", f"--rootdir={ROOT}"]
        pytest.main([*options, *given.tests], plugins=[campaign])
    return _told(given.results)


def _told(results: Path) -> int:
    found = list(verdicts(results))
    counts = Counter(item["verdict"] for item in found)
    judged = sum(counts.values()) - counts["not planted"]
    for item in sorted(found, key=lambda item: (item["path"], item["line"])):
        if item["verdict"] != "killed":
            print(f"{item['verdict']}: {item['path']}:{item['line']} in {item['inside'] or 'module'}: "
                  f"{item['before']}  ->  {item['after']}")  # fmt: skip
    if not judged:
        print(f"none of {len(all_mutants(ROOT))} was tried")
        return 1
    share = counts["killed"] / judged
    print(f"{dict(counts)} of {len(all_mutants(ROOT))}; killed {100 * share:.1f} %")
    return 0 if share >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
