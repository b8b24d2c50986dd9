"""The steps of the drill: a failure of the servers, and the alerts that must report it.

Each step causes a failure, waits until Prometheus has seen its alerts or series, and
ends the failure; the next begins with a healthy cluster.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from kazoo.security import OPEN_ACL_UNSAFE, make_digest_acl

from tests.support.waiting import wait_until
from tests.system.drill import DEADLINE_S, TWO_DISKS, Drill, disks
from tests.system.signal_steps import DrillStep

CHANGES = "kcm.changes"
ZOMBIE_DEADLINE_S = 120.0
"""The write timeout of 45 s, and heartbeats; Spark may be slow on busy cores."""
REPORTED_S = 30.0
"""A broker notices a lost directory within 5 s, when it next writes a checkpoint."""

FLAPS = 6
BOUNCES = 3
BURST = 700
"""Changes one by one; and more znodes than a resync reads at once."""


EMPTY_CONFIG = b'{"version":1,"config":{}}'


class Step(NamedTuple):
    """One step, and the alerts that must fire while it goes on."""

    title: DrillStep
    act: Callable[[Drill], None]
    fires: tuple[str, ...] = ()


def create_topics(drill: Drill) -> None:
    """Create topics with single replicas, strict min.insync.replicas and skewed leaders; a consumer group commits."""
    reconciled = drill.figure("max(kcm_cluster_reconciliations_total)")
    drill.create_topic("orders", [[(n + i) % 3 for i in range(3)] for n in range(6)])
    drill.create_topic("single", [[0]])
    drill.create_topic("strict", [[0, 1, 2]], {"min.insync.replicas": "3"})
    drill.create_topic("moved", [[0, 2]])
    drill.create_topic("doomed", [[0, 1]])
    drill.create_topic("risky", [[2, 1]], {"unclean.leader.election.enable": "true"})
    drill.create_topic("lopsided", [[0, 2]] * 24)
    group = Consumer({"bootstrap.servers": drill.cluster.bootstrap_servers, "group.id": "drill"})
    group.subscribe(["orders"])
    wait_until(lambda: group.poll(0.2), deadline_s=DEADLINE_S)
    group.close()
    drill.await_true("sum(kafka_broker_coordinated_partitions) > 0")
    drill.await_firing("KafkaLeadersSkewed")
    drill.cluster.kafka.admin.delete_topics(["lopsided"])["lopsided"].result()
    drill.await_true("kafka_cluster_deleting_topics == 0 and kafka_cluster_partitions < 30")
    drill.await_true(f"max(kcm_cluster_reconciliations_total) > {reconciled}")


def pause_all_brokers(drill: Drill) -> None:
    """Delete /controller while no broker can take it."""
    with drill.paused(1, 2):
        with drill.paused(0):
            drill.delete_controller()
            drill.await_firing("KafkaControllerMissing")
        wait_until(drill.controller, lambda now: now == 0)


def depose_six_times(drill: Drill) -> None:
    """Depose the controller again and again."""
    for _ in range(FLAPS):
        drill.depose()
    drill.await_firing("KafkaControllerFlapping", "KafkaControllerFlappingSlowly")


def expire_sessions(drill: Drill) -> None:
    """Let broker 2 hang until its session is over, and come back."""
    for _ in range(BOUNCES):
        with drill.paused(2):
            wait_until(lambda: drill.registered(2), lambda there: not there, deadline_s=DEADLINE_S)
        wait_until(lambda: drill.registered(2), deadline_s=DEADLINE_S)
    drill.await_true("kafka_cluster_recommendation_standing == 1", deadline_s=2 * DEADLINE_S)
    drill.await_firing("KafkaBrokerBouncing", "KafkaLeadersImbalanced")


def fall_behind(drill: Drill) -> None:
    """Let broker 1 hang until it has left the ISRs, and catch up."""
    drill.make_controller(0)
    for _ in range(2):
        with drill.paused(1):
            wait_until(lambda: drill.isr("strict"), lambda isr: 1 not in isr, deadline_s=DEADLINE_S)
            drill.await_firing("KafkaPartitionsUnderMinIsr", "KafkaPartitionsUnderReplicated")
        wait_until(lambda: drill.isr("strict"), lambda isr: 1 in isr, deadline_s=DEADLINE_S)
    drill.await_firing("KafkaIsrFlapping")


def stall_admin_requests(drill: Drill) -> None:
    """Move a replica to a paused broker, and delete a topic that has a replica on it."""
    drill.make_controller(0)
    moves = {"topic": "moved", "partition": 0, "replicas": [0, 1]}
    with drill.paused(1):
        drill.zookeeper.create(
            "/admin/reassign_partitions",
            json.dumps({"version": 1, "partitions": [moves]}).encode(),
        )
        drill.zookeeper.create("/admin/delete_topics/doomed")
        drill.await_firing("KafkaReassignmentStuck", "KafkaTopicDeletionStuck")
    drill.await_true("kafka_cluster_reassigning_partitions + kafka_cluster_deleting_topics == 0")


def lose_records(drill: Drill) -> None:
    """Kill the broker of the only in-sync replica while the other replica lags."""
    drill.make_controller(0)
    wait_until(lambda: drill.isr("risky"), lambda isr: len(isr) == 2)
    drill.cluster.elect_preferred()
    with drill.paused(1):
        wait_until(lambda: drill.isr("risky"), lambda isr: isr == [2], deadline_s=DEADLINE_S)
        drill.brokers[2].kill()
    drill.await_firing("KafkaUncleanLeaderElection")
    drill.await_firing("KafkaBrokerGone", "KafkaBrokerGoneAtMinIsr", "KafkaPartitionsAtMinIsr")
    drill.brokers[2].start()


def hang_controller(drill: Drill) -> None:
    """Pause the controller while new leaders, first states and a request are pending."""
    drill.make_controller(0)
    with drill.paused(0):
        drill.brokers[2].kill()
        wait_until(lambda: drill.registered(2), lambda there: not there, deadline_s=DEADLINE_S)
        drill.zookeeper.create("/brokers/topics/by-hand", b'{"version":1,"partitions":{"0":[1]}}')
        request = {"version": 1, "partitions": [{"topic": "by-hand", "partition": 0}]}
        drill.zookeeper.create("/admin/preferred_replica_election", json.dumps(request).encode())
        drill.await_firing("KafkaControllerZombie", deadline_s=ZOMBIE_DEADLINE_S)
        drill.await_firing("KafkaPartitionsWithoutState", "KafkaRequestStuck")
    drill.brokers[2].start()
    # The server is asked each 15 s, and broker 2 was gone for longer: it is shown as gone, and back.
    for metric in ("kcm_watcher_zookeeper_sessions", "kcm_watcher_zookeeper_connections"):
        drill.await_true(f"{metric} > min_over_time({metric}[40s])")


def take_controller_and_idle(drill: Drill) -> None:
    """Create /controller as Kafka does while new leaders are pending, and write none of them."""
    drill.make_controller(0)
    with drill.paused(0, 1):
        drill.brokers[2].kill()
        wait_until(lambda: drill.registered(2), lambda there: not there, deadline_s=DEADLINE_S)
        with drill.controller_znode_taken(1):
            drill.await_firing("KafkaControllerFailoverSlow")
    drill.brokers[2].start()
    # A broker that followed the false one may have missed changes: the next reads all state again.
    drill.depose()


def lose_disk(drill: Drill) -> None:
    """Take one of two log directories away from a broker that runs.

    The controller deletes the broker's report milliseconds after it was made. Where the watcher is too slow to read
    it, as on a busy machine, the directory is lost again.
    """
    broker = drill.brokers[TWO_DISKS]
    missed = ""
    for name in ("lost", "lost-again", "lost-once-more"):
        lost = disks(broker.data_dir)[1]
        lost.rename(lost.with_name(name))  # at once: the broker writes to it all the time
        try:
            drill.await_firing("KafkaLogDirFailed", deadline_s=REPORTED_S)
        except AssertionError as error:
            missed = str(error)
        else:
            missed = ""
        broker.stop()
        broker.start()
        if not missed:
            return
    raise AssertionError(missed)


def kill_zookeeper(drill: Drill) -> None:
    """Kill ZooKeeper, and start it again."""
    drill.cluster.zookeeper.kill()
    drill.await_firing("KcmBlind")
    drill.cluster.zookeeper.start()


def kill_watcher(drill: Drill) -> None:
    """Hold elections while no watcher runs."""
    drill.pipeline.processes["watcher"].kill()
    try:
        for _ in range(2):
            drill.depose()
        drill.await_firing("KcmNoWatcherLeads")
    finally:
        drill.pipeline.processes["watcher"].start()
    drill.await_true("increase(kafka_controller_missed_elections_total[30s]) > 0")


def write_by_hand(drill: Drill) -> None:
    """Write what Kafka does not: nonsense, very often, a leader under an old epoch, and one under no new epoch."""
    zookeeper = drill.zookeeper
    zookeeper.create("/config/topics/by-hand", b"not JSON")
    drill.await_true("increase(kcm_cluster_unreadable_records_total[30s]) > 0")
    written = [zookeeper.set_async("/config/topics/by-hand", b"%d" % n) for n in range(BURST)]
    for each in written:
        each.get()
    path = "/brokers/topics/single/partitions/0/state"
    state = json.loads(zookeeper.get(path)[0])
    stale = {
        **state,
        "controller_epoch": state["controller_epoch"] - 1,
        "leader_epoch": state["leader_epoch"] + 1,
    }
    zookeeper.set(path, json.dumps(stale).encode())
    zookeeper.delete("/config/topics/by-hand")
    drill.await_true("increase(kafka_controller_stale_writes_total[30s]) > 0")
    drill.await_true("increase(kcm_cluster_missed_updates_total[30s]) > 0")
    path = "/brokers/topics/moved/partitions/0/state"
    state = json.loads(zookeeper.get(path)[0])
    other = next(each for each in state["isr"] if each != state["leader"])
    zookeeper.set(path, json.dumps({**state, "leader": other}).encode())
    drill.await_firing("KafkaForeignWrites")
    mended = {**state, "leader_epoch": state["leader_epoch"] + 1}
    zookeeper.set(path, json.dumps(mended).encode())
    drill.depose()  # the next controller reads it
    drill.await_true("kafka_cluster_foreign_writes == 0")


def deny_path(drill: Drill) -> None:
    """Take the right to read a path from all but one, and give it back; resyncs see both."""
    zookeeper = drill.zookeeper
    zookeeper.add_auth("digest", "admin:secret")
    watcher = drill.pipeline.processes["watcher"]
    zookeeper.set_acls("/config/brokers", [make_digest_acl("admin", "secret", all=True)])
    watcher.stop()
    watcher.start()
    drill.await_true("kcm_cluster_denied_paths > 0")
    zookeeper.set_acls("/config/brokers", OPEN_ACL_UNSAFE)
    watcher.stop()
    watcher.start()
    drill.await_true("kcm_cluster_denied_paths == 0")


def overflow_buffer(drill: Drill) -> None:
    """Change more than may wait while the pipeline's Kafka hangs; the resync after it is long.

    How much that is depends on how full the messages are that the producer has taken before: the
    znodes are written again until something is dropped.
    """
    zookeeper = drill.zookeeper
    own = drill.pipeline.broker
    assert own is not None
    own.pause()
    paths = [f"/config/topics/flood-{number}" for number in range(BURST)]
    unwritten = iter(paths)

    def one_more_waits() -> list[str]:
        zookeeper.create(next(unwritten), EMPTY_CONFIG)
        return drill.seen("kcm_watcher_buffer_changes > 0")

    def some_are_dropped() -> list[str]:
        for path in paths:
            zookeeper.set(path, EMPTY_CONFIG)
        return drill.seen("kcm_watcher_dropped_changes_total > 0")

    wait_until(one_more_waits)
    drill.await_true("min_over_time(kcm_watcher_buffer_changes[2s]) > 0")
    for path in unwritten:
        zookeeper.create(path, EMPTY_CONFIG)
    wait_until(some_are_dropped, deadline_s=DEADLINE_S)
    own.resume()
    drill.await_true("kcm_cluster_resync_under_way == 1")
    drill.await_true("increase(kcm_cluster_dropped_changes_total[30s]) > 0")
    drill.await_well()
    for path in paths:
        zookeeper.delete(path)


def lose_log(drill: Drill) -> None:
    """Let the fold hang and die, and the log lose what was not folded while no watcher answers."""
    pipeline = drill.pipeline
    drill.hang_spark()
    drill.await_true("kcm_fold_lag_records > 0 and kcm_fold_lag_seconds > 5")
    pipeline.processes["stream"].kill()
    for _ in range(2):
        drill.depose()
    drill.await_firing("KcmBehind", "KcmBehindForLong")
    watcher = pipeline.processes["watcher"]
    watcher.pause()
    _forget_all_but_the_last(pipeline.bootstrap_servers)
    pipeline.processes["stream"].start()
    drill.await_firing("KcmIncompleteOrDivergent", deadline_s=ZOMBIE_DEADLINE_S)
    watcher.resume()


def _forget_all_but_the_last(bootstrap_servers: str) -> None:
    reader = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "drill"})
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    for partition in reader.list_topics(CHANGES, timeout=10).topics[CHANGES].partitions:
        _, end = reader.get_watermark_offsets(TopicPartition(CHANGES, partition), timeout=10)
        asked = admin.delete_records([TopicPartition(CHANGES, partition, max(0, end - 1))])
        for answer in asked.values():
            answer.result()
    reader.close()


def kill_exporter(drill: Drill) -> None:
    """Kill the only exporter, and start it again."""
    drill.pipeline.processes["exporter"].kill()
    drill.await_firing("KcmBlind", "KcmNotServed")
    drill.pipeline.processes["exporter"].start()


STEPS = (
    Step(DrillStep.CREATE, create_topics, ("KafkaLeadersSkewed",)),
    Step(DrillStep.VACATE, pause_all_brokers, ("KafkaControllerMissing",)),
    Step(
        DrillStep.FLAP,
        depose_six_times,
        ("KafkaControllerFlapping", "KafkaControllerFlappingSlowly"),
    ),
    Step(
        DrillStep.BOUNCE,
        expire_sessions,
        ("KafkaBrokerBouncing", "KafkaLeadersCannotReturn", "KafkaLeadersImbalanced"),
    ),
    Step(
        DrillStep.ISR_FLAP,
        fall_behind,
        ("KafkaIsrFlapping", "KafkaPartitionsUnderMinIsr", "KafkaPartitionsUnderReplicated"),
    ),
    Step(
        DrillStep.STALL,
        stall_admin_requests,
        ("KafkaReassignmentStuck", "KafkaTopicDeletionStuck"),
    ),
    Step(
        DrillStep.UNCLEAN,
        lose_records,
        (
            "KafkaUncleanLeaderElection",
            "KafkaBrokerGone",
            "KafkaBrokerGoneAtMinIsr",
            "KafkaPartitionsAtMinIsr",
        ),
    ),
    Step(
        DrillStep.ZOMBIE,
        hang_controller,
        (
            "KafkaControllerZombie",
            "KafkaPartitionsOffline",
            "KafkaPartitionsWithoutState",
            "KafkaRequestStuck",
        ),
    ),
    Step(DrillStep.IDLE, take_controller_and_idle, ("KafkaControllerFailoverSlow",)),
    Step(DrillStep.DISK, lose_disk, ("KafkaLogDirFailed",)),
    Step(DrillStep.BLIND, kill_zookeeper, ("KcmBlind",)),
    Step(DrillStep.UNWATCHED, kill_watcher, ("KcmNoWatcherLeads",)),
    Step(DrillStep.MEDDLE, write_by_hand, ("KafkaForeignWrites",)),
    Step(DrillStep.DENY, deny_path),
    Step(DrillStep.FLOOD, overflow_buffer),
    Step(DrillStep.HOLE, lose_log, ("KcmBehind", "KcmBehindForLong", "KcmIncompleteOrDivergent")),
    Step(DrillStep.UNSERVED, kill_exporter, ("KcmBlind", "KcmNotServed")),
)
