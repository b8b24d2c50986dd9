"""Snapshots: what they name is so, what they do not name goes, and only a whole one counts."""

from __future__ import annotations

from controller_model.records.events import Incomplete, Verified
from controller_model.records.metadata_log import SnapshotFinished, SnapshotStarted
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher
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
    assert (fold.cluster.controller.id, fold.cluster.controller.vacant_since) == (-1, None)
    fold.feed([Watcher(cluster).heartbeat()])
    assert fold.cluster.controller.id == 3000
    assert isinstance(records[0], SnapshotStarted)
