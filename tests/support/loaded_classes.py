"""Which classes a JVM loaded, and whether they came from a class archive of ours, by its own note (`-Xlog:class+load`)."""

from __future__ import annotations

from pathlib import Path

MAPPED = "source: shared objects file (top)"
"""What Java notes of a class that comes from our archive, and not from its own."""


def noting(noted: Path) -> str:
    """Return the option with which a JVM notes each class that it loads in a file."""
    return f"-Xlog:class+load:file={noted}"


def loaded_classes(noted: Path, *packages: str) -> list[str]:
    """Return what was noted of the classes of these packages, besides those that Java makes of lambdas."""
    lines = noted.read_text().splitlines()
    ours = (line for line in lines if any(f" {package}." in line for package in packages))
    return [line for line in ours if "$$Lambda" not in line]
