"""What machine and which versions a measurement ran on."""

from __future__ import annotations

import os
import platform
from importlib import metadata
from pathlib import Path

__all__ = ["available_bytes", "machine", "versions"]


def _field(path: str, name: str) -> str | None:
    try:
        for line in Path(path).read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    except OSError:
        pass
    return None


def available_bytes() -> int:
    """Memory that can be taken without pushing anything out; 4 GB where the system does not say."""
    stated = _field("/proc/meminfo", "MemAvailable")
    return int(stated.split()[0]) * 1024 if stated else 4 << 30


def machine() -> dict[str, object]:
    """The processor, cores that this process may use, memory, system and load at the start."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    total = _field("/proc/meminfo", "MemTotal")
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor() or platform.machine(),
        "cores": cores,
        "memory_gb": round(int(total.split()[0]) / 2**20, 1) if total else None,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load": round(os.getloadavg()[0], 2),
    }


def versions(*names: str) -> dict[str, str]:
    """The installed versions of packages; those that are not installed are left out."""
    found = {}
    for name in names:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found
