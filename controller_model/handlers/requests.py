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
    about = where(fact.stamp)
    if fact.kind is RequestKind.REASSIGNMENT:
        pending.reassign_partitions = True
        if fact.is_rewritten or not state.control.log.baseline:
            return []
        return [ReassignmentRequested(**about, partitions=fact.partitions)]
    pending.preferred_election = True
    if not state.control.log.baseline:
        return []
    asked_elections.store_tool_request(state.control, fact.partitions)
    return [PreferredElectionRequested(**about, partitions=fact.partitions)]


def apply_request_end(state: ClusterState, fact: RequestGone) -> list[AnyEvent]:
    """Apply that a request does not wait any more; the controller completed it, or somebody withdrew it."""
    pending = state.control.pending
    if fact.kind is RequestKind.REASSIGNMENT:
        pending.reassign_partitions = False
    else:
        pending.preferred_election = False
        asked_elections.expire_tool_request(state.control)
    return []
