"""What of the views is not known while a source cannot see all of a cluster.

The rule: a figure that depends on something that cannot be seen, be it in part, is None, for whoever reads a view.
What a figure depends on stands in these tables and nowhere else; each has an entry for every field, or for all that
are left. Values that the fold still holds of what can no longer be seen are old, so they are no figures either.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from controller_model.records.pending_writes import PendingWrites
from controller_model.records.views import (
    BrokerRecord,
    BrokerView,
    Capability,
    ClusterView,
    Counts,
    Pending,
)

Needs = frozenset[Capability]


CONTROLLER: Needs = frozenset({Capability.CONTROLLER})
BROKERS: Needs = frozenset({Capability.BROKERS})
PARTITIONS: Needs = frozenset({Capability.TOPICS, Capability.DELETIONS})
"""Which partitions there are and count, with their leaders and ISRs."""
LEADERS: Needs = PARTITIONS | BROKERS
"""Which of them have a leader that lives."""
MIN_ISR: Needs = LEADERS | {Capability.TOPIC_CONFIGS}
HEALTH: Needs = LEADERS | CONTROLLER
"""What is abnormal now, of which incidents are made."""
LOSSES: Needs = MIN_ISR | CONTROLLER
"""What the loss of brokers would break."""
REQUESTS: Needs = frozenset({Capability.REQUESTS})
WRITES: Needs = HEALTH | REQUESTS
"""What is pending from the controller."""
REHEARSALS: Needs = LOSSES | WRITES

COUNTS: Mapping[str, Needs] = {
    **dict.fromkeys(("topics", "partitions"), frozenset({Capability.TOPICS})),
    **dict.fromkeys(
        ("leaderless", "without_state", "under_replicated", "under_replicated_reassigning"),
        PARTITIONS,
    ),
    **dict.fromkeys(("preferred_imbalance", "reassigning", "replication_factor_1"), PARTITIONS),
    **dict.fromkeys(("offline", "pending_leader_writes", "preferred_electable"), LEADERS),
    "replicas_on_gone_brokers": LEADERS,
    **dict.fromkeys(("under_min_isr", "at_min_isr"), MIN_ISR),
    **dict.fromkeys(("under_replicated_at_min_isr", "min_isr_blocks"), MIN_ISR),
    "deleting_topics": frozenset({Capability.DELETIONS}),
}
"""What each figure of `Counts` depends on."""

_LED = {"offline", "pending_leader_writes", *(name for name, of in COUNTS.items() if of is MIN_ISR)}
"""Those that depend on brokers only by whether the leader lives."""

PENDING: Mapping[str, Needs] = {
    **dict.fromkeys(("preferred_election", "preferred_election_at", "notifications"), REQUESTS),
    **dict.fromkeys(("reassign_partitions", "reassign_partitions_at"), REQUESTS),
    "oldest_reassignment_at": PARTITIONS,
    "oldest_deletion_at": frozenset({Capability.DELETIONS}),
    "oldest_request_at": PARTITIONS | REQUESTS,
}
"""What each figure of `Pending` depends on."""

CLUSTER: Mapping[str, Needs] = {
    "controller": CONTROLLER,
    "counters": LEADERS,
    "foreign_writes": HEALTH,
    "brokers_live": BROKERS,
    "incidents": HEALTH,
    "rebalance": LEADERS,
}
"""What parts of a cluster's view depend on as a whole; its other parts have a table of their own, or are never hidden."""

BROKER: Mapping[str, Needs] = {
    **dict.fromkeys(("leaders", "replicas", "in_isr", "coordinated"), PARTITIONS),
    **dict.fromkeys(("preferred", "preferred_not_led", "imbalance_ratio"), PARTITIONS),
    **dict.fromkeys(("preferred_electable", "leader_skew", "inferred_state"), LEADERS),
    **dict.fromkeys(("offline_if_lost", "stranded_if_lost"), LOSSES),
    **dict.fromkeys(("unclean_if_lost", "under_min_isr_if_lost"), LOSSES),
}
"""What the figures of a broker depend on."""


def visible_counts(
    counts: Counts, hidden: AbstractSet[Capability], *, is_kraft: bool = False
) -> Counts:
    """Return the figures that are known while this is hidden; a KRaft controller writes which leaders live (`is_kraft`)."""
    if not hidden:
        return counts
    unknown = _unknown(COUNTS, hidden)
    if is_kraft:
        of_states = _unknown(COUNTS, hidden - BROKERS)
        unknown = {each: None for each in unknown if each in of_states or each not in _LED}
    return msgspec.structs.replace(counts, **unknown)


def visible_pending(pending: Pending, hidden: Collection[Capability]) -> Pending:
    """Return what is known of what waits while this is hidden."""
    return msgspec.structs.replace(pending, **_unknown(PENDING, hidden)) if hidden else pending


def visible_cluster(view: ClusterView) -> ClusterView:
    """Return a cluster's view with what is known while `view.log.hidden` is hidden."""
    hidden = frozenset(view.log.hidden)
    if not hidden:
        return view
    parts = _unknown(CLUSTER, hidden)
    if not WRITES.isdisjoint(hidden):
        parts["pending_writes"] = PendingWrites(counts=None)
    config = view.config
    if Capability.CLUSTER in hidden:
        config = msgspec.structs.replace(config, migration=None)
    if Capability.BROKER_CONFIGS in hidden:
        config = msgspec.structs.replace(config, broker_min_isr={}, broker_unclean={})
    return msgspec.structs.replace(
        view,
        counts=visible_counts(
            view.counts,
            hidden,
            is_kraft=view.controller is not None and view.controller.migrating_to_kraft,
        ),
        pending=visible_pending(view.pending, hidden),
        config=config,
        **parts,
    )


def visible_broker(view: BrokerView, hidden: AbstractSet[Capability]) -> BrokerView:
    """Return a broker's view with what is known while this is hidden."""
    if not hidden:
        return view
    parts = _unknown(BROKER, hidden)
    if not LOSSES.isdisjoint(hidden):
        parts |= {"breaks_if_lost": False, "min_isr_unknown_if_lost": False, "more_if_lost": True}
    if Capability.BROKERS in hidden:
        parts["record"] = BrokerRecord(live=None)
    return msgspec.structs.replace(view, **parts)


def _unknown(table: Mapping[str, Needs], hidden: Collection[Capability]) -> dict[str, Any]:
    return {name: None for name, needs in table.items() if not needs.isdisjoint(hidden)}
