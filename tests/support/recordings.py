"""Recordings, in files, of what real Kafka clusters did when a script was run on them.

A file is compressed JSON lines: every commit of ZooKeeper's transaction log and, after the commits
of an operation, the quiet point that names it.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec

from controller_simulator.zookeeper.transactions import Commit
from tests.support.scripted_operations import ScriptedOperation

RECORDED = Path(__file__).parents[1] / "recorded"


class QuietPoint(msgspec.Struct, frozen=True):
    """The cluster is at rest after an operation; everything up to this zxid belongs to it."""

    zxid: int
    operation: ScriptedOperation


class Recording(msgspec.Struct, frozen=True):
    """What a script did to a cluster: every commit, and the quiet point after each operation."""

    commits: tuple[Commit, ...]
    quiet: tuple[QuietPoint, ...]

    def segments(self) -> list[tuple[ScriptedOperation, tuple[Commit, ...]]]:
        """Return each operation with the commits that it caused."""
        found = []
        start = 0
        for point in self.quiet:
            commits = tuple(c for c in self.commits if start < c.zxid <= point.zxid)
            found.append((point.operation, commits))
            start = point.zxid
        return found


class _Line(msgspec.Struct, frozen=True, omit_defaults=True):
    commit: Commit | None = None
    quiet: QuietPoint | None = None


_line = msgspec.json.Decoder(_Line)


def save_recording(name: str, recording: Recording) -> None:
    """Save a recording under `tests/recorded`."""
    lines = []
    for operation, commits in recording.segments():
        lines += [_Line(commit=commit) for commit in commits]
        zxid = commits[-1].zxid if commits else 0
        lines.append(_Line(quiet=QuietPoint(zxid, operation)))
    data = b"\n".join(map(msgspec.json.encode, lines)) + b"\n"
    (RECORDED / f"{name}.jsonl.gz").write_bytes(gzip.compress(data, mtime=0))


def load_recording(name: str) -> Recording:
    """Return a recording that is saved under `tests/recorded`."""
    data = gzip.decompress((RECORDED / f"{name}.jsonl.gz").read_bytes())
    lines = [_line.decode(line) for line in data.splitlines()]
    commits = tuple(line.commit for line in lines if line.commit is not None)
    points = []
    last = 0
    for line in lines:
        if line.commit is not None:
            last = line.commit.zxid
        if line.quiet is not None:
            points.append(QuietPoint(last, line.quiet.operation))
    return Recording(commits, tuple(points))
