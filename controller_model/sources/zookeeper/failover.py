"""The work of a failover: the leaders that the controller has to write after its election, as znodes show it.

The rule: ZooKeeper shows the work by the leaders that are gone. It begins with an election, or with the end
of a broker that explains one, and ends with the last pending leader write.
"""

from controller_model.facts.facts import FailoverIs
from controller_model.facts.stamp import Stamp
from controller_model.records.events import AnyEvent
from controller_model.records.views import Failover
from controller_model.sources.zookeeper.state import FailoverState, zookeeper_of
from controller_model.state.cluster import ClusterState
from controller_model.state.figures import pending_leader_writes
from controller_model.state.source import Handle


def begin_failover(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """Begin the work, if a leader is gone; during a migration ZooKeeper does not show it."""
    control = state.control
    pending = pending_leader_writes(control)
    zookeeper_of(control).failover = FailoverState(partitions=pending, pending=pending)
    if control.controller.view.migrating_to_kraft:
        begun = Failover.UNKNOWN
    else:
        begun = Failover.UNDER_WAY if pending else Failover.NOT_NEEDED
    return handle(state, FailoverIs(stamp, begun, since=stamp.at))


def count_writes(state: ClusterState, stamp: Stamp, by: int, handle: Handle) -> list[AnyEvent]:
    """Count leader writes that a partition's state made pending (`by` > 0) or did (`by` < 0)."""
    failover = zookeeper_of(state.control).failover
    if state.control.controller.view.failover is not Failover.UNDER_WAY or not by:
        return []
    failover.pending += by
    if by < 0:
        failover.last_write_at = stamp.at
    return [] if failover.pending > 0 else finish_failover(state, stamp, handle)


def finish_failover(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """End the work if no leader write is pending any more, by a new count of them."""
    control = state.control
    view = control.controller.view
    if view.failover is not Failover.UNDER_WAY:
        return []
    failover = zookeeper_of(control).failover
    failover.pending = pending_leader_writes(control)
    if failover.pending:
        return []
    ended_at = failover.last_write_at or stamp.at
    done = FailoverIs(
        stamp,
        Failover.DONE,
        since=view.failover_since,
        took_ms=max(0, ended_at - (view.failover_since or ended_at)),
        partitions=failover.partitions,
    )
    return handle(state, done)
