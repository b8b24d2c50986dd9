"""What a znode's value means for the cluster, kind by kind: log directories, requests, migration."""

from __future__ import annotations

import pytest

from controller_model.handlers.brokers import TO_AND_FRO_MS
from controller_model.kafka.coordinators import Coordinator
from controller_model.kafka.ids import TopicPartition
from controller_model.records.event_records import coalesce
from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    ControllerElected,
    CoordinatorsMoved,
    ElectionCause,
    LeadersElected,
    PartitionsOffline,
    PreferredElectionRequested,
    ReassignmentRequested,
    TopicDeletionCompleted,
    TopicDeletionRequested,
)
from controller_model.records.views import KraftMigration
from controller_model.sources.zookeeper.stats import every_stat
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind
from controller_model.sources.zookeeper.znodes import END_READERS, READERS
from controller_simulator.zookeeper.payload_writers import (
    encode_config,
    encode_partitions,
    encode_reassign_partitions,
)
from tests.support.histories import (
    Fold,
    History,
    begun,
    controller_payload,
    kinds,
    only,
    replaced,
    small_cluster,
)
from tests.support.payloads import encode_broker, encode_log_dir_event, encode_migration

OFFSETS = "__consumer_offsets"
LOG_DIR_EVENT = "/log_dir_event_notification/log_dir_event_0000000001"
REASSIGN = "/admin/reassign_partitions"


def registered_at(history: History, broker: int, host: str | None, port: int = 9092) -> None:
    """Register a broker at an address, or at none."""
    ends = [] if host is None else [("PLAINTEXT", "PLAINTEXT", host, port)]
    history.set(f"/brokers/ids/{broker}", encode_broker(ends, timestamp=17), ephemeral_owner=1)


def is_reported(events: list[AnyEvent], *kinds_of: type[AnyEvent]) -> bool:
    """Return whether any event of these kinds was reported."""
    return any(isinstance(event, kinds_of) for event in events)


def test_every_published_kind_has_a_reader() -> None:
    """The table is total; of some kinds only the stat ends with the znode."""
    assert set(READERS) == set(ZnodeKind) - {ZnodeKind.OTHER}
    assert set(READERS) - set(END_READERS) == {
        ZnodeKind.LOG_DIR_EVENT,
        ZnodeKind.ISR_CHANGE,
        ZnodeKind.CONFIG_CHANGE,
        ZnodeKind.FEATURE,
        ZnodeKind.CLUSTER_ID,
    }


@pytest.mark.parametrize(
    "path",
    [
        "/controller", "/controller_epoch", "/brokers/ids/1", "/brokers/topics/t",
        "/brokers/topics/t/partitions/0/state", REASSIGN, "/admin/preferred_replica_election",
        "/isr_change_notification/isr_change_1", LOG_DIR_EVENT, "/config/topics/t",
        "/config/brokers/1", "/config/changes/config_change_1", "/cluster/id", "/feature",
        "/migration",
    ],
)  # fmt: skip
def test_a_damaged_payload_of_any_kind_is_reported_with_path_and_reason(path: str) -> None:
    """The last good value is kept; an Anomaly names the znode."""
    history, fold = begun()
    before = fold.facts()
    history.set(path, b"\xff{")
    reported = only(fold.follow(history), Anomaly)
    assert reported.path == path
    assert reported.reason.startswith("unreadable, the last good value stays: ")
    after = fold.facts()
    assert {**before, "held": None} == {**after, "held": None}
    assert fold.state.control.log.view.unreadable == 1


def test_notifications_are_pending_until_they_are_deleted() -> None:
    """ISR changes and log directories are counted together, configuration changes are not."""
    history, fold = begun()
    history.set("/isr_change_notification/isr_change_1", encode_partitions([]))
    history.set(LOG_DIR_EVENT, encode_log_dir_event(1))
    history.set("/config/changes/config_change_1", b'{"version":2,"entity_path":"topics/t"}')
    history.set("/feature", b'{"features":{},"version":2,"status":1}')
    fold.follow(history)
    assert fold.cluster_view().pending.notifications == 2
    history.delete(LOG_DIR_EVENT)
    fold.follow(history)
    assert fold.cluster_view().pending.notifications == 1


def test_a_reassignment_request_is_reported_once() -> None:
    """The controller removes what is done from it; only a new znode is a new request."""
    history, fold = begun()
    both = {TopicPartition("t", 1): (0, 1), TopicPartition("t", 0): (2, 1)}
    history.set(REASSIGN, encode_reassign_partitions(both))
    asked = only(fold.follow(history), ReassignmentRequested)
    assert asked.partitions == (TopicPartition("t", 0), TopicPartition("t", 1))
    assert fold.cluster_view().pending.reassign_partitions
    history.set(REASSIGN, encode_reassign_partitions({TopicPartition("t", 1): (0, 1)}))
    assert not is_reported(fold.follow(history), ReassignmentRequested)
    history.delete(REASSIGN, seen=False)
    history.set(REASSIGN, encode_reassign_partitions({TopicPartition("t", 1): (2, 1)}))
    asked = only(fold.follow(history), ReassignmentRequested)
    assert asked.partitions == (TopicPartition("t", 1),)
    history.delete(REASSIGN)
    fold.follow(history)
    assert not fold.cluster_view().pending.reassign_partitions


def test_requests_found_by_the_baseline_are_pending_and_not_reported() -> None:
    """A request from before the first resync is not reported as a new one."""
    history = small_cluster()
    history.set(REASSIGN, encode_reassign_partitions({}), seen=False)
    history.set("/admin/preferred_replica_election", encode_partitions([]), seen=False)
    history.resync()
    history.changes = history.changes[-len(history.znodes) - 2 :]
    fold = Fold()
    reported = fold.follow(history)
    assert not is_reported(reported, ReassignmentRequested, PreferredElectionRequested)
    pending = fold.cluster_view().pending
    assert (pending.reassign_partitions, pending.preferred_election) == (True, True)


def test_a_preferred_election_request_is_reported_with_its_partitions() -> None:
    """In the order of the request."""
    history, fold = begun()
    asked = [TopicPartition("t", 1), TopicPartition("t", 0)]
    history.set("/admin/preferred_replica_election", encode_partitions(asked))
    assert only(fold.follow(history), PreferredElectionRequested).partitions == tuple(asked)


def test_coordinators_move_with_the_leaders_of_their_topic() -> None:
    """One event for a broker's groups, with all partitions; other topics have no coordinators."""
    history, fold = begun(
        **{OFFSETS: {0: (0, 1), 1: (0, 1)}, "__transaction_state": {0: (0, 1)}, "t": {0: (0, 1)}}
    )
    for topic, partition in ((OFFSETS, 0), (OFFSETS, 1), ("__transaction_state", 0), ("t", 0)):
        history.state(topic, partition, leader=1, isr=[1], leader_epoch=1)
    reported = [e for e in coalesce(fold.follow(history)) if isinstance(e, CoordinatorsMoved)]
    assert [(e.coordinator, e.from_broker, e.to_broker, e.partitions) for e in reported] == [
        (Coordinator.GROUP, 0, 1, (TopicPartition(OFFSETS, 0), TopicPartition(OFFSETS, 1))),
        (Coordinator.TRANSACTION, 0, 1, (TopicPartition("__transaction_state", 0),)),
    ]


def test_coordinators_stop_with_their_partition_and_begin_with_it() -> None:
    """Without a leader: to -1, and from -1 once there is one again."""
    history, fold = begun(**{OFFSETS: {0: (0, 1)}})
    history.state(OFFSETS, 0, leader=-1, isr=[0], leader_epoch=1)
    reported = fold.follow(history)
    moved = only(reported, CoordinatorsMoved)
    assert (moved.from_broker, moved.to_broker) == (0, -1)
    assert is_reported(reported, PartitionsOffline)
    history.state(OFFSETS, 0, leader=0, isr=[0], leader_epoch=2)
    reported = fold.follow(history)
    moved = only(reported, CoordinatorsMoved)
    assert (moved.from_broker, moved.to_broker) == (-1, 0)
    assert is_reported(reported, LeadersElected)


def test_an_isr_change_moves_no_coordinator() -> None:
    """The first leader of a new partition moves none, too: it had no groups before."""
    history, fold = begun(**{OFFSETS: {0: (0, 1)}})
    history.state(OFFSETS, 0, leader=0, isr=[0])
    history.topic(OFFSETS, {0: (0, 1), 1: (1, 0)})
    history.state(OFFSETS, 1, leader=1, isr=[1, 0])
    assert not is_reported(fold.follow(history), CoordinatorsMoved)
    assert fold.broker_view(1).coordinated == {"group": 1}


def test_a_migration_to_kraft_is_the_cause_of_an_election() -> None:
    """KRaft takes over, and a rollback returns it; what KRaft does in between is unknown."""
    history, fold = begun()
    causes = []
    for epoch, (broker, kraft) in enumerate(((3000, 0), (3001, 1), (1, -1)), 2):
        history.delete("/controller")
        with history.transaction():
            history.set("/controller", controller_payload(broker, kraft_epoch=kraft))
            history.set("/controller_epoch", str(epoch))
        causes.append(only(fold.follow(history), ControllerElected).cause)
        assert fold.cluster_view().controller.migrating_to_kraft == (kraft >= 0)
    assert causes == [ElectionCause.MIGRATION, ElectionCause.UNKNOWN, ElectionCause.ROLLBACK]


def test_a_migration_is_shown_with_all_that_its_znode_says() -> None:
    """Controller, epochs, offset and when that was written, until the znode is deleted."""
    history, fold = begun()
    assert fold.cluster_view().config.migration is None
    state = encode_migration(
        kraft_controller_id=0, kraft_controller_epoch=1, kraft_metadata_offset=2,
        kraft_metadata_epoch=3,
    )  # fmt: skip
    history.set("/migration", state)
    fold.follow(history)
    assert fold.cluster_view().config.migration == KraftMigration(
        controller=0,
        controller_epoch=1,
        metadata_offset=2,
        metadata_epoch=3,
        written_at=history.changes[-1].observed_at,
    )
    history.delete("/migration")
    fold.follow(history)
    assert fold.cluster_view().config.migration is None


def test_only_a_changed_cluster_id_is_reported() -> None:
    """Two clusters under one name: from then on the id is the new one's."""
    history, fold = begun()
    for cluster_id in ("a", "a", "b"):
        history.set("/cluster/id", {"version": "1", "id": cluster_id})
    reason = only(fold.follow(history), Anomaly).reason
    assert reason == ("the cluster id changed from a to b: another cluster under the same name")
    assert fold.cluster_view().config.cluster_id == "b"
    assert fold.state.control.log.view.anomalies == 1


def test_a_deletion_request_is_reported_once_even_for_an_unknown_topic() -> None:
    """A request for an unknown topic is a request; if it is written again, it is not a new one."""
    history, fold = begun()
    history.set("/admin/delete_topics/nowhere", b"")
    history.set("/admin/delete_topics/nowhere", b"")
    history.set("/admin/delete_topics/t", b"")
    assert kinds(fold.follow(history)) == ["TopicDeletionRequested"] * 2
    assert fold.counts().deleting_topics == 2
    history.delete("/admin/delete_topics/nowhere")
    history.delete("/admin/delete_topics/t")
    fold.follow(history)
    assert fold.counts().deleting_topics == 0


def test_a_resync_removes_each_remaining_znode_of_a_topic() -> None:
    """A state alone, an assignment alone, a configuration alone, and all three."""
    history = small_cluster(t={0: (0,)})
    history.set("/config/topics/t", encode_config({"min.insync.replicas": "1"}))
    history.topic("bare", {0: (1,)})
    history.state("stray", 0, leader=0, isr=[0])
    history.set("/config/topics/set", encode_config({}))
    fold = Fold()
    fold.follow(history)
    held = fold.state.control.log.view.znodes
    gone = [p for p in history.znodes if "/topics/" in p]
    assert len(gone) == 6
    for path in gone:
        history.delete(path, seen=False)
    history.resync()
    fold.follow(history)
    assert list(fold.state.topics.names()) == []
    assert fold.state.control.log.view.znodes == held - len(gone)
    assert fold.counts().partitions == 0


def test_a_broker_that_goes_before_the_baseline_ended_before_counting_began() -> None:
    """It is known as gone, and no end is reported."""
    history = small_cluster()
    history.changes.clear()
    history.seq = 0
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.broker_gone(2)
    history.finish_resync()
    fold = Fold()
    assert "BrokerStopped" not in kinds(fold.follow(history))
    assert (fold.broker_view(2).record.live, fold.broker_view(2).record.ends) == (False, {})


def test_the_end_of_an_unreadable_registration_stops_no_broker() -> None:
    """A damaged registration makes no broker live, so the end of its znode stops none."""
    history, fold = begun()
    history.set("/brokers/ids/7", b"{")
    history.broker_gone(7)
    assert kinds(fold.follow(history)) == ["Anomaly"]
    assert 7 not in fold.state.control.brokers


def test_a_deletion_is_completed_when_its_request_goes_after_the_topic() -> None:
    """The controller deletes the topic's znodes first, then the request."""
    history, fold = begun()
    history.set("/admin/delete_topics/t", b"")
    requested_at = history.now
    history.topic_gone("t")
    history.delete("/admin/delete_topics/t")
    reported = only(fold.follow(history), TopicDeletionCompleted)
    assert (reported.topic, reported.deleted, reported.requested_at) == ("t", True, requested_at)


@pytest.mark.parametrize("topic", ["t", "configured"])
def test_a_deletion_request_removed_without_its_topic_was_refused(topic: str) -> None:
    """With delete.topic.enable=false the controller removes the request and keeps the topic."""
    history, fold = begun()
    history.set("/config/topics/configured", encode_config({}))
    history.set(f"/admin/delete_topics/{topic}", b"")
    history.delete(f"/admin/delete_topics/{topic}")
    reported = only(fold.follow(history), TopicDeletionCompleted)
    assert reported.deleted is (topic == "configured")  # a configuration alone is no topic


def test_a_deletion_request_from_before_the_baseline_is_not_reported() -> None:
    """Its end during the first resync is not reported, too; the other topic is being deleted."""
    history = small_cluster()
    for topic in ("t", "u"):
        history.set(f"/admin/delete_topics/{topic}", b"", seen=False)
    history.changes.clear()
    history.seq = 0
    history.start_resync()
    for path in history.znodes:
        history.report(path)
    history.delete("/admin/delete_topics/u")
    history.finish_resync()
    fold = Fold()
    assert not is_reported(fold.follow(history), TopicDeletionRequested, TopicDeletionCompleted)
    assert list(fold.state.control.deleting) == ["t"]


def test_the_end_of_an_unreadable_deletion_request_is_not_a_completion() -> None:
    """Its payload was left out, so the request was never stored."""
    history, fold = begun()
    asked = history.set("/admin/delete_topics/t", b"")
    assert asked is not None
    history.changes[-1] = replaced(asked, data=None, data_omitted=True)
    history.delete("/admin/delete_topics/t")
    assert kinds(fold.follow(history)) == ["Anomaly"]


def test_a_stored_topic_name_without_a_topic_holds_no_znodes() -> None:
    """A topic that cannot be loaded holds no znode that a resync could miss."""
    _, fold = begun()
    store = fold.state.topics
    names = [*store.names(), "gone"]
    store.names = lambda: names  # type: ignore[method-assign]  # a store that lags behind itself
    assert [path for path, _ in every_stat(fold.state)][-3:] == [
        "/brokers/topics/t/partitions/0/state",
        "/brokers/topics/t/partitions/1/state",
        "/brokers/topics/t",
    ]


def test_a_sweep_keeps_only_the_topics_that_it_deletes() -> None:
    """The others are examined one by one, however many there are."""
    topics: dict[str, dict[int, tuple[int, ...]]] = {f"t{n}": {0: (0, 1)} for n in range(5)}
    history = small_cluster(**topics)
    fold = Fold()
    fold.follow(history)
    history.topic_gone("t3", seen=False)
    history.resync()
    *reported, end = history.changes
    fold.feed(reported)
    store, kept = fold.state.topics, []
    get = store.get
    store.get = lambda name: kept.append(name) or get(name)  # type: ignore[method-assign, func-returns-value]  # a spy
    fold.feed([end])
    assert set(kept) == {"t3"}
    assert "t3" not in store.names()


def test_a_broker_view_shows_all_registered_listeners_and_features() -> None:
    """All its listeners and features, as last registered, also when it is gone."""
    history, fold = begun()
    ends = [("CLIENT", "SSL", "h", 9093), ("PLAINTEXT", "PLAINTEXT", "i", 9092)]
    content = encode_broker(ends, timestamp=17, rack="r", features={"f": (1, 2)})
    history.set("/brokers/ids/7", content, ephemeral_owner=1)
    history.broker_gone(7)
    fold.follow(history)
    view = fold.broker_view(7)
    assert (view.record.host, view.record.port, view.record.rack) == ("i", 9092, "r")
    assert view.record.endpoints == ("CLIENT://h:9093", "PLAINTEXT://i:9092")
    assert view.record.features == {"f": {"min_version": 1, "max_version": 2}}


def test_ends_are_counted_by_kind() -> None:
    """The second crash is counted as the second."""
    history, fold = begun()
    for _ in range(2):
        history.state("t", 0, leader=0, isr=[0, 1, 2])
        history.broker_gone(2)
        history.broker(2)
    fold.follow(history)
    assert fold.broker_view(2).record.ends == {"crashed": 2}


@pytest.mark.parametrize(
    ("content", "address"),
    [
        ({"host": "h", "port": 0, "endpoints": ["SSL://x:1"]}, ("h", 0)),
        ({"host": "h", "port": -1, "endpoints": ["SSL://x:1"]}, ("x", 1)),
        ({"host": "h", "endpoints": ["SSL://x:1"]}, ("x", 1)),
        ({"host": "", "port": 9, "endpoints": ["SSL://x:1"]}, ("x", 1)),
        ({"port": 9, "endpoints": ["SSL://:1", "SSL://x:2"]}, (None, 1)),
        ({"host": "h", "endpoints": ["nonsense"]}, ("h", None)),
        ({"port": 9}, (None, None)),
    ],
)
def test_the_address_of_a_broker(
    content: dict[str, object], address: tuple[str | None, int | None]
) -> None:
    """The plaintext one for old clients, else the first listener."""
    history, fold = begun()
    history.set("/brokers/ids/7", {"version": 5, **content}, ephemeral_owner=1)
    fold.follow(history)
    view = fold.broker_view(7)
    assert (view.record.host, view.record.port) == address


def test_the_reason_names_the_broker_and_both_places() -> None:
    """In one line; and an hour is an hour."""
    assert TO_AND_FRO_MS == 60 * 60 * 1000
    history, fold = begun()
    for host in ("other", "b1"):
        history.broker_gone(1)
        registered_at(history, 1, host)
    assert only(fold.follow(history), Anomaly).reason == (
        "broker 1 is registered in turn at other:9092 and at b1:9092: "
        "two processes with one broker id?"
    )


def test_a_request_for_no_topic_shows_no_topic() -> None:
    """No view is made that would have to be deleted again."""
    history, fold = begun()
    fold.views()
    history.set("/admin/delete_topics/nowhere", b"")
    fold.follow(history)
    assert [key for key in fold.views() if "/topic/" in key] == []
    history.delete("/admin/delete_topics/nowhere")
    fold.follow(history)
    assert [key for key in fold.views() if "/topic/" in key] == []
