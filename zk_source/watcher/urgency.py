"""Says which changes readers must have at once, and which may wait for others on their way into the log.

The rule: who is the active controller, which brokers are live, and which partitions have a leader, and whom, is never
held back, nor is any record by which readers judge the log: resyncs, reconciliations, heartbeats. All else may wait. The
order of the log stays: what is urgent takes with it what waits before it (`source_log.publisher`).
"""

from contextlib import suppress

from controller_model.kafka.errors import UnreadableRecordError, UnreadableZnodeError
from controller_model.records.changes import ChangeKind, ZnodeChange
from controller_model.sources.zookeeper.payloads import decode_partition_state
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind, classify

AT_ONCE = frozenset({ZnodeKind.CONTROLLER, ZnodeKind.CONTROLLER_EPOCH, ZnodeKind.BROKER})
"""Znodes of which no change waits. Of a partition's state it depends on the leader."""


class Urgency:
    """Follows the leaders of partitions as they are in the log."""

    def __init__(self) -> None:
        self._leaders: dict[str, int] = {}
        """By the path of the state: about 50 bytes for each partition."""

    def may_wait(self, change: ZnodeChange) -> bool:
        """Return whether a change may wait. Each change of the log is asked for once, in order."""
        if change.kind is ChangeKind.RESYNC_STARTED:
            self._leaders.clear()
        if change.kind not in {ChangeKind.SET, ChangeKind.DELETED}:
            return False
        kind = classify(change.path).kind
        if kind is ZnodeKind.PARTITION_STATE:
            return self._keeps_leader(change)
        return kind not in AT_ONCE

    def _keeps_leader(self, change: ZnodeChange) -> bool:
        """Note a partition's leader; return whether it is the one before. One that is not known is another."""
        leader = None
        if change.kind is ChangeKind.SET:
            with suppress(UnreadableRecordError, UnreadableZnodeError):  # the fold reports those
                leader = decode_partition_state(change.payload()).leader
        if leader is None:
            self._leaders.pop(change.path, None)
            return False
        before = self._leaders.get(change.path)
        self._leaders[change.path] = leader
        return leader == before
