"""Snapshots: what they name is so, what they do not name goes, and only a whole one counts."""

from __future__ import annotations

import msgspec

from controller_model.kafka import metadata_records as kafka
from controller_model.records.events import Incomplete, TopicCreated, TopicExpanded, Verified
from controller_model.records.metadata_log import SnapshotFinished, SnapshotPart, SnapshotStarted
from controller_model.records.views import Capability
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher, uuid
from tests.support.metric_samples import of_cluster
from tests.unit.controller_model.sources.kraft.test_records import a_cluster


def a_gap(cluster: KraftCluster) -> KraftFold:
    """Return a fold that holds a cluster from before much changed in it."""
    fold = KraftFold().feed(Watcher(cluster).slices())
    cluster.create("u", 2, 2)
    cluster.delete("t")
    cluster.fence(3)
    cluster.unregister(3)
    cluster.configure("u", "min.insync.replicas", "2")
    cluster.tick(1_000)
    return fold


def test_what_a_snapshot_does_not_name_goes() -> None:
    """Topics, brokers, configurations and features that ended unseen are reported and not held."""
    cluster = a_cluster(elr=True)
    fold = a_gap(cluster)
    cluster.features.popitem()
    fold.events.clear()
    fold.feed(Watcher(cluster).snapshot(3))
    kinds = {type(each).__name__ for each in fold.events}
    assert {"TopicDeleted", "TopicCreated", "BrokerStopped"} <= kinds
    assert [key for key in fold.views() if "/topic/" in key] == ["prod/topic/u/0"]
    assert fold.cluster.quorum is not None
    assert fold.cluster.quorum.features == cluster.features
    assert fold.views()["prod/broker/3"].record.fenced is None


def test_while_a_snapshot_is_read_figures_are_in_doubt_since_they_were_followed_last() -> None:
    """What happened between the last slice and the snapshot is not held yet."""
    cluster = a_cluster()
    followed_until = cluster.now
    fold = KraftFold().feed(Watcher(cluster).slices())
    fold.feed([Watcher(cluster).heartbeat(sent_at=followed_until)])
    cluster.tick(60_000)
    cluster.create("u", 2, 2)
    started, *_ = Watcher(cluster).snapshot()
    assert started.observed_at > followed_until
    fold.feed([started])
    assert fold.cluster.log.incomplete_since == followed_until


def test_what_the_log_stated_of_brokers_and_controllers_goes_as_well() -> None:
    """Configurations of brokers and registered controllers that a snapshot does not name; levels that it names stay."""
    cluster = a_cluster()
    cluster.write(
        kafka.Config(4, "1", kafka.MIN_ISR, "3"),
        kafka.Config(4, "", kafka.UNCLEAN, "true"),
        kafka.RegisterController(3000, uuid(1)),
        kafka.RegisterController(3001, uuid(2)),
        kafka.KRaftVersion(1),
    )
    fold = KraftFold().feed(Watcher(cluster).slices())
    cluster.tick(1_000)
    started, part, *rest = Watcher(cluster).snapshot()
    assert isinstance(part, SnapshotPart)
    more = (kafka.KRaftVersion(1), kafka.RegisterController(3001, uuid(2)))
    fold.feed([started, msgspec.structs.replace(part, records=(*part.records, *more)), *rest])
    quorum = fold.cluster.quorum
    assert quorum is not None
    assert set(quorum.controllers) == {3001}
    assert quorum.features == {"metadata.version": 25, "kraft.version": 1}
    assert fold.cluster.config.broker_min_isr == fold.cluster.config.broker_unclean == {}


def test_what_is_told_again_is_not_counted_again() -> None:
    """After an error of kcm the log is read again from an older snapshot: state and counts are as before, and the time stays."""
    cluster = a_cluster()
    cluster.fail_dir(2)
    known = {"cluster_id": "id"}
    again = Watcher(cluster, generation=2)
    older, place = again.snapshot(2, **known), cluster.end
    cluster.fence(1)
    cluster.tick(60_000)
    cluster.elect(3001, after_ms=7_000, candidacies=2)
    cluster.register(1)
    cluster.unfence(1)
    cluster.fail_dir(1)
    cluster.create("u", 1, 1)
    cluster.tick(60_000)
    first, *slices = Watcher(cluster).slices()
    fold = KraftFold().feed([msgspec.structs.replace(first, **known), *slices])
    before, reported = dict(fold.views()), list(fold.events)
    fold.feed(older)
    assert fold.cluster.log.incomplete
    fold.feed(again.slices([place + 3], first=place))
    view, held = fold.cluster, before["prod/cluster"]
    assert not view.log.incomplete
    for part in ("controller", "counters", "counts", "brokers_live", "incidents"):
        assert getattr(view, part) == getattr(held, part)
    assert view.quorum == msgspec.structs.replace(held.quorum, begins=place)
    for broker in (1, 2, 3):
        key = f"prod/broker/{broker}"
        record, former = fold.views()[key].record, before[key].record
        assert (record.ends, record.registrations, record.isr_leaves, record.log_dir_failures) == (
            former.ends, former.registrations, former.isr_leaves, former.log_dir_failures
        )  # fmt: skip
    more = {type(each).__name__ for each in fold.events[len(reported) :]}
    assert more == {"Incomplete", "Verified"}
    assert view.log.anomalies == 0
    place = cluster.end
    cluster.elect(3002, after_ms=2_000)
    controller = fold.feed(again.slices(first=place)).cluster.controller
    assert (controller.id, controller.elections) == (3002, 3)
    assert controller.vacancy_last_max_ms == 2_000


def test_what_follows_what_is_told_again_is_news_also_in_one_slice() -> None:
    """Only offsets that were held before are not counted; a broker's time is that of its last change."""
    cluster = a_cluster()
    again = Watcher(cluster, generation=2)
    older, place = again.snapshot(cluster_id="id"), cluster.end
    cluster.register(4)
    cluster.create("held", 1, 1)
    first, *rest = Watcher(cluster).slices()
    fold = KraftFold().feed([msgspec.structs.replace(first, cluster_id="id"), *rest])
    since = fold.views()["prod/broker/4"].record.since
    cluster.tick(1_000)
    cluster.create("new", 1, 1)
    fold.events.clear()
    fold.feed([*older, *again.slices(first=place)])
    created = [each for each in fold.events if isinstance(each, TopicCreated)]
    assert [each.topic for each in created] == ["new"]
    assert fold.views()["prod/broker/4"].record.since == since


def test_without_a_cluster_id_a_new_generation_is_another_history() -> None:
    """Offsets and epochs of two new clusters are alike."""
    cluster = a_cluster()
    first, *rest = Watcher(cluster).slices()
    fold = KraftFold().feed([msgspec.structs.replace(first, cluster_id="id"), *rest])
    fold.feed(Watcher(cluster, generation=2).snapshot())
    assert fold.cluster.controller.missed_elections == 1
    fold.feed(Watcher(cluster, generation=3).snapshot(cluster_id="id"))
    assert fold.cluster.controller.missed_elections == 1


def test_a_migration_is_held_as_far_as_the_snapshot_states_it() -> None:
    """A snapshot without it shows that there is none."""
    cluster = a_cluster()
    cluster.write(kafka.ZkMigrationState(1))
    fold = KraftFold().feed(Watcher(cluster).slices())
    for state, stated in ((1, (kafka.ZkMigrationState(1),)), (None, ())):
        cluster.tick(1_000)
        started, part, *rest = Watcher(cluster).snapshot()
        assert isinstance(part, SnapshotPart)
        part = msgspec.structs.replace(part, records=(*part.records, *stated))
        quorum = fold.feed([started, part, *rest]).cluster.quorum
        assert quorum is not None
        assert quorum.zk_migration_state == state


def test_a_snapshot_of_another_cluster_is_all_news() -> None:
    """Of another id, or where nothing tells the id, the history is another one, and its time may be earlier."""
    cluster, other = a_cluster(), a_cluster()
    other.create("o", 1, 1)
    cluster.tick(60_000)
    fold = KraftFold().feed(Watcher(cluster).slices())
    fold.events.clear()
    fold.feed(Watcher(other, generation=2).snapshot(cluster_id="another"))
    kinds = [type(each).__name__ for each in fold.events]
    assert kinds.count("TopicCreated") == 1
    assert fold.cluster.log.anomalies == 0
    assert fold.state.control.now >= cluster.log[-1].at
    assert fold.cluster.controller.missed_elections == 1


def test_a_heartbeat_during_a_snapshot_asks_for_nothing() -> None:
    """What lies behind the snapshot is asked for when it has been read."""
    cluster = a_cluster()
    fold = a_gap(cluster)
    snapshot = Watcher(cluster).snapshot(2)
    fold.feed(snapshot[:2]).feed([Watcher(cluster).heartbeat(end=cluster.end + 9)])
    assert fold.cluster.resync_wanted is None
    assert fold.cluster.log.resync_under_way


def test_a_topic_that_was_created_again_unseen_is_another() -> None:
    """Its id tells; the former one ends, with its configuration. When a broker registered is not known."""
    cluster = a_cluster()
    cluster.configure("t", "min.insync.replicas", "2")
    fold = KraftFold().feed(Watcher(cluster).slices())
    cluster.delete("t")
    cluster.register(4)
    cluster.unfence(4)
    cluster.create("t", 1, 2)
    cluster.tick(1_000)
    fold.events.clear()
    fold.feed(Watcher(cluster).snapshot())
    kinds = [type(each).__name__ for each in fold.events]
    assert (kinds.count("TopicDeleted"), kinds.count("TopicCreated")) == (1, 1)
    topic = fold.views()["prod/topic/t/0"]
    assert (topic.topic_id, topic.min_isr, len(topic.partitions)) == (cluster.topics["t"], None, 1)
    assert fold.views()["prod/broker/4"].record.since is None


def test_partitions_that_another_history_had_created_go() -> None:
    """A topic of the same id has fewer of them: one that is created later is new, and its leader is not elected."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    del cluster.parts["t"][1], cluster.parts["t"][2]
    fold.feed(Watcher(cluster, generation=2).snapshot())
    assert fold.cluster.counts.partitions == 1
    assert fold.views()["prod/topic/t/0"].partitions == (0,)
    place = cluster.end
    cluster.tick(1_000)
    cluster.expand("t", 1)
    fold.events.clear()
    fold.feed(Watcher(cluster, generation=2).slices(first=place))
    expanded, *others = [each for each in fold.events if not isinstance(each, Verified)]
    assert isinstance(expanded, TopicExpanded)
    assert (expanded.before, expanded.partitions, others) == (1, 2, [])


def test_elections_that_a_snapshot_passes_are_an_interval() -> None:
    """At least one, and at most one in each epoch: what the epochs allow beyond that adds up."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    for candidacies, elections, possible in ((2, 2, 2), (1, 3, 3)):
        cluster.elect(3001, after_ms=1_000, candidacies=candidacies)
        controller = fold.feed(Watcher(cluster).snapshot()).cluster.controller
        assert (controller.elections, controller.possible_elections) == (elections, possible)


def test_a_part_that_is_lost_fails_the_snapshot() -> None:
    """Nothing is dropped by it, and another one is asked for."""
    cluster = a_cluster()
    fold = a_gap(cluster)
    started, first, _, *rest = Watcher(cluster).snapshot(4)
    fold.feed([started, first, *rest])
    assert "prod/topic/t/0" in fold.views()
    wanted = fold.cluster.resync_wanted
    assert wanted is not None
    assert (wanted.offset, fold.cluster.log.incomplete) == (None, True)
    fold.feed(Watcher(cluster).snapshot(4)).feed([Watcher(cluster).heartbeat()])
    assert "prod/topic/t/0" not in fold.views()
    assert not fold.cluster.log.incomplete
    assert isinstance(fold.events[-1], Verified)


def test_parts_that_come_twice_or_from_another_watcher_are_dropped() -> None:
    """Each reading is of one watcher, in its order; a newer start ends an older reading."""
    cluster = a_cluster()
    fold = a_gap(cluster)
    ours = Watcher(cluster).snapshot(2)
    other = Watcher(cluster, "w2").snapshot(2)
    fold.feed([*ours[:2], ours[1], other[1], other[2], *ours[2:]])
    assert fold.cluster.log.not_newer == 3
    assert not fold.cluster.log.resync_under_way
    assert "prod/topic/t/0" not in fold.views()


def test_a_second_start_takes_over() -> None:
    """The watcher that had begun may be gone; its last parts change nothing any more."""
    cluster = a_cluster()
    fold = a_gap(cluster)
    ours = Watcher(cluster).snapshot(2)
    other = Watcher(cluster, "w2").snapshot(2)
    fold.feed([*ours[:2], other[0], ours[2], ours[3], *other[1:]])
    assert not fold.cluster.log.resync_under_way
    assert fold.cluster.quorum is not None
    assert fold.cluster.quorum.end == cluster.end


def test_a_snapshot_of_what_is_held_is_no_news() -> None:
    """Of the same history it must end behind what is held; a new generation takes any."""
    cluster = a_cluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    fold.feed(Watcher(cluster).snapshot())
    assert (fold.cluster.log.not_newer, fold.cluster.log.resyncs) == (3, 0)
    fold.feed(Watcher(cluster, generation=2).snapshot())
    assert fold.cluster.log.resyncs == 1
    assert fold.state.control.log.position == (2, cluster.end)


def test_slices_wait_for_the_end_of_a_snapshot() -> None:
    """They are of a state that is half replaced; what they held is asked for afterwards."""
    cluster = a_cluster()
    fold = a_gap(cluster)
    snapshot = Watcher(cluster).snapshot(2)
    place = cluster.end
    cluster.fence(1)
    late = Watcher(cluster).slices(first=place)
    fold.feed([*snapshot[:2], *late])
    assert fold.cluster.log.resync_under_way
    assert 1 in fold.cluster.brokers_live
    fold.feed(snapshot[2:])
    assert fold.cluster.log.incomplete
    fold.feed([Watcher(cluster).heartbeat()])
    wanted = fold.cluster.resync_wanted
    assert wanted is not None
    assert wanted.offset == place
    fold.feed(late)
    assert 1 not in fold.cluster.brokers_live
    assert not fold.cluster.log.incomplete


def test_an_answer_ends_the_request_and_views_of_before_are_older() -> None:
    """Readers drop topics whose views are from before the start."""
    cluster = a_cluster()
    fold = a_gap(cluster)
    held = fold.state.control.log.position
    fold.feed([Watcher(cluster).heartbeat(end=cluster.end)])
    assert fold.cluster.resync_wanted is not None
    number = fold.cluster.resync_wanted.number
    fold.feed(Watcher(cluster).snapshot(reason="the log begins later", answers=number))
    assert fold.cluster.resync_wanted is None
    assert held < fold.cluster.views_from <= fold.state.control.log.position
    reasons = [each.reason for each in fold.events if isinstance(each, Incomplete)]
    assert any("offsets" in each for each in reasons)


def test_who_leads_at_the_end_of_a_snapshot_is_known_only_in_its_epoch() -> None:
    """A leader of a later epoch is shown with its LeaderChange; its watcher may also know none."""
    cluster = a_cluster()
    *records, finished = Watcher(cluster).snapshot()
    assert isinstance(finished, SnapshotFinished)
    fold = KraftFold().feed([*records, finished])
    assert (fold.cluster.controller.id, fold.cluster.controller.elections) == (3000, 1)
    later = {name: getattr(finished, name) for name in finished.__struct_fields__}
    unknown = SnapshotFinished(**(later | {"leader_epoch": cluster.epoch + 1}))
    fold = KraftFold().feed([*records, unknown])
    assert fold.cluster.can_see(Capability.CONTROLLER)
    assert of_cluster("kafka_controller_id", fold.cluster) == []
    assert fold.state.control.controller.view.vacant_since is None
    fold.feed([Watcher(cluster).heartbeat()])
    assert fold.cluster.controller.id == 3000
    assert isinstance(records[0], SnapshotStarted)
