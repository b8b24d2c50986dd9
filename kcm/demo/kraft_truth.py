"""The truth of a KRaft cluster: what its controllers have on their disks, as far as that is committed.

Each controller's own files are read as soon as they change, and the copy counts of which most is proven
committed (`kraft_source.proof`). The records are applied by rules that are written here again, as simple as
they can be: none of the monitor's model is used, nor what it read over the network. A change gets the time at
which it was found in a file, before the active controller itself knows that it is committed.
"""

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, NamedTuple

from controller_model.kafka.metadata_records import (
    BROKER_RESOURCE,
    MIN_ISR,
    TOPIC_RESOURCE,
    BrokerRegistrationChange,
    ClearElr,
    Config,
    LeaderChange,
    Partition,
    PartitionChange,
    RegisterBroker,
    RemoveTopic,
    Topic,
    UnregisterBroker,
    Voters,
)
from controller_model.records.metadata_log import MetadataSlice
from kcm.demo.figures import Observations, TrueFigures
from kcm.demo.truth import TruePartition, count_figures
from kcm.servers.kafka import Node
from kcm.servers.quorum import METADATA_FOLDER, Leader
from kraft_source.folder import MetadataFolder
from kraft_source.proof import CommitProof
from kraft_source.slices import Made
from pipeline.runtime import UsageError
from pipeline.supervised_thread import SupervisedThread

POLL_S = 0.01  # the resolution of the delays that are shown
STOP_DEADLINE_S = 5.0
RECOVERING = 1  # LeaderRecoveryState of a leader that was elected uncleanly


_RESOURCES = {TOPIC_RESOURCE, BROKER_RESOURCE}


class _Partition(NamedTuple):
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    elr: tuple[int, ...]


def _fields(record: Partition | PartitionChange) -> dict[str, Any]:
    return {
        "replicas": record.replicas,
        "isr": record.isr,
        "leader": record.leader,
        "elr": record.eligible_leader_replicas,
    }


class ReplayedMetadata:
    """What the records of the metadata log add up to, as Kafka's own image (MetadataDelta)."""

    def __init__(self) -> None:
        self.end = 0
        """The offset behind the last record that was applied."""
        self.leaders: list[Leader] = []
        """All that were elected."""
        self.unclean = 0
        self._voters = 0
        self._topics: dict[str, str] = {}
        self._partitions: dict[tuple[str, int], _Partition] = {}
        self._fenced: dict[int, bool] = {}
        self._min_isr: dict[str, int] = {}
        """By topic, and under an empty name for all others; a broker's own is under its id, and does not count."""

    @property
    def candidacies(self) -> int:
        """Epochs without an elected leader."""
        return max((leader.epoch for leader in self.leaders), default=0) - len(self.leaders)

    def apply(self, record: Any) -> None:
        """Apply the next record."""
        match record:
            case LeaderChange():
                self.leaders.append(Leader(record.leader_id, record.epoch))
                self._voters = len(record.voters)
            case Voters():
                self._voters = len(record.voters)
            case RegisterBroker():
                self._fenced[record.broker_id] = record.fenced
            case UnregisterBroker():
                del self._fenced[record.broker_id]
            case BrokerRegistrationChange(fenced=bool(fenced)):
                self._fenced[record.broker_id] = fenced
            case Config() if record.name == MIN_ISR and record.resource_type in _RESOURCES:
                self._min_isr.pop(record.resource_name, None)
                if record.value is not None:
                    self._min_isr[record.resource_name] = int(record.value)
            case _:
                self._apply_to_topics(record)

    def _apply_to_topics(self, record: Any) -> None:
        match record:
            case Topic():
                self._topics[record.topic_id] = record.name
            case RemoveTopic():
                self._min_isr.pop(self._topics.pop(record.topic_id), None)
                for place in [each for each in self._partitions if each[0] == record.topic_id]:
                    del self._partitions[place]
            case Partition():
                place = record.topic_id, record.partition_id
                self._partitions[place] = _Partition(**_fields(record))
            case PartitionChange():
                place = record.topic_id, record.partition_id
                changed = {n: value for n, value in _fields(record).items() if value is not None}
                self._partitions[place] = self._partitions[place]._replace(**changed)
                self.unclean += record.leader_recovery_state == RECOVERING
            case ClearElr():
                for place, partition in self._partitions.items():
                    if record.topic_name in {"", self._topics[place[0]]}:
                        self._partitions[place] = partition._replace(elr=())
            case _:
                pass  # nothing that is compared

    def figures(self, controller: int) -> TrueFigures:
        """Count everything since the cluster was formatted."""
        brokers = {broker for broker, is_fenced in self._fenced.items() if not is_fenced}
        partitions = list(self._partitions.values())
        figures = count_figures(
            [TruePartition(each.replicas, each.leader, each.isr) for each in partitions],
            topics=len(self._topics),
            controller=controller,
            epoch=self.leaders[-1].epoch if self.leaders else None,
            elections=len(self.leaders),
            brokers=brokers,
        )
        return replace(
            figures,
            fenced=tuple(sorted(self._fenced.keys() - brokers)),
            elr=sum(bool(each.elr) for each in partitions),
            empty_isr=sum(not each.isr for each in partitions),
            under_min_isr=sum(
                each.leader >= 0 and len(each.isr) < self._least(topic_id, each.replicas)
                for (topic_id, _), each in self._partitions.items()
            ),
            unclean=self.unclean,
            voters=self._voters,
            candidacies=self.candidacies,
        )

    def _least(self, topic_id: str, replicas: tuple[int, ...]) -> int:
        """Return min.insync.replicas as it takes effect (ReplicationControlManager.getTopicEffectiveMinIsr)."""
        own = self._min_isr.get(self._topics[topic_id], self._min_isr.get("", 1))
        return min(own, len(replicas))


class QuorumTruth:
    """The truth on the controllers' disks, kept current in a separate thread."""

    def __init__(self, controllers: Mapping[int, Node]) -> None:
        self.observations = Observations()
        self._controllers = controllers
        self._image = ReplayedMetadata()
        self._base: TrueFigures | None = None
        self._seen: object = None
        """What showed last that files have changed."""
        self._thread = SupervisedThread("truth", self._poll, every_s=POLL_S)

    def start(self) -> None:
        """Start to read; the controllers need not be up yet."""
        self._thread.start()

    def close(self) -> None:
        """Stop reading."""
        self._thread.close(STOP_DEADLINE_S)

    def check(self) -> None:
        """Raise the exception that ended the reading, if one did."""
        self._thread.check()

    def begin(self) -> None:
        """Count elections and candidacies from now on."""
        self._base = self._image.figures(-1)
        self._seen = None

    def controller(self) -> int:
        """Return the last elected leader if its process runs and counts itself as the leader, else -1."""
        if not self._image.leaders:
            return -1
        leader = self._image.leaders[-1]
        node = self._controllers.get(leader.id)
        leads = node is not None and node.running and node.known_leader() == leader
        return leader.id if leads else -1

    def _poll(self) -> None:
        now = time.monotonic()
        seen = [self._mark(node) for node in self._controllers.values()]
        if seen == self._seen:
            return
        self._seen = seen
        self._read()
        figures, base = self._image.figures(self.controller()), self._base
        if figures.epoch is None:
            return
        counted: dict[str, Any] = {
            name: None if base is None else getattr(figures, name) - getattr(base, name)
            for name in ("elections", "unclean", "candidacies")
        }
        self.observations.add(now, replace(figures, **counted))

    def _mark(self, node: Node) -> object:
        """Return what differs once a controller has appended, voted, or ended."""
        folder = node.log_dir / METADATA_FOLDER
        try:
            files = [*folder.glob("*.log"), folder / "quorum-state"]
            return node.running, [(each.name, *_stamp(each)) for each in files]
        except OSError:
            return node.running  # not formatted yet, or a file is being replaced

    def _read(self) -> None:
        """Apply what is newly proven committed."""
        most = self._most_proven()
        if most is None:
            return
        folder, proof = most
        for read in folder.records("demo", proof):
            if not isinstance(read, Made) or not isinstance(read.record, MetadataSlice):
                continue
            if read.record.last >= proof.end:
                break
            for batch in read.record.batches:
                for index, record in enumerate(batch.records):
                    if batch.offset_of(index) >= self._image.end:
                        self._image.apply(record)
            self._image.end = max(self._image.end, read.record.last + 1)

    def _most_proven(self) -> tuple[MetadataFolder, CommitProof] | None:
        """Return the controllers' copy of which most is proven; None if nothing is that was not known."""
        most = None
        for node in self._controllers.values():
            try:
                folder = MetadataFolder(node.log_dir / METADATA_FOLDER)
            except UsageError:
                continue  # not formatted yet
            proof = folder.prove()
            if proof.end > (self._image.end if most is None else most[1].end):
                most = folder, proof
        return most


def _stamp(path: Any) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
