"""Find a Java that is new enough, and build the command lines of JVMs.

$JAVA_HOME wins over PATH, as everywhere. What is found is asked for its version before anything is
started with it, so that a wrong Java is one clear line and not a stack trace of a server.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.stack.errors import JavaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MINIMUM_MAJOR = 17  # Spark 4 needs it
VERSION_DEADLINE_S = 30.0  # `java -version` takes 0.1 s; a busy machine may take its time
ADVICE = "install a JRE 17 or set JAVA_HOME"


@dataclass(frozen=True, slots=True)
class Java:
    """A Java program that was found and asked for its version."""

    path: Path
    version: str

    def command(
        self,
        main_class: str,
        *arguments: str | Path,
        classpath: Sequence[Path],
        heap_mib: int,
        properties: Mapping[str, str] | None = None,
    ) -> list[str]:
        """Return the command line of a small server: quick to start, and frugal on two cores."""
        return [
            os.fspath(self.path),
            f"-Xmx{heap_mib}m",
            "-XX:+UseSerialGC",  # no pool of collector threads
            "-XX:TieredStopAtLevel=1",  # these servers live for minutes: compile quickly, once
            "-Xshare:auto",
            "-XX:-UsePerfData",  # no file in the temporary folder that a SIGKILL leaves behind
            "-XX:+ExitOnOutOfMemoryError",  # ended is better than half alive
            "-Djava.awt.headless=true",
            *(f"-D{key}={value}" for key, value in (properties or {}).items()),
            "-cp",
            os.pathsep.join(os.fspath(jar) for jar in classpath),
            main_class,
            *(os.fspath(argument) for argument in arguments),
        ]


def find_java(environ: Mapping[str, str] | None = None) -> Java:
    """Return Java 17 or newer from $JAVA_HOME or PATH, or raise JavaError; None is our environ."""
    env = os.environ if environ is None else environ
    path = _locate(env)
    if path is None:
        message = f"Java {MINIMUM_MAJOR} or newer is needed; found none; {ADVICE}"
        raise JavaError(message)
    version = _version_of(path)
    if version is None:
        message = (
            f"Java {MINIMUM_MAJOR} or newer is needed; {path} does not answer to -version; {ADVICE}"
        )
        raise JavaError(message)
    if major_of(version) < MINIMUM_MAJOR:
        message = f"Java {MINIMUM_MAJOR} or newer is needed; found {version} at {path}; {ADVICE}"
        raise JavaError(message)
    return Java(path, version)


def major_of(version: str) -> int:
    """Return a version's major number; 0 when there is none.

    >>> major_of("17.0.15"), major_of("1.8.0_292"), major_of("21-ea"), major_of("")
    (17, 8, 21, 0)
    """
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if len(numbers) > 1 and numbers[0] == 1:
        return numbers[1]
    return numbers[0] if numbers else 0


def _locate(env: Mapping[str, str]) -> Path | None:
    if home := env.get("JAVA_HOME"):
        path = Path(home) / "bin" / "java"
        if not os.access(path, os.X_OK):
            message = (
                f"Java {MINIMUM_MAJOR} or newer is needed; JAVA_HOME is {home} "
                f"but {path} cannot be run; correct or unset JAVA_HOME"
            )
            raise JavaError(message)
        return path
    found = shutil.which("java", path=env.get("PATH"))
    return Path(found) if found else None


def _version_of(path: Path) -> str | None:
    try:
        answer = subprocess.run(
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
