"""Find a Java on this machine that is newer than the one that tests use."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from pipeline.java import Java, find_java, major_of
from pipeline.runtime import EnvironmentProblemError

PLACES = ("/usr/lib/jvm", "/opt/java", "/opt")
"""Where distributions and images have one folder for each Java."""


def homes() -> Iterator[Path]:
    """Yield possible values of JAVA_HOME, first those of variables such as JAVA_HOME_25_X64."""
    for name, value in sorted(os.environ.items()):
        if name.startswith("JAVA_HOME") and value:
            yield Path(value)
    for place in map(Path, PLACES):
        if place.is_dir():
            yield from sorted(place.iterdir())


def newest(places: Iterable[Path]) -> tuple[Path, Java] | None:
    """Return the folder with the newest Java that the parts accept, and that Java; None: there is none."""
    found: list[tuple[Path, Java]] = []
    for home in places:
        if (home / "bin" / "java").is_file():
            try:
                found.append((home, find_java({}, home)))
            except EnvironmentProblemError:
                continue  # too old, or not a Java
    return max(found, key=lambda each: major_of(each[1].version), default=None)


def newer_java_home() -> Path | None:
    """Return the folder of a newer Java than the usual one, None when there is none; say which on standard error."""
    usual = find_java(os.environ)
    best = newest(homes())
    if best is None or major_of(best[1].version) <= major_of(usual.version):
        sys.stderr.write(f"Skipped: the tests on a Java newer than {usual.version}: none is here\n")
        return None
    sys.stderr.write(f"Once more on Java {best[1].version} at {best[0]}\n")
    return best[0]
