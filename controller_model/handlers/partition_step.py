"""What one step of a partition's state means: which election chose its leader, who left its ISR.

The rule: an event is derived from the step from the old state to the new one. If ZooKeeper merged
several steps into one, that one is reported as it is, and its kind is "unknown" if it fits no
election of Kafka's (kafka.controller.PartitionStateMachine and Election, 3.9).
"""

import msgspec
from msgspec.structs import replace

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.changes import ZnodeChange
from controller_model.records.election_requests import ElectionOrigin
from controller_model.records.events import (
    AnyEvent,
    IsrExpanded,
    IsrShrunk,
    LeaderElectionKind,
    LeadersElected,
    PartitionsOffline,
    PartitionsOnline,
    StaleControllerWrite,
)
from controller_model.records.recent_leaves import noted
from controller_model.sources.zookeeper.payloads import PartitionStateZnode
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind
from controller_model.state.bookkeeping import steps_merged
from controller_model.state.broker_record import BrokerRecord
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
_REASSIGN_PARTITIONS = ZnodeKind.REASSIGN_PARTITIONS.value


def count_election(control: ControlPlane, kind: LeaderElectionKind) -> None:
    """Count a partition that got a leader by this kind of election."""
    elections = control.leader_elections
    # A member finds the key of its text; only the first one makes the text, which is slow.
    try:
        elections[kind] += 1
    except KeyError:
        elections[str(kind)] = 1


class PartitionStep(msgspec.Struct, gc=False):
    """One partition's step from the held state to a new one."""

    control: ControlPlane
    topic: TopicState
    partition: int
    old: PartitionRecord
    old_leader: int
    new: PartitionStateZnode
    change: ZnodeChange
    at: int
    position: Position
    zxid: int | None
    partitions: tuple[TopicPartition, ...]

    def emit(self, events: list[AnyEvent]) -> None:
        """Count what happened and add it to the events."""
        new, control = self.new, self.control
        epoch = control.controller.epoch
        if epoch is not None and new.controller_epoch < epoch:
            self._emit_stale_write(events, epoch)
        if self.topic.name in control.deleting:
            return
        if new.leader != self.old_leader:
            self._emit_leader(events)
        before = self.old.isr
        # A different order is no change: the preferred replica is the assignment's first, not the ISR's.
        if new.isr != before and set(new.isr) != set(before):
            self._emit_isr(events)

    def _emit_stale_write(self, events: list[AnyEvent], current: int) -> None:
        controller = self.control.controller
        moved = (self.new.leader, self.new.leader_epoch) != (self.old_leader, self.old.leader_epoch)
        newer_than_epoch = (self.change.mzxid or 0) > controller.epoch_zxid
        if not (moved and newer_than_epoch):
            return
        controller.stale_writes += 1
        events.append(
            StaleControllerWrite(
                controller_epoch=self.new.controller_epoch,
                current_epoch=current,
                partitions=self.partitions,
                at=self.at,
                position=self.position,
                zxid=self.zxid,
            )
        )

    def _emit_leader(self, events: list[AnyEvent]) -> None:
        old, new = self.old_leader, self.new.leader
        if new < 0:
            if old >= 0:
                events.append(
                    PartitionsOffline(
                        from_broker=old,
                        partitions=self.partitions,
                        at=self.at,
                        position=self.position,
                        zxid=self.zxid,
                    )
                )
            return
        kind = self._election()
        count_election(self.control, kind)
        if kind is _UNCLEAN:
            self.control.unclean_elections += 1
        events.append(
            LeadersElected(
                election=kind,
                from_broker=old,
                to_broker=new,
                controller_epoch=self.new.controller_epoch,
                partitions=self.partitions,
                by=self._origin() if kind is _PREFERRED else None,
                at=self.at,
                position=self.position,
                zxid=self.zxid,
            )
        )
        if old < 0:
            events.append(
                PartitionsOnline(
                    to_broker=new,
                    partitions=self.partitions,
                    at=self.at,
                    position=self.position,
                    zxid=self.zxid,
                )
            )

    def _election(self) -> LeaderElectionKind:
        new = self.new
        if new.leader not in self.old.isr:
            # Only an unclean election chooses a replica that was not in the ISR. One that rejoined
            # unseen before it was elected looks the same, but then a step is missing.
            clean_possible = (
                self._steps_are_missing() and new.leader_recovery_state == 0 and len(new.isr) > 1
            )
            return _UNKNOWN if clean_possible else _UNCLEAN
        leader = self.control.brokers.get(self.old_leader)
        if leader is None or not self._is_as_it_was(leader):
            return _OFFLINE
        return self._election_from_live_leader()

    def _election_from_live_leader(self) -> LeaderElectionKind:
        old_leader = self.old_leader
        if old_leader in self.topic.removing.get(self.partition, ()):
            return _REASSIGNMENT
        if old_leader in self.old.isr and old_leader not in self.new.isr:
            # In a resync the old leader may be gone as well, which only its end will show.
            if self.control.log.resync is not None:
                return _UNKNOWN
            failed = self.control.brokers[old_leader].log_dir_failed
            return _OFFLINE if failed else _CONTROLLED_SHUTDOWN
        replicas = self.old.replicas or ()
        if replicas and replicas[0] == self.new.leader:
            return _PREFERRED
        if _REASSIGN_PARTITIONS in self.control.stats:
            return _REASSIGNMENT
        return _UNKNOWN

    def _origin(self) -> ElectionOrigin | None:
        control = self.control
        asked = asked_elections.origin_of(control, self.topic.name, self.partition, at=self.at)
        if asked is None and control.log.resync is not None:
            # It is not known when it was elected, nor what happened at the same time.
            return ElectionOrigin.OTHER
        return asked

    def _steps_are_missing(self) -> bool:
        """Return whether ZooKeeper merged updates of this state before they could be read."""
        stat = self.old.stat
        merged = stat is not None and steps_merged(stat, self.change.version) > 0
        return merged or self.new.leader_epoch > self.old.leader_epoch + 1

    def _emit_isr(self, events: list[AnyEvent]) -> None:
        before, after = self.old.isr, self.new.isr
        left = tuple([broker for broker in before if broker not in after])
        joined = tuple([broker for broker in after if broker not in before])
        by_controller = self.new.leader_epoch != self.old.leader_epoch
        if left:
            self.control.isr_shrinks += 1
            for broker in left:
                self._note_leave(broker, by_controller=by_controller)
            events.append(
                IsrShrunk(
                    who=left,
                    leader=self.new.leader,
                    by_controller=by_controller,
                    partitions=self.partitions,
                    at=self.at,
                    position=self.position,
                    zxid=self.zxid,
                )
            )
        if joined:
            self.control.isr_expands += 1
            events.append(
                IsrExpanded(
                    who=joined,
                    leader=self.new.leader,
                    partitions=self.partitions,
                    at=self.at,
                    position=self.position,
                    zxid=self.zxid,
                )
            )

    def _note_leave(self, broker: int, *, by_controller: bool) -> None:
        record = self.control.brokers.get(broker)
        if record is None:
            return
        # A replica that a reassignment removes leaves the ISR as well. So does one that it has
        # already removed, if the assignment is read before the state.
        replicas = self.old.replicas
        removed = broker in self.topic.removing.get(self.partition, ())
        if removed or (replicas is not None and broker not in replicas):
            return
        in_resync = self.control.log.resync is not None
        is_drained = by_controller and not in_resync and self._is_as_it_was(record)
        self.control.put_broker(
            broker,
            replace(
                record,
                isr_leaves=record.isr_leaves + 1,
                isr_leave_minutes=noted(record.isr_leave_minutes, self.at),
                drained=record.drained + is_drained,
            ),
        )

    def _is_as_it_was(self, record: BrokerRecord) -> bool:
        """Return whether a broker still has the registration that it had when the old state was written.

        To a controller, a broker that lost its session and came back is a dead broker and then a new
        one (KafkaController.processBrokerChange): its leaderships and ISR memberships ended with its
        former registration. A controller that was elected since then took it over as it was.
        """
        if not record.live:
            return False
        epoch, stat = record.epoch, self.old.stat
        if epoch is None or stat is None or epoch <= stat.mzxid or not stat.mzxid:
            return True
        return epoch <= self.control.controller.epoch_zxid
