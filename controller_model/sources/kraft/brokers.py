"""Brokers of the metadata log: registrations, fences, controlled shutdowns and log directories, all as stated.

The rule: a registration replaces the one before, and is fenced at first. A broker is live while it is registered and not
fenced. A change that names another broker epoch than the registration is odd, and changes nothing
(ClusterControlManager.replay).
"""

from controller_model.facts.facts import (
    BrokerGone,
    BrokerIs,
    BrokerShutsDown,
    BrokerUnfenced,
    LogDirIsOffline,
    RegistrationGone,
)
from controller_model.kafka.ids import join_host_port
from controller_model.kafka.metadata_records import (
    BrokerRegistrationChange,
    EndPoint,
    FenceBroker,
    RegisterBroker,
    UnfenceBroker,
    UnregisterBroker,
)
from controller_model.records.events import AnyEvent, BrokerEnd
from controller_model.records.views import BrokerRecord
from controller_model.sources.kraft.partitions import state_directories
from controller_model.sources.kraft.reading import Reading


def read_registration(reading: Reading, record: RegisterBroker) -> list[AnyEvent]:
    """Read a registration; in a snapshot, of a process that may be known already."""
    broker, kraft, stamp = record.broker_id, reading.kraft, reading.stamp
    held = _record(reading, broker)
    is_same = held.epoch == record.broker_epoch and held.fenced is not None
    events: list[AnyEvent] = []
    if held.live and (record.fenced or not is_same):
        end = _end(held) if is_same else BrokerEnd.BOUNCED
        gone = BrokerGone(stamp, broker, end, is_back=not record.fenced, is_fenced=record.fenced)
        events += reading.state_fact(gone)
    offline: int | None = 0
    if reading.snapshot is None:
        kraft.log_dirs[broker] = record.log_dirs
    elif is_same:
        offline = _offline(reading, broker, record.log_dirs)
    else:
        # A snapshot holds only those that are online.
        kraft.log_dirs.pop(broker, None)
        offline = None
    first = record.end_points[0] if record.end_points else None
    registration = BrokerIs(
        stamp,
        broker,
        record.broker_epoch,
        since=None if reading.snapshot is not None else reading.at,
        host=None if first is None else first.host,
        port=None if first is None else first.port,
        rack=record.rack,
        endpoints=addresses(record.end_points),
        features={
            each.name: {
                "min_version": each.min_supported_version,
                "max_version": each.max_supported_version,
            }
            for each in record.features
        },
        is_same=is_same and (record.fenced or held.live is True),
        fenced=record.fenced,
        shutting_down=record.in_controlled_shutdown,
        log_dirs_offline=offline,
        is_retold=kraft.is_counting and not reading.state.control.log.baseline,
    )
    if reading.snapshot is not None:
        reading.snapshot.brokers.append(broker)
    events += reading.state_fact(registration)
    return events + _put_online(reading, broker, record.log_dirs)


def read_registration_end(reading: Reading, record: UnregisterBroker) -> list[AnyEvent]:
    """Read that a registration was removed."""
    return end_registration(reading, record.broker_id, BrokerEnd.UNREGISTERED)


def end_registration(reading: Reading, broker: int, end: BrokerEnd) -> list[AnyEvent]:
    """End a registration; it is an event only if the broker was live."""
    held = reading.state.control.brokers.get(broker)
    reading.kraft.log_dirs.pop(broker, None)
    if held is None or held.record.fenced is None:
        return []
    events = _put_online(reading, broker, None)
    if held.record.live:
        return events + reading.state_fact(BrokerGone(reading.stamp, broker, end))
    return events + reading.state_fact(RegistrationGone(reading.stamp, broker))


def read_fence(reading: Reading, record: FenceBroker) -> list[AnyEvent]:
    """Read a fence, as it was written before metadata.version 3.3."""
    change = BrokerRegistrationChange(record.id, record.epoch, fenced=True)
    return read_registration_change(reading, change)


def read_unfence(reading: Reading, record: UnfenceBroker) -> list[AnyEvent]:
    """Read the end of a fence, as it was written before metadata.version 3.3."""
    change = BrokerRegistrationChange(record.id, record.epoch, fenced=False)
    return read_registration_change(reading, change)


def read_registration_change(reading: Reading, record: BrokerRegistrationChange) -> list[AnyEvent]:
    """Read a fence or its end, a controlled shutdown, or which log directories are online; it may repeat what is so."""
    broker, stamp = record.broker_id, reading.stamp
    held = _record(reading, broker)
    if held.fenced is None or held.epoch != record.broker_epoch:
        known = "none" if held.fenced is None else f"epoch {held.epoch}"
        reason = f"broker {broker} with epoch {record.broker_epoch}; registered is {known}"
        return reading.odd(record, reason)
    events: list[AnyEvent] = []
    if record.in_controlled_shutdown:
        events += reading.state_fact(BrokerShutsDown(stamp, broker))
    if record.fenced is True and held.live:
        events += reading.state_fact(BrokerGone(stamp, broker, _end(held), is_fenced=True))
    elif record.fenced is False and not held.live:
        events += reading.state_fact(BrokerUnfenced(stamp, broker))
    if record.log_dirs is not None:
        offline = _offline(reading, broker, record.log_dirs)
        is_more = offline is None or offline > (held.log_dirs_offline or 0)
        is_news = is_more and reading.state.control.log.baseline
        events += reading.state_fact(LogDirIsOffline(stamp, broker, is_news, offline))
        events += _put_online(reading, broker, record.log_dirs)
    return events


def _put_online(reading: Reading, broker: int, online: tuple[str, ...] | None) -> list[AnyEvent]:
    """Note which log directories of a broker are online: replicas in others may not lead. None: it is not registered."""
    held = reading.kraft.online_dirs
    if held.get(broker) == online:
        return []
    if online is None:
        del held[broker]
    else:
        held[broker] = online
    return state_directories(reading, broker)


def addresses(end_points: tuple[EndPoint, ...]) -> tuple[str, ...]:
    """Return listeners as operators write them.

    >>> addresses((EndPoint("PLAINTEXT", "b1", 9092, 0),))
    ('PLAINTEXT://b1:9092',)
    """
    return tuple(f"{each.name}://{join_host_port(each.host, each.port)}" for each in end_points)


def _record(reading: Reading, broker: int) -> BrokerRecord:
    held = reading.state.control.brokers.get(broker)
    return BrokerRecord() if held is None else held.record


def _end(held: BrokerRecord) -> BrokerEnd:
    """Return how a fenced broker ended: one in controlled shutdown is fenced when it may stop."""
    return BrokerEnd.CONTROLLED_SHUTDOWN if held.shutting_down else BrokerEnd.FENCED


def _offline(reading: Reading, broker: int, online: tuple[str, ...]) -> int | None:
    registered = reading.kraft.log_dirs.get(broker)
    return None if registered is None else len(set(registered) - set(online))
