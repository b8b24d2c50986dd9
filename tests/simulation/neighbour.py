"""Other clusters of the same pipeline: one in the same partition of its topics, and one in another.

The rule: a neighbour's log is what a correct watcher writes, except for damage that it does itself,
by its own random numbers. Nothing of this may show in the fully simulated cluster, and once all is
quiet the neighbour's figures are correct, too.
"""

from __future__ import annotations

import contextlib
import json
import random
from typing import TYPE_CHECKING

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import Position, partition_of
from controller_model.records.changes import MAX_CHANGES_PER_MESSAGE, encode_change, join_changes
from controller_model.records.views import ClusterView, cluster_key, decode_view
from controller_model.sources.zookeeper.znode_kinds import published_data
from tests.simulation.topic import Topic
from tests.support.histories import Held, History
from tests.support.hostile import spoiled

if TYPE_CHECKING:
    from tests.simulation.world import World

NEIGHBOURS = ("near", "next")
"""By `partition_of`: one is in the partition of the fully simulated cluster, one in the other."""

PARTITIONS = 2
EVERY = 7
"""One seed out of so many has neighbours."""

LOST = 0.04
"""The share of its turns in which the neighbour that has a partition to itself loses records there."""

MAX_LOST = 8
"""How many records in the middle, or at the end, are lost at once."""

FORGOTTEN = 0.02
"""The share of its turns in which a neighbour is removed from the monitor."""

ANSWERED_INTERVAL_MS = 3_000
"""How often it sends a sign of life at rest: an answer, too, may be lost with the log's tail."""

HARM_BYTES = 10_000
_PAUSES_MS = (50, 200, 700, 2_000)
_TOPICS = ("a", "b", "c")
_BROKERS = 3


class Neighbour:
    """A cluster whose watcher writes into the topics of the world."""

    def __init__(self, world: World, cluster: str) -> None:
        self.world = world
        self.cluster = cluster
        self.partition = partition_of(cluster, PARTITIONS)
        self.is_quiet = False
        self._taken_out: list[tuple[int, int]] = []
        """Offset in the log and time of each removal."""
        self._rng = random.Random(f"{world.seed} {cluster}")  # noqa: S311  # a play, not a secret
        self._loses = random.Random(f"{world.seed} {cluster} loses")  # noqa: S311  # a play, not a secret
        self._forgets = random.Random(f"{world.seed} {cluster} is forgotten")  # noqa: S311  # a play, not a secret
        self._history = History(cluster=cluster, now=world.clock.now)
        self._sent = 0
        self._answered_at = 0
        for broker in range(_BROKERS):
            self._history.broker(broker, seen=False)
        self._history.elect(0, seen=False)
        self._history.resync()
        self._send()
        world.clock.after(self._rng.choice(_PAUSES_MS), self._act)

    @property
    def nodes(self) -> dict[str, Held]:
        """The content of its ZooKeeper, as far as the log shows it."""
        held = {}
        for path, znode in self._history.znodes.items():
            data = published_data(path, znode.data) if path.startswith("/config/") else znode.data
            held[path] = Held(**{**vars(znode), "data": data})
        return held

    @property
    def zxid(self) -> int:
        """The last zxid of its ZooKeeper."""
        return self._history.zxid

    @property
    def _log(self) -> Topic:
        return self.world.at((self.world.log.name, self.partition))

    def rest(self) -> None:
        """Stop changing, and read everything once, which repairs what was lost of the log."""
        self.is_quiet = True
        self._history.now = max(self._history.now, self.world.clock.now)
        self._history.resync()
        self._send()

    @property
    def forgotten_at(self) -> int:
        """When it was last removed by a null that the fold reads and the log still has: its counters begin no earlier."""
        nulls = {each.offset for each in self._log.records if each.value is None}
        return max((at for offset, at in self._taken_out if offset in nulls), default=0)

    @property
    def position(self) -> Position:
        """The last position of its log, including all that was lost."""
        return Position(self._history.generation, self._history.seq)

    def answer(self) -> None:
        """Send a sign of life at rest, which reveals losses, and read everything again if the fold asks for it."""
        if self.world.clock.now - self._answered_at < ANSWERED_INTERVAL_MS:
            return
        self._answered_at = self.world.clock.now
        records = self.world.at((self.world.views.name, self.partition)).records
        key = cluster_key(self.cluster).encode()
        value = next((record.value for record in reversed(records) if record.key == key), None)
        wanted = None
        with contextlib.suppress(UnreadableRecordError):  # another program may have written it
            view = decode_view(value or b"")
            wanted = view.resync_wanted if isinstance(view, ClusterView) else None
        if wanted is not None:
            self.rest()
        else:
            self._history.now = max(self._history.now, self.world.clock.now)
            self._history.heartbeat(after_ms=0)
            self._send()

    def go_on(self) -> None:
        """Continue after a rest."""
        self.is_quiet = False
        self.world.clock.after(self._rng.choice(_PAUSES_MS), self._act)

    def _act(self) -> None:
        if self.is_quiet:
            return
        rng, history = self._rng, self._history
        history.now = max(history.now, self.world.clock.now)
        for _ in range(rng.choice((1, 1, 3))):
            rng.choices(
                (self._change_topic, self._change_state, self._change_broker, self._beat),
                (2, 6, 1, 2),
            )[0]()
        if rng.random() < 0.05:
            history.new_generation(f"w{history.generation}")
            history.resync()
        self._send()
        if rng.random() < 0.1:
            self._spoil()
        if self._loses.random() < LOST and self.partition != self.world.partition:
            self._lose()
        if self._forgets.random() < FORGOTTEN:
            self._be_forgotten()
        self.world.clock.after(rng.choice(_PAUSES_MS), self._act)

    def _change_topic(self) -> None:
        history, topic = self._history, self._rng.choice(_TOPICS)
        if f"/brokers/topics/{topic}" in history.znodes:
            history.topic_gone(topic)
            return
        assignment = {
            p: self._rng.sample(range(_BROKERS), 2) for p in range(self._rng.randint(1, 3))
        }
        history.topic(topic, assignment)
        for partition, replicas in assignment.items():
            history.state(topic, partition, leader=replicas[0], isr=replicas)

    def _change_state(self) -> None:
        history, rng = self._history, self._rng
        states = [path for path in history.znodes if path.endswith("/state")]
        if states:
            _, _, _, topic, _, partition, _ = rng.choice(states).split("/")
            assigned = json.loads(history.znodes[f"/brokers/topics/{topic}"].data)["partitions"]
            isr = rng.sample(assigned[partition], rng.randint(1, 2))
            history.state(topic, int(partition), leader=isr[0], isr=isr)

    def _change_broker(self) -> None:
        history, broker = self._history, self._rng.randrange(_BROKERS)
        if f"/brokers/ids/{broker}" in history.znodes:
            history.broker_gone(broker)
        else:
            history.broker(broker)
        if history.controller_id is None:
            history.elect(self._rng.randrange(_BROKERS))

    def _beat(self) -> None:
        if self._rng.random() < 0.5:
            self._history.reconciled()
        else:
            self._history.heartbeat(after_ms=0)

    def _send(self) -> None:
        changes = self._history.changes[self._sent :]
        self._sent = len(self._history.changes)
        for first in range(0, len(changes), MAX_CHANGES_PER_MESSAGE):
            message = join_changes(
                map(encode_change, changes[first : first + MAX_CHANGES_PER_MESSAGE])
            )
            self._append(message)

    def _spoil(self) -> None:
        """Lose a message, write one twice, or write a harmful one."""
        rng, log = self._rng, self._log
        own = [record for record in log.records if record.key == self.cluster.encode()]
        kind = rng.choice(("lost", "twice", "hostile", "foreign", "astray"))
        if kind == "lost":
            self._history.heartbeat(after_ms=0)
            self._sent = len(self._history.changes)
        elif own and kind == "twice":
            self._append(rng.choice(own).value or b"")
        elif kind == "foreign":
            foreign = History(
                cluster="prod", generation=9_999, now=self._history.now
            ).start_resync()
            self._append(join_changes([encode_change(foreign)]))
        elif own and kind == "astray":
            place = (self.world.log.name, 1 - self.partition)
            stray = History(cluster=self.cluster, generation=9_999, now=self._history.now)
            message = join_changes([encode_change(stray.start_resync())])
            self.world.at(place).append(self.world.clock.now, self.cluster.encode(), message)
        elif own:
            harms = [h for h in spoiled(own[-1].value or b"{}").values() if len(h) < HARM_BYTES]
            self._append(rng.choice(harms))

    def _lose(self) -> None:
        """Lose records of the other partition, which only this neighbour uses, folded or not."""
        rng, log, fold = self._loses, self._log, self.world.fold
        views = self.world.at((self.world.views.name, self.partition))
        most = rng.randint(1, MAX_LOST)
        kind = rng.choice(
            ("head lost", "stretch lost", "tail lost", "views compacted", "head of the views lost")
        )
        match kind:
            case "head lost":
                log.lose(0, rng.randint(log.low, log.end))
            case "stretch lost":
                log.lose(fold.committed.beside, fold.committed.beside + most)
            case "tail lost":
                log.cut(max(log.low, log.end - most))
                if fold.committed.beside > log.end:
                    fold.begin_lineage()
            case "views compacted":
                views.compact(rng.randint(views.start, views.end))
            case _:
                views.lose(0, rng.randint(views.low, views.end))
                self.world.exporter.plan()
        self.world.hit(f"other partition: {kind}")

    def _be_forgotten(self) -> None:
        """Be removed as `kcm forget` does it, and be watched again from then on."""
        views = self.world.at((self.world.views.name, self.partition))
        values = {record.key: record.value for record in views.records}
        own = cluster_key(self.cluster).encode()
        begins = f"{self.cluster}/".encode()
        # A log that has lost its end may give the null an offset that the fold has read already: then nobody reads it.
        if self.world.fold.committed.beside <= self._log.end:
            self._taken_out.append((self._log.end, self._history.now))
        self._append(None)
        for key in sorted(values, key=lambda key: (key != own, key)):
            if key.startswith(begins) and values[key] is not None:
                views.append(self.world.clock.now, key, None)
        self.world.hit("a cluster is forgotten")
        self._history.new_generation(f"w{self._history.generation}")
        self._history.resync()
        self._send()

    def _append(self, message: bytes | None) -> None:
        self._log.append(self.world.clock.now, self.cluster.encode(), message)
