"""A cluster while changes are applied to it, and where its topics are kept.

The rule: a topic is loaded when a change touches it; the totals never need the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from controller_model.kafka.coordinators import COORDINATOR_OF, coordinated_by
from controller_model.state.contribution import NO_MIN_ISR, Contribution
from controller_model.state.control_plane import ControlPlane
from controller_model.state.incident_state import HealthSample
from controller_model.state.topic_state import TopicState


class TopicStore(Protocol):
    """Where topics are kept; a dict in tests, Spark's state in the fold."""

    def get(self, name: str) -> TopicState | None:
        """Return the topic, or None; the caller owns it until it puts it back."""

    def put(self, topic: TopicState) -> None:
        """Keep the topic."""

    def remove(self, name: str) -> None:
        """Forget the topic; nothing happens if there is none."""

    def names(self) -> Iterable[str]:
        """Return the names of all topics: rare, it may read everything."""


class MemoryTopicStore:
    """Topics in a dict."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicState] = {}

    def get(self, name: str) -> TopicState | None:
        """Return the topic, or None."""
        return self._topics.get(name)

    def put(self, topic: TopicState) -> None:
        """Keep the topic."""
        self._topics[topic.name] = topic

    def remove(self, name: str) -> None:
        """Forget the topic."""
        self._topics.pop(name, None)

    def names(self) -> Iterable[str]:
        """Return the names of all topics."""
        return list(self._topics)


class ClusterState:
    """A cluster while changes are applied: the control plane, and the topics at hand.

    `touched` holds the topics that changed since the last `settle`. Before something changes that
    is counted, its counts leave the totals, of a whole topic or of one partition's state alone;
    `settle` counts the new ones. `changed` names the topics that changed since the last projection.
    """

    def __init__(self, control: ControlPlane, topics: TopicStore) -> None:
        self.control = control
        self.topics = topics
        self.touched: dict[str, TopicState] = {}
        self.changed: set[str] = set()
        self.removed: dict[str, int] = {}
        """Topics that are gone since the last projection, and how many views each had."""
        self.look: HealthSample | None = None
        """What was counted at the last change, until the accounts have taken it."""
        self._read: TopicState | None = None
        """The topic that was read last; None once topics were put back."""
        self._uncounted: dict[str, set[int] | None] = {}
        """The partitions of touched topics whose states are off the totals; None: all of a topic."""

    def topic(self, name: str) -> TopicState | None:
        """Return a topic for reading."""
        touched = self.touched.get(name)
        if touched is not None:
            return touched
        topic = self.topics.get(name)
        # Whoever looks at a topic may change it next: it need not be read again.
        self._read = topic
        return topic

    def hold(self, name: str) -> TopicState:
        """Return a topic for changing what is not counted, new if need be."""
        topic = self.touched.get(name)
        if topic is None:
            read = self._read
            topic = read if read is not None and read.name == name else self.topics.get(name)
            self._uncounted[name] = set()
            if topic is None:
                topic = TopicState(name)
                self._uncounted[name] = None
            self.touched[name] = topic
        return topic

    def touch(self, name: str) -> TopicState:
        """Return a topic for changing, new if need be; its counts leave the totals."""
        topic = self.hold(name)
        off = self._uncounted[name]
        if off is not None:
            for partition in off:
                self._count(topic, partition, 1, whole=False)
            for partition in topic.partitions:
                self._count(topic, partition, -1, whole=True)
            self._uncounted[name] = None
        return topic

    def touch_state(self, name: str, partition: int) -> TopicState:
        """Return a topic for changing the state of one partition, which leaves the totals."""
        topic = self.hold(name)
        off = self._uncounted[name]
        if off is not None and partition not in off:
            self._count(topic, partition, -1, whole=False)
            off.add(partition)
        return topic

    def _count(self, topic: TopicState, partition: int, by: int, *, whole: bool) -> None:
        """Count a partition, or its state alone, in or out; one without an assignment is none."""
        record = topic.partitions.get(partition)
        if record is None or record.replicas is None:
            return
        totals = self.control.totals
        counted = (record.replicas, record.leader, record.isr)
        added = topic.adding.get(partition, ())
        min_isr = topic.min_isr or NO_MIN_ISR
        deleting = topic.name in self.control.deleting
        if not whole:
            totals.count_state(by, counted, added=added, min_isr=min_isr, deleting=deleting)
            return
        removed = topic.removing.get(partition, ())
        totals.count_partition(
            by, counted, added=added, removed=removed, min_isr=min_isr, deleting=deleting
        )

    def count(self, topic: TopicState) -> Contribution:
        """Return a topic's numbers."""
        return Contribution.of(
            {
                partition: (record.replicas, record.leader, record.isr)
                for partition, record in topic.partitions.items()
                if record.replicas is not None
            },
            adding=topic.adding,
            removing=topic.removing,
            min_isr=topic.min_isr,
            deleting=topic.name in self.control.deleting,
        )

    def settle(self) -> None:
        """Add what the touched topics count now to the totals, and put them into the store."""
        for name, topic in self.touched.items():
            self.changed.add(name)
            if name in COORDINATOR_OF:
                self._count_coordinators(topic)
            off = self._uncounted[name]
            for partition in topic.partitions if off is None else off:
                self._count(topic, partition, 1, whole=off is None)
            if topic.stat is None and topic.config_stat is None and not topic.partitions:
                self.topics.remove(name)
                # At least one: a batch that runs anew may make and end a topic that was told before.
                self.removed[name] = max(topic.chunks, self.removed.get(name, 1))
                continue
            self.topics.put(topic)
        self._read = None
        self.touched.clear()
        self._uncounted.clear()

    def _count_coordinators(self, topic: TopicState) -> None:
        if topic.partitions:
            leaders = (record.leader for record in topic.partitions.values())
            self.control.coordinators[topic.name] = coordinated_by(leaders)
        else:
            self.control.coordinators.pop(topic.name, None)
