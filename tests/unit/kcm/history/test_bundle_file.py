"""The file of an incident: how it is recognised, and that no unfinished one is left."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from kcm.__main__ import main
from kcm.history.bundle_file import (
    LOG_NAME,
    MANIFEST_NAME,
    is_bundle,
    read_manifest,
    write_bundle,
)
from pipeline.runtime import UsageError
from tests.support.bundles import manifest


@pytest.mark.parametrize(
    ("members", "reported"),
    [
        ({}, "is a zip without manifest.json or changes.jsonl"),
        ({MANIFEST_NAME: b"{}"}, "is not a kcm bundle"),
        ({MANIFEST_NAME: msgspec.json.encode(manifest())}, "is a zip without"),
        (
            {MANIFEST_NAME: msgspec.json.encode(manifest(v=2)), LOG_NAME: b""},
            "is a bundle of layout 2; this release reads 1",
        ),
    ],
)
def test_another_zip_is_no_bundle(
    members: dict[str, bytes], reported: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is reported in one line that names the file."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("other", b"x")
        for name, content in members.items():
            file.writestr(name, content)
    assert main(["replay", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"kcm: {path} {reported}")
    assert len(captured.err.splitlines()) == 1


def test_a_damaged_zip_is_no_bundle(tmp_path: Path) -> None:
    """A valid beginning is not enough."""
    path = tmp_path / "a.zip"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(UsageError, match=r"is not a kcm bundle"):
        read_manifest(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_manifest_is_no_bundle(tmp_path: Path, compression: int) -> None:
    """Whatever is damaged, the error is a UsageError and nothing else."""
    path = tmp_path / "a.zip"
    text = msgspec.json.encode(manifest())
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(MANIFEST_NAME, text)
        file.writestr(LOG_NAME, b"")
        begin = file.getinfo(MANIFEST_NAME).header_offset + 30 + len(MANIFEST_NAME)
        size = file.getinfo(MANIFEST_NAME).compress_size
    whole = path.read_bytes()
    for at in (*range(begin), begin + 1, begin + size // 2, begin + size - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        with contextlib.suppress(UsageError):
            assert read_manifest(path) == manifest()  # an entry that a zip has twice is read once


def test_a_missing_file_is_no_bundle(tmp_path: Path) -> None:
    """A missing file is reported elsewhere."""
    assert not is_bundle(tmp_path / "nothing")


def test_an_unfinished_bundle_leaves_nothing(tmp_path: Path) -> None:
    """No file is left, under its name or any other."""

    def broken() -> Iterable[bytes]:
        yield b"{}"
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.zip"
    with pytest.raises(UsageError, match=r"cannot write .*a\.zip: No space left on device"):
        write_bundle(path, manifest(), log=broken(), events=(), before=None, after=b"{}")
    assert list(tmp_path.iterdir()) == []
