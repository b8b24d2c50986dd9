"""The file of an incident: how it is recognised, and that no unfinished one is left."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc
import zipfile
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kcm.__main__ import main
from kcm.history import replay_input
from kcm.history.bundle_file import (
    LOG_NAME,
    MANIFEST_NAME,
    is_bundle,
    read_manifest,
    write_bundle,
)
from pipeline.runtime import UsageError
from tests.support.bundles import manifest
from tests.support.replaying import Run, failing_over, lines


@pytest.mark.parametrize(
    ("members", "reported"),
    [
        ({}, "is a zip without manifest.json or changes.jsonl"),
        ({MANIFEST_NAME: b"{}", LOG_NAME: b""}, "is not a kcm bundle: Object missing"),
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


def _pack(path: Path, method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Write a small bundle by another tool; return its bytes."""
    with zipfile.ZipFile(path, "w", method) as file:
        file.writestr(MANIFEST_NAME, msgspec.json.encode(manifest()))
        file.writestr(LOG_NAME, lines(failing_over().changes) * 20)
    return path.read_bytes()


def _set_field(packed: bytes, name: str, at_both: tuple[int, int], value: int) -> bytes:
    """Return a zip with two bytes of a member's header changed, at both places where they stand."""
    changed = bytearray(packed)
    for magic, at, name_at in zip((b"PK\3\4", b"PK\1\2"), at_both, (30, 46), strict=True):
        begin = packed.index(magic)
        while packed[begin + name_at :][: len(name)] != name.encode():
            begin = packed.index(magic, begin + 1)
        changed[begin + at : begin + at + 2] = value.to_bytes(2, "little")
    return bytes(changed)


@pytest.mark.parametrize("name", [MANIFEST_NAME, LOG_NAME])
@pytest.mark.parametrize(
    ("at", "value", "why"),
    [
        ((6, 8), 1, "is encrypted"),
        ((8, 10), 99, "is packed by method 99: pack it again, with deflate"),
    ],
)
def test_a_member_that_cannot_be_unpacked_is_refused_before_it_is_read(
    name: str,
    at: tuple[int, int],
    value: int,
    why: str,
    *,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One with a password, and one packed by a method that Python does not know."""
    path = tmp_path / "a.zip"
    path.write_bytes(_set_field(_pack(path), name, at, value))
    complaint = Run(capsys, str(path)).complaint
    assert complaint.startswith(f"{path} is not a kcm bundle: {name} {why}")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_method_without_a_bound_is_refused(
    method: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Python unpacks them whole: 4 kB of bzip2 can hold 80 MB."""
    path = tmp_path / "a.zip"
    _pack(path, method)
    assert f"{MANIFEST_NAME} is packed by method {method}" in Run(capsys, str(path)).complaint


@pytest.mark.parametrize("name", [MANIFEST_NAME, LOG_NAME])
@pytest.mark.parametrize("claims", [True, False])
def test_a_member_that_unpacks_to_a_gigabyte_takes_no_memory(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], *, claims: bool
) -> None:
    """It is refused by what the zip claims, and where the claim is a lie, no more is read."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for member, content in (
            (MANIFEST_NAME, msgspec.json.encode(manifest())),
            (LOG_NAME, lines(failing_over().changes)),
        ):
            with file.open(member, "w") as opened:
                opened.write(content)
                if member == name:
                    for _ in range(256):
                        opened.write(b" " * (1 << 20))
    if not claims:
        packed = path.read_bytes()
        with zipfile.ZipFile(path) as file:
            size = file.getinfo(name).file_size
        path.write_bytes(packed.replace(size.to_bytes(4, "little"), (1000).to_bytes(4, "little")))
    tracemalloc.start()
    try:
        run = Run(capsys, str(path), "--json")
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (run.code, len(run.err.splitlines())) in {(2, 1), (0, 1)}, run.err
    if claims:
        assert f"{name} would unpack to" in run.complaint
    assert most < 32 * 1024 * 1024


def test_a_gzip_that_unpacks_without_end_is_read_up_to_a_bound(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one line and as many; what was read before counts."""
    monkeypatch.setattr(replay_input, "_LONGEST_LINE", 1 << 20)
    monkeypatch.setattr(replay_input, "FREE_BYTES", 1 << 20)
    for content, why in (
        (bytes(1 << 20), "a line of more than"),
        (b"\n" * (1 << 20), "unpacks to"),
    ):
        path = tmp_path / "a.jsonl.gz"
        with gzip.open(path, "wb") as file:
            file.write(lines(failing_over().changes))
            for _ in range(4):
                file.write(content)
        run = Run(capsys, str(path), "--json")
        (reported,) = run.err.splitlines()
        assert why in reported
        assert run.json["complete"] is False


EDITS = st.lists(
    st.tuples(st.integers(0, 1 << 16), st.binary(min_size=1, max_size=8)), min_size=1, max_size=6
)


def test_no_damage_of_a_bundle_is_an_unexpected_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is overwritten, and wherever it ends: it is read as far as it goes, or refused in one line."""
    path = tmp_path / "a.zip"
    packed = [_pack(path, method) for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)]

    @settings(max_examples=200, deadline=None, database=None)
    @given(st.sampled_from(packed), EDITS, st.integers(0, 1 << 16))
    def check(whole: bytes, edits: list[tuple[int, bytes]], cut: int) -> None:
        damaged = bytearray(whole)
        for at, content in edits:
            begin = at % len(damaged)
            damaged[begin : begin + len(content)] = content
        path.write_bytes(damaged if cut % 2 else damaged[: cut % len(damaged)])
        run = Run(capsys, str(path), "--json")
        assert run.code in {0, 2}, run.err
        assert run.code == 0 or len(run.err.splitlines()) == 1, run.err

    check()


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
