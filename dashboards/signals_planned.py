"""Signals about planned work: which brokers it is on, and which rules it mutes.

The rule: a mark (`kcm maintenance start`) mutes the rules about that broker alone, and of those
about the whole cluster only what a rolling restart brings about by itself. What clients feel is
never muted: a partition that goes offline during planned work is offline.
"""

from __future__ import annotations

import dataclasses

from dashboards.signal import DrillStep, Signal, by, highest, selected

_MARK = "kcm_broker_maintenance"

PLANNED = Signal(
    name="planned",
    expr=highest(_MARK, "broker"),
    unit="none",
    description="1 while work on the broker is planned (kcm maintenance start): rules about it are "
    "muted; empty else.",
    legend="broker {{broker}}",
    moved_by=DrillStep.PLAN,
)
PLANNED_LEFT = Signal(
    name="planned_left",
    expr=f"{highest('kcm_broker_maintenance_end_timestamp_seconds', 'broker')} - time()",
    unit="dtdurations",
    description="For how long the work planned on the broker still lasts, unless it is ended before.",
    legend="broker {{broker}}",
    moved_by=DrillStep.PLAN,
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


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Mute:
    """Which planned work keeps a rule silent."""

    window: str = ""
    """How far the rule looks back; so long after the work its traces count for nothing."""
    of_cluster: bool = False
    """Whether work on any broker of the cluster does; else on the broker that the rule is about."""

    def clause(self) -> str:
        """Return what is added to the rule's expression."""
        labels = () if self.of_cluster else ("broker",)
        mark = selected(_MARK, "broker")
        marked = f"max_over_time({mark}[{self.window}])" if self.window else mark
        planned = dataclasses.replace(PLANNED, expr=f"max {by(*labels)} ({marked})")
        return f"unless on ({', '.join(('cluster', *labels))}) ({planned.in_rules()})"
