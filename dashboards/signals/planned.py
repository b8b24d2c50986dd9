"""Signals about planned work: which brokers it is on, and which rules it mutes.

The rule: a mark (`kcm maintenance start`) mutes the rules about that broker alone, and of those
about the whole cluster only what a rolling restart brings about by itself. What clients feel is
never muted: a partition that goes offline during planned work is offline. When the mark ends, rules
count again at once: those that look back over a window leave out what happened under the mark, and
nothing that came after it.
"""

from __future__ import annotations

import dataclasses

from dashboards.signals.signal import DrillStep, Signal, by, highest, lowest, of_one_start, selected

_MARK = "kcm_broker_maintenance"

PLANNED_COUNTS_NOT = "After planned work (kcm maintenance) it counts from the end of that."
"""Said where a figure leaves planned work out."""

_LOOK = "1m"
"""Between two looks back at what stood under a mark: what happens in its last minute may count."""

PLANNED = Signal(
    name="planned",
    expr=highest(_MARK, "broker"),
    unit="none",
    description="1 while work on the broker is planned (kcm maintenance start): rules about it are "
    "muted; empty else.",
    legend="broker {{broker}}",
    moved_by=DrillStep.PLAN,
    appears=True,  # There is none before work is planned.
)
PLANNED_LEFT = Signal(
    name="planned_left",
    expr=f"{highest('kcm_broker_maintenance_end_timestamp_seconds', 'broker')} - time()",
    unit="dtdurations",
    description="For how long the work planned on the broker still lasts, unless it is ended before.",
    legend="broker {{broker}}",
    moved_by=DrillStep.PLAN,
    appears=True,  # There is none before work is planned.
)
PLANNED_CAUGHT_UP = Signal(
    name="planned_caught_up",
    expr=f"({highest('kafka_broker_in_sync_replicas', 'broker')} / "
    f"({highest('kafka_broker_replicas', 'broker')} > 0)) and on (cluster, broker) ({PLANNED.expr})",
    unit="percentunit",
    description="The share of replicas that are in sync, of each broker with planned work: 100 % "
    "when it may be the next one's turn.",
    legend="broker {{broker}}",
    moved_by=DrillStep.PLAN,
)


def _marked(*labels: str) -> str:
    """Return what has a value while work is planned on the broker or, without labels, on any."""
    return f"max {by(*labels)} ({selected(_MARK, 'broker')})"


def _on(*labels: str) -> str:
    return f"on ({', '.join(('cluster', *labels))})"


def grown_unplanned(metric: str, window: str, *labels: str, look: str = _LOOK) -> str:
    """Return by how much a figure has grown within a window since the last planned work in it.

    Without planned work, and where the figure started again after it, that is `grown`.
    """
    now = highest(metric, *labels)
    under_mark = f"{now} and {_on(*labels)} {_marked(*labels)}"
    at_its_end = f"last_over_time(({under_mark})[{window}:{look}])"
    growth = f"{now} - ({at_its_end} <= {now} or {lowest(metric, window, *labels)})"
    return of_one_start(metric, growth)


def changes_unplanned(metric: str, window: str, *labels: str) -> str:
    """Return in how many minutes of a window a figure changed; those under a mark count as one."""
    now = f"{highest(metric, *labels)} unless {_on(*labels)} {_marked(*labels)}"
    return f"changes(({now})[{window}:1m])"


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Mute:
    """Which planned work keeps a rule silent while it lasts."""

    of_cluster: bool = False
    """Whether work on any broker of the cluster does; else on the broker that the rule is about."""

    def clause(self) -> str:
        """Return what is added to the rule's expression."""
        labels = () if self.of_cluster else ("broker",)
        planned = dataclasses.replace(PLANNED, expr=_marked(*labels))
        return f"unless {_on(*labels)} ({planned.in_rules()})"
