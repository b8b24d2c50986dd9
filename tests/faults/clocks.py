"""A clock of its own for a part that runs: libfaketime, which Debian has as the package `faketime`.

The rule: only the time of day is stepped. The monotonic clock goes on, as where an operator or NTP sets
the clock of a machine.
"""

from __future__ import annotations

import time
from pathlib import Path

HOUR_S = 3600
READ_INTERVAL_S = 1
"""How often a process reads how far its clock is ahead."""
_LIBRARY = next(Path("/usr/lib").glob("*/faketime/libfaketimeMT.so.1"), None)
_FOR_PYTHON = Path(__file__).parents[1] / "support" / "stepped_clock"


def why_not() -> str | None:
    """Return why no clock can be stepped on this machine; None if one can."""
    return None if _LIBRARY else "libfaketime is not installed (Debian's package faketime)"


class Clock:
    """The clock of the processes that are started with `prefix`; at first it is right."""

    def __init__(self, path: Path) -> None:
        """Name a file that says how far it is ahead."""
        self._path = path
        path.write_text("+0")

    @property
    def prefix(self) -> list[str]:
        """The beginning of a command line: a program runs on this clock, with all that it starts."""
        variables = {
            "LD_PRELOAD": str(_LIBRARY),
            "FAKETIME_TIMESTAMP_FILE": str(self._path),
            "FAKETIME_CACHE_DURATION": str(READ_INTERVAL_S),
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",  # else waits of a JVM end early
            "NO_FAKE_STAT": "1",
            "PYTHONPATH": str(_FOR_PYTHON),
        }
        return ["/usr/bin/env", *(f"{name}={value}" for name, value in variables.items())]

    def step(self, ahead_s: int) -> None:
        """Set it so far ahead, negative behind; return once every process has it."""
        new = self._path.with_suffix(".new")
        new.write_text(f"{ahead_s:+d}")
        new.rename(self._path)
        time.sleep(2 * READ_INTERVAL_S)
