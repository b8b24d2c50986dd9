"""Who leads a partition next: Kafka's four leader elections, as one function of plain facts.

The rule: an election is decided from the assignment, the ISR and the live brokers alone, in the
assignment's order, and gives the state that the controller would write, or the name of the
exception with which it gives up. Nothing is written here and nothing is asked twice. Sources
(Kafka 3.9): kafka.controller.Election, PartitionLeaderElectionAlgorithms,
ZkPartitionStateMachine.doElectLeaderForPartitions and collectUncleanLeaderElectionState,
kafka.api.LeaderAndIsr.

`elect` is the election itself. Whether one is wanted at all, and how an administrator is told that
it failed, are questions of the request: `is_election_needed` and `admin_error`.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence

import msgspec

from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import NO_LEADER
from controller_model.kafka.replica_assignment import diff

RECOVERED = 0
"""Leader recovery state: the leader was elected from the ISR, or has recovered since."""

RECOVERING = 1
"""Leader recovery state: the leader came from outside the ISR (LeaderRecoveryState.RECOVERING)."""

STATE_CHANGE_FAILED = "StateChangeFailedException"
"""kafka.common.StateChangeFailedException: how every failed election ends."""

ELECTION_NOT_NEEDED = "ELECTION_NOT_NEEDED"
"""org.apache.kafka.common.protocol.Errors: the leader that was asked for leads already."""

PREFERRED_LEADER_NOT_AVAILABLE = "PREFERRED_LEADER_NOT_AVAILABLE"
ELIGIBLE_LEADERS_NOT_AVAILABLE = "ELIGIBLE_LEADERS_NOT_AVAILABLE"


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


class LeaderAndIsr(msgspec.Struct, frozen=True):
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
    """How an election ended: with a state to write, or with an error; never with both."""

    leader_and_isr: LeaderAndIsr | None = None
    unclean: bool = False
    """The leader came from outside the ISR: what only the old ISR had is lost."""
    error: str | None = None
    """The name of Kafka's exception; None when a leader was elected."""


_FAILED = Election(error=STATE_CHANGE_FAILED)


def elect(
    strategy: str,
    *,
    replicas: Sequence[int],
    isr: Sequence[int],
    leader: int,
    leader_epoch: int,
    controller_epoch: int,
    live: Collection[int],
    shutting_down: Collection[int] = (),
    offline_dirs: Collection[int] = (),
    adding: Collection[int] = (),  # noqa: ARG001 - no election of 3.9 treats them differently
    removing: Collection[int] = (),
    unclean: bool = False,
    admin_unclean: bool = False,
    target: Sequence[int] | None = None,
    leader_recovery_state: int = RECOVERED,
    leader_recovery_supported: bool = True,
    state_exists: bool = True,
    state_controller_epoch: int | None = None,
) -> Election:
    """Elect a partition's leader as the controller would, and return the state it would write.

    >>> elect("offline", replicas=[1, 2, 3], isr=[3, 1, 2], leader=1, leader_epoch=7,
    ...       controller_epoch=4, live={2, 3}).leader_and_isr
    LeaderAndIsr(leader=2, isr=(3, 2), leader_epoch=8, leader_recovery_state=0)

    Args:
        strategy: "offline", "reassign", "preferred" or "controlled_shutdown".
        replicas: The assignment in its order, replicas that are added or removed included.
        isr: The ISR of the state that stands, in its order.
        leader: The leader of that state; -1 for none. No election asks who led before.
        leader_epoch: The leader epoch of that state.
        controller_epoch: The epoch of the controller that elects.
        live: Brokers that are registered, those that are shutting down included.
        shutting_down: Brokers that asked for a controlled shutdown.
        offline_dirs: Brokers that hold this partition in a failed log directory.
        adding: Replicas that a reassignment adds.
        removing: Replicas that a reassignment removes: it elects among the others.
        unclean: The topic allows unclean leader election.
        admin_unclean: An administrator asked for one, whatever the topic allows.
        target: The replicas that a reassignment leads to; None = `replicas` without `removing`.
        leader_recovery_state: That of the state that stands.
        leader_recovery_supported: The inter-broker protocol is 3.2 or newer.
        state_exists: The partition has a state znode.
        state_controller_epoch: The controller epoch that is written there; None = not newer.
    """
    chosen = as_strategy(strategy)
    newer = state_controller_epoch is not None and state_controller_epoch > controller_epoch
    if newer or not state_exists:
        return _FAILED
    standing = LeaderAndIsr(leader, tuple(isr), leader_epoch, leader_recovery_state)
    if chosen is Strategy.CONTROLLED_SHUTDOWN:
        able = _online(replicas, live, (), offline_dirs)
        return _for_controlled_shutdown(standing, able, shutting_down)
    if chosen is Strategy.OFFLINE:
        in_sync = _online(isr, live, shutting_down, offline_dirs)
        able = _online(replicas, live, shutting_down, offline_dirs)
        allowed = unclean or admin_unclean
        return _for_offline(standing, able, in_sync, leader_recovery_supported, unclean=allowed)
    candidates = replicas[:1]
    if chosen is Strategy.REASSIGN:
        candidates = diff(replicas, removing) if target is None else target
    # Election.leaderForReassign, leaderForPreferredReplica: the ISR stays as it is, dead members
    # included.
    able = _online(candidates, live, shutting_down, offline_dirs)
    elected = _first(able, standing.isr)
    return (
        _FAILED if elected is None else Election(standing.new_leader_and_isr(elected, standing.isr))
    )


def as_strategy(strategy: str) -> Strategy:
    """Return the strategy of this name; an unknown one is a mistake of the caller."""
    try:
        return Strategy(strategy)
    except ValueError:
        known = ", ".join(Strategy)
        raise ModelError(f"no election strategy {strategy!r}: use one of {known}") from None


def _online(
    replicas: Sequence[int],
    live: Collection[int],
    shutting_down: Collection[int],
    offline_dirs: Collection[int],
) -> tuple[int, ...]:
    # ControllerContext.isReplicaOnline; without shutting_down: includeShuttingDownBrokers
    return tuple(
        [r for r in replicas if r in live and r not in shutting_down and r not in offline_dirs]
    )


def _first(replicas: Sequence[int], others: Collection[int]) -> int | None:
    for replica in replicas:
        if replica in others:
            return replica
    return None


def _for_offline(
    standing: LeaderAndIsr,
    online: tuple[int, ...],
    in_sync: tuple[int, ...],
    recovery_supported: bool,
    *,
    unclean: bool,
) -> Election:
    # Election.leaderForOffline. An unclean leader is looked for only if nobody of the ISR is
    # online (collectUncleanLeaderElectionState), whoever is assigned.
    leader = _first(online, in_sync)
    if leader is not None:
        return Election(standing.new_leader_and_isr(leader, in_sync))
    if in_sync or not unclean or not online:
        return _FAILED
    leader = online[0]
    recovery = RECOVERING if recovery_supported else standing.leader_recovery_state
    elected = LeaderAndIsr(leader, (leader,), standing.leader_epoch + 1, recovery)
    return Election(elected, unclean=True)


def _for_controlled_shutdown(
    standing: LeaderAndIsr, able: tuple[int, ...], shutting_down: Collection[int]
) -> Election:
    # Election.leaderForControlledShutdown: brokers that shut down leave the ISR, dead ones stay.
    staying = tuple([member for member in standing.isr if member not in shutting_down])
    leader = _first(able, staying)
    return _FAILED if leader is None else Election(standing.new_leader_and_isr(leader, staying))


def is_election_needed(
    strategy: str,
    *,
    replicas: Sequence[int],
    leader: int,
    live: Collection[int],
    shutting_down: Collection[int] = (),
) -> bool:
    """Tell whether a requested election has anything to do (processReplicaLeaderElection).

    A preferred one has while another broker leads; an unclean one ("offline") while nobody leads,
    or a broker that is not live. When it has not, an administrator is told ELECTION_NOT_NEEDED.

    >>> is_election_needed("preferred", replicas=[1, 2], leader=1, live={1, 2})
    False
    """
    match as_strategy(strategy):
        case Strategy.PREFERRED:
            return leader != replicas[0]
        case Strategy.OFFLINE:
            return leader == NO_LEADER or leader not in live or leader in shutting_down
        case other:
            raise ModelError(f"nobody can ask for an election of kind {other.value!r}")


def admin_error(strategy: str, error: str | None) -> str | None:
    """Return the name of the error that an administrator who asked for this election is told.

    None = elected. Source: KafkaController.processReplicaLeaderElection.

    >>> admin_error("preferred", "StateChangeFailedException")
    'PREFERRED_LEADER_NOT_AVAILABLE'
    """
    if error != STATE_CHANGE_FAILED:
        return error
    if as_strategy(strategy) is Strategy.PREFERRED:
        return PREFERRED_LEADER_NOT_AVAILABLE
    return ELIGIBLE_LEADERS_NOT_AVAILABLE
