"""Write a cluster's log as ZooKeeper and Kafka's controller would cause it, for tests of the fold.

The rule: `History` holds the tree as ZooKeeper would (zxids, versions, czxids) and appends to
`changes` exactly what a watcher would publish. A change that the watcher missed is written with
`seen=False`; a resync or a reconciliation then finds it. `Fold` applies changes and keeps the
events.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from bench.map_state import TopicsInMemory
from controller_model.fold.projection import SentViews, project
from controller_model.fold.replay import EventBatch
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import (
    ChangeKind,
    SessionState,
    ZnodeChange,
    data_fields,
    digest_text,
    encode_change,
    join_changes,
    znode_digest,
)
from controller_model.records.election_requests import ElectionRequest
from controller_model.records.events import (
    AnyEvent,
    IncidentClosed,
    IncidentOpened,
    RecommendationGraded,
    RecommendationMade,
)
from controller_model.records.views import AnyView, BrokerView, ClusterView, Counts
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state import figures
from controller_model.state.cluster import ClusterState, MemoryTopicStore, TopicStore
from controller_model.state.contribution import Contribution
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.packing import pack_control, pack_members, unpack_control
from streaming.state_codec import StateTopics
from streaming.topic_journal import JournalLimits

TICK_MS = 10
"""Time between two steps of a history, on all clocks."""

LIMITS = JournalLimits(piece_partitions=2)
"""Size of the fold's journal: histories are small, but must also hold wide topics."""

_StructT = TypeVar("_StructT", bound=msgspec.Struct)
_EventT = TypeVar("_EventT")


def encode_changes(changes: Iterable[ZnodeChange]) -> bytes:
    """Return one message of the log, as the watcher writes it."""
    return join_changes(map(encode_change, changes))


@dataclass
class Held:
    """A znode in ZooKeeper."""

    data: bytes
    czxid: int
    mzxid: int
    version: int
    ctime: int
    mtime: int
    ephemeral_owner: int = 0


def state_path(topic: str, partition: int) -> str:
    """Return the path of a partition's state."""
    return f"/brokers/topics/{topic}/partitions/{partition}/state"


def payload(content: Any) -> bytes:
    """Return a znode's bytes: text and bytes unchanged, anything else as JSON."""
    if isinstance(content, bytes):
        return content
    return content.encode() if isinstance(content, str) else json.dumps(content).encode()


@dataclass
class History:
    """A cluster's ZooKeeper, and the log that a watcher writes of it."""

    cluster: str = "prod"
    watcher: str = "w1"
    generation: int = 1
    seq: int = 0
    now: int = 1_000_000
    zxid: int = 100
    znodes: dict[str, Held] = field(default_factory=dict)
    changes: list[ZnodeChange] = field(default_factory=list)
    published: dict[str, int] = field(default_factory=dict)
    """The znodes that the watcher has reported as existing: mzxid by path."""
    epoch: int = 0
    _transaction: bool = False
    _resync: int = 0

    # --- ZooKeeper ------------------------------------------------------------------------

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Give all writes inside one zxid."""
        self._next_zxid()
        self._transaction = True
        try:
            yield
        finally:
            self._transaction = False

    def _next_zxid(self) -> int:
        if not self._transaction:
            self.zxid += 1
            self.now += TICK_MS
        return self.zxid

    def set(
        self, path: str, content: Any, *, seen: bool = True, ephemeral_owner: int | None = None
    ) -> ZnodeChange | None:
        """Create or change a znode; /controller is of its broker's session, others are persistent, unless an owner is given."""
        zxid = self._next_zxid()
        if ephemeral_owner is None:
            is_held = path == "/controller" and isinstance(content, dict)
            ephemeral_owner = content["brokerid"] + 1 if is_held else 0
        old = self.znodes.get(path)
        if old is None:
            self.znodes[path] = Held(
                payload(content), zxid, zxid, 0, self.now, self.now, ephemeral_owner
            )
        else:
            old.data, old.mzxid, old.mtime = payload(content), zxid, self.now
            old.version += 1
        return self.report(path) if seen else None

    def delete(self, path: str, *, seen: bool = True) -> ZnodeChange | None:
        """Delete a znode."""
        self._next_zxid()
        del self.znodes[path]
        return self.report(path) if seen else None

    # --- the watcher ----------------------------------------------------------------------

    def report(self, path: str) -> ZnodeChange:
        """Publish what ZooKeeper holds at this path now."""
        znode = self.znodes.get(path)
        if znode is None:
            self.published.pop(path, None)
            return self.record(ChangeKind.DELETED, path=path, read_zxid=self.zxid)
        self.published[path] = znode.mzxid
        return self.record(
            ChangeKind.SET,
            path=path,
            czxid=znode.czxid,
            mzxid=znode.mzxid,
            version=znode.version,
            ctime=znode.ctime,
            mtime=znode.mtime,
            ephemeral_owner=znode.ephemeral_owner,
            read_zxid=self.zxid,
            **data_fields(znode.data),
        )

    def record(self, kind: ChangeKind, **fields: Any) -> ZnodeChange:
        """Append any record to the log."""
        self.seq += 1
        change = ZnodeChange(
            v=1,
            cluster=self.cluster,
            generation=self.generation,
            watcher=self.watcher,
            seq=self.seq,
            kind=kind,
            observed_at=self.now + 1,
            **fields,
        )
        self.changes.append(change)
        return change

    def start_resync(self, **fields: Any) -> ZnodeChange:
        """Start a resync; the watcher counts from zero."""
        self._resync += 1
        self.published = {}
        return self.record(ChangeKind.RESYNC_STARTED, resync=self._resync, **fields)

    def finish_resync(self, **fields: Any) -> ZnodeChange:
        """End a resync with the correct count and digest, unless others are given."""
        return self.record(
            ChangeKind.RESYNC_FINISHED, **{"resync": self._resync, **self._proof(), **fields}
        )

    def resync(self, **fields: Any) -> None:
        """Report the whole tree between its two marks."""
        self.start_resync(**fields)
        for path in self.znodes:
            self.report(path)
        self.finish_resync()

    def reconciled(self, **fields: Any) -> ZnodeChange:
        """End a reconciliation."""
        return self.record(ChangeKind.RECONCILED, **{**self._proof(), **fields})

    def heartbeat(self, *, after_ms: int = 10_000, **fields: Any) -> ZnodeChange:
        """Let time pass and report that the watcher is alive."""
        self.now += after_ms
        return self.record(ChangeKind.HEARTBEAT, **{"session": SessionState.CONNECTED, **fields})

    def new_generation(self, watcher: str) -> None:
        """Let another watcher take over; it must start with a resync."""
        self.generation += 1
        self.watcher = watcher
        self.seq = 0

    def _proof(self) -> dict[str, Any]:
        digest = 0
        for path, mzxid in self.published.items():
            digest ^= znode_digest(path, mzxid)
        return {"znodes": len(self.published), "digest": digest_text(digest)}

    # --- Kafka ----------------------------------------------------------------------------

    def broker(self, broker: int, *, rack: str | None = None, seen: bool = True) -> None:
        """Register a broker."""
        content = {
            "version": 5,
            "host": f"b{broker}",
            "port": 9092,
            "endpoints": [f"PLAINTEXT://b{broker}:9092"],
            "jmx_port": -1,
            "timestamp": str(self.now),
            "features": {},
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            **({"rack": rack} if rack else {}),
        }
        self.set(f"/brokers/ids/{broker}", content, seen=seen, ephemeral_owner=broker + 1)

    def broker_gone(self, broker: int, *, seen: bool = True) -> None:
        """End a broker's session, and delete /controller if the broker holds it."""
        with self.transaction():
            if self.controller_id == broker:
                self.delete("/controller", seen=seen)
            self.delete(f"/brokers/ids/{broker}", seen=seen)

    @property
    def controller_id(self) -> int | None:
        """The holder of /controller."""
        held = self.znodes.get("/controller")
        return None if held is None else int(json.loads(held.data)["brokerid"])

    def elect(self, broker: int, *, seen: bool = True, epoch_seen: bool = True) -> None:
        """Make a broker take /controller, as Kafka does since 2.1: with the epoch, in one zxid."""
        self.epoch += 1
        with self.transaction():
            self.set("/controller", controller_payload(broker), seen=seen)
            self.set("/controller_epoch", str(self.epoch), seen=seen and epoch_seen)

    def topic(
        self,
        topic: str,
        partitions: Mapping[int, Sequence[int]],
        *,
        adding: Mapping[int, Sequence[int]] | None = None,
        removing: Mapping[int, Sequence[int]] | None = None,
        seen: bool = True,
    ) -> None:
        """Write a topic's assignment."""
        content = {
            "version": 3,
            "topic_id": "AAAAAAAAAAAAAAAAAAAAAA",
            "partitions": {str(p): list(replicas) for p, replicas in partitions.items()},
            "adding_replicas": {str(p): list(r) for p, r in (adding or {}).items()},
            "removing_replicas": {str(p): list(r) for p, r in (removing or {}).items()},
        }
        self.set(f"/brokers/topics/{topic}", content, seen=seen)

    def state(
        self,
        topic: str,
        partition: int,
        *,
        leader: int,
        isr: Sequence[int],
        leader_epoch: int = 0,
        controller_epoch: int | None = None,
        recovery: int = 0,
        seen: bool = True,
    ) -> None:
        """Write a partition's state."""
        content = {
            "controller_epoch": self.epoch if controller_epoch is None else controller_epoch,
            "leader": leader,
            "version": 1,
            "leader_epoch": leader_epoch,
            "isr": list(isr),
            "leader_recovery_state": recovery,
        }
        self.set(state_path(topic, partition), content, seen=seen)

    def topic_gone(self, topic: str, *, seen: bool = True) -> None:
        """Delete a topic's states and then its znode."""
        below = [p for p in self.znodes if p.startswith(f"/brokers/topics/{topic}/")]
        for path in [*below, f"/brokers/topics/{topic}"]:
            self.delete(path, seen=seen)


def controller_payload(broker: int, *, kraft_epoch: int = -1) -> dict[str, Any]:
    """Return what Kafka 3.9 writes to /controller."""
    return {
        "version": 2,
        "brokerid": broker,
        "timestamp": "1795250695635",
        "kraftControllerEpoch": kraft_epoch,
    }


def small_cluster(**partitions: Mapping[int, Sequence[int]]) -> History:
    """Return three brokers, controller 0, the given topics led as preferred, and a baseline.

    Without topics: "t" with two partitions of three replicas.
    """
    history = History()
    for broker in range(3):
        history.broker(broker, seen=False)
    history.elect(0, seen=False)
    for topic, assignment in (partitions or {"t": {0: (0, 1, 2), 1: (1, 2, 0)}}).items():
        history.topic(topic, assignment, seen=False)
        for partition, replicas in assignment.items():
            history.state(topic, partition, leader=replicas[0], isr=replicas, seen=False)
    history.resync()
    return history


def election_request(
    topic: str, *partitions: int, cluster: str = "prod", holds_ms: int = 60_000
) -> ElectionRequest:
    """Return the record that `kcm elect` writes before it requests these elections."""
    asked = tuple((topic, partition) for partition in partitions)
    return ElectionRequest(
        v=1,
        cluster=cluster,
        kind="election_requested",
        partitions=asked,
        requested_at=1,
        holds_ms=holds_ms,
    )


OF_ACCOUNTS = (IncidentOpened, IncidentClosed, RecommendationMade, RecommendationGraded)
"""Events that summarise others."""


class Fold:
    """A fold of one cluster, and what it has reported."""

    def __init__(self, *, packed: bool = False, min_isr: int = 1, cluster: str = "prod") -> None:
        self._packed = TopicsInMemory(LIMITS)
        store: TopicStore = self._packed.batch() if packed else MemoryTopicStore()
        control = ControlPlane(
            cluster, assumed=Assumed(min_insync_replicas=min_isr), counters_since=1
        )
        self.state = ClusterState(control, store, ZOOKEEPER)
        self.events: list[AnyEvent] = []
        self.accounts: list[AnyEvent] = []
        """The events about incidents and recommendations."""
        self.sent = SentViews()
        self.forgotten: list[str] = []
        """The keys that the last projection wrote tombstones for."""
        self._read = 0

    def feed(self, records: Iterable[ZnodeChange | ElectionRequest]) -> list[AnyEvent]:
        """Apply records as one batch; return the events, without those of the accounts."""
        self._pack_topics()
        batch = EventBatch(self.state)
        for record in records:
            if isinstance(record, ElectionRequest):
                batch.store_request(record)
            else:
                batch.apply(record)
        assert batch.errors == 0, batch.finish()
        both = batch.finish()
        self.accounts += [event for event in both if isinstance(event, OF_ACCOUNTS)]
        reported: list[AnyEvent] = [e for e in both if not isinstance(e, OF_ACCOUNTS)]
        self.events += reported
        return reported

    def follow(self, history: History) -> list[AnyEvent]:
        """Apply what is new in a history's log."""
        news = history.changes[self._read :]
        self._read = len(history.changes)
        return self.feed(news)

    def restart(self) -> None:
        """Publish, pack everything and continue from the bytes, as after a restart from a checkpoint."""
        self.views()
        control = repacked(self.state.control)
        held, self._packed = self.state.topics, TopicsInMemory(LIMITS)
        store = self._packed.batch()
        for name in held.names():
            topic = held.get(name)
            assert topic is not None
            store.put(topic)
        self.state = ClusterState(control, store, ZOOKEEPER)
        self._pack_topics()
        self.sent = SentViews()

    def _pack_topics(self) -> None:
        """Continue from topics as bytes, as each batch of the fold does, where they are kept so."""
        if isinstance(self.state.topics, StateTopics):
            self.state.topics.flush()
            self.state.topics = self._packed.batch()

    def counts(self) -> Counts:
        """Return the cluster's figures."""
        return figures.counts(self.state.control)

    def views(self, *, folded_at: int = 0) -> dict[str, AnyView]:
        """Return the changed views, in order; the cluster's is the last."""
        place = AsOf("l", *self.state.control.log.position)
        projected = list(project(self.state, as_of=place, folded_at=folded_at, sent=self.sent))
        self.state.control.touched.clear()
        self.forgotten = [key for key, view, _ in projected if view is None]
        return {key: view for key, view, _ in projected if view is not None}

    def cluster_view(self) -> Any:
        """Return the cluster's view; its type would demand of each test that asks for a part that it is known."""
        view = self.views()["prod/cluster"]
        assert isinstance(view, ClusterView)
        return view

    def broker_view(self, broker: int) -> Any:
        """Return a broker's view, whether it was sent before or not; its type as for `cluster_view`."""
        self.sent = SentViews()
        view = self.views()[f"prod/broker/{broker}"]
        assert isinstance(view, BrokerView)
        return view

    def facts(self) -> dict[str, Any]:
        """Return the current facts, without counters, marks and clocks."""
        control = self.state.control
        topics = {
            name: (
                {
                    p: (r.replicas, r.leader, r.isr, r.leader_epoch, r.controller_epoch)
                    for p, r in sorted(topic.partitions.items())
                },
                topic.adding,
                topic.removing,
                topic.min_isr,
            )
            for name in sorted(control_names(self.state))
            if (topic := self.state.topics.get(name)) is not None
        }
        return {
            "counts": self.counts(),
            "topics": topics,
            "live": sorted(control.live_brokers),
            "controller": (control.controller.view.id, control.controller.view.epoch),
            "deleting": sorted(control.deleting),
            "held": (control.log.view.znodes, control.source.digest),
        }


def begun(**topics: Mapping[int, Sequence[int]]) -> tuple[History, Fold]:
    """Return a small cluster and a fold that has read it."""
    history, fold = small_cluster(**topics), Fold()
    fold.follow(history)
    return history, fold


def count_from_scratch(state: ClusterState) -> Contribution:
    """Return the totals by brute force: each topic held is added to an empty cluster."""
    empty = ControlPlane("prod", assumed=Assumed(), counters_since=0)
    empty.deleting = state.control.deleting
    empty.counted_epoch = state.control.counted_epoch
    counted = ClusterState(empty, MemoryTopicStore(), ZOOKEEPER)
    for name in state.topics.names():
        counted.put_topic(state.topic(name))
    return empty.totals


def repacked(control: ControlPlane) -> ControlPlane:
    """Return a control plane as a new worker reads it."""
    packed = pack_control(control)
    groups = pack_members(control, control.totals.members)
    unpacked = unpack_control(packed, [group for _, group in groups if group is not None])
    ZOOKEEPER.adopt(unpacked)
    return unpacked


def control_names(state: ClusterState) -> list[str]:
    """Return the names of all topics that the fold holds."""
    return list(state.topics.names())


def only(events: Iterable[AnyEvent], kind: type[_EventT]) -> _EventT:
    """Return the one event of a kind; fails when there is none or more than one."""
    found = [event for event in events if isinstance(event, kind)]
    assert len(found) == 1, f"{len(found)} of {kind.__name__} in {list(events)}"
    return found[0]


def kinds(events: Iterable[AnyEvent]) -> list[str]:
    """Return the kinds of events, in order."""
    return [type(event).__name__ for event in events]


def replaced(record: _StructT, **fields: Any) -> _StructT:
    """Return a record with other values in some fields."""
    return msgspec.structs.replace(record, **fields)
