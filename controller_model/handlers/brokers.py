"""Brokers: registrations, and how they ended.

The rule: a broker's life is its registration in /brokers/ids, identified by its czxid (the broker
epoch). The payload's timestamp does not identify the session. How a registration ended is inferred
from what the controller did before, and is called inferred.
"""

from msgspec.structs import replace

from controller_model.handlers import controller
from controller_model.handlers.broker_inference import is_drained, is_in_sync_with_others
from controller_model.records.changes import ChangeKind, ZnodeChange, differ
from controller_model.records.events import (
    Anomaly,
    AnyEvent,
    BrokerEnd,
    BrokerStarted,
    BrokerStopped,
    LogDirFailed,
    where,
)
from controller_model.records.filled import filled
from controller_model.sources.zookeeper.payloads import (
    BrokerZnode,
    decode_broker,
    decode_log_dir_event,
)
from controller_model.sources.zookeeper.znode_kinds import Znode
from controller_model.state.broker_record import BrokerRecord
from controller_model.state.cluster import ClusterState

TO_AND_FRO_MS = 3_600_000
"""Two moves of one id within this time, back to the first address, are not the move of a machine."""


def set_broker(
    state: ClusterState, znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Apply a registration: a new broker, one that came back, a bounce, or new endpoints."""
    registration = decode_broker(payload)
    broker = int(znode.name)
    record = state.control.brokers.get(broker, BrokerRecord())
    before, address = _text(record.host, record.port), _text(*_address(registration))
    moved_from = None if before == address else before
    is_to_and_fro = before != address and _is_to_and_fro(record, address, change)
    if record.live and not differ(record.epoch, change.czxid):
        epoch = change.czxid if record.epoch is None else record.epoch
        record = replace(_registered(record, registration, moved_from), epoch=epoch)
        state.control.put_broker(broker, record)
        return []
    events: list[AnyEvent] = []
    if record.live:
        record, ended = _end(state, broker, record, change, BrokerEnd.BOUNCED)
        events += ended
        controller.holder_died(state, broker, change)
    record = _incarnation(_registered(record, registration, moved_from), change)
    state.control.put_broker(broker, record)
    controller.holder_registered(state, broker, record.epoch)
    if not state.control.log.baseline:
        return events
    events += controller.finish_failover(state, change.observed_at)
    started = filled(BrokerStarted, record, **where(change), broker=broker, moved_from=moved_from)
    events.append(started)
    if is_to_and_fro:
        state.control.log.anomalies += 1
        reason = (
            f"broker {broker} is registered in turn at {before} and at {address}: "
            "two processes with one broker id?"
        )
        events.append(Anomaly(**where(change), path=change.path, reason=reason))
    return events


def _is_to_and_fro(record: BrokerRecord, address: str | None, change: ZnodeChange) -> bool:
    """Return whether a broker is back at its former address sooner than a machine can be moved."""
    soon = (change.ctime or 0) - (record.since or 0) < TO_AND_FRO_MS
    return record.former_address == address and soon


def _registered(
    record: BrokerRecord, registration: BrokerZnode, moved_from: str | None
) -> BrokerRecord:
    host, port = _address(registration)
    return replace(
        record,
        host=host,
        port=port,
        rack=registration.rack,
        endpoints=registration.endpoints,
        features=registration.features,
        live=True,
        former_address=record.former_address if moved_from is None else moved_from,
    )


def _incarnation(record: BrokerRecord, change: ZnodeChange) -> BrokerRecord:
    """Return a broker with a new registration; what was held of the previous one is reset."""
    # Without a czxid, the end that was seen shows that it is another registration.
    is_new = change.czxid is None or record.epoch != change.czxid
    return replace(
        record,
        registrations=record.registrations + is_new,
        epoch=change.czxid,
        since=change.ctime,
        drained=0,
        log_dir_failed=False,
    )


def end_broker(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Apply the end of a registration."""
    broker = int(znode.name)
    record = state.control.brokers.get(broker)
    if record is None or not record.live:
        return []
    end = _how_it_ended(state, broker, record, change)
    record, events = _end(state, broker, record, change, end)
    gone = replace(record, live=False, since=change.observed_at)
    state.control.put_broker(broker, gone)
    controller.holder_died(state, broker, change)
    return events + controller.finish_failover(state, change.observed_at)


def set_log_dir_event(
    state: ClusterState, _znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Apply a broker's report that a log directory failed; the controller deletes it once it has acted.

    What a resync finds was reported before, or happened before anybody watched: it is not reported.
    """
    event = decode_log_dir_event(payload)
    record = state.control.brokers.get(event.broker)
    if record is None or not record.live:
        return []
    is_news = state.control.log.baseline and state.control.log.resync is None
    failures = record.log_dir_failures + is_news
    state.control.put_broker(
        event.broker, replace(record, log_dir_failed=True, log_dir_failures=failures)
    )
    if not is_news:
        return []
    return [LogDirFailed(**where(change), broker=event.broker)]


def _how_it_ended(
    state: ClusterState, broker: int, record: BrokerRecord, change: ZnodeChange
) -> BrokerEnd:
    """Infer the end: the controller first empties a broker that shuts down, then its znode is deleted."""
    if state.control.log.resync is not None or change.kind is not ChangeKind.DELETED:
        return BrokerEnd.UNKNOWN  # found by a resync: what preceded it was not seen
    if is_in_sync_with_others(state.control, broker):
        return BrokerEnd.CRASHED
    return BrokerEnd.CONTROLLED_SHUTDOWN if is_drained(record) else BrokerEnd.UNKNOWN


def _end(
    state: ClusterState, broker: int, record: BrokerRecord, change: ZnodeChange, end: BrokerEnd
) -> tuple[BrokerRecord, list[AnyEvent]]:
    """Return a broker with its end counted, and the events that report it."""
    if not state.control.log.baseline:
        return record, []
    ends = {**record.ends, end.value: record.ends.get(end.value, 0) + 1}
    stopped = BrokerStopped(**where(change), broker=broker, epoch=record.epoch, end=end)
    return replace(record, ends=ends), [stopped]


def _text(host: str | None, port: int | None) -> str | None:
    """Return an address as one text; None if there is none.

    >>> _text("b1", 9092), _text("b1", None), _text(None, None)
    ('b1:9092', 'b1', None)
    """
    if host is None:
        return None
    return host if port is None else f"{host}:{port}"


def _address(registration: BrokerZnode) -> tuple[str | None, int | None]:
    """Return where the broker listens: the plaintext address for old clients, else the first one.

    >>> _address(BrokerZnode(version=2, jmx_port=-1, port=-1, endpoints=("SASL_SSL://[::1]:9093",)))
    ('::1', 9093)
    """
    if registration.host and registration.port is not None and registration.port >= 0:
        return registration.host, registration.port
    first = next(iter(registration.addresses()), None)
    return (registration.host, None) if first is None else (first.host or None, first.port)
