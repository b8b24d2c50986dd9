"""What of the views is not known while a source cannot see all of a cluster, and what it never shows of one.

The rule: a figure that depends on something that cannot be seen, be it in part, is None, for whoever reads a view. So is
one that depends on what this kind of cluster does not have, or its source never shows (`LogView.absent`): then the figures
are complete without it.
What a figure depends on stands in these tables and nowhere else; each has an entry for every field, or for all that
are left. Values that the fold still holds of what can no longer be seen are old, so they are no figures either.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.pending_writes import PendingWrites
from controller_model.records.views import (
    BrokerRecord,
    BrokerView,
    Capability,
    ClusterView,
    ControllerView,
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
WORK: Needs = frozenset({Capability.PENDING_WRITES})
"""What the controller has decided, or must do, and has not written yet."""
WRITES: Needs = HEALTH | WORK | REQUESTS
"""What is pending from the controller."""
REHEARSALS: Needs = LOSSES | WRITES

COUNTS: Mapping[str, Needs] = {
    **dict.fromkeys(("topics", "partitions"), frozenset({Capability.TOPICS})),
    **dict.fromkeys(
        ("leaderless", "under_replicated", "under_replicated_reassigning"),
        PARTITIONS,
    ),
    **dict.fromkeys(("preferred_imbalance", "reassigning", "replication_factor_1"), PARTITIONS),
    **dict.fromkeys(("recovering", "isr_empty", "with_elr"), PARTITIONS),
    **dict.fromkeys(("offline", "preferred_electable"), LEADERS),
    "pending_leader_writes": LEADERS | WORK,
    "without_state": PARTITIONS | WORK,
    "replicas_on_gone_brokers": LEADERS,
    **dict.fromkeys(("under_min_isr", "at_min_isr"), MIN_ISR),
    **dict.fromkeys(("under_replicated_at_min_isr", "min_isr_blocks"), MIN_ISR),
    "deleting_topics": WORK | {Capability.DELETIONS},
}
"""What each figure of `Counts` depends on."""

_LED = {"offline", "pending_leader_writes", *(name for name, of in COUNTS.items() if of is MIN_ISR)}
"""Those that depend on brokers only by whether the leader lives."""

PENDING: Mapping[str, Needs] = {
    **dict.fromkeys(("preferred_election", "preferred_election_at", "notifications"), REQUESTS),
    **dict.fromkeys(("reassign_partitions", "reassign_partitions_at"), REQUESTS),
    "oldest_reassignment_at": PARTITIONS,
    "oldest_deletion_at": WORK | {Capability.DELETIONS},
    "oldest_request_at": PARTITIONS | REQUESTS,
}
"""What each figure of `Pending` depends on."""

OF_CONTROLLER: Mapping[str, Needs] = {
    **dict.fromkeys(("failover", "failover_since", "failover_last_ms"), WORK),
    "stale_writes": frozenset({Capability.FOREIGN_WRITES}),
}
"""What those figures of a controller depend on that not every cluster has, if the controller itself can be seen."""

CLUSTER: Mapping[str, Needs] = {
    "controller": CONTROLLER,
    "counters": LEADERS,
    "foreign_writes": HEALTH | {Capability.FOREIGN_WRITES},
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
    """Return the figures that are known while this is hidden or absent.

    `is_kraft`: a KRaft controller writes which leaders live.
    """
    if not hidden:
        return counts
    unknown = _unknown(COUNTS, hidden)
    if is_kraft:
        of_states = _unknown(COUNTS, hidden - BROKERS)
        unknown = {each: None for each in unknown if each in of_states or each not in _LED}
    return msgspec.structs.replace(counts, **unknown)


def visible_pending(pending: Pending, hidden: Collection[Capability]) -> Pending:
    """Return what is known of what waits while this is hidden or absent."""
    return msgspec.structs.replace(pending, **_unknown(PENDING, hidden)) if hidden else pending


def visible_cluster(view: ClusterView) -> ClusterView:
    """Return a cluster's view with what is known of it while `view.log.unseen` is hidden or absent."""
    hidden = view.log.unseen
    if not hidden:
        return view
    controller = view.controller
    parts: dict[str, Any] = {"controller": _visible_controller(view, hidden)}
    parts |= _unknown(CLUSTER, hidden)
    if not WRITES.isdisjoint(hidden):
        parts["pending_writes"] = PendingWrites(counts=None)
    config = view.config
    if Capability.CLUSTER in hidden:
        config = msgspec.structs.replace(config, migration=None)
    if Capability.BROKER_CONFIGS in hidden:
        config = msgspec.structs.replace(config, broker_min_isr={}, broker_unclean={})
    is_kraft = not view.has_zookeeper or (controller is not None and controller.migrating_to_kraft)
    return msgspec.structs.replace(
        view,
        counts=visible_counts(view.counts, hidden, is_kraft=is_kraft),
        pending=visible_pending(view.pending, hidden),
        config=config,
        **parts,
    )


def _visible_controller(
    view: ClusterView, hidden: AbstractSet[Capability]
) -> ControllerView | None:
    """Return what is known of the controller; None: not who it is.

    A snapshot of a metadata log does not say who is the active controller: until a controller answers or one is
    elected, it is neither known nor vacant.
    """
    held = view.controller
    if held is None:
        return None
    is_named = held.id != NO_CONTROLLER or held.vacant_since is not None
    if not (is_named or view.has_zookeeper):
        return None
    return msgspec.structs.replace(held, **_unknown(OF_CONTROLLER, hidden))


def visible_broker(view: BrokerView, hidden: AbstractSet[Capability]) -> BrokerView:
    """Return a broker's view with what is known while this is hidden or absent."""
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
