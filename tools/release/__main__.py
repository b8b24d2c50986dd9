"""`python -m tools.release`: make all files of a release in one folder, with their checksums.

The rule: a step makes its files, or says in one line why there are none; nothing is left out in silence. The version is pyproject.toml's, and chart and
changelog must have the same one. Archives that are made here are equal for equal inputs.
"""

from __future__ import annotations

import argparse
import datetime as dt
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from pipeline.build import DISTRIBUTION
from pipeline.runtime import EnvironmentProblemError, KcmError, UsageError
from tools.build_hook import revision_of
from tools.docs.man_pages import man_pages
from tools.programs import find_helm
from tools.release.bill import bill
from tools.release.boards import shared
from tools.site import build_site

ROOT = Path(__file__).resolve().parents[2]
CHART = Path("helm", DISTRIBUTION)
IMAGES = {"monitor": DISTRIBUTION, "monitor-spark": f"{DISTRIBUTION}-spark"}
"""The targets of docker/Dockerfile, and the names of their images in the chart."""
_PRINTED_LINES = 5
"""Of a program that failed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """What a release is made of, and where to."""

    root: Path
    output: Path
    version: str
    revision: str
    made_at: dt.datetime
    notes: str
    sign_key: str | None = None
    keyring: Path | None = None

    def write(self, name: str, content: bytes) -> Path:
        """Write a file of the release."""
        path = self.output / name
        path.write_bytes(content)
        return path

    def pack(self, name: str, files: Mapping[str, bytes]) -> Path:
        """Write an archive, of one folder that bears its name."""
        stem = f"{DISTRIBUTION}-{name}-{self.version}"
        packed = io.BytesIO()
        seconds = int(self.made_at.timestamp())
        with (
            gzip.GzipFile(fileobj=packed, mode="wb", mtime=seconds) as zipped,
            tarfile.open(fileobj=zipped, mode="w") as archive,
        ):
            for path in sorted(files):
                member = tarfile.TarInfo(f"{stem}/{path}")
                member.size, member.mtime = len(files[path]), seconds
                archive.addfile(member, io.BytesIO(files[path]))
        return self.write(f"{stem}.tar.gz", packed.getvalue())


def distributions(release: Release) -> list[Path]:
    """Make the source distribution, and the wheel from that."""
    _run(
        *(Path(sys.executable).with_name("uv"), "build", "-q", "--no-build-isolation"),
        *("--python", sys.executable, "--out-dir", release.output, release.root),
        SOURCE_DATE_EPOCH=str(int(release.made_at.timestamp())),
    )
    (release.output / ".gitignore").unlink(missing_ok=True)  # uv's
    return [*release.output.glob("*.whl"), *release.output.glob("*.tar.gz")]


def chart(release: Release) -> list[Path] | str:
    """Make the chart's package, signed where a key is given."""
    helm = find_helm()
    if helm is None:
        return "helm is not there (python -m tools.programs fetches it)"
    signed: tuple[str, ...] = ()
    if release.sign_key is not None:
        signed = ("--sign", "--key", release.sign_key, "--keyring", str(release.keyring))
    _run(helm, "package", release.root / CHART, "--destination", release.output, *signed)
    return list(release.output.glob("*.tgz"))


def signature(release: Release) -> list[Path] | str:
    """Return the chart's signature, which `helm package` has made."""
    if release.sign_key is None:
        return "no --sign-key is given"
    return list(release.output.glob("*.tgz.prov")) or "there is no package to sign"


def boards(release: Release) -> list[Path]:
    """Make the boards for grafana.com."""
    folder = release.root / CHART / "files" / "dashboards"
    made = {each.name: shared(each.read_text(encoding="utf-8")) for each in folder.glob("*.json")}
    return [release.pack("boards", {name: text.encode() for name, text in made.items()})]


def mixin(release: Release) -> list[Path]:
    """Make the mixin: the chart's generated files, and what imports them."""
    return [release.pack("mixin", _files(release.root / CHART / "files"))]


def manual(release: Release) -> list[Path]:
    """Make the man pages, in the folder that MANPATH takes."""
    pages = man_pages(release.version, release.made_at.date())
    return [release.pack("man", {f"man1/{name}": text.encode() for name, text in pages.items()})]


def site(release: Release) -> list[Path]:
    """Make the pages as a site."""
    with tempfile.TemporaryDirectory() as folder:
        build_site(release.root, Path(folder))
        return [release.pack("docs", _files(Path(folder)))]


def materials(release: Release) -> list[Path]:
    """Make the bill of materials."""
    document = bill(release.root, release.revision, release.made_at)
    return [release.write(f"{DISTRIBUTION}-{release.version}.cdx.json", document.encode())]


def images(release: Release) -> list[Path] | str:
    """Make both images as OCI archives."""
    engine = shutil.which("podman") or shutil.which("buildah")
    if engine is None:
        return "neither podman nor buildah is on PATH"
    made = []
    for target, name in IMAGES.items():
        tag = f"localhost/{name}:{release.version}"
        archive = release.output / f"{name}-{release.version}.oci.tar"
        _run(
            *(engine, "build", "--target", target, "--tag", tag),
            *("--build-arg", f"REVISION={release.revision}"),
            *("--file", release.root / "docker" / "Dockerfile", release.root),
        )
        _run(engine, "push", tag, f"oci-archive:{archive}:{name}:{release.version}")
        made.append(archive)
    return made


def notes(release: Release) -> list[Path]:
    """Make the release notes: what the changelog says of this version."""
    return [release.write("release-notes.md", release.notes.encode())]


def checksums(release: Release) -> list[Path]:
    """Make the list that `sha256sum --check` takes."""
    lines = (f"{_digest(each)}  {each.name}\n" for each in sorted(release.output.iterdir()))
    return [release.write("SHA256SUMS", "".join(lines).encode())]


STEPS = {
    "wheel and source distribution": distributions,
    "chart": chart,
    "chart's signature": signature,
    "boards": boards,
    "mixin": mixin,
    "man pages": manual,
    "site": site,
    "bill of materials": materials,
    "images": images,
    "release notes": notes,
    "checksums": checksums,
}
"""What a release consists of, in the order in which it is made."""


def section(changelog: str, title: str) -> str:
    r"""Return what a changelog says under a heading that begins so, "" where there is none.

    >>> section("# C\n\n## Unreleased\n\n- b\n\n## 0.1.0 (2026)\n\n- a\n", "0.1.0")
    '- a\n'
    """
    for part in re.split(r"^## ", changelog, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        if re.split(r"[ :]", heading)[0] == title:
            return text.strip() + "\n"
    return ""


def prepare(arguments: argparse.Namespace, root: Path = ROOT) -> Release:
    """Check that the tree is one release, and return it; raises UsageError with what to change."""
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    packed = yaml.safe_load((root / CHART / "Chart.yaml").read_text(encoding="utf-8"))
    versions = {str(project["version"]), str(packed["version"]), str(packed["appVersion"])}
    if len(versions) != 1:
        raise UsageError(
            f"pyproject.toml and {CHART}/Chart.yaml (version, appVersion) name {' and '.join(sorted(versions))}: one release has one version"
        )
    changelog = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    unreleased = section(changelog, "Unreleased")
    text = unreleased if arguments.unreleased else section(changelog, project["version"])
    if not text.strip():
        wanted = "Unreleased" if arguments.unreleased else project["version"]
        raise UsageError(f"CHANGELOG.md has nothing under ## {wanted}")
    revision = revision_of(root) or "unknown"
    if not arguments.unreleased:
        if unreleased.strip():
            raise UsageError(
                "CHANGELOG.md has changes under ## Unreleased: move them to a version, or give --unreleased"
            )
        if revision.endswith("-dirty"):
            raise UsageError("files differ from the last commit: commit them, or give --unreleased")
    if (arguments.sign_key is None) != (arguments.keyring is None):
        raise UsageError("--sign-key and --keyring belong together")
    output: Path = arguments.output.resolve()
    output.mkdir(parents=True, exist_ok=True)
    if any(output.iterdir()):
        raise UsageError(
            f"{output} is not empty, and all in it would be in the list of checksums: name another folder with --output"
        )
    return Release(
        root=root,
        output=output,
        version=project["version"],
        revision=revision,
        made_at=_made_at(root),
        notes=text,
        sign_key=arguments.sign_key,
        keyring=arguments.keyring,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Make a release; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--output", type=Path, default=ROOT / "dist", help="an empty folder")
    parser.add_argument(
        "--unreleased",
        action="store_true",
        help="what is not released yet: notes from ## Unreleased, and files may differ from the commit",
    )
    parser.add_argument("--sign-key", metavar="NAME", help="of the key that signs the chart")
    parser.add_argument("--keyring", type=Path, help="gpg's file with that secret key")
    parser.add_argument(
        "--without", action="append", default=[], choices=sorted(STEPS), help="leave a step out"
    )
    given = parser.parse_args(arguments)
    try:
        release = prepare(given)
        for name, step in STEPS.items():
            made = "left out by --without" if name in given.without else step(release)
            if isinstance(made, str):
                sys.stdout.write(f"{name}: skipped: {made}\n")
            for path in () if isinstance(made, str) else sorted(made):
                sys.stdout.write(f"{name}: {path.name}, {path.stat().st_size:,} bytes\n")
            sys.stdout.flush()
    except KcmError as error:
        sys.stderr.write(f"tools.release: {error}\n")
        return error.exit_code
    return 0


def _run(*command: str | Path, **variables: str) -> None:
    """Run a program to its end; raises EnvironmentProblemError with its last lines."""
    words = list(map(str, command))
    done = subprocess.run(  # noqa: S603  # our own tools, found on PATH
        words, capture_output=True, text=True, check=False, env={**os.environ, **variables}
    )
    if done.returncode:
        said = " / ".join((done.stderr or done.stdout).strip().splitlines()[-_PRINTED_LINES:])
        raise EnvironmentProblemError(f"{Path(words[0]).name} {words[1]} failed: {said}")


def _files(folder: Path) -> dict[str, bytes]:
    """Return the files of a folder by their paths in it."""
    found = (each for each in folder.rglob("*") if each.is_file())
    return {each.relative_to(folder).as_posix(): each.read_bytes() for each in found}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _made_at(root: Path) -> dt.datetime:
    """Return the time that all files bear: SOURCE_DATE_EPOCH, or the commit's; without git, now."""
    said = os.environ.get("SOURCE_DATE_EPOCH")
    git = shutil.which("git")
    if said is None and git is not None and (root / ".git").exists():
        time = (git, "log", "-1", "--format=%ct")
        done = subprocess.run(time, cwd=root, capture_output=True, text=True, check=False)  # noqa: S603  # found on PATH, with fixed arguments
        said = done.stdout.strip()
    if said and not said.isdigit():
        raise UsageError(f"SOURCE_DATE_EPOCH is {said!r}: give seconds since 1970")
    if said:
        return dt.datetime.fromtimestamp(int(said), dt.UTC)
    return dt.datetime.now(dt.UTC).replace(microsecond=0)


if __name__ == "__main__":
    sys.exit(main())
