"""How much memory this process may still take: its container's limit, or what the machine has left.

Exceeding the limit kills the whole process, and with it every other request; so large work asks
first. Memory that can be freed at once, such as the page cache, counts as left.
"""

from pathlib import Path

_V2 = ("memory.max", "memory.current", "inactive_file")
_V1 = ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file")
_KIB = 1024


def memory_left(root: Path = Path("/")) -> int | None:
    """Return the bytes left; None where no file says how many. `root` is the directory that holds /proc and /sys.

    A container sees its own limits there (cgroups(7)), in the files of the cgroup version that its machine runs.
    """
    found = (_of_group(root, *_V2), _of_group(root, *_V1), _of_machine(root))
    return min((left for left in found if left is not None), default=None)


def _of_group(root: Path, limit_file: str, usage_file: str, reclaimable: str) -> int | None:
    folder = root / "sys" / "fs" / "cgroup"
    try:
        limit = int((folder / limit_file).read_text())
        usage = int((folder / usage_file).read_text())
        stat = (folder / limit_file).with_name("memory.stat").read_text()
    except (OSError, ValueError):
        return None  # no such group, or no limit: the file holds "max"
    figures = dict(line.split() for line in stat.splitlines())
    return max(0, limit - usage + int(figures.get(reclaimable, 0)))


def _of_machine(root: Path) -> int | None:
    try:
        lines = (root / "proc" / "meminfo").read_text().splitlines()
    except OSError:
        return None
    found = (line.split()[1] for line in lines if line.startswith("MemAvailable:"))
    kib = next(found, None)
    return None if kib is None else int(kib) * _KIB
