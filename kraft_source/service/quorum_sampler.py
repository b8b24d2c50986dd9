"""Asks controllers what is in no record, on the observer's connection: how far replicas are, the newest snapshot, the id.

Two need rights that reading the log does not: DESCRIBE for the quorum (DescribeQuorum, which only its leader answers),
and ALTER for the cluster's id (DescribeCluster). Without them these are not known, and nothing else is missing. Whoever
fetches from offset 0 is sent the newest snapshot's name (KafkaMetadataLog.validateOffsetAndEpoch); its header dates it.
"""

from collections.abc import Callable

from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from kraft_source.observer.released import SnapshotOpened
from kraft_source.observer.snapshot_download import SnapshotDownload
from kraft_source.wire.codec import Values
from kraft_source.wire.connection import ControllerConnection
from kraft_source.wire.messages import (
    TOPIC,
    EpochEnd,
    EpochLeader,
    Fetch,
    FetchSnapshot,
    fetch_answer,
    fetch_values,
    snapshot_answer,
    snapshot_values,
)
from pipeline.runtime import KcmError

TIMEOUT_S = 2.0
"""How long the log may have to wait for this answer; a leader that is that slow is asked again next time."""

INTERVAL_S = 1.0
"""Seconds between questions: who would stop a controller by them must not see one as caught up that just went."""
MAX_AGE_S = 10.0
"""An answer that is older says nothing of now."""
DENIED_RETRY_S = 10.0
"""After a refusal, which controllers log: somebody may grant the right."""
REFUSED_RETRY_S = 60.0
"""How often the cluster's id is asked for again: somebody may grant the right."""

SNAPSHOT_INTERVAL_S = 60.0
"""Kafka takes a snapshot each hour (metadata.log.max.snapshot.interval.ms)."""

_HEADER_BYTES = 4_096
"""More than the batch of a snapshot's header has."""
_CONTROLLERS = 2
"""EndpointType.CONTROLLER: a controller answers DescribeCluster only with it."""
_UNKNOWN = -1


class QuorumSampler:
    """Samples the quorum while its leader answers, and learns the cluster's id once."""

    def __init__(self, now: Callable[[], float], cluster_id: str | None = None) -> None:
        self.cluster_id = cluster_id
        """None: not known yet."""
        self._id_due = 0.0
        self.snapshot: tuple[int, int] | None = None
        """The end of the newest snapshot that a leader offers, and when its last record was appended."""
        self._newest: tuple[QuorumSample, float] | None = None
        """The newest answer, and when it came."""
        self._snapshot_due = 0.0
        self._now = now
        self._due = 0.0

    @property
    def sample(self) -> QuorumSample | None:
        """The newest answer; None: none came within MAX_AGE_S."""
        newest = self._newest
        return None if newest is None or self._now() - newest[1] > MAX_AGE_S else newest[0]

    def ask(self, connection: ControllerConnection, leader: EpochLeader | None) -> None:
        """Ask this controller what is due; `leader`: who leads, as far as that is known.

        A failure closes the connection, which the observer finds by itself.
        """
        now = self._now()
        try:
            if self.cluster_id is None and now >= self._id_due:
                self._id_due = now + REFUSED_RETRY_S
                self.cluster_id = ask_cluster_id(connection)
            if now >= self._due and "DescribeQuorum" in connection.versions:
                self._due = now + INTERVAL_S
                answer = describe_quorum(connection)
                sample = sample_of(answer)
                if sample is not None:
                    self._newest = sample, self._now()
                elif answer["error_code"]:
                    self._due = now + DENIED_RETRY_S
            if leader is not None and now >= self._snapshot_due:
                self._snapshot_due = now + SNAPSHOT_INTERVAL_S
                if not self._ask_snapshot(connection, leader.epoch):
                    self._snapshot_due = now + INTERVAL_S
        except (KcmError, ValueError):
            pass

    def _ask_snapshot(self, connection: ControllerConnection, epoch: int) -> bool:
        """Ask for the newest snapshot; return whether this controller says it."""
        request = Fetch(0, 0, epoch, max_wait_ms=0, high_watermark=-1)
        values = fetch_values(request, None) | {"max_bytes": 1}
        values["topics"][0]["partitions"][0]["partition_max_bytes"] = 1
        values = connection.call("Fetch", values, timeout_s=TIMEOUT_S)
        answer = fetch_answer(values, connection.versions["Fetch"])
        if answer.error:
            return False
        newest = answer.snapshot
        if newest is not None and (self.snapshot is None or newest.end_offset > self.snapshot[0]):
            at = self._date(connection, newest, epoch)
            if at is None:
                return False
            self.snapshot = newest.end_offset, at
        return True

    def _date(self, connection: ControllerConnection, snapshot: EpochEnd, epoch: int) -> int | None:
        """Return when the last record of a snapshot was appended; None: this controller does not say."""
        values = snapshot_values(FetchSnapshot(snapshot, 0, epoch), None)
        values |= {"max_bytes": _HEADER_BYTES}
        answer = snapshot_answer(connection.call("FetchSnapshot", values, timeout_s=TIMEOUT_S))
        if answer.error:
            return None
        first = next(SnapshotDownload(snapshot).read(answer), None)
        return first.at if isinstance(first, SnapshotOpened) else None


def ask_cluster_id(connection: ControllerConnection) -> str | None:
    """Ask a controller for its cluster's id; None: it does not say. Raises a KcmError."""
    if "DescribeCluster" not in connection.versions:
        return None
    request = {"endpoint_type": _CONTROLLERS}
    answer = connection.call("DescribeCluster", request, timeout_s=TIMEOUT_S)
    return None if answer["error_code"] else answer["cluster_id"] or None


def describe_quorum(connection: ControllerConnection) -> Values:
    """Ask a controller about the quorum; raises a KcmError."""
    topic = {"topic_name": TOPIC, "partitions": [{"partition_index": 0}]}
    return connection.call("DescribeQuorum", {"topics": [topic]}, timeout_s=TIMEOUT_S)


def sample_of(answer: Values) -> QuorumSample | None:
    """Return what an answer says; None for an error: one who does not lead names neither leader nor epoch."""
    partitions = [each for topic in answer["topics"] for each in topic["partitions"]]
    if answer["error_code"] or len(partitions) != 1 or partitions[0]["error_code"]:
        return None
    partition = partitions[0]
    voters = tuple(map(_replica, partition["current_voters"]))
    leader = next((each for each in voters if each.replica_id == partition["leader_id"]), None)
    if leader is None or leader.last_caught_up_at is None:
        return None
    return QuorumSample(
        leader.last_caught_up_at,
        partition["leader_id"],
        partition["leader_epoch"],
        partition["high_watermark"],
        voters,
        tuple(map(_replica, partition["observers"])),
    )


def _replica(values: Values) -> QuorumReplica:
    fetched, caught_up = values["last_fetch_timestamp"], values["last_caught_up_timestamp"]
    return QuorumReplica(
        values["replica_id"],
        values["log_end_offset"],
        None if fetched == _UNKNOWN else fetched,
        None if caught_up == _UNKNOWN else caught_up,
        values.get("replica_directory_id"),
    )
