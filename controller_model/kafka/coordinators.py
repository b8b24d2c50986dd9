"""Group and transaction coordinators: which brokers could host them, and when they move.

The rule: a broker coordinates what is kept in the partitions of __consumer_offsets and
__transaction_state that it leads, and nothing else; so coordinators move with those leaders.
A group's partition is a hash of the group's name, and ZooKeeper does not hold those names.
Source (Kafka 3.9): kafka.server.RequestHandlerHelper.onLeadershipChange,
org.apache.kafka.common.internals.Topic.
"""

import enum
from collections import Counter
from collections.abc import Iterable, Mapping

from controller_model.kafka.ids import NO_LEADER


class Coordinator(enum.StrEnum):
    """What a coordinator coordinates."""

    GROUP = "group"
    TRANSACTION = "transaction"


COORDINATOR_OF: Mapping[str, Coordinator] = {
    "__consumer_offsets": Coordinator.GROUP,
    "__transaction_state": Coordinator.TRANSACTION,
}
"""Internal topics whose leaders are coordinators (org.apache.kafka.common.internals.Topic)."""


def coordinated_by(leaders: Iterable[int | None]) -> dict[int, int]:
    """Return how many partitions each broker coordinates, given the leaders of one topic.

    A partition without a leader (None, -1, or -2 while it is deleted) has no coordinator: its
    groups or transactions make no progress.

    >>> coordinated_by([1, 2, 1, -1, None])
    {1: 2, 2: 1}
    """
    return dict(Counter(each for each in leaders if each is not None and each > NO_LEADER))
