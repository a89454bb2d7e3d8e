"""What private aggregation costs: three parties on this machine, the same rule in the clear, a plain secure sum.

``python -m benchmarks.private --python .venv-private/bin/python`` prints a table; ``--publish`` writes it to the page.
Bytes are what the loopback interface carried, so nothing else may use it meanwhile.
"""

import argparse
import re
import statistics
import sys
import time
from pathlib import Path

import numpy as np

import mixtailor as mt
from mixtailor.engines.private import Encoding, LocalParties, split

PAGE = Path(__file__).parents[1] / "docs" / "engines" / "private.md"
SIZES = ((12, 21_840), (50, 100_000))
SORTED = ("comed", "trimmed_mean")
RULES = (
    ("mean", False),
    ("multi_krum", False),
    ("caf", True),
    ("nnm >> geometric_median", True),
    *((name, False) for name in SORTED),
)
COUNTER = Path("/sys/class/net/lo/statistics/tx_bytes")


def _sent() -> int:
    return int(COUNTER.read_text()) if COUNTER.exists() else 0


def _row(text: str, opened: bool, n: int, d: int, python: str, repeats: int) -> str:
    f, random = n // 6, np.random.default_rng(0)
    updates = random.normal(size=(n, d)) * 0.01 + 0.002
    updates[:f] = -0.01
    encoding = Encoding(radius=2 * float(np.linalg.norm(updates, axis=1).max()), d=d)
    rule = mt.make_rule(text, f=f)
    expected, clear = rule(updates), []  # the first call compiles
    for _ in range(5):
        begun = time.perf_counter()
        rule(updates)
        clear.append(time.perf_counter() - begun)
    plain = statistics.median(clear)
    seconds, carried = [], []
    stated = None if text == "mean" else f  # which tolerates none
    with LocalParties(encoding, text, f=stated, opened=opened, timeout=300.0, python=python) as parties:
        for _ in range(1 + repeats):
            for place, update in enumerate(updates):
                parties.send(str(place), split(encoding.encode(update)))
            before = _sent()
            result = parties.aggregate()
            carried.append(_sent() - before)
            seconds.append(result.seconds)
    error = np.abs(result.update - expected).max() / encoding.unit
    name = f"`{text}`" + (", products opened" if opened else "")
    return (
        f"| {n} x {d:,} | {name} | {statistics.median(seconds[1:]):.2f} | {statistics.median(carried[1:]) / 1e6:.2f} | "
        f"{1e3 * plain:.1f} | {error:.1f} |"
    )


def main() -> int:
    """Measure, print, and publish if asked."""
    parser = argparse.ArgumentParser("python -m benchmarks.private", description=__doc__)
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has SPU")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--quick", action="store_true", help="the smaller size alone")
    parser.add_argument("--publish", action="store_true")
    given = parser.parse_args()
    lines = [
        "| Updates | Rule | seconds | MB sent between parties | ms in the clear | largest error, in units |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for n, d in SIZES[:1] if given.quick else SIZES:
        for text, opened in RULES:
            if text in SORTED and n > 12:
                continue  # the sorting network sends gigabytes there
            lines.append(_row(text, opened, n, d, given.python, given.repeats))
            print(lines[-1], flush=True)
    if given.publish:
        said = "\n".join(["<!-- private -->", *lines, "<!-- /private -->"])
        PAGE.write_text(
            re.sub(r"<!-- private -->.*<!-- /private -->", lambda _: said, PAGE.read_text(), flags=re.DOTALL)
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
