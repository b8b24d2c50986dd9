"""Where trouble begins: of each alert, what its figure is compared with, for how long, and how bad it is.

The rule: this is the only table of thresholds. The alert rules are made from it, boards draw its limits, and
the live page judges by it, so that none of them calls well what another calls trouble. An alert's name is
its key.
"""

import enum
import operator
from collections.abc import Callable, Mapping
from typing import NamedTuple

from controller_model.records.completeness import CLOCKS_DISAGREE_MS, LATE_MS

FLAPPING_ELECTIONS = 3
"""So many elections within the short window are flapping: the restart of one broker makes one at
most."""

FLAPPING_LONG_ELECTIONS = 6
"""So many within the long window: a rolling restart of a small cluster makes fewer, if it ends with
the controller, as it should."""

SKEW_RATIO = 0.5
"""Half as many leaders again as an even share, or half as many: worth a reassignment."""

LATE_SECONDS = LATE_MS // 1000
"""A stage without a sign of life for so long is called late by the cluster's status."""

CLOCKS_DISAGREE_SECONDS = CLOCKS_DISAGREE_MS // 1000
"""Clocks that are further apart are a status of their own."""

SLOW_FAILOVER_SECONDS = 60
"""With 10,000 partitions a new controller needs up to 15 s until its first write."""

RESTLESS_MINUTES = 5
"""In so many minutes of the window: a restart makes two at most, and two restarts four."""

BOUNCES = 3
"""Registrations within the window: a restart makes one."""

REASSIGNMENT_SECONDS = 3600
"""The same as the window in which none has ended."""

DELETION_SECONDS = 900
"""A controller works off thousands of topics in that time."""

FOLD_RESTARTS = 3
"""Within an hour: one may be a rare hang, three are a pattern."""

CHECKPOINT_FREE_RATIO = 0.1
"""Of the volume: a checkpoint grows by less in a day."""

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
    """None: that there is a figure means the alert."""
    limit: float = 0
    hold_s: int = 0
    """For how long it must be so (`for`), in seconds."""

    def is_met(self, value: float | None) -> bool:
        """Return whether a figure is trouble; never where it is not known.

        >>> Threshold(Severity.WARNING, Compare.AT_LEAST, 3).is_met(3)
        True
        """
        if value is None:
            return False
        return self.compare is None or _COMPARES[self.compare](value, self.limit)

    @property
    def condition(self) -> str:
        """What is compared, as PromQL; empty where nothing is.

        >>> Threshold(Severity.WARNING, Compare.ABOVE, 0.5).condition
        '> 0.5'
        """
        return "" if self.compare is None else f"{self.compare} {self.limit}"

    @property
    def hold(self) -> str:
        """The time that it must be so, as Prometheus writes it.

        >>> [Threshold(Severity.WARNING, hold_s=s).hold for s in (0, 30, 600, 3600)]
        ['0s', '30s', '10m', '1h']
        """
        minutes, seconds = divmod(self.hold_s, _MINUTE_S)
        if seconds or not minutes:
            return f"{self.hold_s}s"
        hours, rest = divmod(minutes, _MINUTE_S)
        return f"{minutes}m" if rest else f"{hours}h"


_CRITICAL, _WARNING = Severity.CRITICAL, Severity.WARNING
_ABOVE, _AT_LEAST, _EQUAL, _BELOW = Compare

THRESHOLDS: Mapping[str, Threshold] = {
    "KafkaControllerMissing": Threshold(_CRITICAL, _EQUAL, -1, hold_s=30),
    "KafkaControllerFlapping": Threshold(_WARNING, _AT_LEAST, FLAPPING_ELECTIONS),
    "KafkaControllerFlappingSlowly": Threshold(_WARNING, _AT_LEAST, FLAPPING_LONG_ELECTIONS),
    "KafkaControllerGhost": Threshold(_CRITICAL, _EQUAL, 1),
    "KafkaControllerFailoverSlow": Threshold(_WARNING, _ABOVE, SLOW_FAILOVER_SECONDS),
    "KafkaMigratingToKraft": Threshold(_WARNING, _EQUAL, 1),
    "KafkaPartitionsOffline": Threshold(_CRITICAL, _ABOVE, 0, hold_s=60),
    "KafkaPartitionsUnderMinIsr": Threshold(_CRITICAL, _ABOVE, 0, hold_s=120),
    "KafkaPartitionsAtMinIsr": Threshold(_WARNING, _ABOVE, 0, hold_s=600),
    "KafkaPartitionsUnderReplicated": Threshold(_WARNING, _ABOVE, 0, hold_s=600),
    "KafkaUncleanLeaderElection": Threshold(_CRITICAL, _ABOVE, 0),
    "KafkaReassignmentStuck": Threshold(_WARNING, _ABOVE, REASSIGNMENT_SECONDS, hold_s=900),
    "KafkaTopicDeletionStuck": Threshold(_WARNING, _ABOVE, DELETION_SECONDS, hold_s=300),
    "KafkaBrokerGone": Threshold(_WARNING, _ABOVE, 0, hold_s=300),
    "KafkaBrokerGoneAtMinIsr": Threshold(_CRITICAL, _ABOVE, 0, hold_s=900),
    "KafkaBrokerBouncing": Threshold(_WARNING, _AT_LEAST, BOUNCES),
    "KafkaIsrFlapping": Threshold(_WARNING, _AT_LEAST, RESTLESS_MINUTES),
    "KafkaLogDirFailed": Threshold(_CRITICAL, _ABOVE, 0),
    "KafkaLeadersImbalanced": Threshold(_WARNING, hold_s=600),
    "KafkaLeadersCannotReturn": Threshold(_WARNING, hold_s=1800),
    "KafkaLeadersSkewed": Threshold(_WARNING, _ABOVE, SKEW_RATIO, hold_s=3600),
    "KcmBlind": Threshold(_CRITICAL, hold_s=60),
    "KcmBehind": Threshold(_WARNING, _ABOVE, LATE_SECONDS, hold_s=60),
    "KcmBehindForLong": Threshold(_CRITICAL, _ABOVE, LATE_SECONDS, hold_s=600),
    "KcmNotServed": Threshold(_CRITICAL, hold_s=300),
    "KcmNoWatcherLeads": Threshold(_WARNING, _ABOVE, 0, hold_s=300),
    "KcmStandbyMissing": Threshold(_WARNING, _ABOVE, 0, hold_s=300),
    "KcmPathsDenied": Threshold(_WARNING, _ABOVE, 0, hold_s=300),
    "KcmFoldRestarts": Threshold(_WARNING, _AT_LEAST, FOLD_RESTARTS),
    "KcmCheckpointFull": Threshold(_WARNING, _BELOW, CHECKPOINT_FREE_RATIO, hold_s=300),
    "KcmClocksDisagree": Threshold(_WARNING, _ABOVE, CLOCKS_DISAGREE_SECONDS, hold_s=300),
    "KcmMinIsrNotKnown": Threshold(_WARNING, _ABOVE, 0, hold_s=600),
    "KcmIncompleteOrDivergent": Threshold(_WARNING, _ABOVE, 0, hold_s=300),
}
"""By the alert's name."""
