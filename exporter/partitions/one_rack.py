"""Count the partitions of a cluster that have all their replicas in one rack.

The rule: a rack is a property of brokers, so a topic's own counts cannot hold this (`contribution`). It is
counted over the views, and only those that changed since the last count are read again.
"""

from collections.abc import Mapping

from controller_model.insights.cluster_facts import ClusterFacts
from controller_model.insights.racks import has_racks_to_spread_over, in_one_rack
from exporter.core.records import ClusterSnapshot, TopicEntry

_Racks = Mapping[int, str | None]


class OneRackCount:
    """The count of one cluster, and the entries that it was made from."""

    def __init__(self) -> None:
        self._racks: _Racks = {}
        self._counted: dict[str, tuple[TopicEntry, int]] = {}
        """By view key: the entry that was read, and how many of its partitions are in one rack."""

    def of(self, snapshot: ClusterSnapshot) -> int | None:
        """Return the count; None where the watcher is denied znodes that the count needs."""
        if snapshot.view.log.is_denied("/brokers"):
            return None
        facts = snapshot.facts()
        if not has_racks_to_spread_over(facts):
            return 0
        self._read(snapshot.topics, facts)
        return sum(count for _, count in self._counted.values())

    def _read(self, topics: Mapping[str, TopicEntry], facts: ClusterFacts) -> None:
        known = self._counted if facts.racks == self._racks else {}
        counted = {}
        for key, entry in topics.items():
            before, count = known.get(key, (None, 0))
            if before is not entry:
                count = _in_one_rack(entry, facts.racks)
            counted[key] = (entry, count)
        self._racks, self._counted = facts.racks, counted


def _in_one_rack(entry: TopicEntry, racks: _Racks) -> int:
    topic = entry.decode()
    return 0 if topic.deleting else sum(in_one_rack(each, racks) for each in topic.replicas)
