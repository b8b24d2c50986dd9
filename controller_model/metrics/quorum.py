"""The figures of a KRaft cluster's quorum, and of its metadata log; a cluster in ZooKeeper has none of them."""

from collections.abc import Callable, Iterable

from controller_model.insight.quorum import (
    Lag,
    commits_have_stopped,
    lags,
    leader_is_silent,
    spare_voters,
)
from controller_model.metrics.metric import Sample, Samples, Table, figure, of_part, seconds
from controller_model.records.quorum import QuorumView
from controller_model.records.views import ClusterView


def _of_controllers(text: str, read: Callable[[Lag], float | None]) -> Samples[ClusterView]:
    """Return a figure of each controller's replica of the metadata log."""

    def samples(view: ClusterView) -> Iterable[Sample]:
        found = lags(view)
        for role, replicas in (("voter", found.voters), ("observer", found.observers)):
            for each in replicas:
                if (value := read(each)) is not None:
                    yield (str(each.node), role), value

    return Samples(text, ("node", "role"), samples)


def _of_brokers(text: str, read: Callable[[Lag], float | None]) -> Samples[ClusterView]:
    """Return a figure of each broker's replica of the metadata log."""

    def samples(view: ClusterView) -> Iterable[Sample]:
        for each in lags(view).brokers:
            if (value := read(each)) is not None:
                yield (str(each.node),), value

    return Samples(text, ("broker",), samples)


def _flag(value: bool | None) -> int | None:
    return None if value is None else int(value)


_QUORUM: Table[QuorumView] = {
    "kafka_quorum_voters": figure(
        "Number of voters of a KRaft quorum; absent before it is known, and outside KRaft.",
        lambda quorum: len(quorum.voters) or None,
    ),
    "kafka_quorum_candidacies_total": figure(
        "Epochs in which no controller was elected; flat in a healthy quorum, absent outside KRaft.",
        lambda quorum: quorum.candidacies,
    ),
    "kafka_quorum_log_end_offset": figure(
        "Offset that follows the last record of the metadata log that the figures hold; absent outside KRaft.",
        lambda quorum: quorum.end,
    ),
    "kafka_quorum_high_watermark_offset": figure(
        "Offset up to which the metadata log is committed, as last known; it grows also while nothing "
        "changes, and is absent outside KRaft.",
        lambda quorum: quorum.high_watermark,
    ),
    "kafka_quorum_high_watermark_since_timestamp_seconds": figure(
        "Unix time in seconds since when the high watermark has been there, by the cluster's time; at most about 10 s "
        "ago in a healthy quorum, absent outside KRaft.",
        lambda quorum: seconds(quorum.high_watermark_since),
    ),
    "kafka_quorum_commits_stopped": figure(
        "Whether nothing was committed for 10 s although a leader answers (1) or not (0); absent while none does, and "
        "outside KRaft; meaningless if metadata.max.idle.interval.ms is 0.",
        lambda quorum: _flag(commits_have_stopped(quorum)),
    ),
    "kafka_quorum_sample_timestamp_seconds": figure(
        "Unix time in seconds of the last answer to DescribeQuorum, by the leader's clock; absent if the watcher may "
        "not ask.",
        lambda quorum: None if (held := quorum.sample) is None else seconds(held.at),
    ),
    "kafka_quorum_snapshot_offset": figure(
        "End of the newest snapshot that a controller offers; absent before it is known, and outside KRaft.",
        lambda quorum: quorum.snapshot_end,
    ),
    "kafka_quorum_snapshot_timestamp_seconds": figure(
        "Unix time in seconds of the last record in the newest snapshot, about an hour ago at most by Kafka's "
        "defaults; absent before it is known, and outside KRaft.",
        lambda quorum: seconds(quorum.snapshot_at),
    ),
    "kafka_quorum_unreachable_since_timestamp_seconds": figure(
        "Unix time in seconds since when no controller has answered the watcher; absent while one does.",
        lambda quorum: seconds(quorum.unreachable_since),
    ),
    "kafka_quorum_leader_silent": figure(
        "Whether the active controller does not answer the watcher although other controllers name it (1) or does (0); "
        "absent while they name none, and outside KRaft.",
        lambda quorum: _flag(leader_is_silent(quorum)),
    ),
    "kafka_quorum_feature_level": Samples(
        "Finalized level of each feature, such as metadata.version and kraft.version; absent outside KRaft.",
        ("feature",),
        lambda quorum: [((name,), level) for name, level in sorted(quorum.features.items())],
    ),
    "kafka_quorum_unknown_records_total": Samples(
        "Records of a newer Kafka that were skipped, by api key and version, so that figures may lack what they "
        "changed; absent without any.",
        ("record",),
        lambda quorum: [((kind,), count) for kind, count in sorted(quorum.unknown.items())],
    ),
}

QUORUM: Table[ClusterView] = {
    **of_part(lambda view: view.quorum, _QUORUM),
    "kafka_quorum_spare_voters": figure(
        "Voters that may be lost now while a majority still follows the leader: 1 of 3 and 2 of 5 in a healthy "
        "quorum; absent while the leader does not answer DescribeQuorum, and outside KRaft.",
        spare_voters,
    ),
    "kafka_quorum_replica_lag_records": _of_controllers(
        "Records that the log of a controller (voter, or observer that does not vote) lacks, as DescribeQuorum says; "
        "absent while the leader does not answer.",
        lambda lag: lag.records,
    ),
    "kafka_quorum_replica_lag_seconds": _of_controllers(
        "Seconds since a controller last held all of the leader's log, or since the election if it has not yet, by the "
        "leader's clock; below 1 in a healthy quorum, absent while the leader does not answer.",
        lambda lag: seconds(lag.ms),
    ),
    "kafka_broker_metadata_lag_records": _of_brokers(
        "Records of the metadata log that a broker lacks, as DescribeQuorum says; absent while the leader does not "
        "answer, for a broker that does not fetch, and outside KRaft.",
        lambda lag: lag.records,
    ),
    "kafka_broker_metadata_lag_seconds": _of_brokers(
        "Seconds since a broker last held all of the metadata log, by the leader's clock, at least; below 1 in a healthy "
        "cluster, absent while the leader does not answer, and outside KRaft.",
        lambda lag: seconds(lag.ms),
    ),
    "kafka_controller_safe_to_stop": Samples(
        "Whether a controller can stop now and nothing breaks (1) or not (0), as kcm what-if --check "
        "says, also as the broker that it may be; absent while that is not known, and outside KRaft.",
        ("controller",),
        lambda view: [
            ((str(each),), int(safe)) for each, safe in view.controllers_safe_to_stop.items()
        ],
    ),
}
