"""The command lines of the servers' JVMs.

$JAVA_HOME wins over PATH, as everywhere.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.processes.errors import JavaError
from pipeline import java as finder
from pipeline.java import Java
from pipeline.runtime import EnvironmentProblemError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


HEAP_MIB = 256
"""Enough for a server of a story or of the pipeline's own topics."""


def server_command(
    java: Java,
    main_class: str,
    *arguments: str | Path,
    classpath: Sequence[Path],
    properties: Mapping[str, str] | None = None,
) -> list[str]:
    """Return the command line of a small server: quick to start, and frugal on two cores."""
    return [
        os.fspath(java.path),
        f"-Xmx{HEAP_MIB}m",
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
    try:
        return finder.find_java(os.environ if environ is None else environ)
    except EnvironmentProblemError as error:
        raise JavaError(str(error)) from None
