"""Brokers: registrations, and how they ended.

The rule: a broker's life is its registration in /brokers/ids, named by its czxid (the broker
epoch). The payload's timestamp is not the session. How a registration ended is inferred from what
the controller did before, and called so.
"""

from __future__ import annotations

import re

from controller_model import election_ledger
from controller_model.changes import ChangeKind, ZnodeChange
from controller_model.cluster import BrokerRecord, ClusterState
from controller_model.events import AnyEvent, BrokerEnd, BrokerStarted, BrokerStopped, where
from controller_model.znodes import Znode, decode_broker

_PORT = re.compile(r"[0-9]{1,5}")


def set_broker(
    state: ClusterState, znode: Znode, change: ZnodeChange, payload: bytes
) -> list[AnyEvent]:
    """Take a registration: a new broker, one that came back, a bounce, or new endpoints."""
    registration = decode_broker(payload)
    broker = int(znode.name)
    record = state.control.brokers.setdefault(broker, BrokerRecord())
    events: list[AnyEvent] = []
    new_registration = not record.live or record.epoch != change.czxid
    if record.live and new_registration:
        events += _end(state, broker, record, change, BrokerEnd.BOUNCED)
        election_ledger.holder_died(state, broker, change)
    record.host, record.port = _address(
        registration.host, registration.port, registration.endpoints
    )
    record.rack = registration.rack
    record.live = True
    if not new_registration:
        return events
    record.registrations += record.epoch != change.czxid
    record.epoch = change.czxid
    record.since = change.ctime
    record.drained = 0
    election_ledger.holder_registered(state, broker, record.epoch)
    if not state.control.log.baseline:
        return events
    events += election_ledger.recount_due(state, change)
    started = BrokerStarted(
        **where(change),
        broker=broker,
        epoch=record.epoch,
        host=record.host,
        port=record.port,
        rack=record.rack,
    )
    return [*events, started]


def end_broker(state: ClusterState, znode: Znode, change: ZnodeChange) -> list[AnyEvent]:
    """Take the end of a registration."""
    broker = int(znode.name)
    record = state.control.brokers.get(broker)
    if record is None or not record.live:
        return []
    end = _how_it_ended(state, broker, record, change)
    record.live = False
    record.since = change.observed_at
    events = _end(state, broker, record, change, end)
    election_ledger.holder_died(state, broker, change)
    return events + election_ledger.recount_due(state, change)


def _how_it_ended(
    state: ClusterState, broker: int, record: BrokerRecord, change: ZnodeChange
) -> BrokerEnd:
    """Infer the end: the controller empties a broker that shuts down before its znode goes."""
    if state.control.log.resync is not None or change.kind is not ChangeKind.DELETED:
        return BrokerEnd.UNKNOWN  # found by a resync: what came before it was not seen
    state.settle()
    in_sync_with_others = any(
        member.broker == broker and member.isr > 1 for member in state.control.totals.members
    )
    if in_sync_with_others:
        return BrokerEnd.CRASHED
    return BrokerEnd.CONTROLLED_SHUTDOWN if record.drained else BrokerEnd.UNKNOWN


def _end(
    state: ClusterState, broker: int, record: BrokerRecord, change: ZnodeChange, end: BrokerEnd
) -> list[AnyEvent]:
    if not state.control.log.baseline:
        return []
    record.ends[end.value] = record.ends.get(end.value, 0) + 1
    return [
        BrokerStopped(
            **where(change),
            broker=broker,
            epoch=record.epoch,
            end=end,
        )
    ]


def _address(
    host: str | None, port: int | None, endpoints: tuple[str, ...]
) -> tuple[str | None, int | None]:
    """Return where the broker listens: the old fields, else the first endpoint.

    >>> _address(None, -1, ("SASL_SSL://b1.example:9093",))
    ('b1.example', 9093)
    """
    if host and port is not None and port >= 0:
        return host, port
    if not endpoints:
        return host, None
    address = endpoints[0].rpartition("://")[2]
    name, _, number = address.rpartition(":")
    return name.strip("[]") or host, int(number) if _PORT.fullmatch(number) else None
