"""The machine on which the figures are measured, and what processes use on it."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


def describe() -> dict[str, str | int]:
    """Return a description of the machine, by which two results can be compared."""
    return {
        "cpus": os.cpu_count() or 0,
        "cpu_model": _first(Path("/proc/cpuinfo"), r"model name\s*:\s*(.+)"),
        "memory_mib": int(_first(Path("/proc/meminfo"), r"MemTotal:\s*(\d+)") or 0) // 1024,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
    }


def peak_memory_mib(pid: int) -> int:
    """Return the sum of the peak memory of a process and its living descendants."""
    status = Path(f"/proc/{pid}/status")
    own = int(_first(status, r"VmHWM:\s*(\d+)") or 0) // 1024
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    children = {int(child) for task in tasks for child in task.read_text().split()}
    return own + sum(peak_memory_mib(child) for child in children)


class Usage(NamedTuple):
    """The total usage of processes since their start, and their current memory."""

    cpu_s: float
    rss_mib: float
    """Pages that processes share count for each of them."""
    pss_mib: float
    """Pages that processes share count once in total."""


NO_USAGE = Usage(0.0, 0.0, 0.0)


def added(usages: Iterable[Usage]) -> Usage:
    """Return what several processes use together."""
    return Usage(*map(sum, zip(NO_USAGE, *usages, strict=True)))


def usage(pid: int) -> dict[str, Usage]:
    """Return the usage of a process and its living descendants, by name of program.

    The processor time of a descendant that has ended counts for the program that started it.
    """
    used: dict[str, Usage] = {}
    for each in family(pid):
        try:
            name, _, rest = Path(f"/proc/{each}/stat").read_text().partition("(")[2].rpartition(")")
            memory = Path(f"/proc/{each}/smaps_rollup")
            rss, pss = (_first(memory, rf"{what}:\s*(\d+)") for what in ("Rss", "Pss"))
        except OSError:  # it has just ended
            continue
        ticks = sum(map(int, rest.split()[11:15]))  # utime, stime, cutime, cstime
        program = name.rstrip("0123456789.")
        now = Usage(ticks / os.sysconf("SC_CLK_TCK"), int(rss or 0) / 1024, int(pss or 0) / 1024)
        used[program] = added([used.get(program, NO_USAGE), now])
    return used


def family(pid: int) -> list[int]:
    """Return the pids of a process and its living descendants."""
    pids = [pid]
    try:
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            for child in task.read_text().split():
                pids += family(int(child))
    except OSError:  # it has just ended
        return pids
    return pids


def percentile(values: list[float], percent: float) -> float:
    """Return the value that `percent` percent of the values do not exceed (nearest rank).

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
