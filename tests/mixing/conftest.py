"""Where the tests of audit trails write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Where the log of a test lives."""
    return tmp_path / "run.audit"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Do not wait for the disk, in tests that repeat thousands of writes and cut no power."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
