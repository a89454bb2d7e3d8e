"""What a claim's measurement found: a number, its spread, and the limit it is held against."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

__all__ = ["Finding", "from_json", "to_json"]


@dataclass(frozen=True)
class Finding:
    """One number.

    Attributes
    ----------
    claim : str
        The file that measured it.
    what : str
        The row of the table, or what else was measured.
    size : str
        Rows and coordinates.
    value, low, high : float
        The median and its quartiles.
    unit : str
    limit : float, optional
        What the value is held against; None where there is nothing to keep.
    at_least : bool
        Whether the limit is from below.
    note : str
    facts : mapping
        Other numbers that belong to it.
    """

    claim: str
    what: str
    size: str
    value: float
    unit: str
    limit: float | None = None
    at_least: bool = False
    low: float | None = None
    high: float | None = None
    note: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        if self.limit is None:
            return None
        return self.value >= self.limit if self.at_least else self.value <= self.limit


def to_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    """As plain objects, each with whether it kept its limit."""
    return [{**asdict(finding), "met": finding.met} for finding in findings]


def from_json(objects: Iterable[Mapping[str, Any]]) -> list[Finding]:
    """The findings of a JSON file."""
    return [Finding(**{key: value for key, value in each.items() if key != "met"}) for each in objects]
