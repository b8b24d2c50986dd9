"""How much memory is left: the least of the container's limits and the machine's memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from exporter.core.memory import memory_left

V2 = {
    "sys/fs/cgroup/memory.max": "1000000\n",
    "sys/fs/cgroup/memory.current": "900000\n",
    "sys/fs/cgroup/memory.stat": "anon 700000\ninactive_file 150000\n",
}
V1 = {
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "2000000\n",
    "sys/fs/cgroup/memory/memory.usage_in_bytes": "900000\n",
    "sys/fs/cgroup/memory/memory.stat": "cache 200000\ntotal_inactive_file 100000\n",
}
MACHINE = {"proc/meminfo": "MemTotal:  9000 kB\nMemFree:  10 kB\nMemAvailable:    4000 kB\n"}


@pytest.mark.parametrize(
    ("files", "left"),
    [
        ({}, None),
        (MACHINE, 4_096_000),
        (V2, 250_000),
        (V1, 1_200_000),
        ({**V2, **MACHINE}, 250_000),
        ({**V1, "proc/meminfo": "MemAvailable: 100 kB\n"}, 102_400),
        ({**V2, "sys/fs/cgroup/memory.max": "max\n", **MACHINE}, 4_096_000),
        ({**V2, "sys/fs/cgroup/memory.current": "1200000\n"}, 0),
        ({**V2, "sys/fs/cgroup/memory.stat": "anon 700000\n"}, 100_000),
        ({"proc/meminfo": "MemTotal:  9000 kB\n"}, None),
    ],
    ids=[
        *("nothing-known", "machine", "v2", "v1", "container-in-machine", "machine-in-container"),
        *("no-limit", "over-its-limit", "nothing-to-give-back", "old-kernel"),
    ],
)
def test_memory_left_is_the_least_of_container_and_machine(
    tmp_path: Path, files: dict[str, str], left: int | None
) -> None:
    """These are the limits of either cgroup version and the machine's memory; the page cache counts as left."""
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert memory_left(tmp_path) == left


def test_memory_left_of_this_machine_is_positive_if_known() -> None:
    """There is some where the tests run."""
    left = memory_left()
    assert left is None or left > 0
