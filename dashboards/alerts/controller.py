"""Alerts about the controller: there is none, it changes, or it does not do its work.

What ends by itself within moments is not alerted; what does not is alerted at once.
"""

from dashboards.alerts.alert import CLUSTER, DURATION, VALUE, Alert
from dashboards.signals import controller as signals

ALERTS: tuple[Alert, ...] = (
    Alert(
        name="KafkaControllerMissing",
        signal=signals.CONTROLLER_ID,
        summary=f"{CLUSTER} has no controller.",
        meaning="Nobody holds /controller, or a KRaft quorum has no leader. Partitions keep the leaders that they have, but "
        "no new leader is elected, and topics are neither created nor deleted.",
        cause="In ZooKeeper no broker can become controller: all are down or have lost ZooKeeper, writes to "
        "/controller are refused (ACLs, a quota, a read-only server), or something deletes it. In KRaft no majority of "
        "the voters runs and reaches each other. If KcmBlind or KcmBehind fires, too, this alert shows an old state.",
        action="Start the controllers that are down, until a majority runs. In ZooKeeper, read /brokers/ids and "
        "/controller with zookeeper-shell, then controller.log of a live broker for the reason why it does not become "
        "controller.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KafkaControllerFlapping",
        signal=signals.ELECTIONS_RECENT,
        summary=f"{CLUSTER} elected its controller {VALUE} times within {signals.FLAPPING_WINDOW}.",
        meaning="The controller changes again and again. Each new controller starts its work from "
        "the beginning, and partitions whose leader is gone wait for it meanwhile.",
        cause="The controllers' ZooKeeper sessions expire (long GC pauses, full disks or CPUs, "
        "zookeeper.session.timeout.ms too short), ZooKeeper is slow, or, in KRaft, voters do not reach the leader within "
        "controller.quorum.fetch.timeout.ms (GC pauses, slow disks, the network). Or nodes are being restarted quickly "
        "one after the other: a rolling restart may move the controller with each.",
        action="See on the board Controller whether one node or several lose the role; read its log for expired sessions "
        "or elections, and in its GC log for pauses at those times.",
        command="kcm events --cluster {{ $labels.cluster }} --since 15m",
    ),
    Alert(
        name="KafkaControllerFlappingSlowly",
        signal=signals.ELECTIONS_LONG,
        summary=f"{CLUSTER} elected its controller {VALUE} times "
        f"within {signals.FLAPPING_LONG_WINDOW}.",
        meaning="The controller is lost again and again, with long pauses in between: the sum of its "
        "elections leaves partitions without a leader.",
        cause="The same job or load hits the controller now and then (backups, log cleaning, "
        "another process on the machine, a memory leak that ends in long GC), or nodes are "
        "restarted again and again.",
        action="Compare the times of the elections with the GC logs, the disk metrics and the "
        "planned jobs of the nodes that were the controller.",
        command="kcm events --cluster {{ $labels.cluster }} --since 6h",
    ),
    Alert(
        name="KafkaControllerZombie",
        signal=signals.ZOMBIE,
        summary=f"{CLUSTER} has a zombie controller: it has pending writes and makes none.",
        meaning="A broker holds /controller and has made none of its pending writes (new leaders, "
        "states of new partitions) for 45 s plus 1 ms per partition. Its own metrics look "
        "healthy. Only a write of its own or another controller ends this: a state set by hand, "
        "a broker that returns or a topic that is removed does not.",
        cause="The controller's event thread hangs (a deadlock, a request to a broker that never "
        "ends, endless GC), or its ZooKeeper session is kept while its writes are refused.",
        action="Take a thread dump (jstack PID) of the broker that holds /controller, then restart "
        "that broker; if it cannot be restarted, delete /controller: another broker becomes "
        "controller and makes the pending writes (kcm rehearse --delete-controller shows them).",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
    Alert(
        name="KafkaControllerFailoverSlow",
        signal=signals.FAILOVER_AGE,
        summary=f"{CLUSTER} has been in failover for {DURATION}.",
        meaning="A controller was elected while partitions had lost their leader, and it has not yet "
        "given each a new one: those are offline until it does.",
        cause="Very many partitions, a slow ZooKeeper (each leader is a write), a controller that "
        "is short of CPU, or another election before the work was finished.",
        action="See on the board Controller whether the number of pending writes falls. If it falls, "
        "wait; if it does not, follow the runbook of KafkaControllerZombie.",
        command="kcm status --cluster {{ $labels.cluster }} --watch",
    ),
    Alert(
        name="KafkaForeignWrites",
        signal=signals.FOREIGN_WRITES,
        summary=f"{CLUSTER} holds {VALUE} write(s) that no Kafka makes: {{{{ $labels.kind }}}}.",
        meaning="ZooKeeper holds something that Kafka does not write, and Kafka cannot do a part of its work "
        "because of it: elect leaders (controller_epoch_above, controller_epoch_back), elect a controller "
        "(controller_without_session), notice the end of a broker (broker_without_session), follow a leader "
        "(leader_epoch), serve a topic (topic_id).",
        cause="Znodes were written by hand or by an old tool, a backup or a copy of them was restored, or a "
        "migration to KRaft was rolled back.",
        action="Read the event Anomaly: it names the znode, what it means and what ends it. Stop and restart no "
        "broker that is not safe to stop before it is mended.",
        command="kcm events --cluster {{ $labels.cluster }} --since 1d --kind Anomaly",
    ),
    Alert(
        name="KafkaMigratingToKraft",
        signal=signals.MIGRATING,
        summary=f"{CLUSTER} is run by a KRaft controller.",
        meaning="A KRaft controller holds /controller, and ZooKeeper is a copy of its log, up to the offset in "
        "/migration. Vacancy, failover and pending writes are not known. Once brokers have left "
        "/brokers/ids, the status of the figures is kraft, and what depends on brokers is not known; once "
        "the offset stands still, nothing is.",
        cause="zookeeper.metadata.migration.enable is on, and KRaft controllers are running.",
        action="If the migration is intended, plan how the cluster is watched afterwards, and run "
        "`kcm forget` when it has ended. If it is not, check "
        "zookeeper.metadata.migration.enable of the brokers.",
        command="kcm status --cluster {{ $labels.cluster }}",
    ),
)
