"""Finds a Java that is new enough, or says in one line why there is none.

A Java is asked for its version before anything is started with it, so that a wrong Java
is one clear line and not a server's stack trace.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pipeline.runtime import EnvironmentProblemError

MINIMUM_MAJOR = 17
"""The lowest major version: Spark 4 needs it; Kafka and ZooKeeper run on it."""

VERSION_DEADLINE_S = 30.0
"""How long `java -version` may take: it takes 0.1 s, and longer on a busy machine."""

_NEEDED = f"Java {MINIMUM_MAJOR} or newer is needed"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java program and the version that it reported."""

    path: Path
    version: str


def find_java(environ: Mapping[str, str], java_home: Path | None = None) -> Java:
    """Return the program to run: java_home's, else $JAVA_HOME's, else the one on PATH.

    `java_home` is the setting of that name. Raise EnvironmentProblemError when there is none, or it
    is too old.
    """
    path = _locate(environ, java_home)
    advice = "install a JRE 17 or set JAVA_HOME"
    if path is None:
        raise EnvironmentProblemError(f"{_NEEDED}; found none; {advice}")
    version = _version_of(path)
    if version is None:
        raise EnvironmentProblemError(f"{_NEEDED}; {path} does not answer to -version; {advice}")
    if major_of(version) < MINIMUM_MAJOR:
        raise EnvironmentProblemError(f"{_NEEDED}; found {version} at {path}; {advice}")
    return Java(path, version)


def use_java(java_home: Path | None) -> Java:
    """Return what `find_java` finds, and let everything that this process starts afterwards find it, too.

    A download of jars, a broker and a class archive look for a Java by themselves, without the setting.
    """
    java = find_java(os.environ, java_home)
    if java_home is not None:
        os.environ["JAVA_HOME"] = os.fspath(java_home)
    return java


def major_of(version: str) -> int:
    """Return a version's major number; 0 when there is none.

    >>> major_of("17.0.15"), major_of("1.8.0_292"), major_of("21-ea"), major_of("")
    (17, 8, 21, 0)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if len(numbers) > 1 and numbers[0] == 1:
        return numbers[1]
    return numbers[0] if numbers else 0


def _locate(environ: Mapping[str, str], java_home: Path | None) -> Path | None:
    name = "JAVA_HOME" if java_home is None else "java_home"
    home = java_home or environ.get("JAVA_HOME")
    if home:
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            raise EnvironmentProblemError(
                f"{_NEEDED}; {name} is {home} but {path} cannot be run; correct or unset {name}"
            )
        return path
    found = shutil.which("java", path=environ.get("PATH"))
    return Path(found) if found else None


def _version_of(path: Path) -> str | None:
    try:
        answer = subprocess.run(  # noqa: S603  # the java that the user chose
            [os.fspath(path), "-version"],
            capture_output=True,
            text=True,
            check=False,
            timeout=VERSION_DEADLINE_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "([^"]+)"', answer.stderr + answer.stdout)
    return match.group(1) if match else None
