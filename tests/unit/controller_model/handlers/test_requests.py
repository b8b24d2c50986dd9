"""Requests in /admin: since when they wait, and when the controller has begun with them."""

from __future__ import annotations

from controller_model.records.views import ClusterView, Pending
from tests.support.histories import Fold, History, begun

REASSIGNMENT, ELECTION = "/admin/reassign_partitions", "/admin/preferred_replica_election"
ASKED = {"version": 1, "partitions": [{"topic": "t", "partition": 0, "replicas": [0, 1]}]}


def pending(history: History, fold: Fold) -> Pending:
    """Return what waits, after a heartbeat."""
    history.heartbeat()
    fold.follow(history)
    view: ClusterView = fold.cluster_view()
    return view.pending


def test_a_request_waits_since_it_was_made() -> None:
    """A reassignment that is rewritten is the same request; one that was deleted is not."""
    history, fold = begun()
    history.set(REASSIGNMENT, ASKED)
    first = pending(history, fold)
    made = first.reassign_partitions_at
    assert made is not None
    assert first.oldest_request_at == made
    history.set(REASSIGNMENT, ASKED)
    history.set(ELECTION, {"version": 1, "partitions": []})
    later = pending(history, fold)
    assert (later.reassign_partitions_at, later.oldest_request_at) == (made, made)
    assert later.preferred_election_at is not None
    assert later.preferred_election_at > made
    history.delete(REASSIGNMENT)
    left = pending(history, fold)
    assert left.reassign_partitions_at is None
    assert left.oldest_request_at == later.preferred_election_at
    history.delete(ELECTION)
    assert pending(history, fold).oldest_request_at is None


def test_the_controller_has_begun_with_reassignments_while_partitions_are_reassigned() -> None:
    """A request of preferred elections waits all the same."""
    history, fold = begun(t={0: (0, 1, 2)})
    history.set(REASSIGNMENT, ASKED)
    history.topic("t", {0: (0, 1, 2)}, removing={0: (2,)})
    begun_with = pending(history, fold)
    assert begun_with.reassign_partitions_at is not None
    assert begun_with.oldest_request_at is None
    history.set(ELECTION, {"version": 1, "partitions": []})
    both = pending(history, fold)
    assert both.oldest_request_at == both.preferred_election_at
