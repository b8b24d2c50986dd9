"""A history to replay, files for it, and a way to run `kcm replay`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from controller_model.records.changes import ZnodeChange, encode_change
from kcm.__main__ import main
from tests.support.histories import History, small_cluster


def failing_over() -> History:
    """Return a controller whose session ends: another is elected, and gives a partition a leader."""
    history = small_cluster()
    history.heartbeat()
    history.broker_gone(0)
    history.elect(1)
    history.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
    return history


def lines(changes: Iterable[ZnodeChange]) -> bytes:
    """Return changes as JSON lines."""
    return b"".join(encode_change(change) + b"\n" for change in changes)


def write(path: Path, content: bytes) -> str:
    """Write a file; return its name."""
    path.write_bytes(content)
    return str(path)


class Run:
    """The result of `kcm replay`."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *arguments: str) -> None:
        capsys.readouterr()
        self.code = main(["replay", *arguments])
        captured = capsys.readouterr()
        self.out, self.err = captured.out, captured.err

    @property
    def json(self) -> dict[str, Any]:
        """The one line of JSON on standard output."""
        assert (self.code, len(self.out.splitlines())) == (0, 1), self.err
        decoded: dict[str, Any] = json.loads(self.out)
        return decoded

    @property
    def complaint(self) -> str:
        """The one line that it prints for bad use."""
        assert (self.code, self.out) == (2, "")
        (line,) = self.err.splitlines()
        return line.removeprefix("kcm: ")
