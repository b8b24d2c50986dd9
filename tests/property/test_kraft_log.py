"""Whatever a KRaft cluster writes, and however its log is cut, repeated or joined late, the views show the cluster."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_model.insight.loss import lose_each
from controller_model.kafka import metadata_records as kafka
from controller_model.kafka.cluster_facts import min_isr_of
from controller_model.kafka.ids import NOWHERE, AsOf
from controller_model.records.events import Incomplete, Verified
from controller_model.records.recent import FENCES_WINDOW_MS, fenced_within
from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import BrokerView, TopicView
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher

BROKERS = st.integers(1, 4)
TOPICS = st.sampled_from(["a", "b", "__consumer_offsets"])
PARTITIONS = st.integers(0, 2)
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["register", "unfence", "fence", "stop", "fail_dir"]), BROKERS),
    st.tuples(st.just("unregister"), BROKERS),
    st.tuples(st.just("place"), BROKERS, TOPICS, PARTITIONS),
    st.tuples(st.just("create"), TOPICS, st.integers(1, 3), st.integers(1, 3), st.integers(0, 3)),
    st.tuples(st.just("delete"), TOPICS),
    st.tuples(st.just("expand"), TOPICS, st.integers(1, 3)),
    st.tuples(st.sampled_from(["shrink", "grow", "elect_unclean"]), TOPICS, PARTITIONS),
    st.tuples(st.just("reassign"), TOPICS, PARTITIONS, st.lists(BROKERS, min_size=1, max_size=3)),
    st.tuples(st.just("elect_preferred")),
    st.tuples(
        st.just("configure"), TOPICS, st.just(kafka.MIN_ISR), st.sampled_from(["1", "2", None])
    ),
    st.tuples(
        st.just("configure"), TOPICS, st.just(kafka.UNCLEAN), st.sampled_from(["true", None])
    ),
    st.tuples(st.just("tick"), st.integers(0, 4_000)),
    st.tuples(st.just("lead"), st.integers(3000, 3002), st.integers(0, 9_000), st.integers(0, 3)),
)
Operation = tuple[Any, ...]
HISTORIES = st.lists(OPERATIONS, max_size=40)


def cluster_of(operations: Iterable[Operation], *, elr: bool) -> KraftCluster:
    """Return a cluster of three brokers and a topic in which these operations were made."""
    cluster = KraftCluster(elr=elr)
    for broker in (1, 2, 3):
        cluster.register(broker)
        cluster.unfence(broker)
    cluster.create("a", 3, 3)
    operate(cluster, operations)
    return cluster


def operate(cluster: KraftCluster, operations: Iterable[Operation]) -> None:
    """Make operations; time passes between them."""
    for name, *arguments in operations:
        cluster.tick(100)
        if name == "lead":
            controller, after_ms, candidacies = arguments
            cluster.elect(controller, after_ms=after_ms, candidacies=candidacies)
        else:
            getattr(cluster, name)(*arguments)


def without_log(views: dict[str, Any]) -> dict[str, Any]:
    """Return views without what only says how the log arrived."""
    cluster = views["prod/cluster"]
    same = msgspec.structs.replace(cluster, log=None, views_digest=None)
    return views | {"prod/cluster": same}


def assert_true(fold: KraftFold, cluster: KraftCluster) -> None:
    """Check that views show what the cluster holds: brokers, topics, partitions and their figures."""
    views = fold.views()
    view = fold.cluster
    shown: dict[str, dict[int, Any]] = {}
    for topic in (each for each in views.values() if isinstance(each, TopicView)):
        assert topic.topic_id == cluster.topics[topic.name]
        assert (topic.min_isr, topic.unclean) == (
            cluster.min_isr.get(topic.name),
            cluster.unclean.get(topic.name),
        )
        rows = zip(
            topic.partitions, topic.replicas, topic.isr, topic.leader, topic.leader_epoch,
            topic.partition_epoch, topic.leader_recovery_state, strict=True,
        )  # fmt: skip
        for partition, *row in rows:
            shown.setdefault(topic.name, {})[partition] = (
                *row, topic.adding.get(partition, ()), topic.removing.get(partition, ()),
                topic.elr.get(partition, ()), topic.last_known_elr.get(partition, ()),
            )  # fmt: skip
    assert shown == {
        name: {
            number: (
                part.replicas, part.isr, part.leader, part.leader_epoch, part.partition_epoch,
                part.recovery, part.adding, part.removing, part.elr, part.last_known,
            )
            for number, part in parts.items()
        }
        for name, parts in cluster.parts.items()
    }  # fmt: skip
    brokers = {
        each.id: (each.record.epoch, each.record.fenced, each.record.shutting_down)
        for each in views.values()
        if isinstance(each, BrokerView) and each.record.fenced is not None
    }
    assert brokers == {
        broker: (held.epoch, held.fenced, held.stopping) for broker, held in cluster.brokers.items()
    }
    active = {broker for broker, held in cluster.brokers.items() if held.is_active}
    assert set(view.brokers_live) == active
    assert view.quorum is not None
    assert view.quorum.features == cluster.features
    assert view.quorum.end == cluster.end
    assert_counts(view, cluster)
    assert_losses(views, cluster)


def assert_counts(view: Any, cluster: KraftCluster) -> None:
    """Check the figures by counting the truth's partitions."""
    every = [(name, part) for name, parts in cluster.parts.items() for part in parts.values()]
    counts = view.counts
    under = 0
    for name, part in every:
        least = min_isr_of(cluster.min_isr.get(name), None, view.config.broker_min_isr, 1)
        under += part.leader >= 0 and len(part.isr) < min(least or 1, len(part.replicas))
    assert counts.partitions == len(every)
    assert counts.topics == len(cluster.parts)
    assert counts.offline == counts.leaderless == sum(part.leader < 0 for _, part in every)
    assert counts.pending_leader_writes is None
    assert counts.under_min_isr == under
    assert counts.recovering == sum(part.recovery for _, part in every)
    assert counts.isr_empty == sum(not part.isr for _, part in every)
    assert counts.with_elr == sum(bool(part.elr) for _, part in every)
    assert counts.reassigning == sum(bool(part.adding or part.removing) for _, part in every)
    lacking = (set(part.replicas) - set(part.adding) - set(part.isr) for _, part in every)
    assert counts.under_replicated >= sum(bool(each) for each in lacking) - counts.reassigning


def assert_losses(views: dict[str, Any], cluster: KraftCluster) -> None:
    """Check what would go offline if a broker were lost by fencing it in a copy of the cluster."""
    brokers = [each for each in views.values() if isinstance(each, BrokerView)]
    facts = cluster_facts(views["prod/cluster"], brokers)
    partitions = [
        each
        for topic in views.values()
        if isinstance(topic, TopicView)
        for each in partitions_in(topic)
    ]
    losses = lose_each(partitions, facts)
    shown = {each.id: each for each in brokers}
    for broker, loss in losses.items():
        copy = copied(cluster)
        copy.fence(broker)
        gone = {
            (name, number)
            for name, parts in copy.parts.items()
            for number, part in parts.items()
            if part.leader < 0 <= cluster.parts[name][number].leader
        }
        unclean = {each for each in gone if cluster.unclean.get(each[0])}
        assert set(loss.offline) - unclean == gone - unclean
        if not cluster.unclean:
            assert shown[broker].offline_if_lost == len(gone)


def copied(cluster: KraftCluster) -> KraftCluster:
    """Return an equal cluster that can be changed alone."""
    copy = KraftCluster.__new__(KraftCluster)
    copy.__dict__.update(cluster.__dict__)
    copy.log = list(cluster.log)
    copy.brokers = {broker: type(held)(**held.__dict__) for broker, held in cluster.brokers.items()}
    copy.parts = {name: dict(parts) for name, parts in cluster.parts.items()}
    return copy


@given(operations=HISTORIES, elr=st.booleans())
def test_views_show_the_cluster(operations: Sequence[Operation], *, elr: bool) -> None:
    """A log that is read from its beginning gives every figure, with elections and vacancies since then."""
    cluster = cluster_of(operations, elr=elr)
    fold = KraftFold().feed(Watcher(cluster).slices())
    assert_true(fold, cluster)
    view = fold.cluster
    assert not view.log.incomplete
    assert (view.log.anomalies, view.log.holes, view.log.errors) == (0, 0, 0)
    controller, quorum = view.controller, view.quorum
    assert quorum is not None
    assert (controller.id, controller.epoch) == (cluster.controller, cluster.epoch)
    assert (controller.elections, controller.missed_elections) == (cluster.elections, 0)
    assert quorum.candidacies == cluster.candidacies
    assert controller.vacancy_total_max_ms == cluster.vacancy_at_most_ms
    assert controller.vacancy_total_min_ms <= cluster.vacancy_at_most_ms
    assert view.counters.unclean_elections == cluster.unclean_elections


@given(operations=HISTORIES, elr=st.booleans(), data=st.data())
def test_the_way_in_which_a_log_arrives_changes_nothing(
    operations: Sequence[Operation], data: st.DataObject, *, elr: bool
) -> None:
    """Cut anywhere, written by two watchers, repeated and repacked in between: all views are the same."""
    cluster = cluster_of(operations, elr=elr)
    whole = KraftFold().feed(Watcher(cluster).slices())
    places = st.lists(st.integers(1, max(1, cluster.end - 1)), max_size=8)
    queues = [Watcher(cluster, name).slices(data.draw(places)) for name in ("w1", "w2")]
    cut = KraftFold()
    position = [0, 0]
    while any(len(queue) > at for queue, at in zip(queues, position, strict=True)):
        which = data.draw(st.integers(0, 1))
        if position[which] == len(queues[which]):
            which = 1 - which
        cut.feed([queues[which][position[which]]])
        position[which] += 1
        if data.draw(st.booleans()):
            position[which] -= data.draw(st.integers(0, min(2, position[which])))
            cut.repack()
        if sum(position) > 60:
            position = [len(queue) for queue in queues]
            cut.feed(queues[0])
    assert without_log(cut.views()) == without_log(whole.views())


@given(
    before=HISTORIES, missed=HISTORIES, after=HISTORIES, elr=st.booleans(), parts=st.integers(1, 4)
)
def test_a_snapshot_takes_the_place_of_what_was_missed(
    before: Sequence[Operation],
    missed: Sequence[Operation],
    after: Sequence[Operation],
    parts: int,
    *,
    elr: bool,
) -> None:
    """A fold that is behind the log's beginning goes on from a snapshot; elections are an interval across it."""
    cluster = cluster_of(before, elr=elr)
    watcher = Watcher(cluster)
    held = KraftFold().feed(watcher.slices())
    end, elections = cluster.end, cluster.elections
    operate(cluster, missed)
    cluster.tick(1_000)
    late = KraftFold()
    for fold in (held, late):
        fold.feed(watcher.snapshot(parts)).repack()
        assert_true(fold, cluster)
    controller = held.cluster.controller
    assert cluster.end > end
    assert controller.elections <= cluster.elections
    assert cluster.elections <= controller.elections + controller.possible_elections
    assert (controller.elections > elections) == (cluster.elections > elections)
    place = cluster.end
    operate(cluster, after)
    cluster.tick(1_000)
    for fold in (held, late):
        fold.feed(watcher.slices(first=place))
        assert_true(fold, cluster)
        view = fold.cluster
        assert not view.log.incomplete
        assert view.log.anomalies == 0
        assert (view.controller.id, view.controller.epoch) == (cluster.controller, cluster.epoch)


@given(one=HISTORIES, other=HISTORIES, elr=st.booleans())
def test_another_history_replaces_the_first(
    one: Sequence[Operation], other: Sequence[Operation], *, elr: bool
) -> None:
    """A new generation, from the beginning or from a snapshot, leaves nothing of what was held."""
    first, second = cluster_of(one, elr=elr), cluster_of(other, elr=False)
    second.tick(1_000)
    watcher = Watcher(second, generation=2)
    fold = KraftFold().feed(Watcher(first).slices())
    fold.feed(watcher.slices())
    assert_true(fold, second)
    again = KraftFold().feed(Watcher(first).slices()).feed(watcher.snapshot(2))
    assert_true(again, second)
    for each in (fold, again):
        each.feed(Watcher(first).slices())  # a watcher of the former history
        assert_true(each, second)


@given(operations=HISTORIES, elr=st.booleans(), is_same=st.booleans(), data=st.data())
def test_a_log_that_is_read_from_its_beginning_is_incomplete_until_it_is_told(
    operations: Sequence[Operation], data: st.DataObject, *, elr: bool, is_same: bool
) -> None:
    """Where no snapshot exists, figures of long ago are not shown as true; of the same history nothing is reported again."""
    cluster = cluster_of(operations, elr=elr)
    cluster.tick(1_000)
    first, *rest = Watcher(cluster).slices()
    fold = KraftFold().feed([msgspec.structs.replace(first, cluster_id="id"), *rest])
    views, events = dict(without_log(fold.views())), len(fold.events)
    places = data.draw(st.lists(st.integers(1, cluster.end - 1), max_size=5))
    first, *rest = Watcher(cluster, generation=2).slices(places)
    fold.feed([msgspec.structs.replace(first, cluster_id="id" if is_same else "other")])
    for each in rest:
        assert fold.cluster.log.incomplete
        fold.feed([each])
    assert not fold.cluster.log.incomplete
    assert_true(fold, cluster)
    if is_same:
        assert {type(each) for each in fold.events[events:]} <= {Incomplete, Verified}
        assert aged(without_log(fold.views())) == aged(views)


@given(
    before=HISTORIES, after=HISTORIES, elr=st.booleans(), parts=st.integers(1, 3), data=st.data()
)
def test_what_is_told_again_changes_nothing(
    before: Sequence[Operation],
    after: Sequence[Operation],
    parts: int,
    data: st.DataObject,
    *,
    elr: bool,
) -> None:
    """An older snapshot of the same cluster and all that followed it: every view is as it was, with all its counts."""
    cluster = cluster_of(before, elr=elr)
    older, place = Watcher(cluster, generation=2).snapshot(parts, cluster_id="id"), cluster.end
    operate(cluster, after)
    cluster.tick(1_000)
    first, *rest = Watcher(cluster).slices()
    fold = KraftFold().feed([msgspec.structs.replace(first, cluster_id="id"), *rest])
    views = dict(without_log(fold.views()))
    places = data.draw(st.lists(st.integers(place, cluster.end - 1), max_size=5))
    fold.feed(older).repack()
    fold.feed(Watcher(cluster, generation=2).slices(places, first=place))
    assert_true(fold, cluster)
    again = without_log(fold.views())
    assert again["prod/cluster"].quorum.begins == place
    assert aged(again) == aged(views)


def aged(views: dict[str, Any]) -> dict[str, Any]:
    """Return views without where they are of, and where their log begins; an open incident has counts that are at least."""
    place = AsOf("", 0, 0)
    found = {key: msgspec.structs.replace(each, as_of=place) for key, each in views.items()}
    del found["prod/incidents"]
    cluster = found["prod/cluster"]
    found["prod/cluster"] = msgspec.structs.replace(
        cluster,
        quorum=msgspec.structs.replace(cluster.quorum, begins=0),
        views_from=NOWHERE,
        incidents=cluster.incidents.total,
    )
    return found


@settings(max_examples=40)
@given(operations=HISTORIES, data=st.data())
def test_a_hole_is_asked_for_and_closed(
    operations: Sequence[Operation], data: st.DataObject
) -> None:
    """Without some slices the figures stay what they were and say where the log must go on; with them they are whole."""
    cluster = cluster_of(operations, elr=True)
    cluster.tick(2_000)
    places = data.draw(st.lists(st.integers(1, cluster.end - 1), min_size=3, max_size=8))
    slices = Watcher(cluster).slices(places)
    lost = data.draw(st.integers(0, len(slices) - 2))
    fold = KraftFold().feed([*slices[:lost], *slices[lost + 1 :]])
    log = fold.cluster.log
    wanted = fold.cluster.resync_wanted
    assert wanted is not None
    assert wanted.offset == slices[lost].first
    assert log.incomplete
    fold.feed(slices[lost:])
    assert_true(fold, cluster)
    assert not fold.cluster.log.incomplete
    assert fold.cluster.resync_wanted is None


@given(HISTORIES)
def test_records_in_any_order_are_data(operations: Sequence[Operation]) -> None:
    """Records that no Kafka writes in this order are counted, and never an error."""
    cluster = cluster_of(operations, elr=True)
    slices = Watcher(cluster).slices()
    mixed = [
        msgspec.structs.replace(
            each,
            batches=tuple(
                msgspec.structs.replace(batch, records=batch.records[::-1], offsets=())
                for batch in reversed(each.batches)
            ),
        )
        for each in slices
    ]
    fold = KraftFold().feed(mixed)
    fold.views()
    assert fold.state.control.log.position.seq == cluster.end


FENCING = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["register", "unfence", "fence", "fence", "stop"]), BROKERS),
        st.tuples(st.just("lead"), st.just(3000), st.just(0), st.just(0)),
    ),
    min_size=5,
    max_size=20,
)


@given(FENCING, FENCING, st.sampled_from([0, FENCES_WINDOW_MS - 1_000, FENCES_WINDOW_MS]))
def test_brokers_that_were_fenced_together_are_counted(
    before: Sequence[Operation], after: Sequence[Operation], later_ms: int
) -> None:
    """Of each epoch those within the window that have not registered again: as many as the epoch with the most has."""
    cluster = cluster_of(before, elr=False)
    cluster.now += later_ms
    operate(cluster, after)
    fold = KraftFold().feed(Watcher(cluster).slices())
    for now in (cluster.now, cluster.now + FENCES_WINDOW_MS // 2, cluster.now + FENCES_WINDOW_MS):
        recent = [epoch for at, epoch in cluster.fences.values() if at > now - FENCES_WINDOW_MS]
        most = max(map(recent.count, recent), default=0)
        assert fenced_within(fold.cluster.quorum.recent_fences, now) == most


def test_time_passes_between_the_no_ops() -> None:
    """The generator's own rule: an idle controller is silent for half a second at most."""
    cluster = KraftCluster()
    cluster.tick(10_000)
    times = [each.at for each in cluster.log]
    assert max(later - earlier for earlier, later in itertools.pairwise(times)) == 500
