"""The compose file, run by podman-compose: as it is, but for what this podman or a stand-in cannot do."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from tests.images.engine import HOST_GATEWAY_SINCE, Engine
from tools.programs import ensure_podman_compose

FOLDER = Path(__file__).resolve().parents[2] / "docker"
START_TIMEOUT_S = 300
PROJECT = "kafka-controller-monitor"

Yaml = dict[str, Any]


class Compose:
    """One project of compose, with the variables that its user gives."""

    def __init__(self, engine: Engine, *, without: frozenset[str]) -> None:
        """Prepare the files; services in `without` have no image here."""
        self._engine = engine
        self._files: list[str] = []
        for name in ("compose.yaml", "example-cluster.yaml"):
            held: Yaml = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
            path = engine.folder / name
            path.write_text(json.dumps(self._adapted(held, without)), encoding="utf-8")
            self._files += ["-f", str(path)]

    def _adapted(self, held: Yaml, without: frozenset[str]) -> Yaml:
        """Return a file with paths that hold from anywhere, and without what cannot be had here."""
        held["services"] = {
            name: each for name, each in held["services"].items() if name not in without
        }
        for service in held["services"].values():
            if self._engine.version() < HOST_GATEWAY_SINCE:
                service.pop("extra_hosts", None)
            service["volumes"] = [
                str((FOLDER / each).resolve()) if each.startswith(".") else each
                for each in service.get("volumes", [])
            ]
            service.pop("build", None)  # it is built already
        return held

    def run(self, *arguments: str, **variables: str) -> str:
        """Run podman-compose with the user's variables."""
        command = (sys.executable, "-m", "podman_compose", *self._files, *arguments)
        wheel = str(ensure_podman_compose())
        given = {**variables, "PYTHONPATH": wheel}
        done = self._engine.run(*command, timeout_s=START_TIMEOUT_S, variables=given)
        return done.stdout + done.stderr

    def container(self, service: str) -> str:
        """Return the name of a service's container."""
        label = f"label=com.docker.compose.service={service}"
        project = f"label=io.podman.compose.project={PROJECT}"
        found = self._engine.podman(
            "ps", "--all", "--filter", label, "--filter", project, "--format", "{{.Names}}"
        )
        (name,) = found.split()
        return name
