"""A real migration of a cluster from ZooKeeper to KRaft, as ZooKeeper's transaction log holds it.

Kafka 3.9.1 with two brokers and one KRaft controller: into dual write, back by a rollback, into dual write again, and to
the end. The phases are Kafka's own (its guide to the migration); each begins with a write to a znode of the recorder.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from controller_model.records.changes import ZnodeChange
from controller_simulator.zookeeper.transactions import Commit, Created
from tests.support.recordings import load_recording
from tests.support.znode_log import ZnodeLog

HEARTBEAT_MS = 10_000
_MARKS = "/kcm_marks/m"


class Moment(NamedTuple):
    """What a watcher wrote, and the phase that is reached by then; None: none is."""

    changes: list[ZnodeChange]
    phase: str | None
    at: int


class Migration:
    """The recording, and a watcher that follows it."""

    def __init__(self) -> None:
        self.commits = load_recording("kraft/real_kafka_3_9_migration").commits

    def phases(self) -> list[str]:
        """Return the names of all phases, in order."""
        return [name for commit in self.commits if (name := phase_of(commit)) is not None]

    def followed(self, *, start: str | None = None) -> Iterator[Moment]:
        """Yield what a watcher writes that begins with a resync in this phase; by default in the first one."""
        log = ZnodeLog("prod")
        first = next(
            number
            for number, commit in enumerate(self.commits)
            if (name := phase_of(commit)) is not None and start in {None, name}
        )
        log.follow(self.commits[: first + 1])
        log.changes.clear()
        beat = log.tree.time_ms
        yield Moment([*log.resync(), log.heartbeat(beat)], phase_of(self.commits[first]), beat)
        for commit in self.commits[first + 1 :]:
            while beat + HEARTBEAT_MS <= commit.time_ms:
                beat += HEARTBEAT_MS
                yield Moment([log.heartbeat(beat)], None, beat)
            changes, phase = log.follow([commit]), phase_of(commit)
            if phase is not None:
                changes = [*changes, log.heartbeat(commit.time_ms)]
            yield Moment(changes, phase, commit.time_ms)


def phase_of(commit: Commit) -> str | None:
    """Return the phase that a commit of the recorder names."""
    marks = (w.data for w in commit.writes if isinstance(w, Created) and w.path.startswith(_MARKS))
    return next(marks, None)
