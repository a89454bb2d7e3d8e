"""Robust rules cost a small multiple of the fastest mean, on rows that look like gradients."""

from __future__ import annotations

from benchmarks._data import Data
from benchmarks._findings import Finding
from benchmarks._measured import Measured
from benchmarks._table import entries

__all__ = ["findings"]

CLAIM = "multiple_of_the_mean"


def findings(measured: Measured, data: Data = "gradients", claim: str = CLAIM) -> list[Finding]:
    """Every row of the table in units of the fastest mean of the same run.

    The value is what is held against the limit: for NNM, what it adds to the rule behind it; for the spectral rules,
    less what depends on n alone. ``facts["multiple"]`` is the whole.
    """
    found = []
    for entry in entries(measured, data):
        value, low, high = measured.multiple(entry.held)
        quartiles = entry.timing.quartiles
        found.append(
            Finding(
                claim,
                entry.row.name,
                str(measured.size),
                value,
                "x mean",
                entry.row.limit,
                low=low,
                high=high,
                note=entry.note,
                facts={
                    "milliseconds": 1e3 * entry.timing.median,
                    "quartiles": [1e3 * quartile for quartile in quartiles],
                    "multiple": measured.multiple(entry.timing)[0],
                },
            )
        )
    return found
