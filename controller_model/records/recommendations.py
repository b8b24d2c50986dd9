"""A recommendation that was made, and how well it did: the nouns.

The rule: numbers of partitions are exact; which ones they are is listed up to one run of
kafka-leader-election, and only those are watched for the grade, which says how many that were.
"""

import enum

import msgspec

from controller_model.kafka.ids import TopicPartition

SETTLE_MS = 30_000
"""How long a broker must be above the threshold, with something to elect, before it is recommended: as
long as replica.lag.time.max.ms, so that replicas which come back one by one are all in it."""

CLEAR_MS = 60_000
"""How long nothing must be left to elect before it is no longer recommended: a replica that leaves
the ISR for a moment ends nothing."""

WATCH_MS = 300_000
"""How long elections are watched for their grade: until the controller itself has checked again
(leader.imbalance.check.interval.seconds)."""

REPEAT_MS = 3_600_000
"""What was recommended, elected and graded, and stands all the same, is recommended again so long after
its grade."""

MOST_PARTITIONS = 500
"""Listed and watched: what one run of the command elects (insights.rebalance)."""

TOPICS_LOOKED_AT = 2_000
"""Of a cluster, for the list: each is a topic to load, and a recommendation must not hold up the
fold; the exact number is in `partition_count`, and the exporter lists all of them."""

GRADES_KEPT = 10
"""In the view; older ones stand in the events."""


class Outcome(enum.StrEnum):
    """What became of a recommendation."""

    MENDED = "mended"
    """None of its brokers is above the threshold any more."""
    PARTLY = "partly"
    """Elections were held, and a broker of it is above the threshold still."""
    RELAPSED = "relapsed"
    """The same, and leaders that were regained have been lost again."""
    WITHDRAWN = "withdrawn"
    """No election was held, and it is no longer what to do: the imbalance went away by itself, the
    preferred replicas cannot be elected any more, or another broker has joined it."""


class BrokerRatio(msgspec.Struct, frozen=True, kw_only=True):
    """A broker's imbalance ratio as a recommendation was made, and as it was graded."""

    broker: int
    before: float
    after: float | None = None
    """None until then."""


class Recommended(msgspec.Struct, frozen=True, kw_only=True):
    """Preferred elections that the monitor recommends, because a broker passed the threshold."""

    number: int
    """1, 2, 3 ... within a lineage."""
    made_at: int
    brokers: tuple[int, ...]
    threshold_percentage: int
    """leader.imbalance.per.broker.percentage, as assumed."""
    partition_count: int
    """What can be elected back to these brokers."""
    partitions: tuple[TopicPartition, ...]
    """Those of the first TOPICS_LOOKED_AT topics, at most MOST_PARTITIONS."""
    command: str
    """Asks for all of them as they are when it is run, and elects them."""
    elected_at: int | None = None
    """When the first preferred election towards these brokers was seen since."""
    ratios: tuple[BrokerRatio, ...] = ()


class Grade(msgspec.Struct, frozen=True, kw_only=True):
    """What a recommendation was good for."""

    number: int
    made_at: int
    elected_at: int | None
    """None: no preferred election towards its brokers was seen."""
    graded_at: int
    outcome: Outcome
    partition_count: int
    elections: int
    """Preferred elections towards its brokers, all partitions counted."""
    watched: int
    """The listed partitions but those that are gone: the three numbers that follow are of these."""
    regained: int
    """Led by their preferred replica at some time since; those lost again included."""
    lost_again: int
    not_regained: int
    gone: int = 0
    """Listed partitions that were deleted, or have another preferred replica now."""
    regained_after_ms: int | None = None
    """From the first election to the last leadership regained."""
    elected_by: dict[str, int] = {}
    """How many of `elections` by whom (ElectionOrigin); empty in grades of earlier releases, which did not tell."""
    lost_again_within_ms: int = WATCH_MS
    """How long that was watched for, from the first election on."""
    examples_lost_again: tuple[TopicPartition, ...] = ()
    examples_not_regained: tuple[TopicPartition, ...] = ()
    ratios: tuple[BrokerRatio, ...] = ()


class RebalanceSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What the cluster's view says of balance, out of the totals."""

    threshold_percentage: int = 10
    auto_leader_rebalance: bool = True
    """auto.leader.rebalance.enable, as assumed."""
    exceeding: tuple[int, ...] = ()
    """Brokers whose imbalance ratio is above it, strictly; worst first."""
    mendable: tuple[int, ...] = ()
    """Those of them to which an election could give something back now."""
    electable: int = 0
    """What it could give back: what the controller's next check elects, if it may."""
    blocked: dict[str, int] = {}
    """What it would leave of the exceeding brokers, by reason (insights.rebalance.Blocked)."""
    recommendation: int | None = None
    """The number of the one that stands."""
    recommended_at: int | None = None
    recommended: int = 0
    """How many partitions it was about."""
    made: int = 0
    """Recommendations ever, in this lineage."""
    graded: dict[str, int] = {}
    """How many had each outcome."""
