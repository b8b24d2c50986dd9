"""Alerts about partitions: what is unavailable, what was lost, and what makes no progress.

What clients notice is critical; what only takes too long is a warning.
"""

from dashboards.alerts.alert import CLUSTER, DURATION, VALUE, Alert
from dashboards.signals import partitions as signals
from dashboards.signals import quorum

ALERTS: tuple[Alert, ...] = (
    Alert(
        name="KafkaPartitionsOffline",
        signal=signals.OFFLINE,
        summary=f"{CLUSTER} has {VALUE} partitions offline.",
        meaning="These partitions have no live leader: nobody can write to them or read from them.",
        cause="All brokers with an in-sync replica are down (in KRaft fenced, or their log directory is offline), or a "
        "leader could be elected but the controller does not do it (pending leader writes stay above 0, or there is no "
        "controller).",
        action="Start the brokers that are down, the one that was in the ISR last first; in KRaft any eligible leader "
        "replica will do (KafkaIsrEmpty). An unclean election loses records: it is the last resort.",
        command="kafka-topics --bootstrap-server BROKER:9092 --describe --unavailable-partitions",
    ),
    Alert(
        name="KafkaPartitionsWithoutState",
        signal=signals.WITHOUT_STATE,
        summary=f"{CLUSTER} has {VALUE} partitions without a state.",
        meaning="The controller has given these partitions no leader since they were created: nobody "
        "can write to them or read from them. Kafka counts none of them as offline.",
        cause="No broker with a replica of them is registered, the controller hangs "
        "(KafkaControllerZombie), they were reassigned before they had a state, or their state was "
        "removed by hand.",
        action="Start the brokers that have their replicas. If those are live and the controller "
        "works, another controller gives them a state.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KafkaPartitionsUnderMinIsr",
        signal=signals.UNDER_MIN_ISR,
        summary=f"{CLUSTER} has {VALUE} partitions below min.insync.replicas.",
        meaning="Producers with acks=all are refused on these partitions (NotEnoughReplicas); "
        "consumers still read.",
        cause="Brokers with their replicas are down or fall behind. Where neither ZooKeeper nor the "
        "metadata log holds min.insync.replicas, the monitor's setting min_insync_replicas counts; without it this alert "
        "cannot fire, and KcmMinIsrNotKnown does.",
        action="Start the brokers that are down. If all are live, see on the board Partitions and "
        "ISR whose replicas left, and check the disks and the network of that broker.",
        command="kafka-topics --bootstrap-server BROKER:9092 --describe --under-min-isr-partitions",
    ),
    Alert(
        name="KafkaPartitionsAtMinIsr",
        signal=signals.UNDER_REPLICATED_AT_MIN_ISR,
        summary=f"{CLUSTER} has {VALUE} partitions that can lose no further replica.",
        meaning="Replicas are missing, and exactly min.insync.replicas are in sync: when one more "
        "leaves, producers with acks=all are refused on these partitions.",
        cause="A broker with their replicas is down (KafkaBrokerGone, KafkaBrokerFenced), or its replicas fall behind "
        "(KafkaIsrFlapping).",
        action="Stop and restart no other broker. Start the broker that is down, or see on the "
        "board Partitions and ISR which broker's replicas are missing.",
        command="kafka-topics --bootstrap-server BROKER:9092 --describe --at-min-isr-partitions",
    ),
    Alert(
        name="KafkaPartitionsUnderReplicated",
        signal=signals.UNDER_REPLICATED_UNEXPLAINED,
        summary=f"{CLUSTER} has under-replicated partitions, now {VALUE}.",
        meaning="Replicas are not in sync, and no reassignment is the reason: the records that "
        "they lack are on fewer brokers than the replication factor demands.",
        cause="A broker is down (KafkaBrokerGone, KafkaBrokerFenced), a disk or the network of one is slow, replication "
        "is throttled, or a log directory failed.",
        action="See on the board Partitions and ISR which replicas are missing: those of one "
        "broker, or those that follow one leader.",
        command="kafka-topics --bootstrap-server BROKER:9092 --describe --under-replicated-partitions",
    ),
    Alert(
        name="KafkaUncleanLeaderElection",
        signal=signals.UNCLEAN_HOUR,
        summary=f"{CLUSTER} elected {VALUE} leaders from outside the ISR.",
        meaning="The new leaders may lack records that were acknowledged to producers: those are "
        "lost, and consumers may see offsets go back.",
        cause="unclean.leader.election.enable is on and no in-sync replica was live, or somebody "
        "ran kafka-leader-election with --election-type unclean.",
        action="List the partitions, notify their owners, and stop whatever would overwrite the data "
        "on the brokers that led before: it may be needed.",
        command="kcm events --cluster {{ $labels.cluster }} --since 1d --kind LeadersElected",
    ),
    Alert(
        name="KafkaIsrEmpty",
        signal=quorum.ISR_EMPTY,
        summary=f"{CLUSTER} has {VALUE} partitions with an empty ISR.",
        meaning="Nobody is in sync with these partitions, so they are offline. An eligible leader replica holds everything "
        "that was committed, and leads as soon as its broker is back.",
        cause="All brokers with an in-sync or an eligible leader replica are fenced, or those that came back had stopped "
        "uncleanly and lost their eligibility.",
        action="Start the brokers that are eligible leader replicas first. If there are none left, only an unclean election "
        "brings the partition back: it loses records.",
        command="kafka-topics --bootstrap-server BROKER:9092 --describe --unavailable-partitions",
    ),
    Alert(
        name="KafkaPartitionsRecovering",
        signal=quorum.RECOVERING,
        summary=f"{CLUSTER} has {VALUE} partitions that recover from an unclean election.",
        meaning="Their leaders were elected from outside the ISR and have not reported that they recovered. Until then the "
        "ISR holds the leader alone.",
        cause="The leader is overloaded, or it does not reach the active controller to say that it has recovered.",
        action="Read server.log of the leaders. Stop none of them: nobody else is in sync.",
        command="kcm events --cluster {{ $labels.cluster }} --since 1h --kind LeadersElected",
    ),
    Alert(
        name="KafkaReassignmentStuck",
        signal=signals.REASSIGNMENT_STALLED,
        summary=f"{CLUSTER}: a reassignment does not end, the oldest for {DURATION}.",
        meaning="Replicas are being moved, and no reassignment has finished for an hour; or the "
        f"oldest has been waiting for more than {signals.LONG_WINDOW}, and the number under way does "
        "not fall. The cluster carries additional replicas meanwhile.",
        cause="A target broker is down or full, the throttle is below the rate at which producers "
        "write, or a partition is too large to be copied within an hour.",
        action="See whether the adding replicas are live and whether their logs grow. Raise the "
        "throttle, or cancel what cannot end.",
        command="kafka-reassign-partitions --bootstrap-server BROKER:9092 --list",
    ),
    Alert(
        name="KafkaTopicDeletionStuck",
        signal=signals.DELETION_AGE,
        summary=f"{CLUSTER}: a topic has been waiting for deletion for {DURATION}.",
        meaning="A topic that was deleted still exists: clients cannot use it, it still takes disk "
        "space, and a topic of that name cannot be created.",
        cause="A broker that has a replica of it is down (the controller waits for it), a "
        "reassignment of the topic is under way, or delete.topic.enable is off.",
        action="Start the brokers that are down; end the reassignment. Do not remove znodes by "
        "hand while a broker is the controller.",
        command="zookeeper-shell ZOOKEEPER:2181 ls /admin/delete_topics",
    ),
    Alert(
        name="KafkaRequestStuck",
        signal=signals.REQUEST_AGE,
        summary=f"{CLUSTER}: a request in /admin has been waiting for {DURATION}.",
        meaning="A tool has asked for preferred elections or reassignments, and the controller has "
        "not begun with them. Until it has, it takes no other request of that kind.",
        cause="The controller hangs (KafkaControllerZombie) or there is none, or the request asks "
        "for something that this controller ignores, such as a topic that does not exist.",
        action="Check the health of the controller and the request. A request that nobody "
        "wants any more may be deleted.",
        command="zookeeper-shell ZOOKEEPER:2181 get /admin/reassign_partitions",
    ),
)
