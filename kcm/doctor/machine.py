"""Check this machine for what the parts need: packages, Java, jars.

Only what an installed part needs can be missing here.
"""

import importlib.util
import os
import platform
from collections.abc import Iterator
from pathlib import Path

from kcm.doctor.findings import Finding, ok, unknown, warn
from kcm.servers.jars import default_cache, find_jars
from pipeline.build import version
from pipeline.java import find_java
from pipeline.runtime import EnvironmentProblemError

NEEDS = {"watch": "kazoo", "stream": "pyspark", "export": "starlette"}
"""The package without which a part cannot run."""


def check_machine(java_home: Path | None) -> Iterator[Finding]:
    """Report which parts can run here, and whether the Java and the jars that they need are there."""
    runs = [part for part, package in NEEDS.items() if importlib.util.find_spec(package)]
    yield ok(
        "kcm",
        f"{version()} on Python {platform.python_version()}; can run here: {', '.join(runs)}",
    )
    if "stream" not in runs:
        yield unknown("java", "the fold is not installed here, and nothing else needs Java")
        return
    try:
        java = find_java(os.environ, java_home)
    except EnvironmentProblemError as error:
        yield warn("java", str(error), "needed where kcm stream, up or demo run")
    else:
        yield ok("java", f"{java.version} at {java.path}")
    if find_jars() is None:
        yield warn(
            "jars",
            f"not all in {default_cache()}",
            "kcm stream, up and demo fetch them at their first start (56 MB)",
        )
    else:
        yield ok("jars", f"all in {default_cache()}")
