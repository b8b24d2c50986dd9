"""What a release refuses, what it skips, and how its archives and images are made."""

from __future__ import annotations

import datetime as dt
import subprocess
import tarfile
from pathlib import Path

import pytest

from tools.release import __main__ as release_tool
from tools.release.__main__ import CHART, Release, images, main, section

CHANGELOG = "# C\n\n## Unreleased\n\n## 0.1.0 (2026-11-27): first\n\n- all\n"


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree that has what is checked before anything is made; no step is run."""
    root = tmp_path / "tree"
    (root / CHART).mkdir(parents=True)
    (root / "pyproject.toml").write_text('[project]\nversion = "0.1.0"\n')
    (root / CHART / "Chart.yaml").write_text('version: 0.1.0\nappVersion: "0.1.0"\n')
    (root / "CHANGELOG.md").write_text(CHANGELOG)
    git = ("git", "-c", "user.name=t", "-c", "user.email=t@example.com")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Begin")):
        subprocess.run([*git, *command], cwd=root, check=True, capture_output=True)
    monkeypatch.setattr(release_tool, "ROOT", root)
    prepare = release_tool.prepare
    monkeypatch.setattr(release_tool, "prepare", lambda given: prepare(given, root))
    monkeypatch.setattr(release_tool, "STEPS", {"release notes": release_tool.notes})
    return root


@pytest.mark.usefixtures("tree")
def test_the_notes_of_a_version_are_its_section(tmp_path: Path) -> None:
    """What stands under its heading, and nothing else."""
    assert main(["--output", str(tmp_path / "dist")]) == 0
    assert (tmp_path / "dist" / "release-notes.md").read_text() == "- all\n"
    assert section(CHANGELOG, "0.1") == ""


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("CHANGELOG.md", "## Unreleased\n", "## Unreleased\n\n- new\n", "under ## Unreleased"),
        ("CHANGELOG.md", "- all\n", "", "CHANGELOG.md has nothing under ## 0.1.0"),
        ("pyproject.toml", "0.1.0", "0.2.0", "0.1.0 and 0.2.0: one release has one version"),
        ("pyproject.toml", "[project]", "# x\n[project]", "files differ from the last commit"),
    ],
)
def test_a_tree_that_is_no_release_is_refused(  # noqa: PLR0917  # one case
    tree: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    file: str,
    old: str,
    new: str,
    said: str,
) -> None:
    """In one line that says what to change; nothing is made."""
    path = tree / file
    path.write_text(path.read_text().replace(old, new))
    assert main(["--output", str(tmp_path / "dist")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "dist").exists() or not list((tmp_path / "dist").iterdir())


@pytest.mark.usefixtures("tree")
def test_a_folder_with_other_files_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would be in the list of checksums."""
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "old.whl").write_text("")
    assert main(["--output", str(tmp_path / "dist")]) == 2
    assert "is not empty" in capsys.readouterr().err


@pytest.mark.usefixtures("tree")
def test_a_key_without_its_keyring_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Helm would look into a file that gpg no longer writes."""
    assert main(["--output", str(tmp_path / "dist"), "--sign-key", "jo"]) == 2
    assert "--sign-key and --keyring belong together" in capsys.readouterr().err


def _release(output: Path) -> Release:
    output.mkdir()
    made_at = dt.datetime(2026, 11, 27, tzinfo=dt.UTC)
    return Release(
        root=output, output=output, version="0.1.0", revision="abc", made_at=made_at, notes=""
    )


def test_equal_files_make_equal_archives(tmp_path: Path) -> None:
    """Whenever and in whichever order they were written; all lie in one folder."""
    files = {"b/x": b"1", "a": b"2"}
    one = _release(tmp_path / "1").pack("boards", files)
    two = _release(tmp_path / "2").pack("boards", dict(reversed(files.items())))
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as archive:
        stem = "kafka-controller-monitor-boards-0.1.0"
        assert archive.getnames() == [f"{stem}/a", f"{stem}/b/x"]


def test_images_are_skipped_where_nothing_builds_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the reason."""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert images(_release(tmp_path / "dist")) == "neither podman nor buildah is on PATH"


def test_images_are_built_with_their_revision_and_archived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each target of the Dockerfile, by the two commands that podman and buildah have in common."""
    engine = tmp_path / "buildah"
    engine.write_text(
        f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n'
        'case $1 in push) echo oci > "$(echo "$3" | cut -d: -f2)";; esac\n'
    )
    engine.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    found = {"buildah": str(engine)}
    monkeypatch.setattr("tools.release.__main__.shutil.which", found.get)
    made = images(_release(tmp_path / "dist"))
    assert [path.read_text() for path in made if isinstance(path, Path)] == ["oci\n", "oci\n"]
    asked = (tmp_path / "asked").read_text()
    for target in ("monitor", "monitor-spark"):
        assert f"build --target {target} --tag localhost/kafka-controller-" in asked
    assert asked.count("--build-arg REVISION=abc") == 2


@pytest.mark.usefixtures("tree")
def test_a_program_that_fails_is_named_with_what_it_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one line, with exit code 5."""
    helm = tmp_path / "helm"
    helm.write_text("#!/bin/sh\necho no chart >&2\nexit 3\n")
    helm.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(release_tool, "STEPS", {"chart": release_tool.chart})
    assert main(["--output", str(tmp_path / "dist")]) == 5
    assert capsys.readouterr().err == "tools.release: helm package failed: no chart\n"
