"""The numbers: totals, read with the brokers that live and the defaults that hold now.

The rule: definitions are Kafka's. A partition is offline when it has a state and its leader is -1
or not registered (KafkaController.updateMetrics); under-replicated when its ISR is smaller than
its target replicas; a topic that is being deleted counts in neither. Where min.insync.replicas is
not known of one partition, a sum over partitions that depends on it is not known: never a part of it.
"""

from __future__ import annotations

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
    offline = leaderless = under_replicated = under_min = at_min = 0
    is_known = True
    for shape, count in totals.shapes.items():
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
        under_replicated += count if shape.target > shape.isr else 0
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
        preferred_imbalance=totals.preferred_imbalance,
        preferred_electable=sum(electable(control, live).values()),
        reassigning=totals.reassigning,
        deleting_topics=len(control.deleting),
        replication_factor_1=sum(n for (factor, _), n in totals.sizes.items() if factor == 1),
        min_isr_blocks=_min_isr_blocking(control),
        replicas_on_gone_brokers=sum(n for b, n in totals.replicas.items() if b not in live),
    )


def leader_skew(control: ControlPlane) -> dict[int, float]:
    """Return how far each live broker is from an even share of the preferred replicas.

    0 = even, 1 = twice its share, -1 = none; only a reassignment changes it.
    """
    live = control.live_brokers()
    share = sum(control.totals.preferred.values()) / max(1, len(live))
    preferred = control.totals.preferred
    return {
        broker: round(preferred.get(broker, 0) / share - 1, SKEW_DIGITS) if share else 0.0
        for broker in live
    }


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


def lost_with(control: ControlPlane) -> dict[int, LostWith]:
    """Return for each broker what its loss would do.

    Totals know how large an ISR is, not who else is in it. So while the controller owes a leader,
    or the removal of members that are gone, the counts are the least that would break. The same
    where brokers differ in min.insync.replicas: another leader's may ask for more.
    """
    live = control.live_brokers()
    behind = leader_writes_due(control) > 0
    differing = len({control.min_isr_of(None, broker) for broker in live}) > 1
    found: dict[int, LostWith] = {}
    for member, count in control.totals.members.items():
        broker, leader = member.broker, member.leader
        in_isr, offline, under_min, unsure = found.get(broker, LostWith())
        if leader in live:
            behind = behind or broker not in live
            min_isr = control.min_isr_of(member.min_isr, leader)
            least = effective_min_isr(min_isr, member.replicas)
            if member.isr == 1:
                offline += count
            elif least is None:
                under_min = None
            elif member.isr == least and under_min is not None:
                under_min += count
            unsure = unsure or (differing and leader == broker and not member.min_isr)
        else:
            # It can lead this partition again, and may be the only one that can.
            unsure = unsure or broker in live
        found[broker] = LostWith(in_isr + count, offline, under_min, unsure)
    return {
        broker: lost._replace(unsure=behind or lost.unsure or lost.under_min_isr is None)
        for broker, lost in found.items()
    }


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
