"""The figures: totals, combined with the live brokers and the defaults that apply now.

The rule: definitions are Kafka's. A partition is offline if it has a state and its leader is -1 or
not registered (KafkaController.updateMetrics); a KRaft controller always writes -1. It is under-replicated if its ISR is smaller than
its target replicas. Neither counts a topic that is being deleted. If min.insync.replicas of one
partition is not known, no sum over partitions that depends on it is known: no partial sum is shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from controller_model.insight.loss import StopRisk, involved, is_refused, outcome
from controller_model.kafka.cluster_facts import (
    ClusterFacts,
    PartitionFacts,
    effective_min_isr,
    min_isr_blocks,
)
from controller_model.kafka.ids import NO_LEADER
from controller_model.kafka.metadata_records import ELR_VERSION
from controller_model.records.views import Counts
from controller_model.state.contribution import NO_MIN_ISR, Irregular, Membership
from controller_model.state.control_plane import ControlPlane

SKEW_DIGITS = 3
"""Digits of a leader skew: a new topic changes every broker's share, and must not change every broker's
view in a large cluster."""


def pending_leader_writes(control: ControlPlane) -> int:
    """Return how many partitions have a leader that is gone: pending leader writes from the controller."""
    live = control.live_brokers
    return sum(
        count
        for shape, count in control.totals.shapes.items()
        if shape.leader >= 0 and shape.leader not in live
    ) - sum(
        count for kind, count in aborted(control) if kind.leader >= 0 and kind.leader not in live
    )


def new_partitions(control: ControlPlane) -> int:
    """Return how many new partitions have a live replica, so that the controller gives them a state.

    The first live replica leads, and all live ones are in the ISR (PartitionStateMachine.initializeLeaderAndIsrForPartitions).
    """
    live = control.live_brokers
    return sum(n for replicas, n in control.totals.new.items() if not live.isdisjoint(replicas))


def counts(control: ControlPlane) -> Counts:
    """Return the cluster's figures."""
    totals = control.totals
    live = control.live_brokers
    # A KRaft controller writes which leaders live; where it copies to ZooKeeper, its brokers leave /brokers/ids.
    is_kraft = control.quorum is not None or control.controller.view.migrating_to_kraft
    offline = leaderless = under_replicated = under_min = at_min = at_min_by_loss = reassigning = 0
    is_known = True
    for shape, count in totals.shapes.items():
        lacks = shape.target > shape.isr
        is_led = shape.leader >= 0 if is_kraft else shape.leader in live
        if not is_led:
            offline += count
            leaderless += count if shape.leader < 0 else 0
        else:
            min_isr = control.min_isr_of(shape.min_isr, shape.leader)
            least = effective_min_isr(min_isr, shape.replicas)
            if least is None:
                is_known = False
            else:
                under_min += count if shape.isr < least else 0
                at_min += count if shape.isr == least else 0
                at_min_by_loss += count if lacks and shape.isr == least else 0
        under_replicated += count if lacks else 0
        reassigning += count if lacks and shape.replicas > shape.target else 0
    return Counts(
        topics=control.topics,
        partitions=totals.partitions,
        offline=offline,
        leaderless=leaderless,
        pending_leader_writes=offline - leaderless,
        without_state=totals.without_state,
        under_replicated=under_replicated,
        under_min_isr=under_min if is_known else None,
        at_min_isr=at_min if is_known else None,
        under_replicated_at_min_isr=at_min_by_loss if is_known else None,
        under_replicated_reassigning=reassigning,
        preferred_imbalance=_imbalance(control, is_kraft=is_kraft),
        preferred_electable=sum(electable(control, live).values()),
        reassigning=totals.reassigning,
        deleting_topics=len(control.deleting),
        replication_factor_1=sum(n for (factor, _), n in totals.sizes.items() if factor == 1),
        min_isr_blocks=_min_isr_blocking(control),
        replicas_on_gone_brokers=sum(n for b, n in totals.replicas.items() if b not in live),
        recovering=totals.recovering,
        isr_empty=_isr_empty(control) if is_kraft else None,
        with_elr=_with_elr(control) if is_kraft else None,
    )


def _imbalance(control: ControlPlane, *, is_kraft: bool) -> int:
    """Return PreferredReplicaImbalanceCount, by the rule of the controller that there is (`ClusterFacts.has_preferred_leader`)."""
    totals = control.totals
    return sum(totals.preferred_not_led.values()) if is_kraft else totals.preferred_imbalance


def _isr_empty(control: ControlPlane) -> int:
    return sum(n for shape, n in control.totals.shapes.items() if shape.isr == 0)


def _with_elr(control: ControlPlane) -> int:
    irregular = control.totals.irregular.items()
    return sum(n for kind, n in irregular if kind.eligible is not None and kind.eligible.elr)


def has_elr(control: ControlPlane) -> bool:
    """Return whether a cluster has eligible leader replicas now."""
    return control.quorum is not None and control.quorum.features.get(ELR_VERSION, 0) > 0


def threshold_percentage(control: ControlPlane) -> int:
    """Return above which imbalance of a broker the controller elects preferred leaders by itself.

    A KRaft controller ignores leader.imbalance.per.broker.percentage: it elects for every imbalanced partition
    (ReplicationControlManager.maybeBalancePartitionLeaders).
    """
    if control.quorum is not None:
        return 0
    return control.assumed.leader_imbalance_per_broker_percentage


def leader_skew(control: ControlPlane, broker: int, share: float) -> float | None:
    """Return how far a live broker is from an even share of the preferred replicas; None if it is gone.

    `share` is how many each live broker would have if all had equally many. 0 is even, 1 is twice its share, -1 is none. Only a reassignment changes it.
    """
    if broker not in control.live_brokers:
        return None
    return round(control.totals.preferred.get(broker, 0) / share - 1, SKEW_DIGITS) if share else 0.0


def imbalance_ratio(control: ControlPlane, broker: int) -> float:
    """Return the fraction of a broker's preferred partitions that it does not lead; 0 without any."""
    preferred = control.totals.preferred.get(broker, 0)
    return control.totals.preferred_not_led.get(broker, 0) / preferred if preferred else 0.0


def exceeding(control: ControlPlane) -> tuple[int, ...]:
    """Return the brokers strictly above the threshold, worst first (insight.rebalance)."""
    threshold = threshold_percentage(control) / 100
    ratios = {
        broker: imbalance_ratio(control, broker) for broker in control.totals.preferred_not_led
    }
    found = (broker for broker, ratio in ratios.items() if ratio > threshold)
    not_led = control.totals.preferred_not_led
    return tuple(sorted(found, key=lambda broker: (-ratios[broker], -not_led[broker], broker)))


def electable(control: ControlPlane, brokers: Iterable[int]) -> dict[int, int]:
    """Return how many partitions an election would give back to each broker; brokers without any are absent."""
    live = control.live_brokers
    in_isr = control.totals.preferred_not_led_in_isr
    return {broker: in_isr[broker] for broker in brokers if broker in live and broker in in_isr}


def blocked(control: ControlPlane, brokers: Iterable[int]) -> dict[str, int]:
    """Return how many of these brokers' partitions no election can give back, and why."""
    live = control.live_brokers
    found = {"not_live": 0, "not_in_isr": 0}
    for broker in brokers:
        not_led = control.totals.preferred_not_led.get(broker, 0)
        if broker in live:
            not_led -= control.totals.preferred_not_led_in_isr.get(broker, 0)
            found["not_in_isr"] += not_led
        else:
            found["not_live"] += not_led
    return found


def known_brokers(control: ControlPlane) -> set[int]:
    """Return every id that was ever registered or is assigned."""
    return set(control.brokers) | set(control.totals.replicas)


class LostWith(NamedTuple):
    """What would break if one live broker were lost: the counts of a what-if (`insight.loss`), or None where totals do not tell."""

    in_isr: int = 0
    """ISRs of which it is a member."""
    offline: int | None = 0
    under_min_isr: int | None = 0
    stranded: int | None = 0
    unclean: int | None = 0
    breaks: bool = False
    """Something would break for certain, also where it is not known how much."""
    min_isr_unknown: bool = False
    """min.insync.replicas of some partitions is not known: `under_min_isr` is None."""


class _Range(NamedTuple):
    """A count of which only bounds may be known."""

    least: int = 0
    most: int = 0

    def plus(self, other: "_Range") -> "_Range":
        return _Range(self.least + other.least, self.most + other.most)

    def minus(self, part: "_Range") -> "_Range":
        return _Range(max(0, self.least - part.most), max(0, self.most - part.least))

    @property
    def possible(self) -> "_Range":
        """The same at most, and at least none."""
        return _Range(0, self.most)

    @property
    def known(self) -> int | None:
        return self.least if self.least == self.most else None


_NONE = _Range()


class LossJudge:
    """Judges what would break if a broker were lost, by the rules of a what-if (`insight.loss.outcome`).

    Totals hold the size of an ISR, not its members. That is enough while all members live, or all but those of one
    broker where a leader is lost. With more members gone, which the controller has yet to remove, there are bounds; a
    count whose bounds differ is not known. Irregular states are counted whole, and judged by the rules themselves.
    """

    def __init__(self, control: ControlPlane) -> None:
        """Take a cluster as it is now; after a change, another judge is needed."""
        totals, live = control.totals, control.live_brokers
        self._members = totals.members
        self._live = live
        self._cluster = cluster = cluster_facts(control)
        self._least = {broker: control.min_isr_of(None, broker) for broker in live}
        self._is_differing = len(set(self._least.values())) > 1
        self._is_unclean_by_default = cluster.unclean_of(_ANY)
        self._all_live = totals.replicas.keys() <= live
        self._irregular = [(_facts(kind), count) for kind, count in totals.irregular.items()]
        self._members_irregular: Counter[tuple[int, Membership]] = Counter()
        for kind, count in totals.irregular.items():
            for broker in kind.isr:
                self._members_irregular[broker, kind.membership] += count
        self._gone: dict[Membership, dict[int, int]] = {}
        """In how many regular ISRs each broker that is gone still is."""
        for broker in totals.members.keys() - live:
            for membership in totals.members[broker]:
                count = self._regular(broker, membership)
                if count:
                    self._gone.setdefault(membership, {})[broker] = count
        # A replica that is in no ISR may be the only one that an unclean election can still choose.
        self._may_strand_others = any(
            key.leader not in live and self._may_be_unclean(key) for key in self._gone
        )
        # Brokers that refuse the controller obey the next one, which may then elect unclean leaders in any partition.
        self._may_elect_if_lost = (
            cluster.is_refused
            and not is_refused(cluster, live - {cluster.controller})
            and any(
                key.leader not in live and self._may_be_unclean(key)
                for of_broker in totals.members.values()
                for key in of_broker
            )
        )

    @property
    def basis(self) -> tuple[Any, ...]:
        """What the answers for all brokers depend on besides their own memberships."""
        gone = {key: (self._regular(key.leader, key), counts) for key, counts in self._gone.items()}
        cluster = self._cluster
        term = (cluster.controller, cluster.controller_epoch) if self._irregular else None
        refused = (cluster.controller, cluster.refused_below, cluster.is_refused)
        unclean = self._is_unclean_by_default
        rules = (cluster.is_kraft, cluster.has_elr)
        others = (self._all_live, self._may_strand_others, self._may_elect_if_lost)
        return (gone, unclean, refused, term, rules, others)

    def of(self, broker: int) -> LostWith:
        """Return what would break if this broker were lost; nothing if it is gone."""
        members = self._members.get(broker, {})
        in_isr = sum(members.values())
        if broker not in self._live:
            return LostWith(in_isr)
        found: dict[StopRisk, _Range] = {}
        for key in members:
            if count := self._regular(broker, key):
                for risk, counted in self._risks(broker, key, count):
                    if counted.most:
                        found[risk] = found.get(risk, _NONE).plus(counted)
        rest = self._cluster.live - {broker}
        for partition, count in self._irregular:
            if broker in involved(partition, self._cluster):
                for risk in outcome(partition, self._cluster, rest).risks:
                    found[risk] = found.get(risk, _NONE).plus(_Range(count, count))
        unknown = found.pop(StopRisk.MIN_ISR_UNKNOWN, _NONE).most > 0
        stranded = found.get(StopRisk.STRANDED, _NONE).known
        is_unclean_unknown = self._may_elect_if_lost and broker == self._cluster.controller
        return LostWith(
            in_isr,
            offline=found.get(StopRisk.OFFLINE, _NONE).known,
            under_min_isr=None if unknown else found.get(StopRisk.UNDER_MIN_ISR, _NONE).known,
            stranded=None if self._may_strand_others else stranded,
            unclean=None if is_unclean_unknown else found.get(StopRisk.UNCLEAN, _NONE).known,
            breaks=any(counted.least for counted in found.values()),
            min_isr_unknown=unknown,
        )

    def _regular(self, broker: int, key: Membership) -> int:
        held = self._members.get(broker, {}).get(key, 0)
        return held - self._members_irregular[broker, key] if self._irregular else held

    def _may_be_unclean(self, key: Membership) -> bool:
        return self._is_unclean_by_default if key.unclean is None else key.unclean

    def _risks(self, broker: int, key: Membership, count: int) -> Iterator[tuple[StopRisk, _Range]]:
        """Yield the risks of `count` regular partitions that are counted alike, with this broker in their ISR."""
        if key.leader == broker:
            yield from self._risks_of_leader(key, count)
        elif key.leader in self._live:
            # The leader is one of the others, and lives.
            yield from self._under_min_isr(broker, key, count, key.isr - 2)
        elif not self._cluster.is_refused:
            # Offline now, and this broker could lead: it would if the controller made its pending write.
            others = key.isr - (2 if key.leader >= 0 else 1)
            alone = self._with_gone(key, count, others, others)
            if not self._may_be_unclean(key) or key.replicas == key.isr:
                yield StopRisk.STRANDED, alone
            elif self._all_live:
                yield StopRisk.UNCLEAN, alone
            else:
                # Another replica, if one lives, leads by an unclean election.
                yield StopRisk.STRANDED, alone.possible
                yield StopRisk.UNCLEAN, alone.possible
            yield from self._under_min_isr(broker, key, count, others)

    def _risks_of_leader(self, key: Membership, count: int) -> Iterator[tuple[StopRisk, _Range]]:
        every = _Range(count, count)
        if is_refused(self._cluster, self._cluster.live - {key.leader}):
            yield StopRisk.OFFLINE, every
            return
        others = key.isr - 1
        alone = self._with_gone(key, count, others, others)
        led = every.minus(alone)
        if not self._may_be_unclean(key) or key.replicas == 1:
            yield StopRisk.OFFLINE, alone
        elif self._all_live:
            # Another replica lives, though in no ISR.
            yield StopRisk.UNCLEAN, alone
            led = every
        else:
            yield StopRisk.OFFLINE, alone.possible
            yield StopRisk.UNCLEAN, alone.possible
            led = every
        if led.most:
            yield from self._under_min_isr(key.leader, key, count, others)

    def _under_min_isr(
        self, broker: int, key: Membership, count: int, others: int
    ) -> Iterator[tuple[StopRisk, _Range]]:
        """Yield how many of these partitions fall below their min.insync.replicas with the next leader and ISR."""
        if key.isr == 1 and not (self._may_be_unclean(key) and key.replicas > 1):
            return
        is_led = key.leader in self._least
        has_same_leader = is_led and key.leader != broker
        default = self._least[key.leader if is_led else broker]
        least = effective_min_isr(key.min_isr or default, key.replicas)
        if least is None:
            yield StopRisk.MIN_ISR_UNKNOWN, _Range(0, count)
        elif not has_same_leader and self._is_differing and not key.min_isr:
            # Another leader's broker may have another value.
            yield StopRisk.UNDER_MIN_ISR, _Range(0, count)
        elif key.isr - (not is_led) >= least and (has_same_leader or least > 1):
            # With so many others gone, just enough members live now.
            spare = key.isr - (not is_led) - least
            enough = self._with_gone(key, count, others, spare)
            too_few = self._with_gone(key, count, others, spare + 1)
            yield StopRisk.UNDER_MIN_ISR, enough.minus(too_few)

    def _with_gone(self, key: Membership, count: int, others: int, at_least: int) -> _Range:
        """Return how many of a broker's `count` partitions have so many gone members among their `others`.

        These are the members besides the broker and the leader.
        """
        if at_least <= 0:
            return _Range(count, count)
        gone = self._gone.get(key)
        if gone is None:
            return _NONE
        memberships = sorted((n for each, n in gone.items() if each != key.leader), reverse=True)
        if at_least > min(others, len(memberships)):
            return _NONE
        # Each of these partitions has so many different gone members.
        most = min(
            sum(memberships[skipped:]) // (at_least - skipped) for skipped in range(at_least)
        )
        # If all partitions of the kind had one member too few, so many memberships would be beyond that.
        total = count if key.leader < 0 else self._regular(key.leader, key)
        beyond = sum(memberships) - (at_least - 1) * total
        room = min(key.isr - 1, len(memberships)) - at_least + 1
        least = max(0, -(-beyond // room))
        if at_least == 1:
            least = max(least, memberships[0])
        # Not all of the kind have this broker.
        return _Range(max(0, least + count - total), min(most, count))


_ANY = PartitionFacts(topic="", partition=0, replicas=())
"""A partition of a topic without configuration."""


def cluster_facts(control: ControlPlane) -> ClusterFacts:
    """Return the facts on which a loss depends, as views hold them."""
    controller, config = control.controller.view, control.config
    is_kraft = controller.migrating_to_kraft or control.quorum is not None
    return ClusterFacts(
        live=frozenset(control.live_brokers),
        is_kraft=is_kraft,
        hidden=control.log.view.unseen,
        controller=controller.id,
        controller_epoch=None if is_kraft else controller.epoch,
        refused_below=controller.refused_below,
        broker_min_isr=config.broker_min_isr,
        broker_unclean=config.broker_unclean,
        min_isr_assumed=control.assumed.min_insync_replicas,
        has_elr=has_elr(control),
    )


def _facts(kind: Irregular) -> PartitionFacts:
    return PartitionFacts(
        topic="",
        partition=0,
        replicas=kind.replicas,
        leader=kind.leader,
        isr=kind.isr,
        controller_epoch=kind.above,
        min_isr=kind.min_isr or None,
        unclean=kind.unclean,
        eligible=kind.eligible,
    )


def aborted(control: ControlPlane) -> Iterator[tuple[Irregular, int]]:
    """Yield the states whose elections the controller aborts (`ClusterFacts.aborts_elections`), with their number.

    It makes no write for these partitions, so none is pending.
    """
    irregular = control.totals.irregular
    if irregular:
        cluster = cluster_facts(control)
        for kind, count in irregular.items():
            if cluster.aborts_elections(_facts(kind)):
                yield kind, count


def pending_removals(control: ControlPlane, gone: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield brokers that are gone, and the number of ISRs of live leaders that still contain them.

    The last member of an ISR stays in it (ReplicaStateMachine.doRemoveReplicasFromIsr).
    """
    live, members = control.live_brokers, control.totals.members
    never = Counter[tuple[int, Membership]]()
    for kind, count in aborted(control):
        for broker in kind.isr:
            never[broker, kind.membership] += count
    for broker in gone:
        for membership, count in members.get(broker, {}).items():
            due = count - never[broker, membership]
            if membership.leader in live and membership.isr > 1 and due:
                yield broker, due


def _min_isr_blocking(control: ControlPlane) -> int | None:
    """Return how many partitions have a min.insync.replicas not below their replication factor.

    Returns None if that of some is not known. Sizes do not hold leaders, so the default is applied
    first. Then partitions whose leader has its own value are judged again.
    """
    # How many partitions get each answer (None: not known).
    found: Counter[bool | None] = Counter()
    for (factor, min_isr), count in control.totals.sizes.items():
        found[min_isr_blocks(factor, control.min_isr_of(min_isr, NO_LEADER))] += count
    default = control.min_isr_of(None, NO_LEADER)
    differing = {
        leader: least
        for leader in control.totals.leaders
        if (least := control.min_isr_of(None, leader)) != default
    }
    for shape, count in control.totals.shapes.items():
        own = differing.get(shape.leader)
        if own is not None and shape.min_isr == NO_MIN_ISR:
            found[min_isr_blocks(shape.replicas, own)] += count
            found[min_isr_blocks(shape.replicas, default)] -= count
    return None if found[None] else found[True]
