"""The thresholds of all alerts: what a figure is compared with, for how long, and how severe it is.

This is the only table of thresholds. The alert rules are made from it, dashboards draw its limits, and
the live page judges by it, so that none of them shows as normal what another reports as trouble. The key is the
alert's name.
"""

import enum
import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple

from controller_model.records.completeness import CLOCKS_DISAGREE_MS, LATE_MS

FLAPPING_ELECTIONS = 3
"""Elections within the short window that are flapping: the restart of one broker causes at most
one."""

FLAPPING_LONG_ELECTIONS = 6
"""Elections within the long window: a rolling restart of a small cluster causes fewer, if it
restarts the controller last, as it should."""

SKEW_RATIO = 0.5
"""50 % more leaders than an even share, or 50 % fewer: enough for a reassignment to pay off."""

LATE_SECONDS = LATE_MS // 1000
"""After this long without a sign of life, the cluster's status reports a stage as late."""

CLOCKS_DISAGREE_SECONDS = CLOCKS_DISAGREE_MS // 1000
"""Clocks that differ by more have a status of their own."""

SLOW_FAILOVER_SECONDS = 60
"""With 10,000 partitions a new controller needs up to 15 s until its first write."""

ISR_FLAPPING_MINUTES = 5
"""Minutes of the window in which replicas left: a restart causes two at most, and two restarts four."""

BOUNCES = 3
"""Registrations within the window: a restart causes one."""

REASSIGNMENT_SECONDS = 3600
"""As long as the window in which no reassignment has ended."""

DELETION_SECONDS = 900
"""A controller deletes thousands of topics in that time."""

REQUEST_SECONDS = 240
"""A controller begins with a request within seconds, and within minutes while it fails over."""

FOLD_RESTARTS = 3
"""Restarts within an hour: one may be a rare hang, three are a pattern."""

CHECKPOINT_FREE_RATIO = 0.1
"""The free part of the volume: a checkpoint grows by less in a day."""

VOTER_BEHIND_SECONDS = 10
"""Twenty no-ops of the leader: a voter that follows is behind by less than one."""

METADATA_BEHIND_SECONDS = 30
"""A broker that follows is behind by less than a second, and applies a large change within seconds."""

FENCED_BROKERS = 3
"""Brokers within the window: one is a broker's fault, and two may be."""

SNAPSHOT_SECONDS = 3 * 3600
"""Three times Kafka's default interval (metadata.log.max.snapshot.interval.ms)."""

_MINUTE_S = 60


class Severity(enum.StrEnum):
    """Who is notified: somebody now, or somebody during the day."""

    CRITICAL = "critical"
    WARNING = "warning"


class Compare(enum.StrEnum):
    """How a figure is compared with the limit, as PromQL writes it."""

    ABOVE = ">"
    AT_LEAST = ">="
    EQUAL = "=="
    BELOW = "<"


_COMPARES: Mapping[Compare, Callable[[float, float], bool]] = {
    Compare.ABOVE: operator.gt,
    Compare.AT_LEAST: operator.ge,
    Compare.EQUAL: operator.eq,
    Compare.BELOW: operator.lt,
}


class Threshold(NamedTuple):
    """When one alert fires."""

    severity: Severity
    compare: Compare | None = None
    """None: the alert fires whenever the figure exists."""
    limit: float = 0
    for_s: int = 0
    """For how many seconds the condition must be true (`for`)."""

    def is_met(self, value: float | None) -> bool:
        """Return whether a figure meets the threshold; False if it is not known.

        >>> Threshold(Severity.WARNING, Compare.AT_LEAST, 3).is_met(3)
        True
        """
        if value is None:
            return False
        return self.compare is None or _COMPARES[self.compare](value, self.limit)

    @property
    def condition(self) -> str:
        """The comparison, as PromQL; empty if nothing is compared.

        >>> Threshold(Severity.WARNING, Compare.ABOVE, 0.5).condition
        '> 0.5'
        """
        return "" if self.compare is None else f"{self.compare} {self.limit}"

    @property
    def for_text(self) -> str:
        """The time for which the condition must be true, as Prometheus writes it.

        >>> [Threshold(Severity.WARNING, for_s=s).for_text for s in (0, 30, 600, 3600)]
        ['0s', '30s', '10m', '1h']
        """
        minutes, seconds = divmod(self.for_s, _MINUTE_S)
        if seconds or not minutes:
            return f"{self.for_s}s"
        hours, rest = divmod(minutes, _MINUTE_S)
        return f"{minutes}m" if rest else f"{hours}h"


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING
_ABOVE, _AT_LEAST, _EQUAL, _BELOW = Compare

THRESHOLDS: Mapping[str, Threshold] = {
    "KafkaControllerMissing": Threshold(_CRITICAL, _EQUAL, -1, for_s=30),
    "KafkaControllerFlapping": Threshold(_WARNING, _AT_LEAST, FLAPPING_ELECTIONS),
    "KafkaControllerFlappingSlowly": Threshold(_WARNING, _AT_LEAST, FLAPPING_LONG_ELECTIONS),
    "KafkaControllerZombie": Threshold(_CRITICAL, _EQUAL, 1),
    "KafkaControllerFailoverSlow": Threshold(_WARNING, _ABOVE, SLOW_FAILOVER_SECONDS),
    "KafkaForeignWrites": Threshold(_CRITICAL, _ABOVE, 0),
    "KafkaMigratingToKraft": Threshold(_WARNING, _EQUAL, 1),
    "KafkaControllerSilent": Threshold(_CRITICAL, _EQUAL, 1, for_s=30),
    "KafkaQuorumCommitsStopped": Threshold(_CRITICAL, _EQUAL, 1, for_s=30),
    "KafkaQuorumMarginLost": Threshold(_CRITICAL, _BELOW, 1, for_s=300),
    "KafkaVoterBehind": Threshold(_WARNING, _ABOVE, VOTER_BEHIND_SECONDS, for_s=60),
    "KafkaFenceStorm": Threshold(_CRITICAL, _AT_LEAST, FENCED_BROKERS),
    "KafkaGoneNodeRegistered": Threshold(_WARNING, _ABOVE, 0, for_s=1800),
    "KafkaSnapshotOld": Threshold(_WARNING, _ABOVE, SNAPSHOT_SECONDS, for_s=300),
    "KafkaPartitionsOffline": Threshold(_CRITICAL, _ABOVE, 0, for_s=60),
    "KafkaPartitionsWithoutState": Threshold(_WARNING, _ABOVE, 0, for_s=300),
    "KafkaPartitionsUnderMinIsr": Threshold(_CRITICAL, _ABOVE, 0, for_s=120),
    "KafkaPartitionsAtMinIsr": Threshold(_WARNING, _ABOVE, 0, for_s=600),
    "KafkaPartitionsUnderReplicated": Threshold(_WARNING, _ABOVE, 0, for_s=600),
    "KafkaUncleanLeaderElection": Threshold(_CRITICAL, _ABOVE, 0),
    "KafkaIsrEmpty": Threshold(_CRITICAL, _ABOVE, 0, for_s=60),
    "KafkaPartitionsRecovering": Threshold(_WARNING, _ABOVE, 0, for_s=300),
    "KafkaReassignmentStuck": Threshold(_WARNING, _ABOVE, REASSIGNMENT_SECONDS, for_s=900),
    "KafkaTopicDeletionStuck": Threshold(_WARNING, _ABOVE, DELETION_SECONDS, for_s=300),
    "KafkaRequestStuck": Threshold(_WARNING, _ABOVE, REQUEST_SECONDS, for_s=60),
    "KafkaBrokerGone": Threshold(_WARNING, _ABOVE, 0, for_s=300),
    "KafkaBrokerFenced": Threshold(_WARNING, _ABOVE, 0, for_s=300),
    "KafkaBrokerGoneAtMinIsr": Threshold(_CRITICAL, _ABOVE, 0, for_s=900),
    "KafkaBrokerBouncing": Threshold(_WARNING, _AT_LEAST, BOUNCES),
    "KafkaBrokerMetadataBehind": Threshold(_WARNING, _ABOVE, METADATA_BEHIND_SECONDS, for_s=60),
    "KafkaIsrFlapping": Threshold(_WARNING, _AT_LEAST, ISR_FLAPPING_MINUTES),
    "KafkaLogDirFailed": Threshold(_CRITICAL, _ABOVE, 0),
    "KafkaLeadersImbalanced": Threshold(_WARNING, for_s=600),
    "KafkaLeadersCannotReturn": Threshold(_WARNING, for_s=1800),
    "KafkaLeadersSkewed": Threshold(_WARNING, _ABOVE, SKEW_RATIO, for_s=3600),
    "KcmBlind": Threshold(_CRITICAL, for_s=60),
    "KcmBehind": Threshold(_WARNING, _ABOVE, LATE_SECONDS, for_s=60),
    "KcmBehindForLong": Threshold(_CRITICAL, _ABOVE, LATE_SECONDS, for_s=600),
    "KcmNotServed": Threshold(_CRITICAL, for_s=300),
    "KcmNoWatcherLeads": Threshold(_WARNING, _ABOVE, 0, for_s=300),
    "KcmStandbyMissing": Threshold(_WARNING, _ABOVE, 0, for_s=300),
    "KcmPathsDenied": Threshold(_WARNING, _ABOVE, 0, for_s=300),
    "KcmFoldRestarts": Threshold(_WARNING, _AT_LEAST, FOLD_RESTARTS),
    "KcmCheckpointFull": Threshold(_WARNING, _BELOW, CHECKPOINT_FREE_RATIO, for_s=300),
    "KcmClocksDisagree": Threshold(_WARNING, _ABOVE, CLOCKS_DISAGREE_SECONDS, for_s=300),
    "KcmQuorumNotKnown": Threshold(_WARNING, _ABOVE, 0, for_s=600),
    "KcmMinIsrNotKnown": Threshold(_WARNING, _ABOVE, 0, for_s=600),
    "KcmIncompleteOrDivergent": Threshold(_WARNING, _ABOVE, 0, for_s=300),
}
"""The threshold of each alert, by the alert's name."""
