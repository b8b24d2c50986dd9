"""The figures of a KRaft cluster's quorum, and of its metadata log; a cluster in ZooKeeper has none of them."""

from collections.abc import Callable, Iterable

from controller_model.insight.quorum_loss import current_sample
from controller_model.metrics.metric import Sample, Samples, Table, figure, of_part, seconds
from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from controller_model.records.quorum import QuorumView
from controller_model.records.views import ClusterView


def _of_replicas(
    text: str, read: Callable[[QuorumSample, QuorumReplica], float | None]
) -> Samples[QuorumView]:
    """Return a figure of each replica, by the leader's last answer to DescribeQuorum while that is of now."""

    def samples(quorum: QuorumView) -> Iterable[Sample]:
        sample = current_sample(quorum)
        if sample is None:
            return
        for role, replicas in (("voter", sample.voters), ("observer", sample.observers)):
            for each in replicas:
                if (value := read(sample, each)) is not None:
                    yield (str(each.replica_id), role), value

    return Samples(text, ("replica", "role"), samples)


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
    "kafka_quorum_replica_lag_records": _of_replicas(
        "Records that the log of a controller (voter) or broker (observer) lacks, as DescribeQuorum says; absent while "
        "the leader does not answer.",
        QuorumSample.lag_of,
    ),
    "kafka_quorum_replica_caught_up_timestamp_seconds": _of_replicas(
        "Unix time in seconds when a replica last held all of the leader's log, by the leader's clock; absent while "
        "the leader does not answer.",
        lambda _, replica: seconds(replica.last_caught_up_at),
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
        "Unix time in seconds of the last record in the newest snapshot; about an hour ago at most, by Kafka's defaults; absent outside KRaft.",
        lambda quorum: seconds(quorum.snapshot_at),
    ),
    "kafka_quorum_unreachable_since_timestamp_seconds": figure(
        "Unix time in seconds since when no controller has answered the watcher; absent while one does.",
        lambda quorum: seconds(quorum.unreachable_since),
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
    "kafka_controller_safe_to_stop": Samples(
        "Whether a controller can stop now and nothing breaks (1) or not (0), as kcm what-if --check "
        "says, also as the broker that it may be; absent while that is not known, and outside KRaft.",
        ("controller",),
        lambda view: [
            ((str(each),), int(safe)) for each, safe in view.controllers_safe_to_stop.items()
        ],
    ),
}
