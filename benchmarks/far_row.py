"""The multiples hold when one row lies at 1e30: no speed that is there for well-behaved rows alone."""

from __future__ import annotations

from benchmarks import multiple_of_the_mean
from benchmarks._findings import Finding
from benchmarks._measured import Measured

__all__ = ["findings"]


def findings(measured: Measured) -> list[Finding]:
    """Every row of the table, on rows of which one is at 1e30."""
    return multiple_of_the_mean.findings(measured, "far", "far_row")
