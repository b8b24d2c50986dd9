"""A small KRaft cluster in memory: operations go in, the metadata log that Kafka would write comes out.

It is the truth that views are compared with, and shares no code with the fold: it changes its own tables by Kafka's
rules (ReplicationControlManager, PartitionChangeBuilder, ClusterControlManager of 3.9 and 4.1) and writes what differs as
records. Times are the cluster's; the active controller writes a no-op every half second.
"""

from __future__ import annotations

import base64
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import msgspec

from controller_model.fold.projection import SentViews, project
from controller_model.fold.replay import EventBatch
from controller_model.kafka import metadata_records as kafka
from controller_model.kafka.ids import AsOf
from controller_model.records.events import AnyEvent
from controller_model.records.metadata_log import (
    METADATA_LOG_VERSION,
    NO_EPOCH,
    AnyMetadataRecord,
    MetadataBatch,
    MetadataHeartbeat,
    MetadataSlice,
    SnapshotFinished,
    SnapshotPart,
    SnapshotStarted,
)
from controller_model.sources.kraft.source import KRAFT
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.packing import pack_control, pack_members, unpack_control

IDLE_MS = 500
START_MS = 1_700_000_000_000


def uuid(number: int) -> str:
    """Return an id as Kafka prints it."""
    return base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")


UNASSIGNED, LOST = uuid(1), uuid(2)
"""Directories of replicas that were not placed yet, and that a broker has lost (DirectoryId)."""


def dirs_of(broker: int) -> tuple[str, str]:
    """Return the log directories of a broker."""
    return uuid(100 * broker + 1), uuid(100 * broker + 2)


@dataclasses.dataclass
class Broker:
    """A registration, by Kafka's rules."""

    epoch: int
    fenced: bool = True
    stopping: bool = False
    online_dirs: tuple[str, ...] = ()

    @property
    def is_active(self) -> bool:
        """Whether it may lead."""
        return not self.fenced and not self.stopping


@dataclasses.dataclass(frozen=True)
class Part:
    """A partition as a PartitionRegistration holds it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()
    recovery: int = 0
    elr: tuple[int, ...] = ()
    last_known: tuple[int, ...] = ()
    dirs: tuple[str, ...] = ()
    """The log directory of each replica."""

    def dir_of(self, broker: int) -> str:
        """Return the directory of a replica."""
        return dict(zip(self.replicas, self.dirs, strict=True)).get(broker, UNASSIGNED)


@dataclasses.dataclass(frozen=True)
class Logged:
    """A batch of the log."""

    offset: int
    epoch: int
    at: int
    records: tuple[Any, ...]

    @property
    def end(self) -> int:
        """The offset after it."""
        return self.offset + len(self.records)


class KraftCluster:
    """The cluster, its log, and its figures as an independent truth."""

    def __init__(self, *, elr: bool = False) -> None:
        self.now = START_MS
        self.epoch = 0
        self.controller = -1
        self.voters: tuple[int, ...] = (3000,)
        self.log: list[Logged] = []
        self.brokers: dict[int, Broker] = {}
        self.fences: dict[int, tuple[int, int]] = {}
        """When, and in which epoch, each broker was fenced last that was not stopping and was not restarted since."""
        self.topics: dict[str, str] = {}
        self.parts: dict[str, dict[int, Part]] = {}
        self.min_isr: dict[str, int] = {}
        self.unclean: dict[str, bool] = {}
        self.features: dict[str, int] = {}
        self.elections = self.candidacies = self.unclean_elections = 0
        self.vacancy_at_most_ms = 0
        self.has_elr = elr
        self.default_min_isr: int | None = None
        self._ids = 0
        self.elect(3000)
        self.write(kafka.FeatureLevel(kafka.METADATA_VERSION, 25))
        self.features[kafka.METADATA_VERSION] = 25
        if elr:
            self.default_min_isr = 2
            self.features[kafka.ELR_VERSION] = 1
            self.write(
                kafka.Config(kafka.BROKER_RESOURCE, "", kafka.MIN_ISR, "2"),
                kafka.FeatureLevel(kafka.ELR_VERSION, 1),
            )

    @property
    def end(self) -> int:
        """The offset after the last record."""
        return self.log[-1].end if self.log else 0

    def write(self, *records: Any) -> None:
        """Append one batch."""
        self.log.append(Logged(self.end, self.epoch, self.now, records))

    def tick(self, ms: int) -> None:
        """Let time pass, with no-ops."""
        until = self.now + ms
        while self.now + IDLE_MS <= until:
            self.now += IDLE_MS
            self.write(kafka.NoOp())
        self.now = until

    def elect(self, controller: int, *, after_ms: int = 0, candidacies: int = 0) -> None:
        """Elect a controller, after candidates that were not elected; nothing is written in between."""
        if self.log:
            self.vacancy_at_most_ms += self.now + after_ms - self.log[-1].at
        self.now += after_ms
        self.epoch += 1 + candidacies
        self.candidacies += candidacies
        self.elections += 1
        self.controller = controller
        self.write(kafka.LeaderChange(controller, self.epoch, tuple(map(kafka.Voter, self.voters))))

    # Brokers.

    def register(self, broker: int) -> None:
        """Register a broker process, which is fenced at first."""
        held = self.brokers.get(broker)
        if held is not None and not held.fenced:
            return
        self.brokers[broker] = Broker(self.end, online_dirs=dirs_of(broker))
        self.fences.pop(broker, None)
        end_point = kafka.EndPoint("PLAINTEXT", f"b{broker}", 9092, 0)
        dirs = self.brokers[broker].online_dirs
        self.write(
            kafka.RegisterBroker(broker, self.end, uuid(self.end), (end_point,), log_dirs=dirs)
        )

    def unfence(self, broker: int) -> None:
        """Unfence a broker: it is active, and partitions without a leader are tried."""
        held = self.brokers.get(broker)
        if held is None or not held.fenced:
            return
        held.fenced = False
        change = kafka.BrokerRegistrationChange(broker, held.epoch, fenced=False)
        self.write(change, *self._each(self._with_leader))

    def fence(self, broker: int) -> None:
        """Fence a broker: it leaves all ISRs, and another replica leads what it led."""
        held = self.brokers.get(broker)
        if held is None or held.fenced:
            return
        held.fenced = True
        if not held.stopping:
            self.fences[broker] = self.now, self.epoch
        changes = list(self._without(broker))
        self.write(*changes, kafka.BrokerRegistrationChange(broker, held.epoch, fenced=True))

    def stop(self, broker: int) -> None:
        """Begin a controlled shutdown."""
        held = self.brokers.get(broker)
        if held is None or not held.is_active:
            return
        held.stopping = True
        change = kafka.BrokerRegistrationChange(broker, held.epoch, in_controlled_shutdown=True)
        self.write(*self._without(broker), change)

    def unregister(self, broker: int) -> None:
        """Remove a registration."""
        held = self.brokers.pop(broker, None)
        if held is not None:
            self.write(*self._without(broker), kafka.UnregisterBroker(broker, held.epoch))

    def fail_dir(self, broker: int) -> None:
        """Let one of a broker's log directories fail (ReplicationControlManager.handleDirectoriesOffline)."""
        held = self.brokers.get(broker)
        if held is None or held.fenced or len(held.online_dirs) < 2:
            return
        failed = held.online_dirs[1]
        held.online_dirs = held.online_dirs[:1]
        dirs = held.online_dirs
        changes = list(self._without(broker, lambda part: part.dir_of(broker) == failed))
        self.write(*changes, kafka.BrokerRegistrationChange(broker, held.epoch, log_dirs=dirs))

    def place(self, broker: int, name: str, number: int) -> None:
        """Let a broker report that a replica is in its second log directory, or in none any more."""
        part, held = self._part(name, number), self.brokers.get(broker)
        if part is None or held is None or broker not in part.replicas:
            return
        directory = dirs_of(broker)[1]
        directory = LOST if part.dir_of(broker) == directory else directory
        dirs = tuple(
            directory if each == broker else dir_
            for each, dir_ in zip(part.replicas, part.dirs, strict=True)
        )
        if directory in held.online_dirs or broker not in part.isr:
            self._write_change(name, number, dataclasses.replace(part, dirs=dirs))

    # Topics.

    def create(self, name: str, partitions: int, factor: int, first: int = 0) -> None:
        """Create a topic: the active replicas are in sync, and the first of them leads."""
        active = self._active()
        if name in self.topics or not active:
            return
        self._ids += 1
        topic_id = self.topics[name] = uuid(1_000 + self._ids)
        self.parts[name] = {}
        added = self._add(name, range(partitions), factor, first)
        self.write(kafka.Topic(name, topic_id), *added)

    def expand(self, name: str, factor: int) -> None:
        """Add a partition to a topic."""
        if name in self.topics and self._active():
            self.write(*self._add(name, [len(self.parts[name])], factor, 0))

    def _add(self, name: str, numbers: Iterable[int], factor: int, first: int) -> list[Any]:
        known = sorted(self.brokers)
        records = []
        for number in numbers:
            start = (number + first) % len(known)
            replicas = tuple((known[start:] + known[:start])[:factor])
            isr = tuple(each for each in replicas if self.brokers[each].is_active)
            if not isr:
                isr = replicas = (self._active()[0],)
            dirs = tuple(dirs_of(each)[number % 2] for each in replicas)
            part = self.parts[name][number] = Part(replicas, isr, isr[0], dirs=dirs)
            records.append(self._whole(name, number, part))
        return records

    def delete(self, name: str) -> None:
        """Delete a topic: one record, with its configuration."""
        topic_id = self.topics.pop(name, None)
        if topic_id is None:
            return
        del self.parts[name]
        self.min_isr.pop(name, None)
        self.unclean.pop(name, None)
        self.write(kafka.RemoveTopic(topic_id))

    def configure(self, name: str, key: str, value: str | None) -> None:
        """Set or remove a key of a topic's configuration; one of min.insync.replicas drops its ELRs."""
        if name not in self.topics:
            return
        records: list[Any] = [kafka.Config(kafka.TOPIC_RESOURCE, name, key, value)]
        table: dict[str, Any] = self.min_isr if key == kafka.MIN_ISR else self.unclean
        if value is None:
            table.pop(name, None)
        else:
            table[name] = int(value) if key == kafka.MIN_ISR else value == "true"
        if key == kafka.MIN_ISR and self.has_elr:
            records.append(kafka.ClearElr(name))
            for number, part in self.parts[name].items():
                if part.elr or part.last_known:
                    self.parts[name][number] = dataclasses.replace(
                        part, elr=(), last_known=(), partition_epoch=part.partition_epoch + 1
                    )
        self.write(*records)

    # Partitions.

    def shrink(self, name: str, number: int) -> None:
        """Let the leader remove a slow follower from the ISR."""
        part = self._part(name, number)
        if part is None or part.leader < 0 or len(part.isr) < 2:
            return
        slow = next(each for each in reversed(part.isr) if each != part.leader)
        isr = tuple(each for each in part.isr if each != slow)
        self._write_change(name, number, self._with_elr(name, part, isr, part.leader))

    def grow(self, name: str, number: int) -> None:
        """Let all active replicas catch up, which completes a reassignment and ends a recovery."""
        part = self._part(name, number)
        if part is None or part.leader < 0:
            return
        isr = (
            *part.isr,
            *(b for b in part.replicas if b not in part.isr and self._may_lead(part, b)),
        )
        new = self._with_elr(name, part, isr, part.leader)
        new = dataclasses.replace(new, recovery=0)
        target = tuple(each for each in part.replicas if each not in part.removing)
        if (part.adding or part.removing) and set(part.adding) <= set(isr):
            kept = tuple(each for each in isr if each in target)
            if kept:
                leader = part.leader if part.leader in kept else kept[0]
                new = dataclasses.replace(
                    self._with_elr(name, new, kept, leader),
                    replicas=target,
                    adding=(),
                    removing=(),
                    dirs=tuple(map(part.dir_of, target)),
                )
                bump = leader == part.leader and bool(part.removing)
                self._write_change(name, number, new, bump=bump)
                return
        self._write_change(name, number, new)

    def reassign(self, name: str, number: int, target: Sequence[int]) -> None:
        """Begin a reassignment."""
        part = self._part(name, number)
        target = tuple(dict.fromkeys(each for each in target if each in self.brokers))
        if part is None or not target or part.adding or part.removing:
            return
        removing = tuple(each for each in part.replicas if each not in target)
        adding = tuple(each for each in target if each not in part.replicas)
        if adding or removing:
            replicas = (*target, *removing)
            dirs = tuple(map(part.dir_of, replicas))
            new = dataclasses.replace(
                part, replicas=replicas, adding=adding, removing=removing, dirs=dirs
            )
            self._write_change(name, number, new)

    def elect_preferred(self) -> None:
        """Rebalance: all partitions whose preferred replica may lead and does not."""
        records = []
        for name, number, part in self._all():
            preferred = part.replicas[0]
            if part.leader >= 0 and part.leader != preferred and preferred in part.isr:
                new = dataclasses.replace(part, leader=preferred)
                records.append(self._change(name, number, part, new))
        if records:
            self.write(*records)

    def elect_unclean(self, name: str, number: int) -> None:
        """Elect the first active replica of a partition that nobody else can lead."""
        part = self._part(name, number)
        if part is None or part.leader >= 0:
            return
        chosen = next((each for each in part.replicas if self._may_lead(part, each)), None)
        if chosen is None or chosen in part.isr:
            return
        new = dataclasses.replace(part, leader=chosen, isr=(chosen,), recovery=1, last_known=())
        new = dataclasses.replace(new, elr=())
        self.unclean_elections += 1
        self._write_change(name, number, new)

    # Kafka's rules.

    def _is_active(self, broker: int) -> bool:
        held = self.brokers.get(broker)
        return held is not None and held.is_active

    def _may_lead(self, part: Part, broker: int) -> bool:
        """Return whether a replica may lead (ReplicationControlManager.LeaderAcceptor)."""
        held, directory = self.brokers.get(broker), part.dir_of(broker)
        return (
            held is not None
            and held.is_active
            and (directory == UNASSIGNED or directory in held.online_dirs)
        )

    def _active(self) -> list[int]:
        return [each for each in sorted(self.brokers) if self._is_active(each)]

    def _part(self, name: str, number: int) -> Part | None:
        return self.parts.get(name, {}).get(number)

    def _all(self) -> Iterator[tuple[str, int, Part]]:
        for name in sorted(self.parts):
            for number, part in sorted(self.parts[name].items()):
                yield name, number, part

    def _least(self, name: str, part: Part) -> int:
        least = self.min_isr.get(name, self.default_min_isr or 1)
        return min(least, len(part.replicas))

    def _with_elr(self, name: str, part: Part, isr: tuple[int, ...], leader: int) -> Part:
        """Return a partition with another ISR (maybePopulateTargetElr, maybeUpdateLastKnownLeader)."""
        elr: tuple[int, ...] = ()
        last_known: tuple[int, ...] = ()
        if self.has_elr:
            if len(isr) < self._least(name, part):
                elr = tuple(dict.fromkeys((*part.elr, *part.isr)))
                elr = tuple(each for each in elr if each not in isr)
            if leader < 0:
                last_known = (part.leader,) if part.leader >= 0 else part.last_known
        return dataclasses.replace(part, isr=isr, leader=leader, elr=elr, last_known=last_known)

    def _with_leader(self, part: Part) -> Part:
        """Return a partition that got a leader, if one can be elected cleanly (electAnyLeader)."""
        pool = part.isr or (part.elr if self.has_elr else ())
        chosen = next((b for b in part.replicas if b in pool and self._may_lead(part, b)), None)
        if chosen is None:
            return part
        isr = part.isr or (chosen,)
        elr = tuple(each for each in part.elr if each not in isr)
        return dataclasses.replace(part, leader=chosen, isr=isr, elr=elr, last_known=())

    def _without(
        self, broker: int, is_concerned: Callable[[Part], bool] = lambda _: True
    ) -> Iterator[Any]:
        """Write a broker out of the ISRs of partitions (generateLeaderAndIsrUpdates)."""
        for name, number, part in self._all():
            if broker not in part.isr and part.leader != broker:
                continue
            if not is_concerned(part):
                continue
            isr = tuple(each for each in part.isr if each != broker)
            active = [each for each in isr if self._may_lead(part, each) and each != broker]
            if not isr and not self.has_elr:
                isr = part.isr  # an empty one is not written
            leader = part.leader
            if leader == broker or leader < 0:
                leader = next((each for each in part.replicas if each in active), -1)
            new = self._with_elr(name, part, isr, leader)
            if not new.isr and leader < 0:
                new = self._with_leader(new)
            if new != part:
                yield self._change(name, number, part, new)

    def _each(self, step: Callable[[Part], Part]) -> Iterator[Any]:
        """Write each partition without a leader as a step leaves it."""
        for name, number, part in self._all():
            if part.leader >= 0:
                continue
            new = step(part)
            if new != part:
                yield self._change(name, number, part, new)

    def _write_change(self, name: str, number: int, new: Part, *, bump: bool = False) -> None:
        part = self.parts[name][number]
        if new != part:
            self.write(self._change(name, number, part, new, bump=bump))

    def _change(self, name: str, number: int, old: Part, new: Part, *, bump: bool = False) -> Any:
        """Store a partition, and return the record that says how it differs."""
        is_led = new.leader != old.leader or bump
        self.parts[name][number] = dataclasses.replace(
            new,
            partition_epoch=old.partition_epoch + 1,
            leader_epoch=old.leader_epoch + is_led,
        )

        def differing(of: str) -> Any:
            return getattr(new, of) if getattr(new, of) != getattr(old, of) else None

        return kafka.PartitionChange(
            number,
            self.topics[name],
            isr=differing("isr"),
            leader=new.leader if is_led else None,
            replicas=differing("replicas"),
            removing_replicas=differing("removing"),
            adding_replicas=differing("adding"),
            leader_recovery_state=differing("recovery"),
            eligible_leader_replicas=differing("elr"),
            last_known_elr=differing("last_known"),
            directories=differing("dirs"),
        )

    def _whole(self, name: str, number: int, part: Part) -> Any:
        return kafka.Partition(
            number,
            self.topics[name],
            part.replicas,
            part.isr,
            part.leader,
            part.leader_epoch,
            part.partition_epoch,
            part.removing,
            part.adding,
            part.recovery,
            part.dirs,
            part.elr,
            part.last_known,
        )

    # What a watcher publishes.

    def snapshot(self) -> list[Any]:
        """Return the records of a snapshot of now, in Kafka's order (MetadataImage.write)."""
        records: list[Any] = [kafka.FeatureLevel(*each) for each in sorted(self.features.items())]
        for broker, held in sorted(self.brokers.items()):
            end_point = kafka.EndPoint("PLAINTEXT", f"b{broker}", 9092, 0)
            records.append(
                kafka.RegisterBroker(
                    broker,
                    held.epoch,
                    uuid(held.epoch),
                    (end_point,),
                    fenced=held.fenced,
                    in_controlled_shutdown=held.stopping,
                    log_dirs=held.online_dirs,
                )
            )
        for name in sorted(self.topics):
            records.append(kafka.Topic(name, self.topics[name]))
            records += [self._whole(name, p, part) for p, part in sorted(self.parts[name].items())]
        if self.default_min_isr is not None:
            least = str(self.default_min_isr)
            records.append(kafka.Config(kafka.BROKER_RESOURCE, "", kafka.MIN_ISR, least))
        for name, value in sorted(self.min_isr.items()):
            records.append(kafka.Config(kafka.TOPIC_RESOURCE, name, kafka.MIN_ISR, str(value)))
        for name, unclean in sorted(self.unclean.items()):
            text = str(unclean).lower()
            records.append(kafka.Config(kafka.TOPIC_RESOURCE, name, kafka.UNCLEAN, text))
        return records


class Watcher:
    """Publishes a cluster's log: slices of it, snapshots, heartbeats."""

    def __init__(self, cluster: KraftCluster, name: str = "w1", generation: int = 1) -> None:
        self._cluster = cluster
        self._who: dict[str, Any] = {
            "v": METADATA_LOG_VERSION,
            "cluster": "prod",
            "generation": generation,
            "watcher": name,
        }

    def slices(
        self, cuts: Iterable[int] = (), *, first: int = 0, end: int | None = None
    ) -> list[MetadataSlice]:
        """Return slices from an offset on, cut at these offsets, and where an epoch begins."""
        end = self._cluster.end if end is None else end
        begins = {
            each.offset for each in self._cluster.log if type(each.records[0]) is kafka.LeaderChange
        }
        places = sorted({first, end} | {each for each in (*cuts, *begins) if first < each < end})
        return [self._slice(*each) for each in itertools.pairwise(places)]

    def _slice(self, first: int, end: int) -> MetadataSlice:
        batches = []
        times = []
        before = NO_EPOCH
        epoch = 0
        observed_at = 0
        for each in self._cluster.log:
            if each.offset < first:
                before = each.epoch
            if each.end <= first or each.offset >= end:
                continue
            if each.offset < first:
                before = each.epoch
            times.append(each.at)
            epoch, observed_at = each.epoch, each.at
            kept = [
                (each.offset + index, record)
                for index, record in enumerate(each.records)
                if first <= each.offset + index < end and type(record) is not kafka.NoOp
            ]
            behind = tuple(
                record
                for index, record in enumerate(each.records)
                if each.offset + index >= end and hasattr(record, "broker_id")
            )
            if kept:
                offsets = tuple(offset for offset, _ in kept)
                is_dense = offsets == tuple(range(offsets[0], offsets[0] + len(offsets)))
                records = tuple(record for _, record in kept)
                batches.append(
                    MetadataBatch(offsets[0], each.at, records, () if is_dense else offsets, behind)
                )
        pauses = [later - earlier for earlier, later in itertools.pairwise(times)]
        return MetadataSlice(
            **self._who,
            observed_at=observed_at,
            first=first,
            last=end - 1,
            after_epoch=before,
            epoch=epoch,
            batches=tuple(batches),
            high_watermark=self._cluster.end,
            first_at=times[0],
            longest_pause_ms=max(pauses, default=None),
        )

    def snapshot(self, parts: int = 1, **start: Any) -> list[AnyMetadataRecord]:
        """Return a snapshot of the cluster as it is now."""
        last = self._cluster.log[-1]
        place: dict[str, Any] = {"end": last.end, "epoch": last.epoch, "observed_at": last.at}
        records = self._cluster.snapshot()
        size = -(-len(records) // parts)
        chunks = [records[each : each + size] for each in range(0, len(records), size)]
        return [
            SnapshotStarted(**self._who, **place, **start),
            *(
                SnapshotPart(**self._who, **place, number=number, records=tuple(chunk))
                for number, chunk in enumerate(chunks, start=1)
            ),
            SnapshotFinished(
                **self._who,
                **place,
                parts=len(chunks),
                leader=self._cluster.controller,
                leader_epoch=self._cluster.epoch,
            ),
        ]

    def heartbeat(self, **fields: Any) -> MetadataHeartbeat:
        """Return a heartbeat of now."""
        cluster = self._cluster
        known: dict[str, Any] = {
            "observed_at": cluster.now,
            "sent_at": cluster.now,
            "end": cluster.end,
            "high_watermark": cluster.end,
            "leader": cluster.controller,
            "leader_epoch": cluster.epoch,
        }
        return MetadataHeartbeat(**self._who, **(known | fields))


class KraftFold:
    """A fold of one KRaft cluster."""

    def __init__(self) -> None:
        control = ControlPlane("prod", Assumed(min_insync_replicas=1), 0)
        self.state = ClusterState(control, MemoryTopicStore(), KRAFT)
        self.sent = SentViews()
        self.events: list[AnyEvent] = []
        self.shown: dict[str, Any] = {}

    def feed(self, records: Iterable[AnyMetadataRecord]) -> KraftFold:
        """Apply records, each as a batch."""
        for record in records:
            batch = EventBatch(self.state, fatal=(Exception,))
            batch.apply(record)
            self.events += batch.finish()
        return self

    def repack(self) -> KraftFold:
        """Go on from bytes, as after a restart from a checkpoint."""
        control = self.state.control
        members = pack_members(control, range(64))
        groups = [packed for _, packed in members if packed is not None]
        topics = self.state.topics
        self.state = ClusterState(unpack_control(pack_control(control), groups), topics, KRAFT)
        self.sent = SentViews()
        return self

    def views(self) -> dict[str, Any]:
        """Return all views, as readers hold them."""
        as_of = AsOf("l", *self.state.control.log.position)
        for name in self.state.topics.names():
            self.state.mark_changed(name)
        changed = project(self.state, as_of=as_of, folded_at=0, sent=self.sent)
        for each in list(changed):
            if each.value is None or type(each.view).__name__ == "Deleted":
                self.shown.pop(each.key, None)
            else:
                self.shown[each.key] = msgspec.json.decode(each.value, type=type(each.view))
        return self.shown

    @property
    def cluster(self) -> Any:
        """The cluster's view."""
        return self.views()["prod/cluster"]
