"""Alerts about a KRaft cluster's quorum: it does not commit, cannot lose another voter, or fences many brokers.

A cluster in ZooKeeper has none of these figures, so none of them fires there.
"""

from dashboards.alerts.alert import CLUSTER, DURATION, VALUE, Alert
from dashboards.signals import brokers
from dashboards.signals import quorum as signals

ALERTS: tuple[Alert, ...] = (
    Alert(
        name="KafkaControllerSilent",
        signal=signals.LEADER_SILENT,
        summary=f"The active controller of {CLUSTER} does not answer.",
        meaning="Other controllers name it, and it answers no request of the watcher: there may be no active controller. Then "
        "no new leader is elected, and topics are neither created nor deleted. The figures show the cluster as it was before.",
        cause="It and so many other controllers are down that no majority is left: the others go on naming it, as none of "
        "them can be elected. Or only the watcher does not reach it.",
        action="See whether its process runs and a majority of the voters does, and start those that are down. If they run, "
        "check the network from the watcher to its listener.",
        command="kafka-metadata-quorum --bootstrap-controller CONTROLLER:9093 describe --status",
    ),
    Alert(
        name="KafkaQuorumCommitsStopped",
        signal=signals.COMMITS_STOPPED,
        summary=f"The quorum of {CLUSTER} commits nothing although a leader answers.",
        meaning="The high watermark of the metadata log stands still, where it grows every 500 ms. No leader is elected for a "
        "partition, no ISR and no topic changes, and no broker is fenced or unfenced. Its own metrics may look healthy.",
        cause="The active controller hangs (its event queue, its disk), or its voters fetch and cannot append.",
        action="Take a thread dump (jstack PID) of the active controller and see whether its disk is full or slow, then "
        "restart it: another voter takes over. Before that, see that a majority of the others follows.",
        command="kafka-metadata-quorum --bootstrap-controller CONTROLLER:9093 describe --replication",
    ),
    Alert(
        name="KafkaQuorumMarginLost",
        signal=signals.QUORUM_MARGIN_LOST,
        summary=f"{CLUSTER} can lose no further controller.",
        meaning="Exactly a majority of the voters follows the leader, or less: if one more is lost, nothing is committed, and "
        "there is no controller until it is back.",
        cause="A controller is down, paused or cut off, or its disk is too slow to follow.",
        action="Stop and restart no other controller. Bring back the one that KafkaVoterBehind names.",
        command="kafka-metadata-quorum --bootstrap-controller CONTROLLER:9093 describe --replication",
    ),
    Alert(
        name="KafkaVoterBehind",
        signal=signals.VOTER_LAG,
        summary=f"Controller {{{{ $labels.node }}}} of {CLUSTER} has been behind for {DURATION}.",
        meaning="The voter does not hold what the leader has written. It counts for no majority, and cannot become the active "
        "controller before it has caught up.",
        cause="It is down, paused (GC) or cut off from the leader, or its disk is slow or full.",
        action="See whether its process runs; read the end of its log, then its GC log and the state of its disk.",
        command="kafka-metadata-quorum --bootstrap-controller CONTROLLER:9093 describe --replication",
    ),
    Alert(
        name="KafkaFenceStorm",
        signal=signals.FENCES_RECENT,
        summary=f"The controller of {CLUSTER} has fenced {VALUE} brokers within 10 minutes.",
        meaning="Brokers were fenced together, under one controller, and none of them has been restarted since. Their "
        "partitions changed leaders at once, or went offline.",
        cause="The active controller does not handle heartbeats in time (CPU, GC, a slow disk), the network between it and "
        "the brokers was cut, or the brokers were lost together: a rack, a hypervisor, a storage system.",
        action="See whether the brokers run. If they do, the controller or the network is at fault: check its GC log and "
        "disk at the time of the fences; restart no broker. If they do not, start them.",
        command="kcm events --cluster {{ $labels.cluster }} --since 15m --kind BrokerStopped",
    ),
    Alert(
        name="KafkaBrokerMetadataBehind",
        signal=brokers.BROKER_METADATA_BEHIND,
        summary=f"Broker {{{{ $labels.broker }}}} of {CLUSTER} has not held all of the metadata log for {DURATION}.",
        meaning="The broker is live and acts on old metadata: it may refuse to lead, follow a leader that is none any more, or "
        "answer clients with old leaders.",
        cause="It cannot fetch from the active controller although its heartbeats arrive, it is short of CPU, or the thread "
        "that applies metadata hangs or failed.",
        action="Read its server.log for MetadataLoader and raft, then take a thread dump and restart it if it is "
        "safe to stop.",
        command="kcm what-if --cluster {{ $labels.cluster }} --lose-broker {{ $labels.broker }}",
    ),
    Alert(
        name="KafkaGoneNodeRegistered",
        signal=signals.GONE_REGISTRATIONS,
        summary=f"{CLUSTER} has {VALUE} registrations of a {{{{ $labels.kind }}}} that is gone.",
        meaning="The node is registered and has not been heard of for a day. An upgrade of metadata.version or of another "
        "feature is refused while a registered node does not support it.",
        cause="It was taken out of service, and its registration was not removed.",
        action="If it will not come back, reassign what is on it and remove its registration.",
        command="kafka-cluster unregister --bootstrap-server BROKER:9092 --id ID",
    ),
    Alert(
        name="KafkaSnapshotOld",
        signal=signals.SNAPSHOT_AGE,
        summary=f"The newest snapshot of the metadata log of {CLUSTER} is {DURATION} old.",
        meaning="Controllers and brokers keep the metadata log since then: it grows, and whoever starts needs longer.",
        cause="The snapshot cannot be written (a full or read-only disk), its generator failed, or "
        "metadata.log.max.snapshot.interval.ms is longer than the default of an hour, or 0.",
        action="Read the log of the active controller for errors of SnapshotGenerator, and see how full its disk is.",
        command="df -h",
    ),
)
