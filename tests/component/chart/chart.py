"""The chart, rendered by helm, and its containers as commands that run on this machine.

A container's files lie in a folder of the test instead of its mounts: the paths in its variables and in
its configuration are moved there. Its ports are free ones. Nothing else of the manifest is changed.
"""

from __future__ import annotations

import dataclasses
import os
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcm.servers.jars import Jars, default_cache
from kcm.servers.ports import free_port
from tests.support.waiting import DEADLINE_S
from tools.programs import find_helm

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "helm" / "kafka-controller-monitor"
DOCKERFILE = ROOT / "docker" / "Dockerfile"
VALUE_SETS = sorted((CHART / "ci").glob("*-values.yaml"))
HELM = find_helm()
NEEDS_HELM = pytest.mark.skipif(
    HELM is None, reason="helm is not here (python -m tools.programs fetches it)"
)
KUBERNETES = "1.31.0"
"""What helm is to render for; a helm that Go built from its module names a far older one."""
HELM_DEADLINE_S = 240
MAX_LINES = 40
"""Of each log, when an assertion fails."""
USER = 10001
"""Of the images."""
CONFINE = """
set -eu
folder=$1; user=$2; kept=$3; shift 3
again=$folder/tmp/${folder#/tmp/}
mkdir -p "$again"
cp /etc/passwd "$folder/passwd"
echo "kcm:x:$user:$user::/tmp:/usr/sbin/nologin" >> "$folder/passwd"
mount --make-rprivate /
mount --bind "$folder" "$folder"
mount --bind "$folder/passwd" /etc/passwd
mount --bind "$folder" "$again"
for each in $kept; do
  mkdir -p "$folder$each"
  mount --bind "$each" "$folder$each"
done
mount --rbind "$folder/tmp" /tmp
mount -o remount,bind,ro /
exec setpriv --reuid "$user" --regid "$user" --clear-groups --no-new-privs \\
  --inh-caps=-all,+dac_read_search --ambient-caps=+dac_read_search --bounding-set=-all,+dac_read_search "$@"
"""
"""A container's own view of the files: the root is read-only, /tmp is its volume, its user has a name. Of root's
rights it keeps that of reading everything, since programs may lie where only root looks, and below /tmp as well."""
NAMESPACE = "monitoring"

Manifest = dict[str, Any]


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run helm to its end."""
    assert HELM is not None
    return subprocess.run(
        [HELM, *arguments], capture_output=True, text=True, check=False, timeout=HELM_DEADLINE_S
    )


def template(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Render the chart."""
    common = ("--namespace", NAMESPACE, "--kube-version", KUBERNETES)
    return helm("template", "rel", str(CHART), *common, *arguments)


def render(values: Path, *arguments: str) -> list[Manifest]:
    """Return the manifests of a value set."""
    done = template("--values", str(values), *arguments)
    assert done.returncode == 0, done.stderr
    return [each for each in yaml.safe_load_all(done.stdout) if each]


def workloads(manifests: Sequence[Manifest]) -> list[Manifest]:
    """Return what has pods."""
    return [each for each in manifests if each["kind"] in {"Deployment", "StatefulSet"}]


def pod_of(workload: Manifest) -> Manifest:
    """Return the pod that a workload makes."""
    pod: Manifest = workload["spec"]["template"]["spec"]
    return pod


def container_of(workload: Manifest) -> Manifest:
    """Return kcm's own container of a workload's pod; those that values add come after it."""
    container: Manifest = pod_of(workload)["containers"][0]
    return container


def variables(container: Manifest) -> dict[str, str]:
    """Return a container's variables."""
    return {each["name"]: each["value"] for each in container["env"]}


def secret_files(workload: Manifest) -> dict[str, tuple[str, str]]:
    """Return the files of the folder of secrets: the name and the key of each one's secret."""
    volumes = [each for each in pod_of(workload)["volumes"] if each["name"] == "secrets"]
    return {
        item["path"]: (source["secret"]["name"], item["key"])
        for volume in volumes
        for source in volume["projected"]["sources"]
        for item in source["secret"]["items"]
    }


@dataclass(frozen=True, kw_only=True, slots=True)
class Local:
    """A container as this machine can run it."""

    name: str
    command: list[str]
    environment: dict[str, str]
    port: int
    probes: dict[str, str]
    """startup (where there is one), liveness and readiness -> the URL that the kubelet would ask."""

    def start(self, output: Path) -> subprocess.Popen[bytes]:
        """Start it; what it prints goes to the file."""
        with output.open("wb") as file:
            return subprocess.Popen(
                self.command,
                env=self.environment,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd="/",
                start_new_session=True,
            )


def localize(
    workload: Manifest,
    manifests: Sequence[Manifest],
    folder: Path,
    *,
    secrets: Mapping[str, Mapping[str, str]] | None = None,
    image: Mapping[str, str] | None = None,
) -> Local:
    """Return a workload's container for this machine.

    `secrets` are those that the manifest names, `image` holds the variables that its image sets.
    """
    secrets = secrets or {}
    container = container_of(workload)
    mounted = _mount(workload, manifests, folder, secrets)
    environment = dict(image or {})
    for name, value in variables(container).items():
        environment[name] = _moved(value, mounted)
    program, *arguments = container["command"]
    (port,) = [each for each in container["ports"] if each["name"] == "metrics"]
    local_port = free_port()
    port_names = [name for name in environment if name.endswith("_PORT")]
    assert [environment[name] for name in port_names] == [str(port["containerPort"])]
    environment[port_names[0]] = str(local_port)
    return Local(
        name=workload["metadata"]["name"],
        command=[str(Path(sys.executable).with_name(program)), *arguments],
        environment=_machine() | environment,
        port=local_port,
        probes={
            kind: f"http://127.0.0.1:{local_port}{container[f'{kind}Probe']['httpGet']['path']}"
            for kind in ("startup", "liveness", "readiness")
            if f"{kind}Probe" in container
        },
    )


def _machine() -> dict[str, str]:
    """Return what a container's image would bring: programs, and where Java is."""
    kept = ("PATH", "JAVA_HOME", "LANG")
    return {name: os.environ[name] for name in kept if name in os.environ}


def _mount(
    workload: Manifest,
    manifests: Sequence[Manifest],
    folder: Path,
    secrets: Mapping[str, Mapping[str, str]],
) -> dict[str, Path]:
    """Lay the container's volumes out below the folder: mount path -> folder."""
    pod = pod_of(workload)
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    claims = workload["spec"].get("volumeClaimTemplates", [])
    volumes |= {claim["metadata"]["name"]: {} for claim in claims}
    mounted = {
        mount["mountPath"]: folder / mount["mountPath"].lstrip("/")
        for mount in container_of(workload)["volumeMounts"]
    }
    for mount in container_of(workload)["volumeMounts"]:
        target = mounted[mount["mountPath"]]
        target.mkdir(parents=True, exist_ok=True)
        content = _content(volumes[mount["name"]], manifests, secrets)
        if mount["name"] == "secrets":
            files = secret_files(workload).items()
            content = {file: secrets[name][key] for file, (name, key) in files}
        for name, text in content.items():
            (target / name).write_text(_moved(text, mounted))
    return mounted


def _content(
    volume: Manifest, manifests: Sequence[Manifest], secrets: Mapping[str, Mapping[str, str]]
) -> Mapping[str, str]:
    if "configMap" in volume:
        name = volume["configMap"]["name"]
        for each in manifests:
            if each["kind"] == "ConfigMap" and each["metadata"]["name"] == name:
                data: dict[str, str] = each["data"]
                return data
        pytest.fail(f"no manifest is the ConfigMap {name}")
    if "secret" in volume:
        return secrets[volume["secret"]["secretName"]]
    return {}


def _moved(text: str, mounted: Mapping[str, Path]) -> str:
    """Return a text whose paths below a mount lie in its folder."""
    longest_first = sorted(mounted, key=len, reverse=True)
    paths = "|".join(re.escape(path) for path in longest_first)
    return re.sub(
        rf"(?<![\w./-])({paths})(?=/|$)", lambda found: str(mounted[found.group(1)]), text
    )


def image(jars: Jars) -> dict[str, str]:
    """Return the variables that the image with Spark sets, with the jars where they are here."""
    return {"KCM_CONNECTOR_JARS": ",".join(map(str, jars.connector))}


def confined(local: Local, folder: Path, volumes: Sequence[str]) -> Local:
    """Return a container that runs as the images' user and can write to these volumes only."""
    for volume in volumes:
        os.chown(folder / volume.lstrip("/"), USER, USER)
    programs = {ROOT, Path(sys.prefix), Path(sys.base_prefix), default_cache()}
    kept = " ".join(sorted(str(each) for each in programs if each.is_relative_to("/tmp")))  # noqa: S108  # the pod's own
    inside = ("unshare", "--mount", "sh", "-c", CONFINE, "sh", str(folder), str(USER), kept)
    return dataclasses.replace(local, command=[*inside, *local.command])


def can_confine() -> bool:
    """Return whether this machine lets us make a view of the files of our own."""
    if not all(map(shutil.which, ("unshare", "setpriv", "mount"))):
        return False
    tried = ("unshare", "--mount", "mount", "--make-rprivate", "/")
    return subprocess.run(tried, capture_output=True, check=False).returncode == 0


@contextmanager
def running(local: Local, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a container until the block ends; an assertion that fails shows what it and its pods logged last."""
    process = local.start(output)
    try:
        yield process
    except AssertionError as error:
        folder = output.parent
        logs = [output, *sorted(folder.rglob("spark.log")), *sorted(folder.glob("pods/*.out"))]
        for log in logs:
            lines = log.read_text(errors="replace").splitlines()[-MAX_LINES:]
            error.add_note("\n".join([f"--- the end of {log.name}:", *lines]))
        raise
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()


def answer(url: str) -> tuple[int, bytes]:
    """Return what a probe gets: status and body; 0 without a listening server."""
    try:
        with urllib.request.urlopen(url, timeout=DEADLINE_S) as response:
            return response.status, response.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()
    except OSError as error:
        return 0, str(error).encode()
