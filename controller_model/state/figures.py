"""The figures: totals, combined with the live brokers and the defaults that apply now.

The rule: definitions are Kafka's. A partition is offline if it has a state and its leader is -1 or
not registered (KafkaController.updateMetrics). It is under-replicated if its ISR is smaller than
its target replicas. Neither counts a topic that is being deleted. If min.insync.replicas of one
partition is not known, no sum over partitions that depends on it is known: no partial sum is shown.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from controller_model.kafka.cluster_facts import effective_min_isr, min_isr_blocks
from controller_model.kafka.ids import NO_LEADER
from controller_model.records.views import Counts
from controller_model.state.contribution import NO_MIN_ISR
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
    offline = leaderless = under_replicated = under_min = at_min = at_min_by_loss = reassigning = 0
    is_known = True
    for shape, count in totals.shapes.items():
        lacks = shape.target > shape.isr
        if shape.leader not in live:
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
        preferred_imbalance=totals.preferred_imbalance,
        preferred_electable=sum(electable(control, live).values()),
        reassigning=totals.reassigning,
        deleting_topics=len(control.deleting),
        replication_factor_1=sum(n for (factor, _), n in totals.sizes.items() if factor == 1),
        min_isr_blocks=_min_isr_blocking(control),
        replicas_on_gone_brokers=sum(n for b, n in totals.replicas.items() if b not in live),
    )


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
    threshold = control.assumed.leader_imbalance_per_broker_percentage / 100
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
    """What would break if one broker were lost, as far as totals show."""

    in_isr: int = 0
    """ISRs of which it is a member."""
    offline: int = 0
    """Partitions with a live leader and no other replica in the ISR."""
    under_min_isr: int | None = 0
    """Partitions with a live leader that are at their min.insync.replicas and have it and others in the
    ISR; None if min.insync.replicas of some is not known."""
    unsure: bool = False
    """More may break than these counts show."""


class LossJudge:
    """Judges what would break if a broker were lost.

    Totals hold the size of an ISR, not its members. So while the controller has yet to write a
    leader, or to remove gone members from an ISR, the counts are minimums. They also are where
    brokers differ in min.insync.replicas: another leader's value may be higher.
    """

    def __init__(self, control: ControlPlane) -> None:
        """Take a cluster as it is now; after a change, another judge is needed."""
        self._control = control
        self._least = {broker: control.min_isr_of(None, broker) for broker in control.live_brokers}
        self._is_differing = len(set(self._least.values())) > 1
        gone = control.totals.members.keys() - control.live_brokers
        self.is_behind = pending_leader_writes(control) > 0 or any(pending_removals(control, gone))
        """The controller has yet to write a leader, or to remove gone members from an ISR."""

    def of(self, broker: int) -> LostWith:
        """Return what would break if this broker were lost."""
        live = self._control.live_brokers
        in_isr = offline = 0
        under_min: int | None = 0
        unsure = False
        for membership, count in self._control.totals.members.get(broker, {}).items():
            leader = membership.leader
            in_isr += count
            if leader not in live:
                # It can lead this partition again, and may be the only one that can.
                unsure = unsure or broker in live
                continue
            unsure = unsure or (self._is_differing and leader == broker and not membership.min_isr)
            if membership.isr == 1:
                offline += count
                continue
            min_isr = membership.min_isr or self._least[leader]
            least = effective_min_isr(min_isr, membership.replicas)
            if least is None:
                under_min = None
            elif membership.isr == least and under_min is not None:
                under_min += count
        unsure = bool(in_isr) and (self.is_behind or unsure or under_min is None)
        return LostWith(in_isr, offline, under_min, unsure)


def pending_removals(control: ControlPlane, gone: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield brokers that are gone, and the number of ISRs of live leaders that still contain them."""
    live, members = control.live_brokers, control.totals.members
    for broker in gone:
        for membership, count in members.get(broker, {}).items():
            if membership.leader in live:
                yield broker, count


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
