"""What Kafka never writes, found where a znode is read or, where two znodes must fit together, at heartbeats.

The rule: a foreign write is an Anomaly that says what it means, once; it counts until a write of Kafka's, or a restart of
the brokers, ends what it means. What must fit is read one after the other, so it counts only if it does not fit at two
heartbeats in a row, and never while something may be missing or must not be read. Where the history of ZooKeeper was
replaced, nothing is compared with the former one.
"""

from collections.abc import Iterator
from typing import NamedTuple

from controller_model.facts.facts import ControllersAreRefused, ForeignWritesAre, PartitionIs
from controller_model.facts.stamp import Stamp
from controller_model.insight.wording import counted
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records import visibility
from controller_model.records.changes import SessionState
from controller_model.records.events import AnyEvent
from controller_model.records.foreign_writes import ForeignWriteKind
from controller_model.sources.zookeeper.state import zookeeper_of
from controller_model.sources.zookeeper.stats import ZnodeRead
from controller_model.state import figures
from controller_model.state.cluster import ClusterState
from controller_model.state.completeness import count_anomaly
from controller_model.state.control_plane import ControlPlane
from controller_model.state.source import Handle
from controller_model.state.topic_state import PartitionRecord, TopicState

PERSISTENT = 0
"""The owner of a znode that no session holds."""

MAX_LEADER_EPOCHS = 1_000
"""The most states remembered for their leader epoch: people edit a few by hand. Further ones are reported, not counted."""


class _Found(NamedTuple):
    """A foreign write that a heartbeat shows."""

    kind: ForeignWriteKind
    path: str
    reason: str
    number: int = 1
    at_once: bool = False
    """One znode shows it."""


def is_foreign_step(read: ZnodeRead, old: PartitionRecord) -> bool:
    """Return whether no Kafka made a step to a smaller leader epoch, or to another leader under the same one.

    Each new leader has a larger leader epoch, and no write lowers it (kafka.api.LeaderAndIsr.newLeaderAndIsr). It may be
    the step to another history, or to a partition that was created again.
    """
    stat = old.origin
    is_same = stat is not None and 0 < stat.created == read.change.czxid
    is_compared = is_same and not zookeeper_of(read.control).rebasing
    return is_compared and read.znode.name not in read.control.deleting


def report_step(read: ZnodeRead, old: PartitionRecord, fact: PartitionIs) -> list[AnyEvent]:
    """Report a step that `is_foreign_step`, or end the effect of an earlier one."""
    held, path = zookeeper_of(read.control).foreign.leader_epochs, read.change.path
    if not fact.is_foreign:
        held.pop(path, None)
        return []
    if len(held) < MAX_LEADER_EPOCHS:
        held[path] = read.change.mzxid or 0
    if fact.leader_epoch < old.leader_epoch:
        what = f"the leader epoch went back from {old.leader_epoch} to {fact.leader_epoch}"
    else:
        what = (
            f"the leader moved from {old.leader} to {fact.leader} under the same leader epoch "
            f"{fact.leader_epoch}"
        )
    reason = (
        f"{what}, as no controller writes it: brokers ignore such a leader, and it was not elected"
    )
    return [_anomaly(read.state, read.stamp, path, reason, ForeignWriteKind.LEADER_EPOCH)]


def report_topic_id(read: ZnodeRead, old: TopicState, topic_id: str | None) -> list[AnyEvent]:
    """Report an id that a topic lost or got instead of its own while it was not created again."""
    zookeeper, name = zookeeper_of(read.control), read.znode.name
    held = zookeeper.foreign.topic_ids
    is_same = old.origin is not None and old.origin.created == read.change.czxid
    if not is_same or zookeeper.rebasing or not old.exists:
        held.pop(name, None)
        return []
    known = held[name][0] if name in held else old.topic_id
    if known is None or topic_id == known:
        held.pop(name, None)
        return []
    if topic_id == old.topic_id:
        return []
    held[name] = known, read.change.mzxid or 0
    what = (
        f"the topic id {known} was removed"
        if topic_id is None
        else f"the topic id {known} was replaced by {topic_id}"
    )
    reason = (
        f"{what} although the topic was not created again: once a controller sends another id, "
        "brokers refuse the topic until they restart (INCONSISTENT_TOPIC_ID)"
    )
    return [_anomaly(read.state, read.stamp, read.change.path, reason, ForeignWriteKind.TOPIC_ID)]


def report_epoch(read: ZnodeRead, before: int | None, epoch: int | None) -> list[AnyEvent]:
    """Report a controller epoch that went back while brokers ran, or was removed (None); end it if it is back."""
    state, control, zookeeper = read.state, read.control, zookeeper_of(read.control)
    below = control.controller.view.refused_below
    if zookeeper.rebasing or not control.log.baseline or control.controller.view.migrating_to_kraft:
        read.handle(state, ControllersAreRefused(read.stamp, None))
        return []
    if epoch is not None and (before is None or epoch >= before):
        if below is not None and epoch >= below:
            read.handle(state, ControllersAreRefused(read.stamp, None))
        return []
    if not control.live_brokers:
        return []
    below = max(below or 0, before or 0)
    zookeeper.foreign.epoch_zxid = max(
        zookeeper.foreign.epoch_zxid, read.change.mzxid or read.change.read_zxid or 0
    )
    read.handle(state, ControllersAreRefused(read.stamp, below))
    what = (
        "the controller epoch was removed while brokers run: the next controller begins with 1, and"
        if epoch is None
        else f"the controller epoch went back from {before} to {epoch} while brokers run:"
    )
    reason = (
        f"{what} brokers refuse what a controller with an epoch below {below} sends "
        f"(STALE_CONTROLLER_EPOCH) until they restart or the epoch is {below} or more"
    )
    kind = ForeignWriteKind.CONTROLLER_EPOCH_BACK
    return [_anomaly(state, read.stamp, read.change.path, reason, kind)]


def handle_heartbeat(state: ClusterState, stamp: Stamp, handle: Handle) -> list[AnyEvent]:
    """Report what does not fit together, and state how many foreign writes stand."""
    control = state.control
    held = zookeeper_of(control).foreign
    if not _can_compare(control):
        held.suspected = ()
        return []
    _end_by_restarts(state, stamp, handle)
    found = {f"{each.kind} {each.path}": each for each in _misfits(control)}
    standing = {
        name: each for name, each in found.items() if each.at_once or name in held.suspected
    }
    events: list[AnyEvent] = [
        _anomaly(state, stamp, each.path, each.reason, each.kind)
        for name, each in standing.items()
        if name not in held.reported
    ]
    held.suspected, held.reported = tuple(found), tuple(standing)
    counts: dict[str, int] = {}
    for each in standing.values():
        counts[each.kind] = counts.get(each.kind, 0) + each.number
    for kind, count in (
        (ForeignWriteKind.CONTROLLER_EPOCH_BACK, control.controller.view.refused_below is not None),
        (ForeignWriteKind.TOPIC_ID, len(held.topic_ids)),
        (ForeignWriteKind.LEADER_EPOCH, len(held.leader_epochs)),
    ):
        if count:
            counts[kind] = int(count)
    if counts != control.foreign_writes:
        handle(state, ForeignWritesAre(stamp, {str(kind): n for kind, n in counts.items()}))
    return events


def _can_compare(control: ControlPlane) -> bool:
    """Return whether all that was written before this heartbeat has been read."""
    log = control.log.view
    return (
        control.log.baseline
        and log.session is SessionState.CONNECTED
        and not log.resync_under_way
        and not log.incomplete
        and visibility.HEALTH.isdisjoint(log.hidden)
        and log.divergent_since is None
    )


def _end_by_restarts(state: ClusterState, stamp: Stamp, handle: Handle) -> None:
    """End what brokers refuse once all of them have registered again since: they have forgotten what they knew."""
    control = state.control
    held = zookeeper_of(control).foreign
    oldest = min(
        (control.brokers[broker].record.epoch or 0 for broker in control.live_brokers), default=None
    )
    if oldest is None:
        return
    if control.controller.view.refused_below is not None and oldest > held.epoch_zxid:
        handle(state, ControllersAreRefused(stamp, None))
    for topic in [topic for topic, (_, zxid) in held.topic_ids.items() if oldest > zxid]:
        del held.topic_ids[topic]


def _misfits(control: ControlPlane) -> Iterator[_Found]:
    zookeeper, view = zookeeper_of(control), control.controller.view
    owners = zookeeper.foreign.owners
    kind, path = ForeignWriteKind.CONTROLLER_WITHOUT_SESSION, "/controller"
    owner, holder = zookeeper.controller.owner, view.id
    if owner == PERSISTENT and not view.migrating_to_kraft:
        reason = (
            "it is persistent, so that no session holds it and nothing ends it: while it is there no broker "
            "is elected and none does the controller's work; delete it"
        )
        yield _Found(kind, path, reason, at_once=True)
    elif holder != NO_CONTROLLER and not view.migrating_to_kraft:
        if holder not in control.live_brokers:
            reason = (
                f"broker {holder} holds it and is not registered in /brokers/ids: other brokers do not know it, "
                "and nobody else can be elected; restart it"
            )
            yield _Found(kind, path, reason)
        elif owner is not None and owners.get(holder, owner) not in {owner, PERSISTENT}:
            reason = (
                f"it names broker {holder} and is held by another session than that broker's registration, an older "
                "session or a tool's: it does not end with the broker; delete it"
            )
            yield _Found(kind, path, reason)
    for broker, session in owners.items():
        if session == PERSISTENT and broker in control.live_brokers:
            reason = (
                f"the registration of broker {broker} is persistent, so that no session holds it: it counts as live "
                "for ever, leaders are elected on it, and the broker itself cannot start; delete it"
            )
            found = ForeignWriteKind.BROKER_WITHOUT_SESSION
            yield _Found(found, f"/brokers/ids/{broker}", reason, at_once=True)
    above = list(figures.aborted(control))
    if above:
        number = sum(each for _, each in above)
        highest = max(irregular.above for irregular, _ in above)
        reason = (
            f"{counted(number, 'partition')} hold a controller epoch above the cluster's {view.epoch}, up to {highest}: Kafka "
            "aborts each election of them (PartitionStateMachine.doElectLeaderForPartitions), so they go offline "
            f"with their leaders; set /controller_epoch to {highest} or more, and delete /controller"
        )
        found = ForeignWriteKind.CONTROLLER_EPOCH_ABOVE
        yield _Found(found, "/controller_epoch", reason, number)


def _anomaly(
    state: ClusterState, stamp: Stamp, path: str, reason: str, kind: ForeignWriteKind
) -> AnyEvent:
    return count_anomaly(state, at=stamp.at, path=path, reason=reason, foreign=kind)
