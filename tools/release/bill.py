"""The bill of materials of a release, as CycloneDX: what an installation of the wheel with all its extras brings, and the jars it downloads.

The rule: versions are those of requirements.lock. They are read from this environment, and one that differs from the lock is refused. An image has a
bill of its own inside, made by `tools.sbom` of what is installed there.
"""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import uuid
from pathlib import Path

from cyclonedx.model import HashAlgorithm, HashType
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import DisjunctiveLicense
from cyclonedx.output.json import JsonV1Dot6
from packageurl import PackageURL
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from pipeline.build import DISTRIBUTION
from pipeline.runtime import EnvironmentProblemError
from tools.sbom import JAR


def bill(root: Path, revision: str, made_at: dt.datetime) -> str:
    """Return the document; equal inputs give an equal one. Raises EnvironmentProblemError."""
    lock = (root / "requirements.lock").read_text(encoding="utf-8")
    document = Bom(serial_number=uuid.uuid5(uuid.NAMESPACE_URL, f"{DISTRIBUTION}@{revision}"))
    document.metadata.timestamp = made_at
    whole = _package(DISTRIBUTION, ComponentType.APPLICATION)
    document.metadata.component = whole
    found: dict[str, Component] = {DISTRIBUTION: whole}
    waiting = [(DISTRIBUTION, frozenset({"watch", "stream", "export"}))]
    while waiting:
        name, extras = waiting.pop()
        needed = dict(_needs(name, extras))
        for each, its_extras in needed.items():
            if each not in found:
                found[each] = _package(each, ComponentType.LIBRARY)
                if f"\n{each}=={found[each].version} " not in lock:
                    raise EnvironmentProblemError(
                        f"{each} {found[each].version} is installed, and requirements.lock has another one: run make setup"
                    )
                waiting.append((each, its_extras))
        document.register_dependency(found[name], [found[each] for each in needed])
    # What the fold and `kcm up` download, as they check it.
    pinned = (root / "kcm" / "servers" / "ivy.sha256").read_text(encoding="utf-8")
    jars = [_jar(*line.split()) for line in pinned.splitlines()]
    document.register_dependency(whole, jars)
    for component in (*found.values(), *jars):
        if component is not whole:
            document.components.add(component)
    return JsonV1Dot6(document).output_as_string(indent=1) + "\n"


def _needs(name: str, extras: frozenset[str]) -> list[tuple[str, frozenset[str]]]:
    """Return what a distribution needs here, with the extras that it asks for."""
    lines = map(Requirement, importlib.metadata.requires(name) or ())
    return [
        (canonicalize_name(line.name), frozenset(line.extras))
        for line in lines
        if line.marker is None
        or any(line.marker.evaluate({"extra": extra}) for extra in (*extras, ""))
    ]


def _package(name: str, kind: ComponentType) -> Component:
    said = importlib.metadata.metadata(name).json
    licence = said.get("license_expression") or said.get("license")
    version = importlib.metadata.version(name)
    url = PackageURL("pypi", None, name, version)
    component = Component(name=name, version=version, type=kind, purl=url, bom_ref=str(url))
    if isinstance(licence, str) and "\n" not in licence:
        component.licenses.add(DisjunctiveLicense(name=licence))
    return component


def _jar(digest: str, place: str) -> Component:
    """Return a jar, under the folder of the conf that brings it: two may bring one of the same name."""
    match = JAR.fullmatch(Path(place).name)
    name, version = (match["name"], match["version"]) if match else (Path(place).stem, None)
    url = PackageURL("generic", None, Path(place).name, None, {"checksum": f"sha256:{digest}"})
    return Component(
        name=name,
        version=version,
        group=Path(place).parent.name,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=place,
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
    )
