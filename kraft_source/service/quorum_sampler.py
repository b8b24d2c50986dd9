"""Asks the quorum's leader at times how far voters and observers are (DescribeQuorum), on the observer's connection."""

from collections.abc import Callable

from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from kraft_source.wire.codec import Values
from kraft_source.wire.connection import ControllerConnection
from kraft_source.wire.messages import TOPIC
from pipeline.runtime import KcmError

TIMEOUT_S = 2.0
"""How long the log may have to wait for this answer; a leader that is that slow is asked again next time."""

REQUEST = "DescribeQuorum"
_UNKNOWN = -1


class QuorumSampler:
    """Samples the quorum while its leader answers."""

    def __init__(self, interval_s: float, now: Callable[[], float]) -> None:
        self.sample: QuorumSample | None = None
        """The newest one; it says itself when it was taken."""
        self._interval_s = interval_s
        self._now = now
        self._due = 0.0

    def ask(self, connection: ControllerConnection) -> None:
        """Take a sample if one is due and this controller gives one: the leader does, to who may DESCRIBE the cluster."""
        if self._now() < self._due or REQUEST not in connection.versions:
            return
        self._due = self._now() + self._interval_s
        topic = {"topic_name": TOPIC, "partitions": [{"partition_index": 0}]}
        try:
            answer = connection.call(REQUEST, {"topics": [topic]}, timeout_s=TIMEOUT_S)
        except KcmError:
            return  # the connection is closed, which the observer finds by itself
        self.sample = sample_of(answer) or self.sample


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
