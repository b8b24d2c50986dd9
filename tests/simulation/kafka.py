"""A Kafka cluster that writes its metadata as Kafka 3.9 does: plausible, small, busy.

The rule: every act is one of a controller, a broker or a tool, and leaves the tree in a state in
which Kafka could leave it. The seed decides which act comes next.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping
from typing import Any

from controller_model.sources.zookeeper.znode_kinds import is_published
from tests.simulation.zookeeper import Ensemble
from tests.support.histories import controller_payload, payload, state_path

BROKERS = 4
TOPICS = ("a", "b", "c", "d")
MAX_PARTITIONS = 3
_OF_CONTROLLER = ("/controller", "/controller_epoch")
DAMAGES = (b"\xff\xfe", b"{", b"[" * 3_000, b'{"version": "NaN"}')
"""Bytes that are not a payload of any znode."""

_ROOTS = (
    "/brokers",
    "/brokers/ids",
    "/brokers/topics",
    "/admin",
    "/admin/delete_topics",
    "/cluster",
    "/config",
    "/config/topics",
    "/config/brokers",
    "/config/changes",
    "/isr_change_notification",
    "/log_dir_event_notification",
)


class KafkaCluster:
    """Writes Kafka's metadata to an ensemble."""

    def __init__(self, zk: Ensemble, rng: random.Random) -> None:
        self.zk = zk
        self.rng = rng
        self._sequence = 0
        self._good: dict[str, bytes] = {}
        """The payloads under damaged ones, current or earlier: a backup may bring the damage back."""
        self._damaged: set[tuple[str, int]] = set()
        """Paths and mzxids of unreadable payloads."""
        self._acts: list[tuple[int, Callable[[], None]]] = [
            (4, self.create_topic),
            (4, self.delete_topic),
            (3, self.broker_down),
            (5, self.broker_up),
            (2, self.elect),
            (10, self.shrink_or_expand),
            (5, self.move_leader),
            (3, self.reassign),
            (2, self.preferred_election),
            (2, self.notify_isr),
            (2, self.configure),
            (1, self.elect_in_a_row),
        ]

    def found(self, cluster_id: str) -> None:
        """Create the first brokers, a controller and some topics."""
        for path in _ROOTS:
            self.zk.write((path, b""))
        self._put("/cluster/id", {"version": "1", "id": cluster_id})
        self.zk.write(("/controller_epoch", b"1"))
        for broker in range(BROKERS):
            self._register(broker)
        self.elect()
        for _ in range(3):
            self.create_topic()

    def act(self) -> None:
        """Do one act."""
        weights = [weight for weight, _ in self._acts]
        self.rng.choices([act for _, act in self._acts], weights)[0]()

    # --- what is there ----------------------------------------------------------------------

    def live(self) -> list[int]:
        """Return the registered brokers."""
        return [int(name) for name in self.zk.names("/brokers/ids")]

    def controller(self) -> int | None:
        """Return the holder of /controller."""
        if not self.zk.exists("/controller"):
            return None
        return int(self._load("/controller")["brokerid"])

    def epoch(self) -> int:
        """Return the controller epoch."""
        return int(self._data("/controller_epoch"))

    def _topics(self) -> list[str]:
        """Return the topics that change."""
        return [name for name in self.zk.names("/brokers/topics") if name in TOPICS]

    def _states(self) -> list[tuple[str, int]]:
        return [
            (topic, int(partition))
            for topic in self._topics()
            for partition in self.zk.names(f"/brokers/topics/{topic}/partitions")
            if self.zk.exists(state_path(topic, int(partition)))
        ]

    def _load(self, path: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads(self._data(path))
        return loaded

    def _data(self, path: str) -> bytes:
        """Return a payload, or the one before it was damaged."""
        data = self.zk.data(path)
        good = self._good.get(path)
        return data if good is None or data not in DAMAGES else good

    def _put(self, path: str, content: Any, owner: int = 0) -> None:
        self.zk.write((path, payload(content)), owner=owner)

    # --- what should not happen -------------------------------------------------------------

    def damage(self) -> str | None:
        """Write an unreadable payload into a znode; return its path."""
        paths = [
            path for path in self.zk.tree.nodes if is_published(path) and path != "/cluster/id"
        ]
        controller = [path for path in paths if path.startswith("/controller")]
        path = self.rng.choice(controller if controller and self.rng.random() < 0.6 else paths)
        data = self._data(path)
        if not data:
            return None
        self._good[path] = data
        self.zk.write((path, self.rng.choice(DAMAGES)))
        self._damaged.add((path, self.zk.zxid))
        return path

    def repair(self) -> None:
        """Restore the payloads under the damaged ones, where nothing was written since."""
        for path, data in self._good.items():
            if self.zk.exists(path) and self.zk.data(path) in DAMAGES:
                self.zk.write((path, data))

    @property
    def was_controller_damaged(self) -> bool:
        """Whether the controller or its epoch was unreadable at any time."""
        return any(path in _OF_CONTROLLER for path, _ in self._damaged)

    def was_damaged(self, path: str) -> bool:
        """Return whether a znode was unreadable at any time."""
        return any(damaged == path for damaged, _ in self._damaged)

    def is_damaged_controller(self, held: Mapping[str, int]) -> bool:
        """Return whether the controller or its epoch is unreadable in these znodes."""
        return any((path, held.get(path)) in self._damaged for path in _OF_CONTROLLER)

    def crowd(self, topics: int) -> list[str]:
        """Create this number of topics without partitions; return their paths."""
        content = {"version": 3, "partitions": {}, "adding_replicas": {}, "removing_replicas": {}}
        paths = [f"/brokers/topics/crowd-{number:03d}" for number in range(topics)]
        for path in paths:
            if not self.zk.exists(path):
                self._put(path, content)
        return paths

    # --- acts -------------------------------------------------------------------------------

    def create_topic(self) -> None:
        """Create a topic: its configuration, its assignment, its partitions' states."""
        there = self.zk.names("/brokers/topics")
        free = [name for name in TOPICS if name not in there]
        live = self.live()
        if not free or not live:
            return
        name = self.rng.choice(free)
        self._put(f"/config/topics/{name}", {"version": 1, "config": {}})
        partitions = {
            str(p): self.rng.sample(range(BROKERS), self.rng.randint(1, 3))
            for p in range(self.rng.randint(1, MAX_PARTITIONS))
        }
        self._sequence += 1
        self._put(
            f"/brokers/topics/{name}",
            {
                "version": 3,
                "topic_id": f"{self._sequence:022d}",
                "partitions": partitions,
                "adding_replicas": {},
                "removing_replicas": {},
            },
        )
        self.zk.write((f"/brokers/topics/{name}/partitions", b""))
        for partition, replicas in partitions.items():
            isr = [broker for broker in replicas if broker in live] or replicas[:1]
            self.zk.write((f"/brokers/topics/{name}/partitions/{partition}", b""))
            self._write_state(name, int(partition), leader=isr[0], isr=isr, leader_epoch=0)

    def delete_topic(self) -> None:
        """Request a topic's deletion, or finish one."""
        asked = self.zk.names("/admin/delete_topics")
        there = self._topics()
        if not asked:
            if there:
                self.zk.write((f"/admin/delete_topics/{self.rng.choice(there)}", b""))
            return
        name = asked[0]
        root = f"/brokers/topics/{name}"
        below = [path for path in self.zk.tree.nodes if path.startswith(f"{root}/")]
        for path in sorted(below, key=len, reverse=True):
            self.zk.write((path, None))
        for path in (root, f"/config/topics/{name}", f"/admin/delete_topics/{name}"):
            if self.zk.exists(path):
                self.zk.write((path, None))

    def broker_down(self) -> None:
        """End a broker's session; the controller moves its leaderships."""
        live = self.live()
        if len(live) < 2:
            return
        broker = self.rng.choice(live)
        gone = [(f"/brokers/ids/{broker}", None)]
        if self.controller() == broker:
            gone.append(("/controller", None))
        self.zk.write(*gone)
        if len(gone) > 1 and self.rng.random() < 0.8:
            self.elect()
        if self.rng.random() < 0.8:
            self._fail_over(broker)

    def _fail_over(self, broker: int) -> None:
        live = self.live()
        for topic, partition in self._states():
            held = self._load(state_path(topic, partition))
            if held["leader"] != broker and broker not in held["isr"]:
                continue
            isr = [b for b in held["isr"] if b in live]
            self._write_state(
                topic,
                partition,
                leader=(isr[0] if isr else -1) if held["leader"] == broker else held["leader"],
                isr=isr or held["isr"],
                leader_epoch=held["leader_epoch"] + 1,
            )

    def broker_up(self) -> None:
        """Register a broker, or restart a live one."""
        live = self.live()
        dead = [broker for broker in range(BROKERS) if broker not in live]
        if dead:
            self._register(self.rng.choice(dead))
        elif self.rng.random() < 0.3:
            broker = self.rng.choice(live)
            if broker != self.controller():
                self.zk.write((f"/brokers/ids/{broker}", None))
                self._register(broker)
        if self.controller() is None:
            self.elect()

    def _register(self, broker: int) -> None:
        self._sequence += 1
        content = {
            "version": 5,
            "host": f"b{broker}",
            "port": 9092,
            "endpoints": [f"PLAINTEXT://b{broker}:9092"],
            "jmx_port": -1,
            "timestamp": "1",
            "features": {},
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        }
        self._put(f"/brokers/ids/{broker}", content, owner=self._sequence)

    def elect(self) -> None:
        """Give /controller to a live broker, with the next epoch, in one transaction."""
        live = self.live()
        if not live:
            return
        if self.controller() is not None:
            self.zk.write(("/controller", None))
        broker = self.rng.choice(live)
        holder = payload(controller_payload(broker))
        epoch = payload(str(self.epoch() + 1))
        session = self.zk.tree.nodes[f"/brokers/ids/{broker}"].ephemeral_owner
        self.zk.write(("/controller", holder), ("/controller_epoch", epoch), owner=session)

    def elect_in_a_row(self) -> None:
        """Run several elections directly one after another."""
        for _ in range(self.rng.randint(2, 4)):
            self.elect()

    def shrink_or_expand(self) -> None:
        """Remove a follower from an ISR, or add it again."""
        states = self._states()
        if not states:
            return
        topic, partition = self.rng.choice(states)
        held = self._load(state_path(topic, partition))
        replicas = self._replicas(topic, partition)
        outside = [b for b in replicas if b not in held["isr"] and b in self.live()]
        followers = [b for b in held["isr"] if b != held["leader"]]
        isr = list(held["isr"])
        if outside and self.rng.random() < 0.6:
            isr.append(self.rng.choice(outside))
        elif followers:
            isr.remove(self.rng.choice(followers))
        self._write_state(
            topic, partition, leader=held["leader"], isr=isr, leader_epoch=held["leader_epoch"]
        )

    def move_leader(self) -> None:
        """Elect another leader for a partition."""
        states = self._states()
        if not states:
            return
        topic, partition = self.rng.choice(states)
        held = self._load(state_path(topic, partition))
        live = [broker for broker in held["isr"] if broker in self.live()]
        self._lead(topic, partition, held, self.rng.choice(live) if live else -1)

    def lead_by_others(self) -> None:
        """Make a replica other than the preferred one lead, wherever one is in sync."""
        for topic, partition in self._states():
            held = self._load(state_path(topic, partition))
            replicas = self._replicas(topic, partition)
            others = [b for b in held["isr"] if b != replicas[0] and b in self.live()]
            if others:
                self._lead(topic, partition, held, others[0])

    def is_led_by_preferred(self, topic: str, partition: int) -> bool:
        """Return whether the preferred replica leads."""
        held = self._load(state_path(topic, partition))
        replicas = self._replicas(topic, partition)
        return bool(held["leader"] == replicas[0])

    def elect_preferred(self, topic: str, partition: int) -> None:
        """Make the preferred replica lead, if it can."""
        held = self._load(state_path(topic, partition))
        preferred = self._replicas(topic, partition)[0]
        if held["leader"] != preferred and preferred in held["isr"] and preferred in self.live():
            self._lead(topic, partition, held, preferred)

    def _lead(self, topic: str, partition: int, held: Any, leader: int) -> None:
        """Write another leader, under the next leader epoch."""
        epoch = held["leader_epoch"] + 1
        self._write_state(topic, partition, leader=leader, isr=held["isr"], leader_epoch=epoch)

    def _replicas(self, topic: str, partition: int) -> list[int]:
        replicas: list[int] = self._load(f"/brokers/topics/{topic}")["partitions"][str(partition)]
        return replicas

    def reassign(self) -> None:
        """Start or finish a reassignment, as the admin API does since 2.4."""
        topics = self._topics()
        if not topics:
            return
        path = f"/brokers/topics/{self.rng.choice(topics)}"
        content = self._load(path)
        partition = self.rng.choice(sorted(content["partitions"]))
        replicas = content["partitions"][partition]
        adding = content["adding_replicas"].pop(partition, None)
        free = [broker for broker in range(BROKERS) if broker not in replicas]
        if adding is None and free:
            new = self.rng.choice(free)
            content["adding_replicas"][partition] = [new]
            content["partitions"][partition] = [*replicas, new]
        self._put(path, content)

    def preferred_election(self) -> None:
        """Request a preferred election with the legacy tool, or complete one."""
        path = "/admin/preferred_replica_election"
        if self.zk.exists(path):
            self.zk.write((path, None))
        else:
            self._put(path, {"version": 1, "partitions": []})

    def notify_isr(self) -> None:
        """Write an ISR notification, or clear all."""
        root = "/isr_change_notification"
        names = self.zk.names(root)
        if names:
            for name in names:
                self.zk.write((f"{root}/{name}", None))
            return
        self._sequence += 1
        self._put(f"{root}/isr_change_{self._sequence:010d}", {"version": 1, "partitions": []})

    def configure(self) -> None:
        """Set min.insync.replicas of a topic or of a broker."""
        topics = self.zk.names("/config/topics")
        if topics and self.rng.random() < 0.7:
            path = f"/config/topics/{self.rng.choice(topics)}"
        else:
            path = f"/config/brokers/{self.rng.randrange(BROKERS)}"
        config = {"min.insync.replicas": str(self.rng.randint(1, 3))}
        self._put(path, {"version": 1, "config": config})

    def _write_state(
        self, topic: str, partition: int, *, leader: int, isr: list[int], leader_epoch: int
    ) -> None:
        content = {
            "controller_epoch": self.epoch(),
            "leader": leader,
            "version": 1,
            "leader_epoch": leader_epoch,
            "isr": isr,
            "leader_recovery_state": 0,
        }
        self._put(state_path(topic, partition), content)
