"""Print a bill of materials of the Python that runs this: `python -m tools.sbom [FOLDER OF JARS ...]`, as CycloneDX.

It lists what is installed, not what was required: Python packages, the jars of Spark and
of the given folders, and Debian's packages where there are any. It needs only the standard library:
an image runs this file alone.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Component = dict[str, Any]

JAR = re.compile(r"(?P<name>.+)-(?P<version>[0-9]+(?:\.[^/]*)?)\.jar")
"""A jar's file name. A name may have numbers of its own: spark-sql-kafka-0-10_2.13-4.2.0."""


def bill(jar_folders: Iterable[Path]) -> dict[str, Any]:
    """Return the document; equal contents give an equal document."""
    components = [*_packages(), *_debian()]
    for folder in jar_folders:
        components += map(_jar, sorted(folder.glob("*.jar")))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "components": sorted(components, key=lambda each: str(each["bom-ref"])),
    }


def spark_jars() -> list[Path]:
    """Return the folder of Spark's own jars, if Spark is installed."""
    spec = importlib.util.find_spec("pyspark")
    return [Path(spec.origin).parent / "jars"] if spec is not None and spec.origin else []


def _packages() -> Iterator[Component]:
    for each in importlib.metadata.distributions():
        name = re.sub(r"[-_.]+", "-", each.metadata["Name"]).lower()
        licence = each.metadata.json.get("license_expression") or each.metadata.json.get("license")
        component = _component(name, each.version, f"pkg:pypi/{name}@{each.version}")
        if isinstance(licence, str) and "\n" not in licence:
            component["licenses"] = [{"license": {"name": licence}}]
        yield component


def _jar(path: Path) -> Component:
    match = JAR.fullmatch(path.name)
    name, version = (match["name"], match["version"]) if match else (path.stem, "")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    component = _component(name, version, f"pkg:generic/{path.name}?checksum=sha256:{digest}")
    return component | {"hashes": [{"alg": "SHA-256", "content": digest}]}


def _debian() -> Iterator[Component]:
    query = shutil.which("dpkg-query")
    if query is None:
        return
    form = "${Package} ${Version} ${Architecture}\n"
    done = subprocess.run([query, "-W", "-f", form], capture_output=True, text=True, check=True)  # noqa: S603  # found on PATH, with fixed arguments
    for line in done.stdout.splitlines():
        name, version, architecture = line.split()
        yield _component(name, version, f"pkg:deb/debian/{name}@{version}?arch={architecture}")


def _component(name: str, version: str, purl: str) -> Component:
    return {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}


if __name__ == "__main__":
    folders = [*spark_jars(), *map(Path, sys.argv[1:])]
    json.dump(bill(folders), sys.stdout, indent=1, sort_keys=True)
    sys.stdout.write("\n")
