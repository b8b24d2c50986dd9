"""Registrations in /brokers/ids, and what is inferred of brokers because no znode holds it: states and ends.

The rule: a registration is identified by its czxid (the broker epoch). The payload's timestamp does not
identify the session. How a registration ended is inferred from what the controller did before. A state is
computed whenever it is needed; nothing is stored.
"""

import enum

from controller_model.facts.facts import BrokerGone, BrokerIs, LogDirIsOffline
from controller_model.records.changes import ChangeKind, ZnodeChange, differ
from controller_model.records.events import AnyEvent, BrokerEnd
from controller_model.records.visibility import PARTITIONS
from controller_model.sources.zookeeper.controller import explain_by_end, note_registration
from controller_model.sources.zookeeper.payloads import (
    BrokerZnode,
    decode_broker,
    decode_log_dir_event,
)
from controller_model.sources.zookeeper.pending_writes import finish_failover, note_protocol
from controller_model.sources.zookeeper.state import zookeeper_of
from controller_model.sources.zookeeper.stats import ZnodeRead
from controller_model.state.cluster import ClusterState
from controller_model.state.control_plane import ControlPlane
from controller_model.state.held_broker import HeldBroker


class BrokerState(enum.StrEnum):
    """What a broker is doing, as far as ZooKeeper shows it, by Kafka's names (kafka.server.BrokerStates, up to 2.7).

    A dead process stays registered until its session times out. A starting broker registers after it has
    recovered its logs (kafka.server.KafkaServer.startup), so Starting and RecoveringFromUncleanShutdown are not seen.
    """

    NOT_RUNNING = "NotRunning"
    """Its registration was removed: near the end of a shutdown, or when its session was lost."""
    RUNNING_AS_BROKER = "RunningAsBroker"
    PENDING_CONTROLLED_SHUTDOWN = "PendingControlledShutdown"
    """Since it registered, the controller has moved its leaders away and removed it from every ISR that
    has other members, and no failed log directory explains that."""


def is_in_sync_with_others(control: ControlPlane, broker: int) -> bool:
    """Return whether a broker is in an ISR of which it is not the only member."""
    return any(membership.isr > 1 for membership in control.totals.members.get(broker, ()))


def read_broker(read: ZnodeRead) -> list[AnyEvent]:
    """Read a registration: of a new broker, one that came back, a bounce, or with new endpoints."""
    state, change, stamp, handle = read.state, read.change, read.stamp, read.handle
    broker = int(read.znode.name)
    registration = decode_broker(change.payload())
    if change.ephemeral_owner is not None:
        zookeeper_of(state.control).foreign.owners[broker] = change.ephemeral_owner
    held = state.control.brokers.get(broker)
    is_live = held is not None and held.record.live is True
    known_epoch = held.record.epoch if held is not None else None
    is_same = is_live and not differ(known_epoch, change.czxid)
    events: list[AnyEvent] = []
    if is_live and not is_same:
        events += handle(state, BrokerGone(stamp, broker, BrokerEnd.BOUNCED, is_back=True))
        events += explain_by_end(state, broker, stamp, handle)
    epoch = known_epoch if is_same and known_epoch is not None else change.czxid
    host, port = _address(registration)
    started = handle(
        state,
        BrokerIs(
            stamp,
            broker,
            epoch,
            since=change.ctime,
            host=host,
            port=port,
            rack=registration.rack,
            endpoints=registration.endpoints,
            features=registration.features,
            is_same=is_same,
        ),
    )
    note_protocol(state.control, broker, registration.version)
    if is_same:
        return started
    note_registration(state, broker, epoch)
    if state.control.log.baseline:
        events += finish_failover(state, stamp, handle)
    return events + started


def read_broker_end(read: ZnodeRead) -> list[AnyEvent]:
    """Read the end of a registration."""
    state, change, stamp, handle = read.state, read.change, read.stamp, read.handle
    broker = int(read.znode.name)
    zookeeper_of(state.control).foreign.owners.pop(broker, None)
    held = state.control.brokers.get(broker)
    if held is None or not held.record.live:
        return []
    events = handle(state, BrokerGone(stamp, broker, _how_it_ended(state, broker, held, change)))
    events += explain_by_end(state, broker, stamp, handle)
    return events + finish_failover(state, stamp, handle)


def read_log_dir_event(read: ZnodeRead) -> list[AnyEvent]:
    """Read a broker's report that a log directory failed; the controller deletes it once it has acted.

    What a resync finds was reported before, or happened before anybody watched: it is not news.
    """
    state, change, stamp, handle = read.state, read.change, read.stamp, read.handle
    event = decode_log_dir_event(change.payload())
    held = state.control.brokers.get(event.broker)
    if held is None or not held.record.live:
        return []
    is_news = state.control.log.baseline and zookeeper_of(state.control).resync is None
    return handle(state, LogDirIsOffline(stamp, event.broker, is_news))


def _how_it_ended(
    state: ClusterState, broker: int, held: HeldBroker, change: ZnodeChange
) -> BrokerEnd:
    """Infer the end: the controller first empties a broker that shuts down, then its znode is deleted."""
    if zookeeper_of(state.control).resync is not None or change.kind is not ChangeKind.DELETED:
        return BrokerEnd.UNKNOWN  # found by a resync: what preceded it was not seen
    if not PARTITIONS.isdisjoint(state.control.log.view.hidden):
        return BrokerEnd.UNKNOWN
    if is_in_sync_with_others(state.control, broker):
        return BrokerEnd.CRASHED
    return BrokerEnd.CONTROLLED_SHUTDOWN if held.is_drained else BrokerEnd.UNKNOWN


def _address(registration: BrokerZnode) -> tuple[str | None, int | None]:
    """Return where the broker listens: the plaintext address for old clients, else the first one.

    >>> _address(BrokerZnode(version=2, jmx_port=-1, port=-1, endpoints=("SASL_SSL://[::1]:9093",)))
    ('::1', 9093)
    """
    if registration.host and registration.port is not None and registration.port >= 0:
        return registration.host, registration.port
    first = next(iter(registration.addresses()), None)
    return (registration.host, None) if first is None else (first.host or None, first.port)
