"""What would break if brokers were lost now, and whether one may be stopped.

The rule: the controller is expected to do what Kafka's controller does. A partition whose leader is
lost gets the leader that Kafka's offline election chooses (`elections`), lost members leave the ISR, and the
result is judged by the same definitions as before the loss. A clean stop and a crash end alike: a
controlled shutdown chooses among the same replicas in the same order, only earlier, so
one answer serves both (KafkaController.doControlledShutdown, onReplicasBecomeOffline). In a KRaft cluster both fence
the broker (ReplicationControlManager.handleBrokerFenced, handleBrokerInControlledShutdown), by `kraft_elections`.
"""

import enum
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import NamedTuple, TypeVar

import msgspec

from controller_model.insight.wording import counted, named
from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.elections import LeaderAndIsr, leader_for_offline
from controller_model.kafka.ids import NO_LEADER, TopicPartition
from controller_model.kafka.kraft_elections import leader_after_fencing

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KINDS_KEPT = 20_000
"""The most results that are cached: twice as many as Kafka's own assigner makes of 100 brokers; some megabytes."""


class Loss(msgspec.Struct, frozen=True, kw_only=True):
    """What the loss of these brokers would do to the partitions that Kafka counts."""

    brokers: tuple[int, ...]
    offline: tuple[TopicPartition, ...] = ()
    """Partitions with a leader now and without one then."""
    aborted: tuple[TopicPartition, ...] = ()
    """The part of `offline` whose election Kafka aborts, whoever is in sync (`ClusterFacts.aborts_elections`)."""
    stranded: tuple[TopicPartition, ...] = ()
    """Partitions that are offline now, and would come back by an election that is due, but not after the loss."""
    under_min_isr: tuple[TopicPartition, ...] = ()
    """Partitions with a large enough ISR once the pending writes are made, and too small a one then: acks=all is refused."""
    moved: dict[int, int] = {}
    """How many leaders each other broker would get."""
    leaders_after: dict[int, int] = {}
    """How many partitions each broker would lead then."""
    unclean: tuple[TopicPartition, ...] = ()
    """Partitions that get a leader from outside the ISR, where the topic allows it: data is lost."""
    min_isr_unknown: tuple[TopicPartition, ...] = ()
    """Partitions that lose ISR members while their min.insync.replicas is not known."""


class StopRisk(enum.StrEnum):
    """Why a broker is not safe to stop."""

    NOT_LIVE = "not_live"
    OFFLINE = "offline"
    STRANDED = "stranded"
    UNCLEAN = "unclean"
    UNDER_MIN_ISR = "under_min_isr"
    MIN_ISR_UNKNOWN = "min_isr_unknown"
    """It is not known whether there is a risk."""


HARM: Mapping[StopRisk, str] = {
    StopRisk.OFFLINE: "would go offline: no other replica can be elected",
    StopRisk.STRANDED: "offline now would lose the last replica that could lead again",
    StopRisk.UNCLEAN: "would get a leader that is not in sync: data is lost",
    StopRisk.UNDER_MIN_ISR: "would fall below min.insync.replicas: producers with acks=all are refused",
}
"""The harm that a loss may do to partitions, in words, the worst first; each has its field of `Loss`."""

NOT_KNOWN: Mapping[StopRisk, str] = {
    StopRisk.MIN_ISR_UNKNOWN: "may fall below min.insync.replicas, which is not known: it stands in "
    "the brokers' own files (kcm doctor says how to set min_insync_replicas)",
}
"""What may not be known about a loss: it proves neither harm nor safety."""


class Reason(msgspec.Struct, frozen=True, kw_only=True):
    """One reason against stopping, in words."""

    risk: StopRisk
    text: str
    partitions: tuple[TopicPartition, ...] = ()


class Safety(msgspec.Struct, frozen=True, kw_only=True):
    """Whether brokers are safe to stop now, and why."""

    safe: bool | None
    """None: none of them is registered, so that there is nothing to stop; or no harm is known, but
    something is not known (the reasons say what)."""
    reasons: tuple[Reason, ...] = ()
    notes: tuple[str, ...] = ()
    """What will happen, whether it is safe or not."""


class Effect(NamedTuple):
    """What a loss does to one partition."""

    leader: int | None
    """The new leader; None if the leader stays, or if there is none before or after the loss."""
    risks: tuple[StopRisk, ...]


_NOTHING = Effect(leader=None, risks=())


class _Account:
    """The effects of one loss, added up partition by partition."""

    def __init__(self, brokers: Collection[int], cluster: ClusterFacts) -> None:
        self.brokers = tuple(sorted(brokers))
        self.rest = cluster.live.difference(brokers)
        self._cluster = cluster
        self._aborted: list[TopicPartition] = []
        self._found: defaultdict[StopRisk, list[TopicPartition]] = defaultdict(list)
        self._moved: Counter[int] = Counter()

    def add(self, partition: PartitionFacts, effect: Effect) -> None:
        """Add the effect of the loss on a partition."""
        for risk in effect.risks:
            self._found[risk].append(partition.id)
            if risk is StopRisk.OFFLINE and _is_aborted(partition, self._cluster, self.rest):
                self._aborted.append(partition.id)
        if effect.leader is not None:
            self._moved[effect.leader] += 1

    def loss(self, leaders: Counter[int]) -> Loss:
        """Return the total; `leaders` holds how many partitions each broker leads now."""
        after = leaders + self._moved
        return Loss(
            brokers=self.brokers,
            **{risk.value: tuple(partitions) for risk, partitions in self._found.items()},
            aborted=tuple(self._aborted),
            moved=dict(sorted(self._moved.items())),
            leaders_after={b: n for b, n in sorted(after.items()) if b not in self.brokers},
        )


def by_kind(
    cluster: ClusterFacts, compute: Callable[[PartitionFacts], V]
) -> Callable[[PartitionFacts], V]:
    """Return `compute`, called once for all partitions with the same brokers, leader and settings.

    A cluster has few such kinds, because assignments repeat. `compute` must not use a partition's
    name or its epochs, except whether `cluster` aborts its elections now, and after the loss of its controller.
    """
    epochs_above = cluster.epochs_above
    known: dict[Hashable, V] = {}

    def of(partition: PartitionFacts) -> V:
        kind = (
            partition.replicas,
            partition.isr,
            partition.leader,
            partition.adding,
            partition.removing,
            partition.min_isr,
            partition.unclean,
            partition.deleting,
            partition.eligible,
            min(_NEXT_TERM + 1, epochs_above(partition)),
        )
        found = known.get(kind)
        if found is None:
            if len(known) >= KINDS_KEPT:
                known.clear()
            found = known[kind] = compute(partition)
        return found

    return of


def outcome(partition: PartitionFacts, cluster: ClusterFacts, rest: Collection[int]) -> Effect:
    """Return the effect on a counted partition when only the brokers in `rest` live.

    It is compared with the partition as it is once the controller has made its pending writes: what these do is no
    effect of the loss.
    """
    leader, isr, unclean = settled(partition, cluster, rest)
    led_now = partition.leader in cluster.live
    leader_now, isr_now, unclean_now = settled(partition, cluster, cluster.live)
    if leader == NO_LEADER:
        if led_now:
            return Effect(None, (StopRisk.OFFLINE,))
        return Effect(None, () if leader_now == NO_LEADER else (StopRisk.STRANDED,))
    if leader_now == NO_LEADER:
        # Only the loss lets somebody be elected.
        return Effect(None, (StopRisk.UNCLEAN,) if unclean else ())
    if leader_now != partition.leader or len(isr_now) < len(partition.isr):
        partition = msgspec.structs.replace(partition, leader=leader_now, isr=isr_now)
    of_election = (StopRisk.UNCLEAN,) if unclean and not unclean_now else ()
    risks = of_election + _of_min_isr(partition, cluster, leader, isr)
    return Effect(leader if led_now and leader != leader_now else None, risks)


def _of_min_isr(
    partition: PartitionFacts, cluster: ClusterFacts, leader: int, isr: tuple[int, ...]
) -> tuple[StopRisk, ...]:
    """Return the risk of a partition that falls below its min.insync.replicas with this leader and ISR."""
    if leader == partition.leader and len(isr) == len(partition.isr):
        return ()
    least, is_under = cluster.min_isr_of(partition, leader), cluster.is_under_min_isr(partition)
    if is_under or len(isr) >= (len(partition.replicas) if least is None else least):
        return ()
    if least is None or is_under is None:
        return (StopRisk.MIN_ISR_UNKNOWN,)
    return (StopRisk.UNDER_MIN_ISR,)


def settled(
    partition: PartitionFacts, cluster: ClusterFacts, live: Collection[int]
) -> tuple[int, tuple[int, ...], bool]:
    """Return leader, ISR and whether they are unclean, after the controller has done all it can with `live`.

    The leader is NO_LEADER if nobody can be elected. The partition must have a state.
    """
    leader = partition.written_leader
    if cluster.is_kraft:
        return leader_after_fencing(
            partition.replicas,
            leader,
            partition.isr,
            live,
            eligible=partition.eligible,
            has_elr=cluster.has_elr,
            unclean=cluster.unclean_of(partition),
        )
    if leader in live:
        # Dead members leave the ISR, except its last one (ReplicaStateMachine.doRemoveReplicasFromIsr), which matters
        # where the leader is not a member. Where the controller's removals are aborted, the leader makes them.
        isr = tuple([replica for replica in partition.isr if replica in live])
        return leader, isr or partition.isr[:1], False
    if _is_aborted(partition, cluster, live) or is_refused(cluster, live):
        return NO_LEADER, partition.isr, False
    election = leader_for_offline(
        LeaderAndIsr(leader, partition.isr),
        partition.replicas,
        live,
        unclean=cluster.unclean_of(partition),
    )
    if election is None:
        return NO_LEADER, partition.isr, False
    return election.leader_and_isr.leader, election.leader_and_isr.isr, election.unclean


_NEXT_TERM = 1
"""By how much the epoch of the next controller is larger."""


def _is_aborted(partition: PartitionFacts, cluster: ClusterFacts, live: Collection[int]) -> bool:
    """Return whether the controller that there is with these brokers aborts a partition's elections."""
    above = cluster.epochs_above(partition)
    return above > _NEXT_TERM * _is_replaced(cluster, live)


def is_refused(cluster: ClusterFacts, live: Collection[int]) -> bool:
    """Return whether brokers refuse the controller that there is with these brokers."""
    below, epoch = cluster.refused_below, cluster.controller_epoch
    if below is None or epoch is None:
        return False
    return epoch + _NEXT_TERM * _is_replaced(cluster, live) < below


def _is_replaced(cluster: ClusterFacts, live: Collection[int]) -> bool:
    return cluster.controller in cluster.live and cluster.controller not in live


def lose(
    partitions: Iterable[PartitionFacts], cluster: ClusterFacts, brokers: Collection[int]
) -> Loss:
    """Return what the loss of all these brokers at once would do: a rack, a pair, any set."""
    return lose_groups(partitions, cluster, {"": brokers})[""]


def lose_each(partitions: Iterable[PartitionFacts], cluster: ClusterFacts) -> dict[int, Loss]:
    """Return what the loss of each live broker alone would do, in one pass."""
    return lose_groups(partitions, cluster, {broker: (broker,) for broker in sorted(cluster.live)})


def lose_groups(
    partitions: Iterable[PartitionFacts],
    cluster: ClusterFacts,
    groups: Mapping[K, Collection[int]],
) -> dict[K, Loss]:
    """Return what the loss of each group of brokers alone would do, in one pass.

    A broker may be in several groups, or in none.
    """
    accounts = {
        name: _Account(cluster.live.intersection(brokers), cluster)
        for name, brokers in groups.items()
    }
    accounts_of: dict[int, list[_Account]] = {}
    for account in accounts.values():
        for broker in account.brokers:
            accounts_of.setdefault(broker, []).append(account)
    effects = by_kind(cluster, lambda partition: _effects(partition, cluster, accounts_of))
    leaders: Counter[int] = Counter()
    for partition in partitions:
        if not partition.counts:
            continue
        if partition.leader in cluster.live:
            leaders[partition.leader] += 1
        for account, effect in effects(partition):
            account.add(partition, effect)
    return {name: account.loss(leaders) for name, account in accounts.items()}


def _effects(
    partition: PartitionFacts, cluster: ClusterFacts, accounts_of: Mapping[int, list[_Account]]
) -> list[tuple[_Account, Effect]]:
    brokers = involved(partition, cluster)
    accounts = {account for broker in brokers for account in accounts_of.get(broker, ())}
    each = [(account, outcome(partition, cluster, account.rest)) for account in accounts]
    return [(account, effect) for account, effect in each if effect != _NOTHING]


def involved(partition: PartitionFacts, cluster: ClusterFacts) -> set[int]:
    """Return the brokers whose loss may change this partition.

    A replica that does not lead and is not in the ISR matters only to an unclean election, or if it is eligible. The
    controller matters where its elections are aborted or refused: the next one has a larger epoch.
    """
    found = {partition.written_leader, *partition.isr}
    if partition.eligible is not None:
        found.update(partition.eligible.elr, partition.eligible.last_known)
    if cluster.refused_below is not None or cluster.epochs_above(partition) > 0:
        found.add(cluster.controller)
    return found.union(partition.replicas) if cluster.unclean_of(partition) else found


def safety(loss: Loss, cluster: ClusterFacts) -> Safety:
    """Return whether the brokers of a loss are safe to stop, with the reasons in words."""
    if not loss.brokers:
        text = "not registered now: there is nothing to stop"
        return Safety(safe=None, reasons=(Reason(risk=StopRisk.NOT_LIVE, text=text),))
    found: list[Reason] = []
    for risk, harm in {**HARM, **NOT_KNOWN}.items():
        partitions: tuple[TopicPartition, ...] = getattr(loss, risk.value)
        if partitions:
            text = f"{counted(len(partitions), 'partition')} ({named(partitions)}) {harm}"
            found.append(Reason(risk=risk, partitions=partitions, text=text))
    safe = None if found and all(reason.risk in NOT_KNOWN for reason in found) else not found
    return Safety(safe=safe, reasons=tuple(found), notes=tuple(_notes(loss, cluster)))


def _notes(loss: Loss, cluster: ClusterFacts) -> Iterable[str]:
    if loss.aborted:
        yield (
            f"Kafka aborts the election of {counted(len(loss.aborted), 'partition')} "
            f"({named(loss.aborted)}): their states hold a controller epoch above the cluster's"
        )
    if is_refused(cluster, cluster.live.difference(loss.brokers)):
        yield "brokers refuse what the controller sends, because its epoch went back: no election takes effect"
    if cluster.controller in loss.brokers:
        yield "the controller is among them: another broker is elected"
    if loss.moved:
        moves = ", ".join(f"{count} to broker {broker}" for broker, count in loss.moved.items())
        yield f"{counted(sum(loss.moved.values()), 'leader')} would move: {moves}"
