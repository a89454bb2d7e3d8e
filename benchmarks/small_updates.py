"""At the size of a small network, a call costs little more than its share of the table.

At most 60 microseconds for Krum and the rules of `default_pool`, 300 for DnC, and 100 for the others.
"""

from __future__ import annotations

from benchmarks._findings import Finding
from benchmarks._measured import Measured
from benchmarks._table import entries

__all__ = ["findings"]

CLAIM = "small_updates"
# Microseconds.
OVER = 100.0
LIMITS = {"Krum, p = 2": 60.0, "CAF": 60.0, "NNM >> GeometricMedian": 60.0, "DnC": 300.0}


def findings(measured: Measured) -> list[Finding]:
    """Microseconds over the row's limit times the mean of this size."""
    found = []
    for entry in entries(measured, "gradients"):
        if entry.row.limit is None:
            continue
        over = (entry.held - measured.mean * entry.row.limit) * 1e6
        low, high = over.quartiles
        found.append(
            Finding(
                CLAIM,
                entry.row.name,
                str(measured.size),
                over.median,
                "microseconds",
                LIMITS.get(entry.row.name, OVER),
                low=low,
                high=high,
                note=entry.note,
                facts={"microseconds": 1e6 * entry.timing.median, "mean_microseconds": 1e6 * measured.mean.median},
            )
        )
    return found
