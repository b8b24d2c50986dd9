"""Folders `__cluster_metadata-0` of a real KRaft cluster, recorded with what is true of that cluster by other means.

`python -m tests.support.record_metadata_folders` makes the file anew. Of each folder it has what Kafka's own
start reads: segments, snapshots, epochs, the state of the quorum, and `meta.properties` beside the folder.
"""

from __future__ import annotations

import tarfile
from pathlib import Path

import msgspec

FILE = Path(__file__).parents[1] / "recorded" / "kraft_4_4_folders.tar.xz"

ABANDONED = "abandoned"
"""Of the leader that went on without its quorum, and was killed: its last records were never committed."""
VOTER = "voter"
"""Of the controller that led after it."""
BROKER = "broker"
"""Of a broker."""


class TruePartition(msgspec.Struct, frozen=True):
    """A partition as brokers describe it."""

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


class Step(msgspec.Struct, frozen=True):
    """What was done, and when: ms since 1970."""

    at: int
    did: str


class Truth(msgspec.Struct, frozen=True):
    """What is true of the cluster when its folders were copied, by AdminClient and by the controllers' own `quorum-state`."""

    cluster_id: str
    leaders: tuple[tuple[int, int], ...]
    """Id and epoch of each leader that was seen, in order."""
    topics: dict[str, dict[int, TruePartition]]
    topic_ids: dict[str, str]
    live: tuple[int, ...]
    """The brokers that clients may use: those that are not fenced."""
    uncommitted: str
    """A topic that the abandoned leader created, and no majority had; a later one of its name has another id."""
    steps: tuple[Step, ...]


def unpack(folder: Path) -> Truth:
    """Unpack all folders, each as `NAME/__cluster_metadata-0` with its `NAME/meta.properties`, and return the truth."""
    with tarfile.open(FILE) as packed:
        packed.extractall(folder, filter="data")
    return msgspec.json.decode((folder / "truth.json").read_bytes(), type=Truth)
