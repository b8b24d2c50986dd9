"""A cluster while changes are applied to it, and the store of its topics.

The rule: topics and partitions are frozen values, and only `ClusterState` replaces one by another.
Each replacement moves the totals by new minus old, at the latest when they are next read. So there
is nothing to open, to settle or to call in order, and totals can be read at any time. A topic is
loaded when a change touches it; the totals never need the others.
"""

from collections.abc import Iterable, Mapping
from functools import reduce
from operator import xor
from typing import Protocol

import msgspec

from controller_model.kafka.coordinators import COORDINATOR_OF, coordinated_by
from controller_model.kafka.elections import RECOVERING
from controller_model.kafka.ids import new_tuple
from controller_model.state.contribution import NO_MIN_ISR, CountedState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Source
from controller_model.state.topic_state import PartitionRecord, TopicState

_MAX_MOVES = 4096
"""The most kinds of states that wait to be added up: about a megabyte, more than a storm of one cluster has."""


class TopicStore(Protocol):
    """Where topics are stored: a dict in tests, Spark's state in the fold."""

    def get(self, name: str) -> TopicState | None:
        """Return the topic, or None."""

    def peek(self, name: str) -> TopicState | None:
        """Return the topic, or None, without caching it: for a pass over all topics."""

    def put(self, topic: TopicState) -> None:
        """Store the topic."""

    def remove(self, name: str) -> None:
        """Remove the topic; nothing happens if there is none."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics; used rarely, because it may read everything."""

    def name_of(self, topic_id: str) -> str | None:
        """Return the name that was stored for a topic id, or None."""

    def put_name(self, topic_id: str, name: str | None) -> None:
        """Store the name of a topic id; None removes it. Only for sources whose records name topics by id."""


class MemoryTopicStore:
    """Topics in a dict."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicState] = {}
        self._names: dict[str, str] = {}

    def get(self, name: str) -> TopicState | None:
        """Return the topic, or None."""
        return self._topics.get(name)

    peek = get

    def put(self, topic: TopicState) -> None:
        """Store the topic."""
        self._topics[topic.name] = topic

    def remove(self, name: str) -> None:
        """Remove the topic."""
        self._topics.pop(name, None)

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return list(self._topics)

    def name_of(self, topic_id: str) -> str | None:
        """Return the name that was stored for a topic id, or None."""
        return self._names.get(topic_id)

    def put_name(self, topic_id: str, name: str | None) -> None:
        """Store the name of a topic id; None removes it."""
        if name is None:
            self._names.pop(topic_id, None)
        else:
            self._names[topic_id] = name


class ClusterState:
    """A cluster while changes are applied: the control plane, and the topics that they touch."""

    def __init__(self, control: ControlPlane, topics: TopicStore, source: Source) -> None:
        self.control = control
        self.topics = topics
        self.source = source
        source.adopt(control)
        self.changed: dict[str, set[int] | None] = {}
        """Topics that changed since the last projection. The value holds the partitions whose state alone changed;
        None if more changed."""
        self.removed: dict[str, int] = {}
        """Topics that were removed since the last projection, and how many views each had."""

    def topic(self, name: str) -> TopicState:
        """Return a topic; an empty one if nothing is held of it."""
        return self.topics.get(name) or TopicState(name)

    def put_topic(self, new: TopicState) -> None:
        """Replace the topic of this name; one that holds nothing is removed.

        Figures derived from topics change with it: totals, coordinators, topics and reassignments.
        """
        old = self.topic(new.name)
        if not _is_counted_alike(old, new):
            self._count_topic(old, -1)
            self._count_topic(new, 1)
        self._replace(old, new)

    def put_assignments(
        self, old: TopicState, new: TopicState, partitions: Mapping[int, PartitionRecord]
    ) -> None:
        """Replace a topic, as it is held, by one in which these partitions are new or have other replicas.

        It costs as much as these partitions, not as much as the topic.
        """
        held: dict[int, PartitionRecord] = old.partitions  # type: ignore[assignment]  # in place, for speed
        for partition, record in partitions.items():
            before = held.get(partition)
            if before is not None:
                self._count_partition(-1, old, partition, before)
            held[partition] = record
            self._count_partition(1, new, partition, record)
        self._replace(old, new)

    def put_partition(self, topic: TopicState, partition: int, new: PartitionRecord | None) -> None:
        """Replace a partition of a topic, as it is held, by a new value, or remove it if that is None."""
        partitions: dict[int, PartitionRecord] = topic.partitions  # type: ignore[assignment]  # in place, for speed
        old = partitions.get(partition)
        if new is None:
            partitions.pop(partition, None)
        else:
            partitions[partition] = new
        if old is not None and new is not None and old.replicas == new.replicas:
            if new.replicas is not None and (
                new.leader != old.leader
                or new.isr != old.isr
                or new.eligible != old.eligible
                or new.leader_recovery_state != old.leader_recovery_state
                or (
                    new.controller_epoch != old.controller_epoch
                    and max(new.controller_epoch, old.controller_epoch) > self.control.counted_epoch
                )
            ):
                self._move_state(topic, partition, old, new)
            self._store(topic, partition)
            return
        if old is not None:
            self._count_partition(-1, topic, partition, old)
        if new is not None:
            self._count_partition(1, topic, partition, new)
        self._store(topic)

    def set_deleting(self, name: str, since: int | None) -> None:
        """Set since when a topic's deletion has been requested; None: it is not."""
        topic = self.topics.get(name)
        if topic is not None:
            self._count_topic(topic, -1)
        if since is None:
            self.control.deleting.pop(name, None)
        else:
            self.control.deleting[name] = since
        if topic is not None:
            self._count_topic(topic, 1)
            self.mark_changed(name)

    def set_counted_epoch(self, epoch: int) -> None:
        """Count partitions by sizes alone up to this controller epoch, which is the cluster's.

        While the epoch grows, as Kafka's does, this costs as much as there are states above it: normally none. Only
        where it went back, all topics are looked through, once: by hand, or another history was restored.
        """
        control = self.control
        before = control.counted_epoch
        if epoch == before:
            return
        if epoch > before:
            control.raise_counted_epoch(epoch)
            return
        control.add_up()
        for name in self.topics.names():
            topic = self.topics.peek(name) or TopicState(name)
            for partition, record in topic.partitions.items():
                if not epoch < record.controller_epoch <= before:
                    continue
                counted = self._counted_state(topic, partition, record)
                if counted is not None:
                    control.counted.count_state(-1, counted)
                    above = counted._replace(above=record.controller_epoch)
                    control.counted.count_state(1, above)
        control.counted_epoch = epoch

    def mark_changed(self, name: str, partition: int | None = None) -> None:
        """Mark views of a topic to be made again: that of one partition, or all of them."""
        if partition is None:
            self.changed[name] = None
        elif (partitions := self.changed.setdefault(name, set())) is not None:
            partitions.add(partition)

    def note_views(self, topic: TopicState, digests: tuple[int, ...]) -> None:
        """Store the digests of a topic's views as last published."""
        self.control.published.topics ^= reduce(xor, (*topic.view_digests, *digests), 0)
        self.topics.put(msgspec.structs.replace(topic, view_digests=digests))

    def _replace(self, old: TopicState, new: TopicState) -> None:
        """Store a topic whose partitions are counted."""
        control, name = self.control, new.name
        control.topics += new.exists - old.exists
        if new.reassigning_since is None:
            control.reassigning.pop(name, None)
        else:
            control.reassigning[name] = new.reassigning_since
        self._store(new)

    def _store(self, topic: TopicState, partition: int | None = None) -> None:
        name = topic.name
        self.mark_changed(name, partition)
        if name in COORDINATOR_OF:
            self._count_coordinators(topic)
        if not (topic.partitions or topic.exists or topic.is_configured):
            self.topics.remove(name)
            self.control.published.topics ^= reduce(xor, topic.view_digests, 0)
            self.control.reassigning.pop(name, None)
            # At least one: a batch that runs again may create and delete a topic that was shown before.
            self.removed[name] = max(len(topic.view_digests), self.removed.get(name, 1))
        else:
            self.topics.put(topic)

    def _move_state(
        self, topic: TopicState, partition: int, old: PartitionRecord, new: PartitionRecord
    ) -> None:
        """Move the totals by a partition whose state alone changed: new minus old."""
        control = self.control
        moves, epoch = control.moves, control.counted_epoch
        replicas, added = new.replicas, topic.adding.get(partition, ())
        min_isr, unclean = topic.min_isr or NO_MIN_ISR, topic.unclean
        deleting = topic.name in control.deleting
        if new.leader_recovery_state != old.leader_recovery_state:
            control.counted.recovering += _is_recovering(new) - _is_recovering(old)
        above = old.controller_epoch if old.controller_epoch > epoch else 0
        before = new_tuple(
            CountedState,
            (replicas, old.leader, old.isr, added, min_isr, deleting, unclean, above, old.eligible),
        )
        above = new.controller_epoch if new.controller_epoch > epoch else 0
        after = new_tuple(
            CountedState,
            (replicas, new.leader, new.isr, added, min_isr, deleting, unclean, above, new.eligible),
        )
        if topic.removing and not added and (old.leader is None or new.leader is None):
            removed = topic.removing.get(partition, ())
            before = before._replace(added=removed) if old.leader is None else before
            after = after._replace(added=removed) if new.leader is None else after
        moves[before] = moves.get(before, 0) - 1
        moves[after] = moves.get(after, 0) + 1
        if len(moves) > _MAX_MOVES:
            control.add_up()

    def _count_topic(self, topic: TopicState, by: int) -> None:
        for partition, record in topic.partitions.items():
            self._count_partition(by, topic, partition, record)

    def _count_partition(
        self, by: int, topic: TopicState, partition: int, record: PartitionRecord
    ) -> None:
        """Count a partition in or out; one without an assignment is not counted."""
        state = self._counted_state(topic, partition, record)
        if state is None:
            return
        is_reassigned = bool(topic.adding.get(partition) or topic.removing.get(partition))
        self.control.count_partition(by, state, is_reassigned=is_reassigned)
        if record.leader_recovery_state:
            self.control.counted.recovering += by * _is_recovering(record)

    def _counted_state(
        self, topic: TopicState, partition: int, record: PartitionRecord
    ) -> CountedState | None:
        if record.replicas is None:
            return None
        added = topic.adding.get(partition, ())
        return CountedState(
            record.replicas,
            record.leader,
            record.isr,
            added or topic.removing.get(partition, ()) if record.leader is None else added,
            topic.min_isr or NO_MIN_ISR,
            topic.name in self.control.deleting,
            topic.unclean,
            record.controller_epoch if record.controller_epoch > self.control.counted_epoch else 0,
            record.eligible,
        )

    def _count_coordinators(self, topic: TopicState) -> None:
        coordinators = self.control.coordinators
        before = coordinators.pop(topic.name, {})
        if topic.partitions:
            leaders = (record.leader for record in topic.partitions.values())
            coordinators[topic.name] = coordinated_by(leaders)
        # Also of a partition that is in no assignment, which the totals do not count.
        now = coordinators.get(topic.name, {})
        self.control.touched.update(broker for broker, _ in before.items() ^ now.items())


def _is_recovering(record: PartitionRecord) -> bool:
    return record.leader_recovery_state == RECOVERING


def _is_counted_alike(old: TopicState, new: TopicState) -> bool:
    """Return whether two values of a topic count the same; it compares only what is quick to compare."""
    return (
        new.partitions is old.partitions
        and new.adding is old.adding
        and new.removing is old.removing
        and new.min_isr == old.min_isr
        and new.unclean == old.unclean
    )
