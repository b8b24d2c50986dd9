"""`python -m tests.kubernetes`: run the chart on a real Kubernetes, as `make test-kubernetes` does.

First the chart alone (`chart`): API server and controllers judge every values file of its folder `ci`. Then a node, whose pods run
(`pods`). Programs and images are built where they are not cached yet. The cluster runs in namespaces of its own, which end with it, however
this program ends. It ends with 0 if all is well, 1 with what is wrong, and 5 with what is missing for it on this machine.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import httpx

from kcm.servers.jars import file_lock
from pipeline.runtime import EnvironmentProblemError
from tests.images.engine import DEBIAN_PACKAGES, Engine
from tests.kubernetes import chart, images, pods
from tests.kubernetes.cluster import CNI_PLUGINS, Cluster
from tests.kubernetes.go_programs import (
    CONTROL_PLANE,
    CONTROLLER_GEN,
    ETCD,
    KUBE_ROUTER,
    NODE,
    ensure,
    ensure_operator_crds,
    not_built,
)
from tests.support.commands import say
from tests.support.waiting import wait_until
from tools.programs import ensure_kubectl

NOT_HERE = 5
REMOVAL_S = 30.0
PROGRAMS = ("unshare", "setpriv", "mount", "ip", "openssl", "catatonit")
NODE_PROGRAMS = ("podman", "buildah", "runc", "containerd", "ctr", "iptables", "conntrack", "ipset")
PACKAGES = (*DEBIAN_PACKAGES, "containerd", "conntrack", "ipset", "iproute2", "openssl")
_CGROUPS = Path("/sys/fs/cgroup")
_ARCHIVE = "images.tar"


def main(arguments: Sequence[str] | None = None) -> int:
    """Prepare the cluster, run it to its end and remove it; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.kubernetes")
    parser.add_argument("--chart", action="store_true", help="the chart alone: no node, no images")
    parser.add_argument(
        "--cached", action="store_true", help="build no program: end with 5 if one is not cached"
    )
    parser.add_argument("--stand-ins", action="store_true", help="ask no registry for images")
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--began", type=float, default=time.monotonic(), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.inside is not None:
        return _inside(options.inside, options.began, node=not options.chart)
    if (reason := _why_not(node=not options.chart)) is not None:
        say(f"test-kubernetes: not run: {reason}")
        return NOT_HERE
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    folder = Path(tempfile.mkdtemp(prefix="kcm-k8s-"))
    images.store().parent.mkdir(parents=True, exist_ok=True)
    try:
        with file_lock(images.store().with_suffix(".lock")):  # what the node keeps is one run's
            return _run(folder, options)
    except KeyboardInterrupt:
        say("test-kubernetes: interrupted")
        return 128 + signal.SIGINT
    finally:
        # What the namespaces held ends a moment after the process that they end with.
        wait_until(lambda: _removed(folder, node=not options.chart), deadline_s=REMOVAL_S)


def _run(folder: Path, options: argparse.Namespace) -> int:
    def timed(line: str) -> None:
        say(f"{time.monotonic() - options.began:5.0f} s  {line}")

    try:
        modules = [ETCD, CONTROL_PLANE, CONTROLLER_GEN]
        if not options.chart:
            modules += [NODE, KUBE_ROUTER]
        if options.cached and (missing := not_built(modules)):
            say(
                f"test-kubernetes: not run: make test-kubernetes has not built {', '.join(missing)} yet"
            )
            return NOT_HERE
        ensure_kubectl()
        for line in ensure(modules):
            timed(line)
        ensure_operator_crds()
    except EnvironmentProblemError as error:
        say(f"test-kubernetes: not run: {error}")
        return NOT_HERE
    try:
        if not options.chart:
            for line in images.provide(
                Engine(folder), folder / _ARCHIVE, registry=not options.stand_ins
            ):
                timed(line)
    except (AssertionError, EnvironmentProblemError, subprocess.TimeoutExpired) as error:
        say(f"test-kubernetes: FAILED after {time.monotonic() - options.began:.0f} s: {error}")
        return 1
    command = [
        *("setpriv", "--pdeathsig", "KILL"),
        *("unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"),
        *("catatonit", "--", sys.executable, "-m", "tests.kubernetes"),
        *("--inside", str(folder), "--began", str(options.began)),
        *(["--chart"] if options.chart else []),
    ]
    with subprocess.Popen(command, start_new_session=True) as process:
        try:
            return process.wait()
        finally:
            process.kill()


def _inside(folder: Path, began: float, *, node: bool) -> int:
    """Run the cluster and all checks in its namespaces."""
    try:
        for line in _steps(Cluster(folder), node=node):
            say(f"{time.monotonic() - began:5.0f} s  {line}")
    except (AssertionError, subprocess.TimeoutExpired, httpx.HTTPError) as error:
        say(f"test-kubernetes: FAILED after {time.monotonic() - began:.0f} s: {error}")
        return 1
    say(f"test-kubernetes: passed in {time.monotonic() - began:.0f} s")
    return 0


def _steps(cluster: Cluster, *, node: bool) -> Iterator[str]:
    began = time.monotonic()
    cluster.start_control_plane()
    release = cluster.api.get("/version")["gitVersion"]
    yield f"Kubernetes {release} answers after {time.monotonic() - began:.1f} s"
    yield from chart.steps(cluster)
    if not node:
        return
    began = time.monotonic()
    archive = cluster.folder / _ARCHIVE
    cluster.start_node(images.store(), archive if archive.is_file() else None)
    ids = archive.with_suffix(".json")
    if ids.is_file():
        shutil.move(ids, images.imported())
    yield f"a node is ready after {time.monotonic() - began:.1f} s"
    yield from pods.steps(cluster)


def _why_not(*, node: bool) -> str | None:
    """Return why no cluster can run here; None where it can."""
    wanted = (*PROGRAMS, *(NODE_PROGRAMS if node else ()))
    missing = [name for name in wanted if shutil.which(name) is None]
    if node and not (CNI_PLUGINS / "bridge").is_file():
        missing.append(f"{CNI_PLUGINS}/bridge")
    if missing:
        return f"{', '.join(missing)} not found: apt-get install -y --no-install-recommends {' '.join(PACKAGES)}"
    if os.geteuid() != 0:
        return "namespaces, mounts and containers need root: run it as root"
    if node and not _cgroups_removed():
        return "a cgroup kubepods is there: another kubelet runs on this machine"
    return None


def _removed(folder: Path, *, node: bool) -> bool:
    shutil.rmtree(folder, ignore_errors=True)
    return not folder.exists() and (not node or _cgroups_removed())


def _cgroups_removed() -> bool:
    """Remove the kubelet's cgroups; return False while processes are in them."""
    roots = [each for name in ("kubepods", "k8s.io") for each in (*_CGROUPS.glob(f"*/{name}"), _CGROUPS / name) if each.is_dir()]  # fmt: skip
    for root in roots:
        for each in sorted(root.rglob("*/"), reverse=True):
            _remove_cgroup(each)
        _remove_cgroup(root)
    return not any(root.exists() for root in roots)


def _remove_cgroup(path: Path) -> None:
    with suppress(OSError):  # a process is in it, or it has gone already
        path.rmdir()


if __name__ == "__main__":
    sys.exit(main())
