"""Draws that anybody can check afterwards: commit, draw, close, verify.

Run it with: python examples/audited_run.py
"""

import tempfile
from pathlib import Path

import numpy as np

import mixtailor as mt
from mixtailor.mixing import AuditTrail, verify


def main() -> None:
    pool = mt.default_pool(f=1)
    names = ["ann", "bob", "cyn", "dan", "eve"]
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "run.audit"
        trail = AuditTrail.start(log, pool, run="example")
        published = trail.commitment  # before training, where the server cannot take it back
        rule = mt.MixTailor(pool, audit=trail)
        random = np.random.default_rng(0)
        receipts = []
        for _ in range(3):
            trail.expect(names)  # before anything is received
            rule(random.normal(size=(5, 100)), workers=names)
            receipts += trail.proofs()  # each worker checks its own and keeps it
        trail.close()
        report = verify(log, commitment=published, pool=pool, receipts=receipts)
        print("holds" if report.ok else "does not hold", [draw.rule for draw in report.draws])


if __name__ == "__main__":
    main()
