"""The numbers of a topic, as counts that can be added and subtracted.

The rule: a contribution depends on the topic's own znodes only, not on live brokers or defaults.
Those are applied when totals are read (`figures`), so that a broker's death touches no topic, and
the totals change by new minus old. Sizes do not tell what a loss does to a state that Kafka's controller
does not leave behind: such states are counted whole besides (`Irregular`). Normally there are none.
"""

from typing import NamedTuple, TypeVar

import msgspec

from controller_model.kafka.cluster_facts import has_preferred_leader
from controller_model.kafka.ids import NO_LEADER, new_tuple
from controller_model.kafka.kraft_elections import EligibleLeaders

NO_MIN_ISR = 0
"""In a key: the topic does not set min.insync.replicas itself."""

_Key = TypeVar("_Key")


class CountedState(NamedTuple):
    """The part of a partition from which its state is counted."""

    replicas: tuple[int, ...]
    leader: int | None
    """None: the partition has no state."""
    isr: tuple[int, ...]
    added: tuple[int, ...]
    """The replicas that are being added; without a state, all that are being added or removed."""
    min_isr: int
    """The topic's own min.insync.replicas, or NO_MIN_ISR."""
    deleting: bool
    unclean: bool | None = None
    """The topic's own unclean.leader.election.enable."""
    above: int = 0
    """Its controller epoch, if that is above the one up to which partitions are counted by sizes alone
    (`ControlPlane.counted_epoch`); else 0."""
    eligible: EligibleLeaders | None = None


class Shape(NamedTuple):
    """The key by which partitions with a state are counted."""

    leader: int
    replicas: int
    target: int
    """The number of replicas, without those that are still being added."""
    isr: int
    min_isr: int
    """The topic's own min.insync.replicas, or NO_MIN_ISR."""


class Membership(NamedTuple):
    """The key by which a broker's memberships in ISRs are counted."""

    leader: int
    replicas: int
    isr: int
    min_isr: int
    unclean: bool | None = None


class Irregular(NamedTuple):
    """The key by which states are counted whole that Kafka's controller does not leave behind, or rarely.

    Its leader is in its ISR, its ISR in its assignment, an ISR without a leader has one member
    (ReplicaStateMachine.doRemoveReplicasFromIsr), and no state has a controller epoch above the cluster's. A partition
    with eligible leader replicas is below its min.insync.replicas.
    """

    leader: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    min_isr: int
    unclean: bool | None
    above: int
    """As in `CountedState`."""
    eligible: EligibleLeaders | None = None

    @property
    def membership(self) -> Membership:
        """The key under which its members are counted as well."""
        return Membership(
            self.leader, len(self.replicas), len(self.isr), self.min_isr, self.unclean
        )


class Contribution(msgspec.Struct, array_like=True, gc=False):
    """The numbers of a topic, or the sum over topics."""

    partitions: int = 0
    without_state: int = 0
    reassigning: int = 0
    preferred_imbalance: int = 0
    """The gauge rule: KafkaController.updateMetrics, with hasPreferredLeader's exemption."""
    sizes: dict[tuple[int, int], int] = {}
    """Partitions by (replication factor, the topic's min.insync.replicas)."""
    shapes: dict[Shape, int] = {}
    members: dict[int, dict[Membership, int]] = {}
    """By broker. The keys are pairs of brokers, so this is by far the largest of these tables."""
    replicas: dict[int, int] = {}
    leaders: dict[int, int] = {}
    preferred: dict[int, int] = {}
    """The ratio rule (checkAndTriggerAutoLeaderRebalance): partitions by first replica."""
    preferred_not_led: dict[int, int] = {}
    """The part of `preferred` that has a state and another leader, or none."""
    preferred_not_led_in_isr: dict[int, int] = {}
    """The part of `preferred_not_led` whose first replica is in the ISR."""
    new: dict[tuple[int, ...], int] = {}
    """Partitions without a state that are neither reassigned nor to be deleted, by their replicas: those to
    which the controller gives one (KafkaController.onNewPartitionCreation)."""
    leaderless: dict[tuple[int, ...], int] = {}
    """Partitions that were written without a leader, by their ISR. The controller leaves one member in it
    (ReplicaStateMachine.doRemoveReplicasFromIsr), so there are about as many keys as brokers."""
    irregular: dict[Irregular, int] = {}
    recovering: int = 0
    """Partitions whose leader came from an unclean election and recovers (LeaderRecoveryState.RECOVERING)."""

    def count_partition(self, by: int, state: CountedState, *, is_reassigned: bool) -> None:
        """Count a partition in (`by` 1) or out (`by` -1): its assignment and its state."""
        replicas = state.replicas
        self.partitions += by
        self.reassigning += by * is_reassigned
        _move(self.sizes, (len(replicas), state.min_isr), by)
        for broker in replicas:
            _move(self.replicas, broker, by)
        if replicas and not state.deleting:
            _move(self.preferred, replicas[0], by)
        self.count_state(by, state)

    def count_state(self, by: int, state: CountedState) -> None:
        """Count the state of `by` partitions in, or out if it is negative, without their assignments."""
        replicas, leader, isr, added, min_isr, deleting, unclean, above, eligible = state
        if leader is None:
            self.without_state += by
            if not (added or deleting):
                _move(self.new, replicas, by)
            return
        if leader >= 0:
            _move(self.leaders, leader, by)
        if deleting:
            return
        if leader < 0:
            leader = NO_LEADER
            _move(self.leaderless, isr, by)
        count, in_sync = len(replicas), len(isr)
        target = count - len(set(added) & set(replicas)) if added else count
        _move(self.shapes, new_tuple(Shape, (leader, count, target, in_sync, min_isr)), by)
        if above or eligible is not None or not is_regular(replicas, leader, isr):
            irregular = Irregular(leader, replicas, isr, min_isr, unclean, above, eligible)
            _move(self.irregular, irregular, by)
        membership = new_tuple(Membership, (leader, count, in_sync, min_isr, unclean))
        for broker in isr:
            held = self.members.get(broker)
            if held is None:
                held = self.members[broker] = {}
            _move(held, membership, by)
            if not held:
                del self.members[broker]
        self._count_preferred(by, replicas, leader, isr, added)

    def _count_preferred(
        self,
        by: int,
        replicas: tuple[int, ...],
        leader: int,
        isr: tuple[int, ...],
        added: tuple[int, ...],
    ) -> None:
        if not replicas:
            return
        preferred = replicas[0]
        if leader != preferred:
            _move(self.preferred_not_led, preferred, by)
            if preferred in isr:
                _move(self.preferred_not_led_in_isr, preferred, by)
        self.preferred_imbalance += by * (not has_preferred_leader(preferred, added, leader, isr))


def is_regular(replicas: tuple[int, ...], leader: int, isr: tuple[int, ...]) -> bool:
    """Return whether the size of an ISR tells what a loss does, as `Irregular` says.

    >>> is_regular((1, 2), 1, (2, 1)), is_regular((1, 2), -1, (2,)), is_regular((1, 2), 1, (2,))
    (True, True, False)
    """
    members = set(isr)
    if len(members) < len(isr) or not members.issubset(replicas):
        return False
    return leader in members if leader >= 0 else len(isr) == 1


def _move(table: dict[_Key, int], key: _Key, by: int) -> None:
    count = table.get(key, 0) + by
    if count:
        table[key] = count
    else:
        table.pop(key, None)
