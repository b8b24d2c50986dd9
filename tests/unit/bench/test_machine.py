"""The usage of processes, read from the machine itself."""

from __future__ import annotations

import os
import subprocess
import sys

from bench.machine import NO_USAGE, Usage, added, family, usage


def test_a_family_is_a_process_and_its_descendants() -> None:
    """Children count, and their children; a process that has ended has no usage."""
    code = "import subprocess, sys; subprocess.Popen(['sleep', '60']); print(flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        pids = family(process.pid)
        used = usage(process.pid)
        for pid in pids[1:]:
            os.kill(pid, 9)
        process.kill()
    assert pids[0] == process.pid
    assert len(pids) == 2
    assert "sleep" in used
    assert all(each.rss_mib >= each.pss_mib > 0 for each in used.values())
    assert usage(process.pid) == {}


def test_cpu_time_is_measured() -> None:
    """This process's own time grows as it works."""
    before = added(usage(os.getpid()).values()).cpu_s
    sum(range(3_000_000))
    assert added(usage(os.getpid()).values()).cpu_s > before


def test_usages_add_up() -> None:
    """The sum of none is zero."""
    assert added([]) == NO_USAGE
    assert added([Usage(1.0, 2.0, 3.0), Usage(4.0, 5.0, 6.0)]) == Usage(5.0, 7.0, 9.0)
