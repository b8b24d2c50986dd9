"""Two and three watchers of a quorum in memory and the topic that they write, under faults: one log, whoever writes it.

The faults of `test_kraft_observer`, and of watchers: killed and started again, paused, cut off from the pipeline's Kafka,
which may be slow. A fold reads the topic as it is, and its requests reach whoever runs. The publisher is the real one, with
its waits.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, cast

import pytest

from controller_model.records.changes import decode_message
from controller_model.records.events import Anomaly, Divergent
from controller_model.records.metadata_digest import MetadataDigest
from controller_model.records.metadata_log import AnyMetadataRecord, MetadataSlice
from kraft_source.image import ImageAt
from kraft_source.observer.observer import Observer
from kraft_source.observer.released import Released, SnapshotOpened
from kraft_source.service.published_log import decode_published
from kraft_source.service.urgency import may_wait
from kraft_source.service.watcher import MetadataWatcher, Sight
from kraft_source.wire.messages import EpochEnd
from pipeline.settings import load
from pipeline.topics import EnsuredTopics, topic_names
from source_log.config import SourceSettings
from source_log.publisher import Publisher
from tests.property.test_kraft_observer import CALM_S, FAULTY_S, TICK_S, World, truth
from tests.support.kraft_cluster import KraftFold

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 1, dict.fromkeys(NAMES, "id"))
HEARTBEAT_MS = 10_000
BEAT_S = 1.0
TAIL = 30
"""Messages that a watcher reads back when it starts: few, so that it does not find everything."""
KILL, PAUSE, AWAY = 0.0015, 0.001, 0.001
"""How often in a tick a watcher is killed, paused, or loses the pipeline's Kafka."""
LINGERS_MS = (500, 0, 200)
"""The longest wait of changes that may wait; seeds use one of these each."""
RECONCILE = 0.01
"""How often a watcher writes what the controllers hold."""


class Kafka:
    """The topics: messages and beats in their order."""

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.beats: list[tuple[str, int, float]] = []
        """By whom, of which generation, when."""


class Producer:
    """Takes the messages of one watcher to Kafka, in order, each with a delay."""

    def __init__(self, world: WatchedWorld) -> None:
        self._world = world
        self._sent: deque[tuple[float, bytes, Callable[[None, None], None]]] = deque()
        self._delivered: list[Callable[[None, None], None]] = []

    def produce(
        self,
        _topic: str,
        *,
        value: bytes,
        on_delivery: Callable[[None, None], None],
        **_about: object,
    ) -> None:
        """Take a message."""
        world = self._world
        at = max(world.now + world.rng.choice([0.0, 0.01, 0.3]), *(at for at, *_ in self._sent), 0)
        self._sent.append((at, value, on_delivery))

    @property
    def is_busy(self) -> bool:
        """Whether messages are on their way, or their arrival is not known yet."""
        return bool(self._sent or self._delivered)

    def arrived(self) -> list[bytes]:
        """Return what has arrived by now."""
        arrived = []
        while self._sent and self._sent[0][0] <= self._world.now:
            _, value, on_delivery = self._sent.popleft()
            arrived.append(value)
            self._delivered.append(on_delivery)
        return arrived

    def poll(self, _timeout_s: float) -> None:
        """Report what has arrived."""
        delivered, self._delivered = self._delivered, []
        for on_delivery in delivered:
            on_delivery(None, None)


class Side:
    """One watcher: its decisions, and what is between it and the topic."""

    def __init__(self, world: WatchedWorld, number: int) -> None:
        self._world, self._number = world, number
        self._lives = 0
        self.wakes_at = 0.0
        self.kafka_back_at = 0.0
        self.start()

    def start(self) -> None:
        """Begin anew, as a process does."""
        world = self._world
        self._lives += 1
        now = world.now_ms
        self.watcher = MetadataWatcher(
            "prod", f"w{self._number}-{self._lives}", None, heartbeat_ms=HEARTBEAT_MS, now=now
        )
        messages = world.kafka.messages
        records = [each for message in messages[-TAIL:] for each in decode_published(message)]
        beat = world.kafka.beats[-1] if world.kafka.beats else None
        self._heard = len(world.kafka.beats)
        highest = max([each.generation for each in records], default=0 if beat is None else beat[1])
        is_alone = beat is None or world.now - beat[2] > 3
        place = self.watcher.begin(highest, records, is_alone=is_alone, now=now)
        self._read = len(messages)
        self._producer = Producer(world)
        settings = load(SourceSettings, cluster="prod", linger_ms=world.linger_ms)
        self.publisher = Publisher(settings, TOPICS, lambda _: cast("Any", self._producer))
        self._beat_due = world.now
        world.observe(self._number, Observer(world.quorum.endpoints, place))

    def read(self, released: Released) -> None:
        """Take what the observer releases."""
        observer = self._world.observers[self._number]
        if isinstance(released, SnapshotOpened):
            # The quorum dates its snapshots by their offsets; a real one by their last record.
            last = released.snapshot.end_offset - 1
            committed = self._world.quorum.committed
            released = released._replace(
                at=next(each.at for each in reversed(committed) if each.offset <= last)
            )
        self.watcher.handle_released(released, observer.status.leader, self._world.now_ms)

    def _reconcile(self, rng: Random) -> None:
        """Write what the controllers hold: topics without partitions, which do not count."""
        place = self.watcher.reconciles_at
        if place is not None and rng.random() < RECONCILE:
            epoch = self._world.observers[self._number].end.epoch
            image = ImageAt(EpochEnd(place, epoch), MetadataDigest())
            self.watcher.reconcile(image, self._world.now_ms)

    def poll(self, rng: Random) -> None:
        """Go on by one tick."""
        world = self._world
        now = world.now_ms
        has_kafka = world.now >= self.kafka_back_at
        if has_kafka:
            world.kafka.messages += self._producer.arrived()
        self.publisher.poll()
        if has_kafka and self._read < len(world.kafka.messages):
            for record in decode_published(world.kafka.messages[self._read]):
                self.watcher.handle_published(record, now)
            self._read += 1
        if has_kafka:
            for name, generation, _ in world.kafka.beats[self._heard :]:
                if name != self.watcher.name:
                    self.watcher.hear(name, generation, now)
            self._heard = len(world.kafka.beats)
        status = world.observers[self._number].status
        self.watcher.tick(Sight(now, status.leader), now)
        if (place := self.watcher.restart_at) is not None:
            self.watcher.restart_at = None
            world.observe(self._number, Observer(world.quorum.endpoints, place))
        self._reconcile(rng)
        while (made := self.watcher.pop()) is not None:
            self.publisher.add(made.data, self.watcher.position, may_wait=may_wait(made.record))
        self.publisher.pump(now)
        world.lingered += self.publisher.waiting > 0 and not self._producer.is_busy
        if self.watcher.leads and has_kafka and world.now >= self._beat_due:
            self._beat_due = world.now + BEAT_S
            world.kafka.beats.append((self.watcher.name, self.watcher.generation, world.now))


class WatchedWorld(World):
    """A quorum, watchers with their observers, the topic, and a fold of it."""

    def __init__(self, seed: int, *, watchers: int) -> None:
        super().__init__(seed, observers=watchers)
        self.kafka = Kafka()
        self.linger_ms = LINGERS_MS[seed % len(LINGERS_MS)]
        self.lingered = 0
        """In how many ticks a watcher's changes waited for others."""
        self.fold = KraftFold()
        self.records: list[AnyMetadataRecord] = []
        self._folded = 0
        self.kills = 0
        self._faulty = False
        self.sides = [Side(self, number) for number in range(watchers)]

    @property
    def now_ms(self) -> int:
        """The time in milliseconds."""
        return int(self.now * 1000)

    def observe(self, number: int, observer: Observer) -> None:
        """Replace an observer; what is on its way to the old one is lost."""
        self.observers[number] = observer
        self._under_way[number] = self._arriving[number] = None

    def play(self, seconds: float, *, with_faults: bool) -> None:
        """Let time pass."""
        self._faulty = with_faults
        super().play(seconds, with_faults=with_faults)

    def _poll(self, number: int) -> None:
        side, rng = self.sides[number], self.rng
        if self._faulty:
            drawn = rng.random()
            if drawn < KILL:
                self.kills += 1
                side.start()
                side.wakes_at = self.now + rng.uniform(0, 8)
            elif drawn < KILL + PAUSE:
                side.wakes_at = self.now + rng.uniform(1, 15)
            elif drawn < KILL + PAUSE + AWAY:
                side.kafka_back_at = self.now + rng.uniform(1, 15)
        else:
            side.kafka_back_at = min(side.kafka_back_at, self.now)
        if self.now < side.wakes_at:
            return
        self.followers[number] = side  # type: ignore[call-overload]  # it reads what is released
        super()._poll(number)
        side.poll(rng)
        if number == 0 and int(self.now / TICK_S) % 25 == 0:
            self._fold()

    def _fold(self) -> None:
        new = [
            record
            for message in self.kafka.messages[self._folded :]
            for record in decode_message(message).metadata
        ]
        self._folded = len(self.kafka.messages)
        self.records += new
        self.fold.feed(new)
        if self.records:
            for side in self.sides:
                side.watcher.handle_view(self.fold.cluster, self.now_ms)


def play(seed: int, *, watchers: int) -> WatchedWorld:
    """Play one history, and check all that must hold at its end."""
    world = WatchedWorld(seed, watchers=watchers)
    world.quorum.elect(world.quorum.controllers[0])
    world.play(FAULTY_S, with_faults=True)
    world.quorum.heal()
    world.play(CALM_S, with_faults=False)
    world._fold()
    control = world.fold.state.control
    view = control.log.view
    assert control.source.end == world.quorum.committed_end, "not all is published"
    assert (view.errors, view.unreadable) == (0, 0)
    assert [each for each in world.fold.events if isinstance(each, Anomaly)] == []
    assert view.incomplete_since is view.divergent_since is None
    assert [each for each in world.fold.events if isinstance(each, Divergent)] == []
    expected = dict(each for _, _, records in truth(world.quorum) for each in records)
    epochs = {batch.offset: batch.epoch for batch in world.quorum.committed}
    for each in (each for each in world.records if isinstance(each, MetadataSlice)):
        held = {
            batch.offset_of(index): record
            for batch in each.batches
            for index, record in enumerate(batch.records)
        }
        within = range(each.first, each.last + 1)
        assert held == {offset: expected[offset] for offset in within if offset in expected}
        assert {epochs[offset] for offset in within if offset in epochs} <= {each.epoch}
    assert sum(side.watcher.leads for side in world.sides) == 1, "not one watcher writes"
    return world


@pytest.mark.parametrize(
    "seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.full) for seed in range(8, 60))]
)
def test_the_topic_holds_the_committed_log_whoever_dies(seed: int) -> None:
    """The fold ends with all that is committed and nothing else, complete, and one watcher writes."""
    play(seed, watchers=2 + seed % 2)


def test_the_histories_hold_what_they_are_for() -> None:
    """Watchers die, take over and repeat in them; most is written once."""
    worlds = [play(seed, watchers=2) for seed in range(4)]
    assert sum(world.kills for world in worlds) > 10
    writers = [len({each.watcher for each in world.records}) for world in worlds]
    assert min(writers) > 2
    slices = [each for world in worlds for each in world.records if isinstance(each, MetadataSlice)]
    distinct = {(each.first, each.last, each.epoch) for each in slices}
    assert len(slices) < 2 * len(distinct)
    assert min(world.fold.cluster.log.reconciliations for world in worlds) > 5
    assert [world.lingered > 10 for world in worlds] == [world.linger_ms > 0 for world in worlds]
