"""What each record of a metadata log states: events, causes and figures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from controller_model.fold.replay import EventBatch
from controller_model.insight.loss import lose
from controller_model.kafka import metadata_records as kafka
from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.events import (
    ENDS_IN_KRAFT,
    BrokerEnd,
    BrokerStarted,
    BrokerStopped,
    ElectionCause,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    PartitionsOffline,
    TopicCreated,
    TopicDeleted,
)
from controller_model.records.metadata_log import (
    MetadataBatch,
    MetadataSlice,
    QuorumReplica,
    QuorumSample,
)
from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import ABSENT_IN_KRAFT, BrokerView, Capability
from controller_model.sources.kraft.brokers import addresses
from controller_model.state import figures
from controller_model.state.completeness import PROOF_MS
from tests.support.histories import election_request
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher, dirs_of, uuid

OF_INTEREST = BrokerStarted | BrokerStopped | LeadersElected | PartitionsOffline | IsrShrunk


def a_cluster(*, elr: bool = False, factor: int = 2) -> KraftCluster:
    """Return three brokers and a topic of three partitions."""
    cluster = KraftCluster(elr=elr)
    for broker in (1, 2, 3):
        cluster.register(broker)
        cluster.unfence(broker)
    cluster.create("t", 3, factor)
    cluster.tick(1_000)
    return cluster


def reported(cluster: KraftCluster, *operations: tuple[Any, ...]) -> tuple[KraftFold, list[Any]]:
    """Return a fold of a cluster, and what it reports of these operations."""
    fold = KraftFold().feed(Watcher(cluster).slices())
    start = cluster.end
    for name, *arguments in operations:
        getattr(cluster, name)(*arguments)
    fold.events.clear()
    fold.feed(Watcher(cluster).slices(first=start))
    return fold, fold.events


@pytest.mark.parametrize(
    ("operations", "stated"),
    [
        ([("fence", 1)], {"offline": BrokerEnd.FENCED}),
        ([("stop", 1)], {"controlled_shutdown": None}),
        ([("stop", 1), ("fence", 1)], {"controlled_shutdown": BrokerEnd.CONTROLLED_SHUTDOWN}),
        ([("unregister", 1)], {"offline": BrokerEnd.UNREGISTERED}),
    ],
)
def test_the_cause_of_elections_is_stated_in_their_batch(
    operations: list[tuple[Any, ...]], stated: dict[str, BrokerEnd | None]
) -> None:
    """Fenced, in controlled shutdown or unregistered: the election and the broker's end say so, together."""
    _, events = reported(a_cluster(), *operations)
    ((kind, end),) = stated.items()
    elected = [each for each in events if isinstance(each, LeadersElected)]
    assert {each.election for each in elected} == {LeaderElectionKind(kind)}
    assert all(each.from_broker == 1 for each in elected)
    assert [e.end for e in events if isinstance(e, BrokerStopped)] == ([end] if end else [])
    shrunk = [each for each in events if isinstance(each, IsrShrunk)]
    assert shrunk
    assert all(each.by_controller for each in shrunk)


def test_the_cause_is_known_although_the_batch_is_cut_before_it() -> None:
    """A watcher repeats what the batch states of brokers ahead of a cut."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    start = cluster.end
    cluster.fence(1)
    fold.events.clear()
    fold.feed(Watcher(cluster).slices(range(start + 1, cluster.end), first=start))
    elected = [each for each in fold.events if isinstance(each, LeadersElected)]
    assert {each.election for each in elected} == {LeaderElectionKind.OFFLINE}
    assert [type(e) for e in fold.events].count(BrokerStopped) == 1


def test_a_leader_that_removes_a_follower_is_not_the_controller() -> None:
    """Only a batch that states a broker's end changes ISRs by the controller; the leader epoch does not tell."""
    _, events = reported(a_cluster(), ("shrink", "t", 0))
    assert [each.by_controller for each in events if isinstance(each, IsrShrunk)] == [False]


@pytest.mark.parametrize(
    ("operations", "kind"),
    [
        ([("fence", 1), ("unfence", 1), ("grow", "t", 0), ("elect_preferred",)], "preferred"),
        ([("reassign", "t", 0, (3,)), ("grow", "t", 0)], "reassignment"),
        ([("fence", 1), ("fence", 2), ("unfence", 2)], "offline"),
        ([("fence", 2), ("fence", 1), ("unfence", 2), ("elect_unclean", "t", 0)], "unclean"),
    ],
)
def test_the_last_election_of_partition_0(operations: list[tuple[Any, ...]], kind: str) -> None:
    """Preferred, by a reassignment, of a partition without a leader, or unclean as the record says."""
    _, events = reported(a_cluster(), *operations)
    elected = [
        each
        for each in events
        if isinstance(each, LeadersElected) and each.partitions[0].partition == 0
    ]
    assert elected[-1].election == kind


def test_a_request_of_kcm_is_the_origin_of_the_preferred_election() -> None:
    """And not of another election of the partition in between."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    EventBatch(fold.state).store_request(election_request("t", 0))
    place = cluster.end
    cluster.fence(1)
    cluster.unfence(1)
    cluster.grow("t", 0)
    cluster.elect_preferred()
    fold.feed(Watcher(cluster).slices(first=place))
    elected = [each for each in fold.events if isinstance(each, LeadersElected)]
    assert [(each.election, each.by) for each in elected] == [
        (LeaderElectionKind.OFFLINE, None),
        (LeaderElectionKind.PREFERRED, ElectionOrigin.KCM),
    ]


def test_the_leader_epoch_grows_if_a_leader_is_stated_also_the_same() -> None:
    """PartitionRegistration.merge; the partition epoch grows with each change."""
    cluster = a_cluster(factor=3)
    fold, events = reported(cluster, ("shrink", "t", 0), ("reassign", "t", 0, (1, 2)))
    topic = fold.views()["prod/topic/t/0"]
    assert (topic.leader_epoch[0], topic.partition_epoch[0]) == (0, 2)
    place = cluster.end
    cluster.grow("t", 0)  # replica 3 leaves, and broker 1 leads on
    topic = fold.feed(Watcher(cluster).slices(first=place)).views()["prod/topic/t/0"]
    assert (topic.leader[0], topic.leader_epoch[0], topic.partition_epoch[0]) == (1, 1, 3)
    assert topic.replicas[0] == (1, 2)
    kinds = [type(each).__name__ for each in events]
    assert (kinds.count("ReassignmentStarted"), kinds.count("ReassignmentCompleted")) == (1, 1)
    assert "LeadersElected" not in kinds


def test_an_election_whose_batch_states_no_broker_is_unknown() -> None:
    """Kafka splits what one broker's end causes after 10,000 records, and states the broker in the last part."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    place = cluster.end
    cluster.write(kafka.PartitionChange(0, cluster.topics["t"], (2,), 2))
    fold.events.clear()
    fold.feed(Watcher(cluster).slices(first=place))
    (elected, *_) = [each for each in fold.events if isinstance(each, LeadersElected)]
    assert elected.election == "unknown"


def test_an_unclean_election_recovers() -> None:
    """The partition counts as recovering until its leader says that it has."""
    cluster = a_cluster()
    unclean = [("fence", 2), ("fence", 1), ("unfence", 2), ("elect_unclean", "t", 0)]
    fold, _ = reported(cluster, *unclean)
    assert fold.cluster.counts.recovering == 1
    assert fold.cluster.counters.unclean_elections == 1
    place = cluster.end
    cluster.grow("t", 0)
    assert fold.feed(Watcher(cluster).slices(first=place)).cluster.counts.recovering == 0


@pytest.mark.parametrize("is_snapshot", [False, True])
def test_a_topic_that_is_deleted_recovers_no_more(*, is_snapshot: bool) -> None:
    """Whether its recovery was followed or read in a snapshot, in which it comes whole."""
    cluster = a_cluster()
    unclean = [("fence", 2), ("fence", 1), ("unfence", 2), ("elect_unclean", "t", 0)]
    fold, _ = reported(cluster, *unclean)
    if is_snapshot:
        fold = KraftFold().feed(Watcher(cluster).snapshot())
    assert fold.cluster.counts.recovering == 1
    place = cluster.end
    cluster.delete("t")
    assert fold.feed(Watcher(cluster).slices(first=place)).cluster.counts.recovering == 0


def test_eligible_leader_replicas_are_held_and_cleared() -> None:
    """The last member of an ISR leaves it and stays eligible; a change of min.insync.replicas clears that."""
    cluster = a_cluster(elr=True)
    fold, _ = reported(cluster, ("fence", 1), ("fence", 2), ("fence", 3))
    counts = fold.cluster.counts
    assert (counts.isr_empty, counts.with_elr, counts.offline) == (3, 3, 3)
    topic = fold.views()["prod/topic/t/0"]
    assert {len(elr) for elr in topic.elr.values()} == {2}
    assert set(topic.last_known_elr) == {0, 1, 2}
    place = cluster.end
    cluster.configure("t", kafka.MIN_ISR, "1")
    fold.feed(Watcher(cluster).slices(first=place))
    assert (fold.cluster.counts.with_elr, fold.views()["prod/topic/t/0"].elr) == (0, {})


def lost_with(fold: KraftFold, broker: int) -> set[tuple[str, int]]:
    """Return the partitions that go offline with a broker, as a what-if and the fold's own count say."""
    views = fold.views()
    brokers = [each for each in views.values() if isinstance(each, BrokerView)]
    facts = cluster_facts(views["prod/cluster"], brokers)
    offline = lose(partitions_in(views["prod/topic/t/0"]), facts, {broker}).offline
    assert views[f"prod/broker/{broker}"].offline_if_lost == len(offline)
    return set(offline)


@pytest.mark.parametrize("has_left", [False, True])
def test_a_replica_whose_log_directory_failed_may_not_lead(*, has_left: bool) -> None:
    """Whether it left the ISR with it or before, until its broker registers anew with that directory."""
    cluster = a_cluster(elr=True)
    fold = KraftFold().feed(Watcher(cluster).slices())
    part = cluster.parts["t"][1]  # in the second directory of each broker
    leader, other = part.isr
    start = cluster.end
    if has_left:
        cluster.shrink("t", 1)
    cluster.fail_dir(other)
    fold.feed(Watcher(cluster).slices(first=start))
    view = fold.views()["prod/topic/t/0"]
    assert (view.elr[1], view.offline_replicas[1]) == ((other,), (other,))
    assert ("t", 1) in lost_with(fold, leader)
    late = KraftFold().feed(Watcher(cluster).snapshot())
    assert late.views()["prod/topic/t/0"].offline_replicas == view.offline_replicas
    assert ("t", 1) in lost_with(late, leader)
    start = cluster.end
    cluster.fence(other)
    cluster.register(other)
    cluster.unfence(other)
    fold.feed(Watcher(cluster).slices(first=start))
    assert fold.views()["prod/topic/t/0"].offline_replicas == {}
    assert ("t", 1) not in lost_with(fold, leader)


def test_who_is_eligible_no_more_stays_offline() -> None:
    """ClearElr changes partitions with eligible replicas alone, and no log directory."""
    cluster = a_cluster(elr=True, factor=3)
    part = cluster.parts["t"][1]
    cluster.fail_dir(part.isr[1])
    fold = KraftFold().feed(Watcher(cluster).slices())
    held = fold.views()["prod/topic/t/0"]
    assert (held.elr, held.offline_replicas) == ({}, {1: (part.isr[1],)})
    start = cluster.end
    cluster.write(kafka.ClearElr("t"))
    fold.feed(Watcher(cluster).slices(first=start))
    view = fold.views()["prod/topic/t/0"]
    assert (view.offline_replicas, view.partition_epoch) == (
        held.offline_replicas,
        held.partition_epoch,
    )
    start = cluster.end
    cluster.shrink("t", 1)
    fold.feed(Watcher(cluster).slices(first=start))
    held = fold.views()["prod/topic/t/0"]
    assert held.elr
    start = cluster.end
    cluster.configure("t", kafka.MIN_ISR, "1")
    fold.feed(Watcher(cluster).slices(first=start))
    view = fold.views()["prod/topic/t/0"]
    assert (view.elr, view.offline_replicas) == ({}, held.offline_replicas)


def test_a_directory_counts_as_offline_as_kafka_counts_it() -> None:
    """One that its broker does not name, and one that is lost; not one that is not known yet, nor before 3.7-IV2."""
    cluster = a_cluster()
    topic_id, other = cluster.topics["t"], uuid(9_999)
    fold = KraftFold().feed(Watcher(cluster).slices())
    first, second = cluster.parts["t"][0].replicas

    def after(*records: Any) -> tuple[int, ...]:
        start = cluster.end
        cluster.write(*records)
        fold.feed(Watcher(cluster).slices(first=start))
        return tuple(fold.views()["prod/topic/t/0"].offline_replicas.get(0, ()))

    def placed(*dirs: str) -> Any:
        return kafka.PartitionChange(0, topic_id, directories=dirs)

    one, two = dirs_of(first)[0], dirs_of(second)[0]
    assert after(placed(uuid(0), uuid(1))) == ()
    assert after(placed(one, kafka.LOST_DIRECTORY)) == (second,)
    assert after(placed(one, other)) == (second,)
    epoch = cluster.brokers[second].epoch
    assert after(kafka.BrokerRegistrationChange(second, epoch, log_dirs=(two, other))) == ()
    assert after(kafka.BrokerRegistrationChange(second, epoch, log_dirs=(two,))) == (second,)
    assert after(kafka.UnregisterBroker(second, epoch)) == ()
    assert after(kafka.RegisterBroker(second, cluster.end, uuid(7))) == ()
    reassigned = kafka.PartitionChange(
        0, topic_id, replicas=(second, first), directories=(kafka.LOST_DIRECTORY, one)
    )
    assert after(reassigned) == (second,)
    assert (fold.cluster.log.anomalies, fold.cluster.log.errors) == (0, 0)


def test_a_broker_is_fenced_until_it_is_unfenced() -> None:
    """It starts when it is unfenced, not when it registers; its ends count from 0; in controlled shutdown it leads nothing."""
    cluster = KraftCluster()
    cluster.register(1)
    fold = KraftFold().feed(Watcher(cluster).slices())
    view = fold.views()["prod/broker/1"]
    assert (view.record.live, view.record.fenced, view.inferred_state) == (False, True, "FENCED")
    assert view.record.ends == dict.fromkeys(ENDS_IN_KRAFT, 0)
    assert not any(isinstance(each, BrokerStarted) for each in fold.events)
    for operation, live, state in (
        ("unfence", True, "UNFENCED"),
        ("stop", True, "CONTROLLED_SHUTDOWN"),
    ):
        place = cluster.end
        getattr(cluster, operation)(1)
        fold.feed(Watcher(cluster).slices(first=place))
        view = fold.views()["prod/broker/1"]
        assert (view.record.live, view.inferred_state) == (live, state)
    assert fold.cluster.brokers_live == ()
    assert [each.broker for each in fold.events if isinstance(each, BrokerStarted)] == [1]
    place = cluster.end
    cluster.fence(1)
    cluster.unregister(1)
    fold.feed(Watcher(cluster).slices(first=place))
    view = fold.views()["prod/broker/1"]
    assert (view.record.fenced, view.inferred_state) == (None, None)
    assert view.record.ends["controlled_shutdown"] == 1


def test_offline_log_directories_are_counted() -> None:
    """A change names those that are online still, a registration all; a snapshot does not name the others."""
    cluster = a_cluster()
    fold, events = reported(cluster, ("fail_dir", 1))
    record = fold.views()["prod/broker/1"].record
    assert (record.log_dirs_offline, record.log_dir_failures) == (1, 1)
    assert type(events[0]).__name__ == "LogDirFailed"
    late = KraftFold().feed(Watcher(cluster).snapshot())
    assert late.views()["prod/broker/1"].record.log_dirs_offline is None
    place = cluster.end
    cluster.fence(1)
    cluster.register(1)
    record = fold.feed(Watcher(cluster).slices(first=place)).views()["prod/broker/1"].record
    assert (record.log_dirs_offline, record.log_dir_failures) == (0, 1)


def test_old_fences_are_read_as_the_new_ones() -> None:
    """Before metadata.version 3.3 a fence had records of its own."""
    cluster = KraftCluster()
    cluster.register(1)
    epoch = cluster.brokers[1].epoch
    cluster.write(kafka.UnfenceBroker(1, epoch))
    fold = KraftFold().feed(Watcher(cluster).slices())
    assert fold.cluster.brokers_live == (1,)
    place = cluster.end
    cluster.write(kafka.FenceBroker(1, epoch))
    assert fold.feed(Watcher(cluster).slices(first=place)).cluster.brokers_live == ()


def test_topics_are_created_whole_and_deleted_at_once() -> None:
    """One event with all partitions; a deletion is requested, as one record shows."""
    _, events = reported(a_cluster(), ("create", "u", 3, 2), ("delete", "u"), ("expand", "t", 2))
    created = [each for each in events if isinstance(each, TopicCreated)]
    assert [(each.topic, each.partitions) for each in created] == [("u", 3)]
    deleted = [each for each in events if isinstance(each, TopicDeleted)]
    assert [(each.topic, each.requested) for each in deleted] == [("u", True)]
    assert type(events[-1]).__name__ == "TopicExpanded"


def test_a_configuration_ends_with_its_topic() -> None:
    """A topic of the same name that is created later has none, and nothing is held in between."""
    cluster = a_cluster()
    fold, _ = reported(cluster, ("configure", "t", kafka.MIN_ISR, "2"), ("delete", "t"))
    assert list(fold.state.topics.names()) == []
    place = cluster.end
    cluster.create("t", 1, 2)
    topic = fold.feed(Watcher(cluster).slices(first=place)).views()["prod/topic/t/0"]
    assert (topic.min_isr, topic.topic_id) == (None, cluster.topics["t"])


ODD: Sequence[tuple[Any, str]] = [
    (kafka.PartitionChange(9, uuid(1), leader=1), "partition 9 of topic id"),
    (kafka.Partition(0, uuid(1), (1,), (1,), 1, 0, 0), "which has no name"),
    (kafka.RemoveTopic(uuid(1)), "has no name"),
    (kafka.BrokerRegistrationChange(9, 1, fenced=True), "registered is none"),
    (kafka.BrokerRegistrationChange(1, 99, fenced=True), "registered is epoch"),
    (kafka.Config(2, "t", kafka.MIN_ISR, "two"), "not a number above 0"),
    (kafka.Config(2, "t", kafka.MIN_ISR, "0"), "not a number above 0"),
    (kafka.Config(4, "", kafka.UNCLEAN, "maybe"), "not true or false"),
]


@pytest.mark.parametrize(("record", "reason"), ODD)
def test_what_no_kafka_writes_is_an_anomaly(record: Any, reason: str) -> None:
    """It is counted and reported with its own offset in its batch, and changes nothing."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    place, before = cluster.end, fold.cluster.counts
    cluster.write(kafka.FeatureLevel("other.version", 1), record)
    fold.events.clear()
    fold.feed(Watcher(cluster).slices(first=place))
    (anomaly,) = fold.events
    assert reason in anomaly.reason  # type: ignore[union-attr]  # it is an Anomaly
    assert f"at offset {place + 1}" in anomaly.path  # type: ignore[union-attr]  # it is an Anomaly
    assert fold.cluster.counts == before
    assert fold.cluster.log.anomalies == 1


def test_only_two_keys_of_configurations_are_taken() -> None:
    """Whatever a watcher lets through, no other value is held."""
    cluster = a_cluster()
    place = cluster.end
    cluster.write(
        kafka.Config(4, "1", "ssl.keystore.password", "secret"),
        kafka.Config(8, "", kafka.MIN_ISR, "7"),
        kafka.Config(4, "1", kafka.MIN_ISR, " 2 "),
        kafka.Config(4, "", kafka.UNCLEAN, "TRUE"),
        kafka.Config(2, "t", kafka.UNCLEAN, "false"),
    )
    fold = KraftFold().feed(Watcher(cluster).slices())
    config = fold.cluster.config
    assert (config.broker_min_isr, config.broker_unclean) == ({"1": 2}, {"<default>": True})
    assert fold.views()["prod/topic/t/0"].unclean is False
    cluster.write(kafka.Config(4, "1", kafka.MIN_ISR), kafka.Config(4, "", kafka.UNCLEAN))
    cluster.write(kafka.Config(2, "t", kafka.UNCLEAN))
    fold.feed(Watcher(cluster).slices(first=place))
    config = fold.cluster.config
    assert (config.broker_min_isr, config.broker_unclean) == ({}, {})
    assert fold.views()["prod/topic/t/0"].unclean is None


def test_elections_of_controllers_are_counted_with_their_vacancies() -> None:
    """The last no-op and the LeaderChange bound the time without a controller; skipped epochs had candidates only."""
    cluster = a_cluster()
    cluster.tick(2_000)
    cluster.elect(3001, after_ms=4_200, candidacies=2)
    fold = KraftFold().feed(Watcher(cluster).slices())
    controller = fold.cluster.controller
    assert (controller.id, controller.epoch, controller.elections) == (3001, 4, 2)
    assert (controller.vacancy_last_min_ms, controller.vacancy_last_max_ms) == (3_700, 4_200)
    quorum = fold.cluster.quorum
    assert quorum is not None
    assert (quorum.candidacies, quorum.voters) == (2, (3000,))
    first, second = (e for e in fold.events if type(e).__name__ == "ControllerElected")
    assert (first.cause, second.cause) == (ElectionCause.FIRST, ElectionCause.UNKNOWN)  # type: ignore[union-attr]  # elections
    assert second.at == cluster.now


def test_a_longer_pause_shows_a_slower_no_op() -> None:
    """Where no-ops are further apart, a controller may have been active for as long after its last record."""
    cluster = a_cluster()
    cluster.now += 2_000  # metadata.max.idle.interval.ms is larger here
    cluster.write(kafka.NoOp())
    cluster.elect(3001, after_ms=5_000)
    controller = KraftFold().feed(Watcher(cluster).slices()).cluster.controller
    assert (controller.vacancy_last_min_ms, controller.vacancy_last_max_ms) == (3_000, 5_000)


def test_a_pause_between_two_slices_counts_as_one_within() -> None:
    """However a watcher cuts, the bound is the same."""
    cluster = a_cluster()
    place = cluster.end
    cluster.now += 2_000
    cluster.write(kafka.NoOp())
    cluster.elect(3001, after_ms=5_000)
    slices = Watcher(cluster).slices([place])
    assert KraftFold().feed(slices).cluster.controller.vacancy_last_min_ms == 3_000


def test_figures_are_not_proved_while_the_watcher_catches_up() -> None:
    """A slice below the high watermark is whole, and more is known to be committed."""
    cluster = a_cluster()
    first, last = Watcher(cluster).slices([5])
    fold = KraftFold().feed([first])
    assert fold.cluster.log.incomplete
    assert fold.cluster.log.verified_at is None
    assert not fold.feed([last]).cluster.log.incomplete


def test_figures_are_proved_again_only_after_a_while() -> None:
    """A proof sends all views again: what continues without a hole does not do so with each record."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    proved_at = fold.cluster.log.verified_at
    for after, expected in ((PROOF_MS - 1, proved_at), (PROOF_MS, proved_at + PROOF_MS)):
        beat = Watcher(cluster).heartbeat(observed_at=proved_at + after)
        assert fold.feed([beat]).cluster.log.verified_at == expected


def test_what_a_kraft_cluster_does_not_have_cannot_be_seen_and_is_not_missing() -> None:
    """Pending writes, foreign writes, requests and a session: no figure, and nothing incomplete."""
    fold = KraftFold().feed(Watcher(a_cluster()).slices())
    view = fold.cluster
    absent = {each for each in Capability if not view.can_see(each)}
    assert absent == set(ABSENT_IN_KRAFT)
    assert view.log.hidden == ()
    assert not view.log.incomplete
    assert view.log.session is None
    assert view.pending_writes.counts is None


def test_a_process_that_registers_in_the_place_of_a_live_one_is_a_bounce() -> None:
    """The former one ends, and the new one is fenced at first; its epoch is another."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    place = cluster.end
    cluster.write(kafka.RegisterBroker(1, place, uuid(place)))
    fold.events.clear()
    fold.feed(Watcher(cluster).slices(first=place))
    (stopped,) = [each for each in fold.events if isinstance(each, BrokerStopped)]
    assert (stopped.broker, stopped.end) == (1, BrokerEnd.BOUNCED)
    record = fold.views()["prod/broker/1"].record
    assert (record.live, record.fenced, record.epoch, record.registrations) == (
        False,
        True,
        place,
        2,
    )
    assert (
        fold.cluster.counts.offline == 0
    )  # the controller has written no partition without a leader
    cluster.write(kafka.RegisterBroker(2, cluster.end, uuid(9), fenced=False))
    fold.feed(Watcher(cluster).slices(first=place))
    assert fold.views()["prod/broker/2"].record.live


def test_heartbeats_bring_what_no_record_holds() -> None:
    """The quorum's sample, the newest snapshot, and since when nobody answers; what is not answered stays."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    sample = QuorumSample(cluster.now, 3000, 1, cluster.end, (QuorumReplica(3000, cluster.end),))
    first = Watcher(cluster).heartbeat(quorum=sample, snapshot_end=5, snapshot_at=cluster.now)
    fold.feed([first, Watcher(cluster).heartbeat(leader=None, unreachable_since=7)])
    quorum = fold.cluster.quorum
    assert quorum is not None
    assert (quorum.sample, quorum.snapshot_end, quorum.unreachable_since) == (sample, 5, 7)
    assert (quorum.leader, quorum.high_watermark) == (3000, cluster.end)
    assert fold.cluster.log.heartbeat_at == cluster.now
    assert fold.feed([first]).cluster.quorum.unreachable_since is None  # of KRaft


def test_a_silent_leader_is_shown_until_it_answers() -> None:
    """Its last state stays, incidents are unsure meanwhile, and commits alone do not say that it answers."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    cluster.fence(1)
    place = cluster.end
    cluster.tick(1_000)
    fold.feed(Watcher(cluster).slices(first=fold.state.control.source.end, end=place))
    fold.feed([Watcher(cluster).heartbeat(leader_silent_since=7)])
    fold.feed(Watcher(cluster).slices(first=place))
    quorum = fold.cluster.quorum
    assert quorum is not None
    assert (quorum.leader, quorum.leader_silent_since) == (3000, 7)
    assert fold.cluster.controller.id == 3000
    assert fold.views()["prod/incidents"].incidents[0].unsure_since == 7
    fold.feed([Watcher(cluster).heartbeat()])
    assert fold.cluster.quorum.leader_silent_since is None  # of KRaft


def test_a_high_watermark_that_stands_still_is_dated() -> None:
    """Commits have stopped since it last moved, although somebody may lead."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    moved = cluster.log[-1].at
    for after in (10_000, 20_000):
        fold.feed([Watcher(cluster).heartbeat(observed_at=cluster.now + after)])
        quorum = fold.cluster.quorum
        assert quorum is not None
        assert quorum.high_watermark_since == moved


def test_an_unreachable_quorum_leaves_incidents_unsure() -> None:
    """Nobody knows whether all is well while no controller answers."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    cluster.fence(1)
    fold.feed(Watcher(cluster).slices(first=fold.state.control.source.end))
    fold.feed([Watcher(cluster).heartbeat(unreachable_since=cluster.now)])
    assert fold.views()["prod/incidents"].incidents[0].unsure_since == cluster.now


def test_a_live_vacancy_is_seen_by_a_heartbeat_and_made_exact_by_the_log() -> None:
    """A voter that names no leader in a later epoch; the election then states since when."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    vacant = Watcher(cluster).heartbeat(
        leader=-1, leader_epoch=cluster.epoch + 1, observed_at=cluster.now + 3_000
    )
    fold.feed([vacant, vacant])
    assert (fold.cluster.controller.id, fold.cluster.controller.elections) == (-1, 1)
    assert [type(e).__name__ for e in fold.events].count("ControllerVacated") == 1
    assert fold.feed([Watcher(cluster).heartbeat()]).cluster.controller.id == -1  # it knows less
    place, last = cluster.end, cluster.log[-1].at
    cluster.elect(3002, after_ms=5_000)
    fold.feed(Watcher(cluster).slices(first=place))
    controller = fold.cluster.controller
    assert (controller.id, controller.elections) == (3002, 2)
    assert controller.vacancy_last_max_ms == cluster.now - last
    assert controller.vacancy_last_min_ms == cluster.now - last - 500
    old = Watcher(cluster).heartbeat(leader=-1, leader_epoch=cluster.epoch)
    assert fold.feed([old]).cluster.controller.id == 3002  # a voter that has not heard of it


def test_features_controllers_and_migration_are_as_stated() -> None:
    """Level 0 is off."""
    cluster = a_cluster(elr=True)
    endpoint = kafka.EndPoint("CONTROLLER", "::1", 9093, 0)
    cluster.write(
        kafka.KRaftVersion(1),
        kafka.Voters((kafka.VoterEndPoints(3000, uuid(7)), kafka.VoterEndPoints(3001, uuid(8)))),
        kafka.RegisterController(3000, uuid(9), True, (endpoint,)),
        kafka.ZkMigrationState(1),
        kafka.FeatureLevel(kafka.ELR_VERSION, 0),
    )
    fold = KraftFold().feed(Watcher(cluster).slices())
    quorum = fold.cluster.quorum
    assert quorum is not None
    assert quorum.features == {"metadata.version": 25, "kraft.version": 1}
    assert quorum.voters == (3000, 3001)
    assert quorum.controllers[3000].endpoints == ("CONTROLLER://[::1]:9093",)
    assert quorum.controllers[3000].zk_migration_ready
    assert quorum.zk_migration_state == 1
    assert not figures.has_elr(fold.state.control)
    assert addresses(()) == ()


def test_the_registration_of_a_controller_ends_with_its_record() -> None:
    """That of another one stays, and one that is not registered may be unregistered."""
    cluster = a_cluster()
    cluster.write(kafka.RegisterController(3000, uuid(1)), kafka.RegisterController(3001, uuid(2)))
    cluster.write(kafka.UnregisterController(3001), kafka.UnregisterController(3009))
    quorum = KraftFold().feed(Watcher(cluster).slices()).cluster.quorum
    assert quorum is not None
    assert set(quorum.controllers) == {3000}


def test_a_record_of_a_newer_kafka_makes_the_figures_incomplete() -> None:
    """What it changed is not known, and contiguous records do not show it; a snapshot without one does."""
    cluster = a_cluster()
    place = cluster.end
    fold = KraftFold().feed(Watcher(cluster).slices())
    cluster.tick(1_000)
    (newer,) = Watcher(cluster).slices(first=place)
    fields = {name: getattr(newer, name) for name in newer.__struct_fields__}
    fold.feed([MetadataSlice(**(fields | {"unknown": {"99 v0": 2}}))])
    view = fold.cluster
    assert view.quorum is not None
    assert (view.quorum.unknown, view.log.unreadable) == ({"99 v0": 2}, 2)
    assert "99 v0" in (view.log.incomplete_reason or "")
    place = cluster.end
    cluster.tick(1_000)
    assert fold.feed(Watcher(cluster).slices(first=place)).cluster.log.incomplete
    cluster.tick(500)
    fold.feed(Watcher(cluster).snapshot()).feed([Watcher(cluster).heartbeat()])
    assert not fold.cluster.log.incomplete


def test_a_batch_of_an_impossible_time_is_of_now() -> None:
    """No figure takes a time that no clock shows."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    place = cluster.end
    cluster.fence(1)
    (odd,) = Watcher(cluster).slices(first=place)
    batches = tuple(
        MetadataBatch(each.offset, 2**62, each.records, each.offsets) for each in odd.batches
    )
    fields = {name: getattr(odd, name) for name in odd.__struct_fields__}
    fold.feed([MetadataSlice(**(fields | {"batches": batches}))])
    assert fold.views()["prod/broker/1"].record.since <= cluster.now
