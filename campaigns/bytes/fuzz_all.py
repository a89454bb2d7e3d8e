"""``python -m campaigns.bytes.fuzz_all -max_total_time=60``: every target under atheris, one after the other.

The arguments are libFuzzer's, for each target. Prints how many files each was given, as JSON.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

from campaigns.bytes.targets import TARGETS


def fuzzed(name: str, *options: str, seconds: float = 3600.0) -> dict[str, Any]:
    """One target in a process of its own: how many files it was given, and what broke a promise."""
    done = subprocess.run(
        [sys.executable, "-m", "campaigns.bytes.fuzz", name, *options], capture_output=True, text=True, timeout=seconds
    )
    runs = re.search(r"^Done (\d+) runs", done.stderr, re.MULTILINE)
    broken = sorted(set(re.findall(r"AssertionError: (.*)", done.stderr)))
    if done.returncode and not broken:
        broken = [done.stderr[-2000:]]
    return {"tried": int(runs[1]) if runs else 0, "failures": broken}


def main() -> int:
    """Run from the command line; 1 if a promise was broken."""
    found = {}
    for name in TARGETS:
        found[name] = fuzzed(name, *sys.argv[1:])
        print(f"{name}: {found[name]}", file=sys.stderr, flush=True)
    failed = sum(len(each["failures"]) for each in found.values())
    print(json.dumps({"tried": sum(each["tried"] for each in found.values()), "failed": failed, **found}, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
