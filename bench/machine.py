"""What the figures were measured on."""

from __future__ import annotations

import os
import platform
import re
from pathlib import Path


def describe() -> dict[str, str | int]:
    """Return the machine in words that make two results comparable."""
    return {
        "cpus": os.cpu_count() or 0,
        "cpu_model": _first(Path("/proc/cpuinfo"), r"model name\s*:\s*(.+)"),
        "memory_mib": int(_first(Path("/proc/meminfo"), r"MemTotal:\s*(\d+)") or 0) // 1024,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def peak_memory_mib(pid: int) -> int:
    """Return the peak memory of a process and its living descendants, added up."""
    status = Path(f"/proc/{pid}/status")
    own = int(_first(status, r"VmHWM:\s*(\d+)") or 0) // 1024
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = {int(child) for task in tasks for child in task.read_text().split()}
    return own + sum(peak_memory_mib(child) for child in children)


def percentile(values: list[float], percent: float) -> float:
    """Return the value that so many percent of the values do not exceed (nearest rank).

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50)
    2.0
    """
    ordered = sorted(values)
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def _first(path: Path, pattern: str) -> str:
    if not path.exists():
        return ""
    found = re.search(pattern, path.read_text())
    return found.group(1).strip() if found else ""
