"""Compiled kernels on disk, which all processes of a machine share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mixtailor.kernels import _numba


def compiled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The index of a kernel whose code is kept in a folder."""
    monkeypatch.setattr(_numba.config, "CACHE_DIR", str(folder))

    def function(values: Any) -> Any:
        return values

    kernel: Any = _numba.kernel(function)
    folder.mkdir(exist_ok=True)
    Path(kernel._cache.cache_path).mkdir(parents=True, exist_ok=True)
    return kernel._cache._cache_file


def test_two_processes_that_compile_for_different_types_get_their_own_code(tmp_path, monkeypatch):
    """Both see an empty index; the one that wrote the index first writes its code last."""
    first, second = (compiled(tmp_path, monkeypatch) for _ in range(2))
    write, others = first._save_data, ["float64"]

    def interrupted(name: str, data: str) -> None:
        if others:
            key = others.pop()
            second.save(key, f"code for {key}")
        write(name, data)

    monkeypatch.setattr(first, "_save_data", interrupted)
    monkeypatch.setattr(second, "_load_index", dict)  # it looked before the first wrote anything
    first.save("float32", "code for float32")

    found = compiled(tmp_path, monkeypatch)
    for key in ("float32", "float64"):
        assert found.load(key) in (None, f"code for {key}")
    assert found.load("float32") or found.load("float64")


def test_code_is_found_again(tmp_path, monkeypatch):
    """By every process that comes later, under each type."""
    index = compiled(tmp_path, monkeypatch)
    for key in ("float32", "float64", "float32"):
        index.save(key, f"code for {key}")
    found = compiled(tmp_path, monkeypatch)
    assert [found.load(key) for key in ("float32", "float64", "int8")] == ["code for float32", "code for float64", None]
