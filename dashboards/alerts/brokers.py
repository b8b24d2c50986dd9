"""Alerts about single brokers: a broker that restarts again and again, falls behind, or does not lead its share.

Each alert names the broker, so that the person on call knows where to begin, and Alertmanager can
silence one broker during its restart.
"""

from dashboards.alerts.alert import BROKER, CLUSTER, PERCENT, VALUE, Alert
from dashboards.signals import brokers as signals

ALERTS: tuple[Alert, ...] = (
    Alert(
        name="KafkaBrokerGone",
        signal=signals.BROKER_NOT_REGISTERED,
        summary=f"Broker {BROKER} is gone, with {VALUE} replicas.",
        meaning="The broker is not registered. Its partitions have "
        "one live replica less; those whose only in-sync replica was on it are offline.",
        cause="It crashed or was stopped, its machine is down, or it cannot reach ZooKeeper; in KRaft, where a broker that "
        "is down stays registered (KafkaBrokerFenced), somebody removed its registration. On the "
        "board Partitions and ISR, how it ended shows which.",
        action="Start it; read the end of its server.log if it does not stay. If it will not come back, "
        "reassign its replicas.",
        command="kcm events --cluster {{ $labels.cluster }} --since 1h --kind BrokerStopped "
        "--kind BrokerStarted",
    ),
    Alert(
        name="KafkaBrokerFenced",
        signal=signals.BROKER_FENCED,
        summary=f"Broker {BROKER} is fenced, with {VALUE} replicas.",
        meaning="The active controller has had no heartbeat from the broker for broker.session.timeout.ms (9 s), or the "
        "broker has stopped. It leads nothing and is in no ISR; partitions whose only in-sync replica was on it are offline.",
        cause="It crashed or was stopped, its machine is down, it is paused (GC, a full disk), it cannot reach the active "
        "controller, or it has just started and does not catch up on the metadata log.",
        action="See whether its process runs. If it does, read in its server.log what becomes of its heartbeats "
        "(BrokerLifecycleManager); if not, start it. If it will not come back, reassign its replicas.",
        command="kcm events --cluster {{ $labels.cluster }} --since 1h --kind BrokerStopped "
        "--kind BrokerStarted",
    ),
    Alert(
        name="KafkaBrokerGoneAtMinIsr",
        signal=signals.BROKER_GONE_AT_MIN_ISR,
        summary=f"Broker {BROKER} is gone, and partitions of that cluster can lose no further replica.",
        meaning="The broker does not come back by itself, and partitions are at min.insync.replicas: if "
        "another broker with their replicas is lost, producers with acks=all are refused.",
        cause="The same as for KafkaBrokerGone or KafkaBrokerFenced, for longer.",
        action="Stop and restart no other broker. Start this one; if that takes long, reassign the "
        "replicas of the partitions at min ISR first.",
        command="kafka-topics --bootstrap-server BROKER:9092 --describe --at-min-isr-partitions",
    ),
    Alert(
        name="KafkaBrokerBouncing",
        signal=signals.BROKER_BOUNCES_HOUR,
        summary=f"Broker {BROKER} registered, or was fenced, {VALUE} times within {signals.BOUNCE_WINDOW}.",
        meaning="The broker comes and goes again and again. Each time its partitions change leaders twice, and "
        "clients reconnect.",
        cause="It crashes and is restarted (out of memory, a full disk), or it loses its ZooKeeper session, in KRaft its "
        "heartbeats (GC pauses, network). On the board Partitions and ISR, how it ended shows which.",
        action="Read the end of its server.log before each restart, and its GC log; if the cause cannot be fixed "
        "now, leave it down until it can.",
        command="kcm events --cluster {{ $labels.cluster }} --since 1h",
    ),
    Alert(
        name="KafkaIsrFlapping",
        signal=signals.BROKER_ISR_FLAPPING,
        summary=f"Replicas of broker {BROKER} left ISRs in {VALUE} minutes of "
        f"{signals.ISR_FLAPPING_WINDOW}.",
        meaning="Followers on this broker fall behind, catch up and fall behind again. Each time "
        "its partitions are one failure nearer to refusing producers or going offline.",
        cause="A slow disk or network of this broker, too few num.replica.fetchers, GC pauses, or "
        "bursts that one follower cannot keep up with. If this fires for several brokers, "
        "the leader or the network is the cause.",
        action="Compare disk latency, network and GC of this broker with those of its peers.",
        command="kcm events --cluster {{ $labels.cluster }} --since 30m --kind IsrShrunk",
    ),
    Alert(
        name="KafkaLogDirFailed",
        signal=signals.BROKER_LOG_DIRS,
        summary=f"Broker {BROKER} has lost {VALUE} log directories.",
        meaning="The broker is live, but the replicas in that directory are offline until the disk "
        "is repaired and the broker is restarted.",
        cause="A disk failed, filled up or went read-only.",
        action="Find the directory in its server.log (LogDirFailureChannel), repair the disk, "
        "restart the broker.",
        command="kafka-log-dirs --bootstrap-server BROKER:9092 --describe",
    ),
    Alert(
        name="KafkaLeadersImbalanced",
        signal=signals.BROKER_MENDABLE,
        summary=f"Others lead {PERCENT} of the partitions that broker {BROKER} should lead.",
        meaning="The broker is up and in sync, but does not lead the partitions for which it is "
        "the preferred leader: others carry its load. The monitor recommends a preferred "
        "election, which fixes that without moving data.",
        cause="The broker was restarted, and auto.leader.rebalance.enable is off, or the controller has not done it yet. It "
        "checks every 5 minutes, and acts above 10 % (leader.imbalance.per.broker.percentage). In KRaft it ignores the "
        "percentage and elects for every such partition, at most 1,000 in a round.",
        action="Read what `kcm recommend` would elect, then run the command with --confirm at a "
        "quiet time: leaders move within moments, and it stops at the first unexpected "
        "result.",
        command="kcm elect --bootstrap-servers BROKER:9092 --cluster {{ $labels.cluster }} "
        "--broker {{ $labels.broker }}",
    ),
    Alert(
        name="KafkaLeadersCannotReturn",
        signal=signals.BROKER_UNMENDABLE,
        summary=f"Others lead {PERCENT} of the partitions that broker {BROKER} should lead, "
        "and no election can fix that.",
        meaning="The preferred replicas of this broker are not live or not in the ISR, so a "
        "preferred election would change nothing.",
        cause="The broker is down, its replicas do not catch up, a log directory failed, or the "
        "assignment names a broker that no longer exists.",
        action="If it is down, start it; if it is up, see on the board Balance whether its "
        "replicas are in sync; if it will not come back, reassign its replicas.",
        command="kcm events --cluster {{ $labels.cluster }} --since 1d --kind BrokerStopped "
        "--kind BrokerStarted",
    ),
    Alert(
        name="KafkaLeadersSkewed",
        signal=signals.BROKER_SKEW_LARGE,
        summary=f"The assignment of {CLUSTER} gives broker {{{{ $labels.broker }}}} {PERCENT} more or less than an even "
        "share of leaders.",
        meaning="Even when every preferred replica leads, this broker leads far more or far fewer "
        "than the others. No election fixes that, because the preferred (first) replicas "
        "are on the wrong brokers.",
        cause="Brokers were added or taken away without a reassignment, topics were created while "
        "brokers were down, or somebody assigned replicas by hand.",
        action="Where the broker has replicas, write the same replicas in another order into "
        "reordered.json (--generate prints the assignment as it is, and moves nothing): to execute "
        "that moves no data. Then run the preferred election. A broker without replicas needs the "
        "plan that --generate proposes: that moves data.",
        command="kafka-reassign-partitions --bootstrap-server BROKER:9092 "
        "--reassignment-json-file reordered.json --execute",
    ),
)
