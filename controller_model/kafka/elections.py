"""Who leads a partition next: Kafka's four leader elections, each a function of plain facts.

The rule: an election depends only on the assignment, the ISR and the online brokers. It chooses in
the order of the assignment and returns the state that the controller would write. None stands for
Kafka's StateChangeFailedException: nobody can be elected. Nothing is written here. A broker is online for a
partition while it is registered, is not shutting down, and holds it in no failed log directory
(ControllerContext.isReplicaOnline); the caller decides which brokers are. Sources (Kafka 3.9):
kafka.controller.Election, PartitionLeaderElectionAlgorithms, kafka.api.LeaderAndIsr,
ZkPartitionStateMachine.doElectLeaderForPartitions and collectUncleanLeaderElectionState.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence

import msgspec

from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import NO_LEADER

RECOVERED = 0
"""Leader recovery state: the leader was elected from the ISR, or has recovered since."""

RECOVERING = 1
"""Leader recovery state: the leader came from outside the ISR (LeaderRecoveryState.RECOVERING)."""

STATE_CHANGE_FAILED = "StateChangeFailedException"
"""kafka.common.StateChangeFailedException: how every failed election ends."""


class Strategy(enum.StrEnum):
    """Why a leader is elected (kafka.controller.PartitionLeaderElectionStrategy)."""

    OFFLINE = "offline"
    """OfflinePartitionLeaderElectionStrategy: the partition has no live leader."""
    REASSIGN = "reassign"
    """ReassignPartitionLeaderElectionStrategy: the leader is not among the target replicas."""
    PREFERRED = "preferred"
    """PreferredReplicaPartitionLeaderElectionStrategy: the first replica is to lead."""
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    """ControlledShutdownPartitionLeaderElectionStrategy: the leader is about to stop."""


class LeaderAndIsr(msgspec.Struct, frozen=True, gc=False):
    """A partition's leader, and who is in sync with it (kafka.api.LeaderAndIsr)."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int = 0
    leader_recovery_state: int = RECOVERED

    def new_leader_and_isr(self, leader: int, isr: tuple[int, ...]) -> LeaderAndIsr:
        """Return the next leader and ISR: the leader epoch grows, the recovery state stays."""
        return LeaderAndIsr(leader, isr, self.leader_epoch + 1, self.leader_recovery_state)

    def new_epoch(self) -> LeaderAndIsr:
        """Return the same leader and ISR under the next leader epoch (LeaderAndIsr.newEpoch)."""
        return self.new_leader_and_isr(self.leader, self.isr)


class Election(msgspec.Struct, frozen=True):
    """The state that an election writes."""

    leader_and_isr: LeaderAndIsr
    unclean: bool = False
    """The leader came from outside the ISR: records that only the old ISR had are lost."""


def leader_for_offline(
    current: LeaderAndIsr,
    replicas: Sequence[int],
    online: Collection[int],
    *,
    unclean: bool = False,
    recovery_supported: bool = True,
) -> Election | None:
    """Elect for a partition whose leader is gone (Election.leaderForOffline).

    The first replica that is online and in the ISR leads; members that are not online leave the
    ISR. With `unclean`, the first online replica leads if no ISR member, assigned or not, is online.

    >>> leader_for_offline(LeaderAndIsr(1, (3, 1, 2), 7), [1, 2, 3], {2, 3}).leader_and_isr
    LeaderAndIsr(leader=2, isr=(3, 2), leader_epoch=8, leader_recovery_state=0)
    >>> leader_for_offline(LeaderAndIsr(1, (1,)), [1, 2], {2}) is None
    True

    Args:
        current: The state that the partition has.
        replicas: The assignment in its order, including replicas that are being added or removed.
        online: Brokers that are online for this partition.
        unclean: The topic allows an unclean election, or an administrator asked for one.
        recovery_supported: The inter-broker protocol is 3.2 or newer.
    """
    in_sync = tuple([member for member in current.isr if member in online])
    leader = _first(replicas, in_sync)
    if leader is not None:
        return Election(current.new_leader_and_isr(leader, in_sync))
    leader = _first(replicas, online)
    if in_sync or not unclean or leader is None:
        return None
    recovery = RECOVERING if recovery_supported else current.leader_recovery_state
    elected = LeaderAndIsr(leader, (leader,), current.leader_epoch + 1, recovery)
    return Election(elected, unclean=True)


def leader_for_reassign(
    current: LeaderAndIsr, target: Sequence[int], online: Collection[int]
) -> Election | None:
    """Elect among the target replicas of a reassignment (Election.leaderForReassign).

    The ISR stays as it is, dead members included.
    """
    leader = _first(target, [member for member in current.isr if member in online])
    if leader is None:
        return None
    return Election(current.new_leader_and_isr(leader, current.isr))


def leader_for_preferred_replica(
    current: LeaderAndIsr, replicas: Sequence[int], online: Collection[int]
) -> Election | None:
    """Elect the first replica or nobody (Election.leaderForPreferredReplica).

    The ISR stays as it is, dead members included.
    """
    return leader_for_reassign(current, replicas[:1], online)


def leader_for_controlled_shutdown(
    current: LeaderAndIsr,
    replicas: Sequence[int],
    online: Collection[int],
    shutting_down: Collection[int],
) -> Election | None:
    """Elect before the leader stops (Election.leaderForControlledShutdown).

    Brokers that are shutting down leave the ISR; dead ones stay in it. `online` may include brokers
    that are shutting down.
    """
    staying = tuple([member for member in current.isr if member not in shutting_down])
    leader = _first(replicas, [member for member in staying if member in online])
    return None if leader is None else Election(current.new_leader_and_isr(leader, staying))


def is_election_needed(
    strategy: Strategy,
    *,
    replicas: Sequence[int],
    leader: int,
    live: Collection[int],
    shutting_down: Collection[int] = (),
) -> bool:
    """Return whether a requested election has anything to do (processReplicaLeaderElection).

    A preferred election has while another broker leads. An unclean one (OFFLINE) has while there is
    no leader, or the leader is not live or is shutting down. Raises ModelError for other strategies.

    >>> is_election_needed(Strategy.PREFERRED, replicas=[1, 2], leader=1, live={1, 2})
    False
    """
    match strategy:
        case Strategy.PREFERRED:
            return leader != replicas[0]
        case Strategy.OFFLINE:
            return leader == NO_LEADER or leader not in live or leader in shutting_down
        case other:
            raise ModelError(f"nobody can ask for an election of kind {other.value!r}")


def _first(replicas: Sequence[int], others: Collection[int]) -> int | None:
    return next((replica for replica in replicas if replica in others), None)
