"""Podman as the container engine, with what a machine without systemd needs: settings in files of our own, nobody else's are read."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pipeline.runtime import EnvironmentProblemError

DEBIAN_PACKAGES = (
    *("podman", "buildah", "runc", "netavark", "aardvark-dns", "containernetworking-plugins"),
    *("iptables", "uidmap", "catatonit", "mmdebstrap"),
)
BUILD_TIMEOUT_S = 1800
RUN_TIMEOUT_S = 300
PULL_TIMEOUT_S = 120
HOST_GATEWAY_SINCE = (4, 7)
"""Podman's release that knows the name host-gateway in extra_hosts."""
_CONTAINERS = """
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[containers]
log_driver = "k8s-file"
default_ulimits = ["nofile=4096:4096", "nproc=30000:30000"]
"""
"""runc also runs where cgroups of both versions are mounted; the limits are below those of a root that may not raise its own."""
_REGISTRIES = """
unqualified-search-registries = ["docker.io"]
short-name-mode = "permissive"
"""


def why_not() -> str | None:
    """Return why images cannot be built here; None where they can."""
    missing = [name for name in ("podman", "buildah", "runc") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} not found: apt-get install -y --no-install-recommends {' '.join(DEBIAN_PACKAGES)}"
    if os.geteuid() != 0:
        return "rootful podman is what it was written for: run it as root"
    return None


class Engine:
    """Podman and buildah, with their settings in a folder."""

    def __init__(self, folder: Path) -> None:
        """Write the settings; a user's own variables for them are not used."""
        self.folder = folder
        files = {"containers.conf": _CONTAINERS, "registries.conf": _REGISTRIES}
        for name, text in files.items():
            (folder / name).write_text(text, encoding="utf-8")
        self.environment = {
            **os.environ,
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
            "BUILDAH_RUNTIME": "runc",
            # Without systemd nothing would run a container's checks; `podman healthcheck run` does.
            "DISABLE_HC_SYSTEMD": "true",
        }

    def run(
        self,
        *command: str,
        check: bool = True,
        timeout_s: float = RUN_TIMEOUT_S,
        stdin: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command with the engine's settings; one that fails raises with the end of what it printed."""
        done = subprocess.run(
            command,
            env={**self.environment, **(variables or {})},
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout_s,
        )
        if check and done.returncode:
            printed = (done.stdout + done.stderr).strip().splitlines()
            raise EnvironmentProblemError(
                "\n".join(
                    [f"{' '.join(command[:6])} ended with {done.returncode}:", *printed[-30:]]
                )
            )
        return done

    def podman(self, *arguments: str, check: bool = True) -> str:
        """Return what `podman ARGUMENTS` printed."""
        return self.run("podman", *arguments, check=check).stdout

    def has(self, image: str) -> bool:
        """Return whether the image is here."""
        return self.run("podman", "image", "exists", image, check=False).returncode == 0

    def pull(self, image: str) -> bool:
        """Return whether the image is here or could be pulled."""
        if self.has(image):
            return True
        try:
            done = self.run("podman", "pull", "-q", image, check=False, timeout_s=PULL_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def inspect(self, image: str) -> dict[str, Any]:
        """Return what the engine knows of an image."""
        found: dict[str, Any] = json.loads(self.podman("image", "inspect", image))[0]
        return found

    def build(self, tag: str, file: Path, context: Path, *arguments: str) -> None:
        """Build an image; its steps run in the machine's network, in which the builder's own name has no address."""
        self.run(
            *("buildah", "build", "--layers", "--network", "host", "-t", tag),
            *("-f", str(file), *arguments, str(context)),
            timeout_s=BUILD_TIMEOUT_S,
        )

    def version(self) -> tuple[int, int]:
        """Return podman's release."""
        major, minor, *_ = self.podman("version", "--format", "{{.Client.Version}}").split(".")
        return int(major), int(minor)


def shipped(image: str, *arguments: str, entrypoint: Sequence[str] = ()) -> list[str]:
    """Return podman's arguments that run an image as it ships: its own user, a root that is read-only, no right of root's."""
    given = [f"--entrypoint={json.dumps(list(entrypoint))}"] if entrypoint else []
    return [
        *("run", "--rm", "--read-only", "--cap-drop", "all"),
        *("--security-opt", "no-new-privileges", "--tmpfs", "/tmp:mode=1777"),  # noqa: S108  # the container's
        *given,
        image,
        *arguments,
    ]
