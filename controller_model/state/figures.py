"""The numbers: totals, read with the brokers that live and the defaults that hold now.

The rule: definitions are Kafka's. A partition is offline when it has a state and its leader is -1
or not registered (KafkaController.updateMetrics); under-replicated when its ISR is smaller than
its target replicas; a topic that is being deleted counts in neither. Where min.insync.replicas is
not known of one partition, a sum over partitions that depends on it is not known: never a part of it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from controller_model.kafka.ids import NO_LEADER
from controller_model.kafka.min_isr import effective_min_isr, min_isr_blocks
from controller_model.records.views import Counts
from controller_model.state.contribution import NO_MIN_ISR
from controller_model.state.control_plane import ControlPlane

SKEW_DIGITS = 3
"""Of a leader skew: a new topic somewhere moves every broker's share, and must not touch each view
of a large cluster."""

_NOTIFICATIONS = ("/isr_change_notification/", "/log_dir_event_notification/")


def leader_writes_due(control: ControlPlane) -> int:
    """Return how many partitions have a leader that is gone: writes that a controller owes."""
    live = control.live_brokers()
    return sum(
        count
        for shape, count in control.totals.shapes.items()
        if shape.leader >= 0 and shape.leader not in live
    )


def counts(control: ControlPlane) -> Counts:
    """Return the cluster's figures."""
    totals = control.totals
    live = control.live_brokers()
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
        leader_writes_due=offline - leaderless,
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


def preferred_share(control: ControlPlane) -> float:
    """Return how many preferred replicas each live broker would have if all had as many."""
    return sum(control.totals.preferred.values()) / max(1, len(control.live_brokers()))


def leader_skew(control: ControlPlane, broker: int, share: float) -> float | None:
    """Return how far a live broker is from an even share of the preferred replicas; None: it is gone.

    0 = even, 1 = twice its share, -1 = none; only a reassignment changes it.
    """
    if broker not in control.live_brokers():
        return None
    return round(control.totals.preferred.get(broker, 0) / share - 1, SKEW_DIGITS) if share else 0.0


def imbalance_ratio(control: ControlPlane, broker: int) -> float:
    """Return the share of a broker's preferred partitions that it does not lead; 0 without any."""
    preferred = control.totals.preferred.get(broker, 0)
    return control.totals.preferred_not_led.get(broker, 0) / preferred if preferred else 0.0


def exceeding(control: ControlPlane) -> tuple[int, ...]:
    """Return the brokers above the threshold, strictly, worst first (insights.rebalance)."""
    threshold = control.assumed.leader_imbalance_per_broker_percentage / 100
    ratios = {
        broker: imbalance_ratio(control, broker) for broker in control.totals.preferred_not_led
    }
    found = (broker for broker, ratio in ratios.items() if ratio > threshold)
    not_led = control.totals.preferred_not_led
    return tuple(sorted(found, key=lambda broker: (-ratios[broker], -not_led[broker], broker)))


def electable(control: ControlPlane, brokers: Iterable[int]) -> dict[int, int]:
    """Return how many partitions an election would give back to each broker; those with some."""
    live = control.live_brokers()
    in_isr = control.totals.preferred_not_led_in_isr
    return {broker: in_isr[broker] for broker in brokers if broker in live and broker in in_isr}


def blocked(control: ControlPlane, brokers: Iterable[int]) -> dict[str, int]:
    """Return how many of these brokers' partitions no election can give back, and why."""
    live = control.live_brokers()
    found = {"not_live": 0, "not_in_isr": 0}
    for broker in brokers:
        not_led = control.totals.preferred_not_led.get(broker, 0)
        if broker in live:
            not_led -= control.totals.preferred_not_led_in_isr.get(broker, 0)
            found["not_in_isr"] += not_led
        else:
            found["not_live"] += not_led
    return found


def notifications(control: ControlPlane) -> int:
    """Return how many ISR and log directory notifications wait for the controller."""
    return sum(path.startswith(_NOTIFICATIONS) for path in control.stats)


def known_brokers(control: ControlPlane) -> set[int]:
    """Return every id that was ever registered or is assigned."""
    return set(control.brokers) | set(control.totals.replicas) | set(control.totals.preferred)


def is_known(control: ControlPlane, broker: int) -> bool:
    """Return whether an id is among the known brokers."""
    totals = control.totals
    return broker in control.brokers or broker in totals.replicas or broker in totals.preferred


class LostWith(NamedTuple):
    """What the loss of one broker would do, as far as totals show."""

    in_isr: int = 0
    """ISRs that it is a member of."""
    offline: int = 0
    """Led partitions that it alone keeps in sync."""
    under_min_isr: int | None = 0
    """Led partitions at their min.insync.replicas of which it is a member, if not the last; None:
    of some it is not known."""
    unsure: bool = False
    """More may break than is counted."""


class LossJudge:
    """Judges what the loss of a broker would do.

    Totals know how large an ISR is, not who else is in it. So while the controller owes a leader,
    or the removal of members that are gone, the counts are the least that would break. The same
    where brokers differ in min.insync.replicas: another leader's may ask for more.
    """

    def __init__(self, control: ControlPlane) -> None:
        """Take a cluster as it is now: another judge is needed once something has changed."""
        self._control = control
        self._least = {
            broker: control.min_isr_of(None, broker) for broker in control.live_brokers()
        }
        self._is_differing = len(set(self._least.values())) > 1
        self.is_behind = leader_writes_due(control) > 0 or _removal_due(control)
        """The controller owes a leader, or the removal of an ISR's member."""

    def of(self, broker: int) -> LostWith:
        """Return what the loss of a broker would do."""
        live = self._control.live_brokers()
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


def _removal_due(control: ControlPlane) -> bool:
    """Return whether a broker that is gone is in the ISR of a live leader still."""
    live, members = control.live_brokers(), control.totals.members
    return any(
        membership.leader in live
        for broker in members.keys() - live
        for membership in members[broker]
    )


def _min_isr_blocking(control: ControlPlane) -> int | None:
    """Return how many partitions have a min.insync.replicas not below their replication factor.

    None: of some it is not known. Sizes know no leader, so the default holds at first. Then
    partitions are judged again that are led by a broker with a value of its own.
    """
    # By the answer (None: not known), how many partitions get it.
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
