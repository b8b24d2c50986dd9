"""The records of a recommendation and of its grade: what was recommended, and how well it did.

Numbers of partitions are exact. Lists of partitions hold at most what one run of
kafka-leader-election takes. Only listed partitions are watched for the grade, which says how many they are.
"""

import enum

import msgspec

from controller_model.kafka.ids import TopicPartition

SETTLE_MS = 30_000
"""How long a broker must be above the threshold, with something to elect, before it is recommended. As
long as replica.lag.time.max.ms, so that replicas that return one by one are all included."""

CLEAR_MS = 60_000
"""How long nothing must be left to elect before a recommendation ends: a replica that leaves the ISR
for a moment does not end it."""

WATCH_MS = 300_000
"""How long elections are watched for their grade: until the controller's own next check
(leader.imbalance.check.interval.seconds)."""

REPEAT_MS = 3_600_000
"""How long after its grade a recommendation is repeated, if elections were held and it is still needed."""

MAX_PARTITIONS = 500
"""Partitions that are listed and watched: as many as one run of the command elects (insight.rebalance)."""

TOPICS_LOOKED_AT = 2_000
"""Topics of a cluster that are read for the list. Each must be loaded, and a recommendation must not
delay the fold. `partition_count` holds the exact number, and the exporter lists all of them."""

GRADES_KEPT = 10
"""Grades in the view; older ones are in the events."""


class Outcome(enum.StrEnum):
    """What came of a recommendation."""

    MENDED = "mended"
    """None of its brokers is above the threshold any more."""
    PARTLY = "partly"
    """Elections were held, and one of its brokers is still above the threshold."""
    RELAPSED = "relapsed"
    """As `partly`, and leaders that were regained have been lost again."""
    WITHDRAWN = "withdrawn"
    """No election was held, and the recommendation no longer applies: the imbalance disappeared by itself, the
    preferred replicas cannot be elected any more, or another broker must be added to it."""


class BrokerRatio(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's imbalance ratio when a recommendation was made, and when it was graded."""

    broker: int
    before: float
    after: float | None = None
    """None until it is graded."""


class Recommended(msgspec.Struct, frozen=True, kw_only=True):
    """Preferred elections that the monitor recommends, because a broker passed the threshold."""

    number: int
    """1, 2, 3 ... within a lineage."""
    made_at: int
    brokers: tuple[int, ...]
    threshold_percentage: int
    """leader.imbalance.per.broker.percentage, as assumed."""
    partition_count: int
    """Partitions of which an election would give these brokers the leadership back."""
    partitions: tuple[TopicPartition, ...]
    """The listed ones: of the first TOPICS_LOOKED_AT topics, at most MAX_PARTITIONS."""
    elected_at: int | None = None
    """When the first preferred election for these brokers was seen after that; None: not yet."""
    ratios: tuple[BrokerRatio, ...] = ()


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """What a recommendation achieved."""

    number: int
    made_at: int
    elected_at: int | None
    """None: no preferred election for its brokers was seen."""
    graded_at: int
    outcome: Outcome
    partition_count: int
    elections: int
    """Preferred elections for its brokers, over all partitions."""
    watched: int
    """The listed partitions, except those that are gone. The next three numbers count among these."""
    regained: int
    """Led by their preferred replica at some time since, including those lost again."""
    lost_again: int
    not_regained: int
    gone: int = 0
    """Listed partitions that were deleted, or have another preferred replica now."""
    regained_after_ms: int | None = None
    """Milliseconds from the first election to the last regained leadership."""
    elected_by: dict[str, int] = {}
    """How many of `elections` each origin asked for (ElectionOrigin)."""
    lost_again_within_ms: int = WATCH_MS
    """For how long lost leaderships were watched, from the first election on."""
    examples_lost_again: tuple[TopicPartition, ...] = ()
    examples_not_regained: tuple[TopicPartition, ...] = ()
    ratios: tuple[BrokerRatio, ...] = ()


class RebalanceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The balance of leadership in the cluster's view, computed from the totals."""

    threshold_percentage: int | None = 10
    """None: a KRaft controller has no threshold, it elects for each partition (maybeBalancePartitionLeaders)."""
    auto_leader_rebalance: bool = True
    """auto.leader.rebalance.enable, as assumed."""
    exceeding: tuple[int, ...] = ()
    """Brokers whose imbalance ratio is strictly above the threshold, or above 0 without one; worst first."""
    mendable: tuple[int, ...] = ()
    """Exceeding brokers to which an election could give some leadership back now."""
    electable: int = 0
    """How many partitions it could give back: the controller's next check elects them, if it is enabled."""
    blocked: dict[str, int] = {}
    """How many of the exceeding brokers' partitions it could not give back, by reason (insight.rebalance.Blocked)."""
    recommendation: int | None = None
    """The number of the current recommendation; None if there is none."""
    recommended_at: int | None = None
    recommended: int = 0
    """How many partitions that recommendation contains."""
    made: int = 0
    """Recommendations made in this lineage."""
    graded: dict[str, int] = {}
    """How many recommendations had each outcome."""
