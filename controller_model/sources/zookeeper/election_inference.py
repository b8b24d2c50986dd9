"""Why a partition's leader and ISR changed, as far as its znode and what is held of others show it.

The rule: the kinds are those of kafka.controller.PartitionStateMachine and Election (3.9). A step that
fits none of them, because ZooKeeper merged several into one, is "unknown".
"""

from controller_model.facts.facts import PartitionIs
from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.events import LeaderElectionKind
from controller_model.records.views import Capability
from controller_model.sources.zookeeper.foreign_writes import is_foreign_step
from controller_model.sources.zookeeper.payloads import PartitionStateZnode
from controller_model.sources.zookeeper.state import zookeeper_of
from controller_model.sources.zookeeper.stats import ZnodeRead, is_another, steps_merged
from controller_model.state.control_plane import ControlPlane
from controller_model.state.topic_state import PartitionRecord, TopicState
from controller_model.tracking import asked_elections

# Python 3.11 looks up a member of an Enum in Python code: once here, instead of for each change.
_OFFLINE = LeaderElectionKind.OFFLINE
_UNCLEAN = LeaderElectionKind.UNCLEAN
_PREFERRED = LeaderElectionKind.PREFERRED
_REASSIGNMENT = LeaderElectionKind.REASSIGNMENT
_CONTROLLED_SHUTDOWN = LeaderElectionKind.CONTROLLED_SHUTDOWN
_UNKNOWN = LeaderElectionKind.UNKNOWN


def partition_fact(
    read: ZnodeRead, topic: TopicState, old: PartitionRecord, new: PartitionStateZnode
) -> PartitionIs:
    """Return a partition's new leader and ISR, with what is inferred about the step to them."""
    control, change, znode = read.state.control, read.change, read.znode
    stat = old.origin
    is_first = old.leader is None or (
        stat is not None and stat.created != change.czxid and is_another(stat, change)
    )
    election, asked_by, stale_under = _UNKNOWN, None, None
    by_controller = False
    drained: tuple[int, ...] = ()
    is_foreign = False
    if not is_first and control.log.baseline:
        view = control.controller.view
        epoch = None if view.migrating_to_kraft else view.epoch
        if epoch is not None and new.controller_epoch < epoch:
            stale_under = _stale_under(read, old, new, epoch)
        moved = new.leader_epoch < old.leader_epoch or (
            new.leader != old.leader and new.leader_epoch == old.leader_epoch
        )
        is_foreign = moved and is_foreign_step(read, old)
        if is_foreign:
            pass
        elif new.leader != old.leader and new.leader >= 0 and topic.name not in control.deleting:
            election = _election(read, topic, old, new)
            if election is _PREFERRED:
                asked_by = _asked_by(read)
        if new.isr != old.isr and not is_foreign:
            by_controller = new.leader_epoch != old.leader_epoch
            if by_controller and control.source.resync is None:
                for broker in old.isr:
                    if broker not in new.isr and _is_as_it_was(control, old, broker):
                        # The controller removed it although it stayed registered.
                        drained += (broker,)
    # By position: keywords cost a part of a microsecond for each change.
    return PartitionIs(
        read.stamp,
        znode.name,
        znode.partition,
        new.leader,
        new.isr,
        new.leader_epoch,
        new.controller_epoch,
        new.leader_recovery_state,
        znode.partitions,
        change.version,
        read.stat,
        is_first,
        election,
        asked_by,
        stale_under,
        by_controller,
        drained,
        is_foreign,
    )


def _stale_under(
    read: ZnodeRead, old: PartitionRecord, new: PartitionStateZnode, epoch: int
) -> int | None:
    """Return the current epoch if a leader was written under an older one after that began; None otherwise."""
    has_moved = (new.leader, new.leader_epoch) != (old.leader, old.leader_epoch)
    is_newer = (read.change.mzxid or 0) > zookeeper_of(read.control).controller.epoch_zxid
    return epoch if has_moved and is_newer else None


def _election(
    read: ZnodeRead, topic: TopicState, old: PartitionRecord, new: PartitionStateZnode
) -> LeaderElectionKind:
    if new.leader not in old.isr:
        # Only an unclean election chooses a replica that was not in the ISR. One that rejoined
        # unseen before it was elected looks the same, but then a step is missing.
        clean_possible = (
            _steps_are_missing(read, old, new)
            and new.leader_recovery_state == 0
            and len(new.isr) > 1
        )
        return _UNKNOWN if clean_possible else _UNCLEAN
    control = read.state.control
    if Capability.BROKERS in control.log.view.hidden:
        return _UNKNOWN
    if old.leader is None or not _is_as_it_was(control, old, old.leader):
        return _OFFLINE
    return _election_from_live_leader(read, topic, old, new, old.leader)


def _election_from_live_leader(
    read: ZnodeRead, topic: TopicState, old: PartitionRecord, new: PartitionStateZnode, leader: int
) -> LeaderElectionKind:
    control = read.state.control
    if old.leader in topic.removing.get(read.znode.partition, ()):
        return _REASSIGNMENT
    if old.leader in old.isr and old.leader not in new.isr:
        # In a resync the old leader may be gone as well, which only its end will show.
        if zookeeper_of(control).resync is not None:
            return _UNKNOWN
        has_failed = control.brokers[leader].log_dir_failed
        return _OFFLINE if has_failed else _CONTROLLED_SHUTDOWN
    if old.replicas and old.replicas[0] == new.leader:
        return _PREFERRED
    return _REASSIGNMENT if control.pending.reassign_partitions else _UNKNOWN


def _steps_are_missing(read: ZnodeRead, old: PartitionRecord, new: PartitionStateZnode) -> bool:
    """Return whether ZooKeeper merged updates of this state before they could be read."""
    stat = old.origin
    merged = stat is not None and steps_merged(stat, read.change.version) > 0
    return merged or new.leader_epoch > old.leader_epoch + 1


def _asked_by(read: ZnodeRead) -> ElectionOrigin | None:
    znode = read.znode
    asked = asked_elections.origin_of(read.control, znode.name, znode.partition, at=read.stamp.at)
    if asked is None and zookeeper_of(read.control).resync is not None:
        # It is not known when it was elected, nor what happened at the same time.
        return ElectionOrigin.OTHER
    return asked


def _is_as_it_was(control: ControlPlane, old: PartitionRecord, broker: int) -> bool:
    """Return whether a broker still has the registration that it had when the old state was written.

    To a controller, a broker that lost its session and came back is a dead broker and then a new
    one (KafkaController.processBrokerChange): its leaderships and ISR memberships ended with its
    former registration. A controller that was elected since then took it over as it was.
    """
    held = control.brokers.get(broker)
    if held is None or not held.record.live:
        return False
    epoch, stat = held.record.epoch, old.origin
    if epoch is None or stat is None or epoch <= stat.order or not stat.order:
        return True
    return epoch <= zookeeper_of(control).controller.epoch_zxid
