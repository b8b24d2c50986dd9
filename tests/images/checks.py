"""What an image must be: its labels, user, size and layers; what its user may write; that its bill of materials is true."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

from tests.images.engine import Engine, shipped

ROOT = Path(__file__).resolve().parents[2]
USER = "10001:10001"
MIB = 1 << 20
LABEL = "org.opencontainers.image."


class Target(NamedTuple):
    """An image of the Dockerfile, and how large it may become."""

    name: str
    ports: tuple[int, ...]
    jar_folders: tuple[str, ...]
    most_mib: int
    """Over its base."""
    most_layers: int
    """Over its base."""
    writable: frozenset[str]

    @property
    def image(self) -> str:
        """Its name in the compose file."""
        return f"kafka-controller-{self.name}:{version()}"


_TEMPORARY = frozenset({"/tmp", "/var/tmp", "/run/lock"})  # noqa: S108  # the container's, from its base

TARGETS = (
    Target("monitor", (9640, 9641), (), 80, 4, _TEMPORARY),
    Target("monitor-spark", (9642,), ("/opt/connector",), 1_300, 7, _TEMPORARY | {"/var/lib/kcm"}),
)


def version() -> str:
    """Return the project's release."""
    release: str = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    return release


def check_image(engine: Engine, target: Target, base: str, revision: str) -> str:
    """Return the image's size in words; an AssertionError says what is wrong with it."""
    held, under = engine.inspect(target.image), engine.inspect(base)
    config = held["Config"]
    labels = {
        key.removeprefix(LABEL): value
        for key, value in config["Labels"].items()
        if key.startswith(LABEL)
    }
    assert labels["title"] == f"kafka-controller-{target.name}", labels
    assert labels["version"] == version(), labels
    assert labels["revision"] == revision, labels
    assert labels["licenses"] == "Apache-2.0", labels
    assert labels["description"], labels
    assert config["User"] == USER
    assert config["Entrypoint"] == ["kcm"]
    assert set(config["ExposedPorts"]) == {f"{port}/tcp" for port in target.ports}
    more_mib = (held["Size"] - under["Size"]) / MIB
    layers = len(held["RootFS"]["Layers"]) - len(under["RootFS"]["Layers"])
    words = f"{held['Size'] / MIB:,.0f} MiB, {more_mib:,.0f} over its base in {layers} layers"
    assert more_mib <= target.most_mib, words
    assert layers <= target.most_layers, words
    return words


def check_run(engine: Engine, target: Target) -> None:
    """The program starts as it ships, and its user can write to temporary folders and volumes only."""
    printed = engine.podman(*shipped(target.image, "--version"))
    assert printed.strip() == f"kcm {version()}", printed
    find = "find / -xdev -path /proc -prune -o ( -type d -o -type f ) -writable -print"
    # Not read-only, so that nothing but rights of files keeps it from writing.
    run = ("run", "--rm", "--entrypoint", "/usr/bin/env", target.image, *find.split())
    found = engine.podman(*run, check=False)  # it fails at folders that it may not read
    beyond = [
        path
        for path in found.splitlines()
        if not any(path == each or path.startswith(f"{each}/") for each in target.writable)
    ]
    assert found, "nothing was searched"
    assert beyond == [], beyond


def check_bill(engine: Engine, target: Target) -> str:
    """The bill of materials lists what is in the image, each Python package as the lock pins it; return what it counts."""
    written = engine.podman(*shipped(target.image, "/opt/kcm/sbom.cdx.json", entrypoint=["cat"]))
    command = shipped(target.image, "-", *target.jar_folders, entrypoint=["/opt/kcm/bin/python"])
    command.insert(1, "--interactive")
    done = engine.run("podman", *command, stdin=(ROOT / "tools" / "sbom.py").read_text())
    bill = json.loads(written)
    assert bill == json.loads(done.stdout), "the bill is not of this image"
    kinds: dict[str, int] = {}
    for component in bill["components"]:
        kind = re.match(r"pkg:(\w+)/", component["purl"])
        assert kind is not None, component
        kinds[kind[1]] = kinds.get(kind[1], 0) + 1
    _check_lock(bill["components"])
    assert kinds["deb"] > 50
    assert (kinds.get("generic", 0) > 100) is bool(target.jar_folders)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def _check_lock(components: list[dict[str, Any]]) -> None:
    """Every package but our own has the release of requirements.lock."""
    text = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    locked = dict(re.findall(r"^([\w.-]+)==(\S+)", text, re.MULTILINE))
    own = {"kafka-controller-monitor": version()}
    for each in components:
        if each["purl"].startswith("pkg:pypi/"):
            assert each["version"] == (locked | own).get(each["name"]), each
