"""Kubernetes' own programs, for which nobody packs a wheel: built from Go's module proxy and kept in the cache of `tools.programs`.

Versions stand here; Go compares each module with its checksum database (`GOSUMDB`). `go install MODULE@VERSION` refuses modules
whose go.mod replaces others by folders of its own, as Kubernetes' does. So each is built as the requirement of an empty module that
replaces those by the releases that Kubernetes publishes of them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kcm.servers.jars import file_lock
from pipeline.runtime import EnvironmentProblemError
from tools.programs import folder

BUILD_TIMEOUT_S = 3600.0
"""Of one program: kube-apiserver, the first, takes ten minutes on two processors that do nothing else."""


class Module(NamedTuple):
    """A module and its programs: name and package below the module's path."""

    path: str
    version: str
    programs: tuple[tuple[str, str], ...]
    staged: str = ""
    """The release of the modules that its go.mod replaces by folders of its own; empty where there are none."""
    variables: tuple[tuple[str, str], ...] = ()
    """What the linker sets: without it a program does not know its own release."""

    def program(self, name: str) -> Path:
        """Return where a program of it is kept."""
        return folder() / f"{name}-{self.version.removeprefix('v')}"


_KUBERNETES = Module(
    "k8s.io/kubernetes",
    "v1.37.2",
    (),
    staged="v0.37.2",
    variables=(
        ("k8s.io/component-base/version.gitVersion", "v1.37.2"),
        ("k8s.io/component-base/version.gitMajor", "1"),
        ("k8s.io/component-base/version.gitMinor", "37"),
    ),
)
CONTROL_PLANE = _KUBERNETES._replace(
    programs=(
        ("kube-apiserver", "cmd/kube-apiserver"),
        ("kube-controller-manager", "cmd/kube-controller-manager"),
        ("kube-scheduler", "cmd/kube-scheduler"),
    )
)
NODE = _KUBERNETES._replace(programs=(("kubelet", "cmd/kubelet"), ("kube-proxy", "cmd/kube-proxy")))
ETCD = Module("go.etcd.io/etcd/server/v3", "v3.6.16", (("etcd", ""),))
"""Debian's 3.4 cannot report the progress of watches (RequestWatchProgress), without which those of Spark's client fail each second."""
CONTROLLER_GEN = Module(
    "sigs.k8s.io/controller-tools", "v0.21.0", (("controller-gen", "cmd/controller-gen"),)
)
KUBE_ROUTER = Module(
    "github.com/cloudnativelabs/kube-router/v2", "v2.1.0", (("kube-router", "cmd/kube-router"),)
)
"""It enforces NetworkPolicies."""
OPERATOR_TYPES = "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring"
OPERATOR_VERSION = "v0.95.2"


def not_built(modules: Iterable[Module]) -> list[str]:
    """Return the programs that are not in the cache."""
    return [n for module in modules for n, _ in module.programs if not module.program(n).is_file()]


def ensure(modules: Iterable[Module]) -> Iterator[str]:
    """Build the programs that are not in the cache; yield a line for each that is built."""
    with file_lock(folder() / "go.lock"):
        for module in modules:
            missing = not_built([module])
            if not missing:
                continue
            with tempfile.TemporaryDirectory() as made:
                _write_module(module, Path(made))
                for name in missing:
                    began = time.monotonic()
                    _build(module, name, Path(made))
                    yield f"{name} {module.version} built in {time.monotonic() - began:.0f} s"


def ensure_operator_crds() -> Path:
    """Return the folder of the Prometheus operator's CustomResourceDefinitions, made from its types by controller-gen."""
    where = folder() / f"prometheus-operator-crds-{OPERATOR_VERSION.removeprefix('v')}"
    with file_lock(folder() / "go.lock"):
        if not where.is_dir():
            source = _download(OPERATOR_TYPES, OPERATOR_VERSION)["Dir"]
            made = Path(tempfile.mkdtemp(dir=folder(), prefix="crds."))
            generator = CONTROLLER_GEN.program("controller-gen")
            # Descriptions are two thirds of the text, and say nothing to the API server.
            crd = ("crd:maxDescLen=0", "paths=./v1", "paths=./v1alpha1", f"output:crd:dir={made}")
            _run(str(generator), *crd, inside=Path(source))
            made.rename(where)
    return where


def _write_module(module: Module, where: Path) -> None:
    """Write the go.mod of an empty module that requires this one, with the replacements that only a main module can give."""
    given = json.loads(_run("go", "mod", "edit", "-json", _download(module.path, module.version)["GoMod"]))  # fmt: skip
    lines = [
        "module test-kubernetes",
        f"go {given['Go']}",
        f"require {module.path} {module.version}",
    ]
    for each in given.get("Replace") or []:
        old, new = each["Old"]["Path"], each["New"]
        if not new["Path"].startswith("."):
            lines.append(f"replace {old} => {new['Path']} {new['Version']}")
        elif module.staged:
            lines.append(f"replace {old} => {old} {module.staged}")
    (where / "go.mod").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _build(module: Module, name: str, inside: Path) -> None:
    where = module.program(name)
    part = where.with_name(f"{where.name}.part")
    set_by_linker = " ".join(f"-X {variable}={value}" for variable, value in module.variables)
    flags = ("-mod=mod", "-trimpath", "-ldflags", f"-s -w {set_by_linker}")
    path = "/".join(filter(None, (module.path, dict(module.programs)[name])))
    _run("nice", "-n", "10", "go", "build", *flags, "-o", str(part), path, inside=inside)
    part.rename(where)


def _download(path: str, version: str) -> dict[str, Any]:
    """Return what Go says of a module that it has fetched: `Dir`, `GoMod`."""
    found: dict[str, Any] = json.loads(_run("go", "mod", "download", "-json", f"{path}@{version}"))
    return found


def _run(*command: str, inside: Path | None = None) -> str:
    """Return what a command printed; the last line of one that fails says why, such as a proxy that does not answer."""
    if "go" in command and shutil.which("go") is None:
        raise EnvironmentProblemError("go not found: install Go 1.26 or newer (https://go.dev/dl)")
    done = subprocess.run(
        command, cwd=inside or folder(), env={**os.environ, "CGO_ENABLED": "0"},
        capture_output=True, text=True, check=False, timeout=BUILD_TIMEOUT_S,
    )  # fmt: skip
    if done.returncode:
        printed = [line for line in (done.stdout + done.stderr).splitlines() if line.strip(" {}")]
        raise EnvironmentProblemError(f"{' '.join(command[:6])}: {(printed or ['no word'])[-1]}")
    return done.stdout
