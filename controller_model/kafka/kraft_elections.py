"""Who leads a partition of a KRaft cluster next.

The rule: as in `elections`, an election depends only on the assignment, the ISR, the active brokers and, where a cluster
has them, the eligible leader replicas. Nothing is written here. A broker is active while it is registered, not fenced
and not in controlled shutdown (ClusterControlManager.isActive). A replica's own log directory has to be online as well
(ReplicationControlManager.LeaderAcceptor, DirectoryId.isOnline). Source (Kafka 3.9 and 4.1):
org.apache.kafka.controller.PartitionChangeBuilder (electAnyLeader, maybePopulateTargetElr),
ReplicationControlManager.generateLeaderAndIsrUpdates.
"""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from controller_model.kafka.ids import NO_LEADER


class EligibleLeaders(NamedTuple):
    """Replicas that may lead although they are not in the ISR (KIP-966), and those that may not lead at all."""

    elr: tuple[int, ...] = ()
    """They hold everything that was committed: they may lead when nobody is in sync."""
    last_known: tuple[int, ...] = ()
    """The last leader, while there is none: it may lead if it comes back, and something may be lost."""
    failed: tuple[int, ...] = ()
    """Replicas whose log directory is offline (KIP-858)."""


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
) -> AfterFencing:
    """Return a partition once every broker that is not active is fenced.

    Fenced members leave the ISR. Where the cluster has eligible leader replicas (`has_elr`) the last ones too, and they
    become eligible; otherwise the last member stays. Those that are eligible may lead also after the feature was
    switched off (PartitionChangeBuilder.isValidNewLeader does not ask for it). A partition that has no leader keeps what it has until one
    can be elected. The leader stays if it is active; else the first replica leads
    that is in the ISR, or, if that is empty, eligible; then a single last known leader; then, with `unclean`, anybody.
    One whose log directory is offline is passed over.

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
    elr, last_known, failed = EligibleLeaders() if eligible is None else eligible
    if leader in in_sync and leader not in failed:
        return AfterFencing(leader, in_sync)
    able = [replica for replica in replicas if replica in active and replica not in failed]
    candidates = in_sync or elr
    chosen = next((replica for replica in able if replica in candidates), NO_LEADER)
    if chosen != NO_LEADER:
        return AfterFencing(chosen, in_sync or (chosen,))
    has_candidates = in_sync or elr or (has_elr and isr)
    if has_elr and not has_candidates and len(last_known) == 1 and last_known[0] in able:
        return AfterFencing(last_known[0], last_known, unclean=True)
    if unclean and able:
        return AfterFencing(able[0], (able[0],), unclean=True)
    if leader == NO_LEADER:
        return AfterFencing(NO_LEADER, isr)
    return AfterFencing(NO_LEADER, in_sync if has_elr else in_sync or isr[:1])
