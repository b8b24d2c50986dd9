"""Who leads a partition of a KRaft cluster next.

The rule: as in `elections`, an election depends only on the assignment, the ISR, the active brokers and, where a cluster
has them, the eligible leader replicas. Nothing is written here. A broker is active while it is registered, not fenced
and not in controlled shutdown (ClusterControlManager.isActive). A replica's own log directory has to be online as well
(ReplicationControlManager.LeaderAcceptor): that it is not is known of those that left the ISR for it and are
eligible; others on a broker with a failed directory are taken for able to lead. Source (Kafka 3.9 and 4.1):
org.apache.kafka.controller.PartitionChangeBuilder (electAnyLeader, maybePopulateTargetElr),
ReplicationControlManager.generateLeaderAndIsrUpdates.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from controller_model.kafka.ids import NO_LEADER


class EligibleLeaders(NamedTuple):
    """Replicas that may lead although they are not in the ISR (KIP-966)."""

    elr: tuple[int, ...] = ()
    """They hold everything that was committed: they may lead when nobody is in sync."""
    last_known: tuple[int, ...] = ()
    """The last leader, while there is none: it may lead if it comes back, and something may be lost."""
    failed: tuple[int, ...] = ()
    """Those of `elr` that left the ISR as their log directory went offline: they may not lead until it is back."""


class AfterFencing(NamedTuple):
    """A partition after the controller has done all it can."""

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False
    """The leader may lack records that were committed."""


def leader_after_fencing(
    replicas: Sequence[int],
    leader: int,
    isr: tuple[int, ...],
    active: Collection[int],
    *,
    eligible: EligibleLeaders | None = None,
    has_elr: bool = False,
    unclean: bool = False,
    failed_dirs: Collection[int] = (),
) -> AfterFencing:
    """Return a partition once every broker that is not active is fenced.

    Fenced members leave the ISR. Where the cluster has eligible leader replicas (`has_elr`) the last ones too, and they
    become eligible; otherwise the last member stays. Those that are eligible may lead also after the feature was
    switched off (PartitionChangeBuilder.isValidNewLeader does not ask for it). A partition that has no leader keeps what it has until one
    can be elected. The leader stays if it is active; else the first replica leads
    that is in the ISR, or, if that is empty, eligible; then a single last known leader; then, with `unclean`, anybody.
    An eligible one whose log directory failed is passed over while its broker is in `failed_dirs`, those that still lack one.

    >>> leader_after_fencing((1, 2, 3), 1, (1, 2), {2, 3})
    AfterFencing(leader=2, isr=(2,), unclean=False)
    >>> leader_after_fencing((1, 2, 3), 1, (1,), {2}, eligible=EligibleLeaders((2,)), has_elr=True)
    AfterFencing(leader=2, isr=(2,), unclean=False)
    >>> leader_after_fencing((1, 2), 1, (1,), {2})
    AfterFencing(leader=-1, isr=(1,), unclean=False)
    >>> leader_after_fencing((1, 2), -1, (), {2}, eligible=EligibleLeaders((), (2,)), has_elr=True)
    AfterFencing(leader=2, isr=(2,), unclean=True)
    """
    in_sync = tuple([member for member in isr if member in active])
    if leader in active and leader in in_sync:
        return AfterFencing(leader, in_sync)
    elr = set() if eligible is None else set(eligible.elr)
    if has_elr:
        elr.update(isr)
    failed = () if eligible is None else set(eligible.failed).intersection(failed_dirs)
    able = [replica for replica in replicas if replica in active and replica not in failed]
    candidates = in_sync or elr.intersection(able)
    chosen = next((replica for replica in replicas if replica in candidates), NO_LEADER)
    if chosen != NO_LEADER:
        return AfterFencing(chosen, in_sync or (chosen,))
    last_known = () if eligible is None else eligible.last_known
    if has_elr and not in_sync and not elr and len(last_known) == 1 and last_known[0] in active:
        return AfterFencing(last_known[0], last_known, unclean=True)
    if unclean and able:
        return AfterFencing(able[0], (able[0],), unclean=True)
    if leader == NO_LEADER:
        return AfterFencing(NO_LEADER, isr)
    return AfterFencing(NO_LEADER, in_sync if has_elr else in_sync or isr[:1])
