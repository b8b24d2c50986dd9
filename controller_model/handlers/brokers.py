"""Brokers: registrations, and how they ended.

The rule: a broker's life is its registration, identified by its broker epoch. How one ended is what the
source states, or infers from what the controller did before.
"""

from controller_model.facts.facts import (
    BrokerGone,
    BrokerIs,
    BrokerShutsDown,
    BrokerUnfenced,
    LogDirIsOffline,
    RegistrationGone,
)
from controller_model.facts.stamp import Stamp, where
from controller_model.kafka.ids import broker_address
from controller_model.records.events import (
    ENDS_IN_KRAFT,
    AnyEvent,
    BrokerEnd,
    BrokerStarted,
    BrokerStopped,
    LogDirFailed,
)
from controller_model.records.quorum import Fence
from controller_model.records.recent import note_fence, without_broker
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import count_anomaly
from controller_model.state.held_broker import HeldBroker

TO_AND_FRO_MS = 3_600_000
"""Two moves of one id within this time, back to the first address, are not the move of a machine."""


def apply_broker(state: ClusterState, fact: BrokerIs) -> list[AnyEvent]:
    """Apply a registration: a new broker, one that came back, or new endpoints."""
    control, stamp = state.control, fact.stamp
    held = control.brokers.get(fact.broker) or HeldBroker()
    record = held.record
    before, address = (record.host, record.port), (fact.host, fact.port)
    has_moved = before != address and record.host is not None
    soon = (fact.since or 0) - (record.since or 0) < TO_AND_FRO_MS
    is_to_and_fro = before != address and held.former_address == address and soon
    if has_moved:
        held.former_address = before
    if not fact.is_same:
        # Without an epoch, the end that was seen shows that it is another registration.
        is_another = fact.epoch is None or record.epoch != fact.epoch
        record.registrations += is_another and not fact.is_retold
        if control.quorum is not None and is_another and not fact.is_retold:
            fences = control.quorum.recent_fences
            control.quorum.recent_fences = without_broker(fences, fact.broker)
        if fact.since is not None or not fact.is_retold:
            record.since = fact.since
        held.drained = 0
        held.log_dir_failed = False
    record.live = not fact.fenced
    record.fenced, record.shutting_down = fact.fenced, fact.shutting_down
    if fact.fenced is not None and not record.ends:
        record.ends = {end.value: 0 for end in ENDS_IN_KRAFT}
    record.log_dirs_offline = fact.log_dirs_offline
    record.epoch = fact.epoch
    record.host, record.port, record.rack = fact.host, fact.port, fact.rack
    record.endpoints, record.features = fact.endpoints, fact.features
    control.put_broker(fact.broker, held)
    if fact.is_same or not control.log.baseline:
        return []
    moved_from = broker_address(*before) if has_moved else None
    # A fenced one starts for everybody else when it is unfenced.
    events = [] if fact.fenced else [_started(held, fact.broker, stamp, moved_from)]
    if is_to_and_fro:
        reason = (
            f"broker {fact.broker} is registered in turn at {broker_address(*before)} and at "
            f"{broker_address(*address)}: two processes with one broker id?"
        )
        events.append(count_anomaly(state, at=stamp.at, path=stamp.place, reason=reason))
    return events


def _started(
    held: HeldBroker, broker: int, stamp: Stamp, moved_from: str | None = None
) -> AnyEvent:
    record = held.record
    return BrokerStarted(
        **where(stamp),
        broker=broker,
        epoch=record.epoch,
        host=record.host,
        port=record.port,
        rack=record.rack,
        moved_from=moved_from,
    )


def apply_unfencing(state: ClusterState, fact: BrokerUnfenced) -> list[AnyEvent]:
    """Apply that a registered broker is live now."""
    control = state.control
    held = control.brokers.get(fact.broker) or HeldBroker()
    record = held.record
    record.live, record.fenced, record.since = True, False, fact.stamp.at
    control.put_broker(fact.broker, held)
    return [_started(held, fact.broker, fact.stamp)] if control.log.baseline else []


def apply_shutdown(state: ClusterState, fact: BrokerShutsDown) -> list[AnyEvent]:
    """Apply that a broker is in controlled shutdown; its end is reported when it is fenced."""
    held = state.control.brokers.get(fact.broker) or HeldBroker()
    held.record.shutting_down = True
    state.control.put_broker(fact.broker, held)
    return []


def apply_broker_end(state: ClusterState, fact: BrokerGone) -> list[AnyEvent]:
    """Apply the end of a registration."""
    control, stamp = state.control, fact.stamp
    held = control.brokers.get(fact.broker) or HeldBroker()
    record = held.record
    epoch = record.epoch
    if control.log.baseline:
        end = fact.end.value
        record.ends = {**record.ends, end: record.ends.get(end, 0) + 1}
        if fact.end is BrokerEnd.FENCED and control.quorum is not None:
            fence = Fence(stamp.at, fact.broker, control.controller.view.epoch or 0)
            control.quorum.recent_fences = note_fence(control.quorum.recent_fences, fence)
    if not fact.is_back:
        record.live = False
        record.fenced = True if fact.is_fenced else None
        record.shutting_down = record.shutting_down and fact.is_fenced
        if not fact.is_fenced:
            record.log_dirs_offline = None
        record.since = stamp.at
    control.put_broker(fact.broker, held)
    if not control.log.baseline:
        return []
    return [BrokerStopped(**where(stamp), broker=fact.broker, epoch=epoch, end=fact.end)]


def apply_registration_end(state: ClusterState, fact: RegistrationGone) -> list[AnyEvent]:
    """Apply that a fenced broker is not registered any more: its end was reported with its fence."""
    held = state.control.brokers.get(fact.broker) or HeldBroker()
    record = held.record
    record.fenced, record.shutting_down, record.log_dirs_offline = None, False, None
    state.control.put_broker(fact.broker, held)
    return []


def apply_log_dir(state: ClusterState, fact: LogDirIsOffline) -> list[AnyEvent]:
    """Apply a broker's report that a log directory failed."""
    held = state.control.brokers.get(fact.broker) or HeldBroker()
    held.log_dir_failed = True
    held.record.log_dir_failures += fact.is_news
    held.record.log_dirs_offline = fact.offline
    state.control.put_broker(fact.broker, held)
    return [LogDirFailed(**where(fact.stamp), broker=fact.broker)] if fact.is_news else []
