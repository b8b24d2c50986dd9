"""Samples become blocks of two hours, and no temporary text is left."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcm.backtest.blocks import BLOCK_MS, BlockWriter
from pipeline.runtime import EnvironmentProblemError

pytestmark = pytest.mark.usefixtures("programs")


def made(blocks: Path) -> list[str]:
    """Return the texts of the blocks, in the order of their making."""
    return [path.read_text() for path in sorted(blocks.iterdir())]


def test_samples_are_split_into_blocks_of_two_hours(tmp_path: Path, blocks: Path) -> None:
    """The moments of one block are in one text, which ends as OpenMetrics requires."""
    assert BLOCK_MS == 2 * 60 * 60 * 1000
    with BlockWriter(tmp_path, blocks) as writer:
        for at in (0, BLOCK_MS - 1, BLOCK_MS, 5 * BLOCK_MS):
            writer.write(at, b"m 1 %d\nn 1 %d\n" % (at, at))
        assert len(made(blocks)) == 2
    first, second, third = made(blocks)
    assert first == f"m 1 0\nn 1 0\nm 1 {BLOCK_MS - 1}\nn 1 {BLOCK_MS - 1}\n# EOF\n"
    assert second == f"m 1 {BLOCK_MS}\nn 1 {BLOCK_MS}\n# EOF\n"
    assert third.startswith(f"m 1 {5 * BLOCK_MS}\n")
    assert writer.samples == 8
    assert not (tmp_path / "samples.om").exists()


def test_no_samples_make_no_block(tmp_path: Path, blocks: Path) -> None:
    """Prometheus's program would refuse an empty text."""
    with BlockWriter(tmp_path, blocks) as writer:
        assert writer.samples == 0
    assert made(blocks) == []


def test_after_an_error_no_more_block_is_made(tmp_path: Path, blocks: Path) -> None:
    """A block of a part of the samples would mislead; the error is re-raised."""

    def fail(samples: bytes) -> None:
        with BlockWriter(tmp_path, blocks) as writer:
            if samples:
                writer.write(0, samples)
            raise ZeroDivisionError

    for samples in (b"m 1 0\n", b""):
        with pytest.raises(ZeroDivisionError):
            fail(samples)
        assert made(blocks) == []


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo first >&2; echo the disk is full >&2; exit 1", "the disk is full"),
        ("echo on standard output; exit 2", "on standard output"),
        ("exit 3", "it printed nothing"),
    ],
)
def test_an_error_of_promtool_is_reported_with_its_last_line(
    script: str, said: str, programs: Path, tmp_path: Path, blocks: Path
) -> None:
    """The error has promtool's last line and the folder; the text is deleted all the same."""
    (programs / "promtool").write_text(f"#!/bin/sh\n{script}\n")
    writer = BlockWriter(tmp_path, blocks)
    writer.write(0, b"m 1 0\n")
    with pytest.raises(EnvironmentProblemError) as caught:
        writer.write(BLOCK_MS, b"m 1 7200\n")
    assert str(caught.value) == f"promtool cannot make a block in {blocks}: {said}"
    assert not (tmp_path / "samples.om").exists()


def test_a_missing_promtool_is_reported_before_the_log_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing program is reported before a long log is read."""
    monkeypatch.setenv("PATH", str(tmp_path / "nowhere"))
    with pytest.raises(EnvironmentProblemError, match="promtool"):
        BlockWriter(tmp_path, tmp_path)
