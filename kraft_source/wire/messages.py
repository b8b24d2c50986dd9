"""Defines what the observer asks a controller, and what a controller answers.

Values only, and how they become Kafka's messages: `connection` sends them, and the observer decides
without it. A request names no replica (replica id -1), so no quorum lists the observer.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from controller_model.kafka.ids import join_host_port
from kraft_source.wire.codec import Values

TOPIC = "__cluster_metadata"
TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
"""The topic's id, the same in each cluster (Uuid.METADATA_TOPIC_ID)."""

COMMIT_WAKES_SINCE = 18
"""The first version of Fetch whose answer also comes when the high watermark grows (KIP-1166)."""

FETCH_BYTES = 2**20
"""Bytes that an answer to Fetch should not exceed; one batch always fits, of at most 8 MiB (KafkaRaftClient.MAX_BATCH_SIZE_BYTES)."""
SNAPSHOT_BYTES = 2**20
"""Bytes of a part of a snapshot: small, so that a snapshot of any size is read in little memory."""

_NO_REPLICA = -1


class ControllerEndpoint(NamedTuple):
    """Where a controller listens."""

    host: str
    port: int

    def __str__(self) -> str:
        return join_host_port(self.host, self.port)


class EpochEnd(NamedTuple):
    """A place in a log: the offset behind the last record of an epoch. Kafka's OffsetAndEpoch."""

    end_offset: int
    epoch: int


class EpochLeader(NamedTuple):
    """The leader of an epoch as a voter knows it."""

    id: int
    """-1: the epoch has no leader, or the voter does not know it yet."""
    epoch: int


class Fetch(NamedTuple):
    """Ask for the log from an offset on."""

    offset: int
    last_epoch: int
    """The epoch of the record before `offset`: the leader compares it with its own log."""
    leader_epoch: int
    """The leader's epoch, exactly; otherwise the answer is an error that names the leader."""
    max_wait_ms: int
    high_watermark: int
    """The high watermark that we know; from version 18 on the answer also comes when the leader's is higher."""


class FetchSnapshot(NamedTuple):
    """Ask for the bytes of a snapshot from a position on."""

    snapshot: EpochEnd
    position: int
    leader_epoch: int


Request = Fetch | FetchSnapshot


class FetchAnswer(NamedTuple):
    """What a controller answers to Fetch."""

    error: int = 0
    leader: EpochLeader | None = None
    """None where the answer does not say."""
    endpoints: Mapping[int, ControllerEndpoint] = {}
    """Where voters listen, by id: the listener of the same name as ours."""
    high_watermark: int = -1
    """The offset behind the last committed record; -1: this leader does not know it yet."""
    diverging: EpochEnd | None = None
    """Our log is not the leader's: the last place that both may share."""
    snapshot: EpochEnd | None = None
    """The leader's log does not hold our offset: this snapshot has to be fetched."""
    records: bytes = b""
    is_woken_by_commits: bool = False
    """Whether this server answers a waiting Fetch when records are committed."""


class SnapshotAnswer(NamedTuple):
    """What a controller answers to FetchSnapshot."""

    error: int = 0
    leader: EpochLeader | None = None
    size: int = 0
    """Bytes of the whole snapshot."""
    position: int = 0
    data: bytes = b""


Answer = FetchAnswer | SnapshotAnswer


def fetch_values(request: Fetch, cluster_id: str | None) -> Values:
    """Return Fetch's fields."""
    partition = {
        "current_leader_epoch": request.leader_epoch,
        "fetch_offset": request.offset,
        "last_fetched_epoch": request.last_epoch,
        "partition_max_bytes": FETCH_BYTES,
        "high_watermark": request.high_watermark,
    }
    return {
        "cluster_id": cluster_id,
        "replica_state": {"replica_id": _NO_REPLICA, "replica_epoch": -1},
        "max_wait_ms": request.max_wait_ms,
        "min_bytes": 1,
        "max_bytes": FETCH_BYTES,
        "topics": [{"topic_id": TOPIC_ID, "partitions": [partition]}],
    }


def fetch_answer(values: Values, version: int) -> FetchAnswer:
    """Return the answer to Fetch; raise ValueError if it holds another partition than the one asked for."""
    partition = _partition(values, values["responses"])
    nodes = values.get("node_endpoints", ())
    return FetchAnswer(
        error=values["error_code"] or partition.get("error_code", 0),
        leader=_leader(partition),
        endpoints={
            each["node_id"]: ControllerEndpoint(each["host"], each["port"]) for each in nodes
        },
        high_watermark=partition.get("high_watermark", -1),
        diverging=_place(partition.get("diverging_epoch")),
        snapshot=_place(partition.get("snapshot_id")),
        records=partition.get("records") or b"",
        is_woken_by_commits=version >= COMMIT_WAKES_SINCE,
    )


def snapshot_values(request: FetchSnapshot, cluster_id: str | None) -> Values:
    """Return FetchSnapshot's fields."""
    partition = {
        "current_leader_epoch": request.leader_epoch,
        "snapshot_id": request.snapshot._asdict(),
        "position": request.position,
    }
    return {
        "cluster_id": cluster_id,
        "replica_id": _NO_REPLICA,
        "max_bytes": SNAPSHOT_BYTES,
        "topics": [{"name": TOPIC, "partitions": [partition]}],
    }


def snapshot_answer(values: Values) -> SnapshotAnswer:
    """Return the answer to FetchSnapshot; raise ValueError if it holds another partition than the one asked for."""
    partition = _partition(values, values["topics"])
    return SnapshotAnswer(
        error=values["error_code"] or partition.get("error_code", 0),
        leader=_leader(partition),
        size=partition.get("size", 0),
        position=partition.get("position", 0),
        data=partition.get("unaligned_records") or b"",
    )


def _partition(values: Values, topics: Any) -> Values:
    """Return the only partition of an answer; no fields where an error took its place."""
    if not topics and values["error_code"]:
        return {}
    if len(topics) != 1 or len(topics[0]["partitions"]) != 1:
        raise ValueError("the answer is not about the one partition that was asked for")
    partition: Values = topics[0]["partitions"][0]
    return partition


def _leader(partition: Values) -> EpochLeader | None:
    named = partition.get("current_leader")
    return None if named is None else EpochLeader(named["leader_id"], named["leader_epoch"])


def _place(named: Values | None) -> EpochEnd | None:
    return None if named is None else EpochEnd(named["end_offset"], named["epoch"])
