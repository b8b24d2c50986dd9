"""What tools ask the controller for, and wait for: reassignments and preferred elections."""

from controller_model.facts.facts import RequestGone, RequestIs, RequestKind
from controller_model.facts.stamp import where
from controller_model.records.events import (
    AnyEvent,
    PreferredElectionRequested,
    ReassignmentRequested,
)
from controller_model.state.cluster import ClusterState
from controller_model.tracking import asked_elections


def apply_request(state: ClusterState, fact: RequestIs) -> list[AnyEvent]:
    """Apply a request, and report it if it is new."""
    pending = state.control.pending
    about, since = where(fact.stamp), fact.stamp.at if fact.since is None else fact.since
    if fact.kind is RequestKind.REASSIGNMENT:
        if not pending.reassign_partitions or not fact.is_rewritten:
            pending.reassign_partitions_at = since
        pending.reassign_partitions = True
        if fact.is_rewritten or not state.control.log.baseline:
            return []
        return [ReassignmentRequested(**about, partitions=fact.partitions)]
    pending.preferred_election, pending.preferred_election_at = True, since
    if not state.control.log.baseline:
        return []
    asked_elections.store_tool_request(state.control, fact.partitions)
    return [PreferredElectionRequested(**about, partitions=fact.partitions)]


def apply_request_end(state: ClusterState, fact: RequestGone) -> list[AnyEvent]:
    """Apply that a request does not wait any more; the controller completed it, or somebody withdrew it."""
    pending = state.control.pending
    if fact.kind is RequestKind.REASSIGNMENT:
        pending.reassign_partitions, pending.reassign_partitions_at = False, None
    else:
        pending.preferred_election, pending.preferred_election_at = False, None
        asked_elections.expire_tool_request(state.control)
    return []
