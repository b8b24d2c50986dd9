"""`kcm bundle`: its file can be replayed under any name, and bad use is one line."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from controller_model.records.changes import ZnodeChange, encode_change
from kcm.__main__ import main
from kcm.history.bundle_file import is_bundle, read_manifest, write_bundle
from tests.support.bundles import manifest
from tests.support.histories import small_cluster


def packed(path: Path, changes: Iterable[ZnodeChange], **fields: Any) -> Path:
    """Write a bundle of a log."""
    write_bundle(
        path,
        manifest(**fields),
        log=map(encode_change, changes),
        events=(),
        before=None,
        after=b"{}",
    )
    return path


def test_a_bundle_replays_whatever_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replay recognises it by its content, reports what is missing, and uses its assumed value."""
    history = small_cluster(t={0: (0, 1)})
    path = packed(
        tmp_path / "incident.gz",
        history.changes,
        missing=("the beginning",),
        assumed_min_insync_replicas=2,
    )
    assert is_bundle(path)
    assert main(["replay", str(path), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == f"kcm: {path}: missing: the beginning\n"
    assert json.loads(captured.out)["counts"]["at_min_isr"] == 1
    assert read_manifest(path) == manifest(
        missing=("the beginning",), assumed_min_insync_replicas=2
    )
    assert main(["replay", str(path), "--json", "--assumed-min-insync-replicas", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["at_min_isr"] == 0
    assert main(["replay", str(path), "--json", "--min-insync-replicas", "prod=1,other=2"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["at_min_isr"] == 0


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["--from", "5", "--to", "4"], "--from 5 is after --to 4"),
        (["--from", "now", "--to", "4"], "option --from: 'now' is no time"),
        (["--from", "1", "--to", "later"], "option --to: 'later' is no time"),
        (["--from", "1"], "Missing option '--to'"),
        (["--from", "1", "--to", "2", "--output", "/nowhere/a.zip"], "cannot write /nowhere/a.zip"),
        (["--from", "1", "--to", "2", "--output", "/"], "/ exists already"),
    ],
)
def test_bad_use_is_one_line(
    arguments: list[str], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is reported before any request to a server."""
    assert main(["bundle", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kcm: {reported}")
