"""From which step to which partitions are offline, or under their min.insync.replicas."""

from collections.abc import Iterable

import msgspec

from controller_model.kafka.ids import TopicPartition
from rehearsal.rehearsed_cluster import ClusterChanges, RehearsedCluster
from rehearsal.report import OutageKind, PartitionOutage

_Key = tuple[OutageKind, TopicPartition]


class Outages:
    """The outages so far."""

    def __init__(self, cluster: RehearsedCluster) -> None:
        """Begin with the outages that exist before the first step."""
        self._all: list[PartitionOutage] = []
        self._open: dict[_Key, int] = {}
        facts = cluster.facts
        for id_, partition in cluster.partitions.items():
            if facts.is_offline(partition):
                self._begin(OutageKind.OFFLINE, [id_], 0)
            elif facts.is_under_min_isr(partition):
                self._begin(OutageKind.UNDER_MIN_ISR, [id_], 0)

    @property
    def all(self) -> tuple[PartitionOutage, ...]:
        """Every outage, in the order in which they began."""
        return tuple(self._all)

    def apply_changes(self, step: int, seen: ClusterChanges) -> None:
        """Begin and end outages by what a step has changed."""
        self._end(OutageKind.OFFLINE, seen.offline_ended, step)
        self._end(OutageKind.UNDER_MIN_ISR, seen.under_min_isr_ended, step)
        self._begin(OutageKind.OFFLINE, seen.went_offline, step)
        self._begin(OutageKind.UNDER_MIN_ISR, seen.went_under_min_isr, step)

    def _begin(self, kind: OutageKind, partitions: Iterable[TopicPartition], step: int) -> None:
        for id_ in partitions:
            self._open[kind, id_] = len(self._all)
            begun = PartitionOutage(kind=kind, **id_._asdict(), from_step=step, until_step=None)
            self._all.append(begun)

    def _end(self, kind: OutageKind, partitions: Iterable[TopicPartition], step: int) -> None:
        for id_ in partitions:
            place = self._open.pop((kind, id_))
            self._all[place] = msgspec.structs.replace(self._all[place], until_step=step)
