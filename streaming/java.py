"""Find the Java that runs Spark, and refuse one that is too old.

The rule: a wrong Java is one clear line before anything is started, not a stack trace of Spark's.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from pipeline.runtime import EnvironmentProblemError

MINIMUM_MAJOR = 17
"""Spark 4 needs it."""

_VERSION_DEADLINE_S = 30.0  # `java -version` takes 0.1 s; a busy machine may take its time
_ADVICE = "install a JRE 17 or set java_home"
_NEEDED = f"Spark needs Java {MINIMUM_MAJOR} or newer"


def find_java(java_home: Path | None, environ: Mapping[str, str]) -> Path:
    """Return the program to run: java_home's, else JAVA_HOME's, else the one on PATH.

    Raises EnvironmentProblemError when there is none, or it is too old.
    """
    home = java_home or (Path(environ["JAVA_HOME"]) if environ.get("JAVA_HOME") else None)
    if home is not None:
        java = home / "bin" / "java"
        if not os.access(java, os.X_OK):
            raise EnvironmentProblemError(f"{_NEEDED}; {java} cannot be run; {_ADVICE}")
    else:
        found = shutil.which("java", path=environ.get("PATH"))
        if found is None:
            raise EnvironmentProblemError(f"{_NEEDED}; found none; {_ADVICE}")
        java = Path(found)
    version = _version(java)
    if version is None:
        raise EnvironmentProblemError(f"{_NEEDED}; {java} does not tell its version; {_ADVICE}")
    if major(version) < MINIMUM_MAJOR:
        raise EnvironmentProblemError(f"{_NEEDED}; found {version} at {java}; {_ADVICE}")
    return java


def major(version: str) -> int:
    """Return a version's major number; 0 when there is none.

    >>> major("17.0.15"), major("1.8.0_292"), major("21-ea"), major("")
    (17, 8, 21, 0)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if len(numbers) > 1 and numbers[0] == 1:
        return numbers[1]
    return numbers[0] if numbers else 0


def _version(java: Path) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603  # the java that the user chose
            [os.fspath(java), "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=_VERSION_DEADLINE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return match.group(1) if match else None
