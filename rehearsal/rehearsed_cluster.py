"""The rehearsed cluster as facts, and what a step has changed.

The rule: whether a partition is offline or under its min.insync.replicas is judged by the same
definitions before and after (`ClusterFacts`). Only what was written is read again.
"""

import functools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from controller_model.kafka.cluster_facts import ClusterFacts, PartitionFacts
from controller_model.kafka.ids import NO_LEADER, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.sources.zookeeper.payloads import decode_partition_state
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind, classify
from controller_simulator.cluster.operations import Reassign
from controller_simulator.cluster.simulator import ZooKeeperModeSimulator
from controller_simulator.cluster.znode_reader import ZnodeReader
from controller_simulator.controller.lifecycle import controller_id
from controller_simulator.zookeeper.transactions import Changed
from rehearsal.build_cluster import RehearsedChoices
from rehearsal.report import ChangedPartition


class ClusterChanges(msgspec.Struct, frozen=True, kw_only=True):
    """What a step changed in the partitions; each list is sorted by name."""

    changes: tuple[ChangedPartition, ...]
    leaders_moved: dict[int, int]
    went_offline: tuple[TopicPartition, ...]
    offline_ended: tuple[TopicPartition, ...]
    """They have a leader again, or are deleted: Kafka no longer counts them as offline."""
    leaderless_meanwhile: tuple[TopicPartition, ...]
    went_under_min_isr: tuple[TopicPartition, ...]
    under_min_isr_ended: tuple[TopicPartition, ...]
    """Their ISR is large enough again, or they have no leader any more, or are deleted."""
    min_isr_unknown: tuple[TopicPartition, ...]


class RehearsedCluster:
    """Follows a simulated cluster that started from these facts."""

    def __init__(
        self,
        facts: ClusterFacts,
        partitions: Iterable[PartitionFacts],
        cluster: ZooKeeperModeSimulator,
    ) -> None:
        self.facts = facts
        """The brokers, as of the last `observe_changes`."""
        self.partitions = {partition.id: partition for partition in partitions}
        """The partitions, as of the last `observe_changes`."""
        self._cluster = cluster
        self._reader = ZnodeReader(cluster.tree)
        self._seen_commits = 0
        self._numbers: dict[str, list[int]] = {}
        for topic, partition in self.partitions:
            self._numbers.setdefault(topic, []).append(partition)
        self._left_to_leaders = {
            each.id
            for each in self.partitions.values()
            if facts.aborts_elections(each) or not set(each.isr).issubset(each.replicas)
        }
        """Partitions from whose ISR the controller does not remove every dead member."""

    def observe_changes(self) -> ClusterChanges:
        """Read what was written since the last call, and return what it changed."""
        written, topics, leaderless = self._written()
        before, now = self.facts, self._facts_now()
        self.facts = now
        touched = set(written)
        for topic in topics:
            touched.update(TopicPartition(topic, number) for number in self._numbers.get(topic, ()))
        # A leader that ends or returns changes partitions without a write.
        started_or_ended = before.live ^ now.live
        if started_or_ended:
            touched.update(
                id_ for id_, each in self.partitions.items() if each.leader in started_or_ended
            )
        return self._changes(sorted(touched), leaderless, before)

    def remove_dead_members(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Let leaders remove dead members that the controller leaves in ISRs: of all partitions, or of these.

        A leader drops a follower that does not fetch (Partition.maybeShrinkIsr). The controller, which it asks, compares
        no controller epochs (KafkaController.processAlterPartition).
        """
        choices, live = self._cluster.choices, self._cluster.live
        left = self._left_to_leaders
        for id_ in sorted(left if partitions is None else left.intersection(partitions)):
            state = self._reader.partition_state(id_)
            if state is None or not isinstance(choices, RehearsedChoices):
                continue
            isr = state.leader_and_isr.isr
            dead = tuple(member for member in isr if member not in live)
            if state.leader_and_isr.leader in live and 0 < len(dead) < len(isr):
                choices.dead.append((id_, dead))
                self._cluster.run_until_quiet()

    def led(self, partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Return those that have a live leader now; a deleted partition has none."""
        return tuple(
            id_
            for id_ in partitions
            if (held := self.partitions.get(id_)) is not None and self.facts.is_led(held)
        )

    def unclean_unknown(self, partitions: Iterable[TopicPartition]) -> tuple[TopicPartition, ...]:
        """Return those that a live replica may lead, if the brokers' own files allow unclean elections."""
        facts = self.facts
        return tuple(
            id_
            for id_ in partitions
            if not facts.is_unclean_known(self.partitions[id_])
            and not facts.live.isdisjoint(self.partitions[id_].replicas)
        )

    def not_on_target(self, asked: Reassign) -> tuple[TopicPartition, ...]:
        """Return the partitions that do not have exactly the requested replicas."""
        return tuple(
            id_
            for id_, target in asked.targets
            if (held := self.partitions.get(id_)) is None
            or held.reassigning
            or held.replicas != target
        )

    def _facts_now(self) -> ClusterFacts:
        run = self._cluster.controller
        return msgspec.structs.replace(
            self.facts,
            live=frozenset(self._cluster.live),
            # A controller that hangs still holds /controller.
            controller=controller_id(self._cluster.tree) if run is None else run.id,
            controller_epoch=self.facts.controller_epoch if run is None else run.life.epoch,
        )

    def _written(self) -> tuple[set[TopicPartition], set[str], set[TopicPartition]]:
        """Return the partitions and topics that were written, and the partitions once written leaderless."""
        partitions: set[TopicPartition] = set()
        topics: set[str] = set()
        leaderless: set[TopicPartition] = set()
        commits = self._cluster.commits
        for commit in commits[self._seen_commits :]:
            for write in commit.writes:
                znode = classify(write.path)
                if znode.kind in {ZnodeKind.TOPIC, ZnodeKind.DELETE_TOPIC}:
                    topics.add(znode.name)
                if znode.kind is not ZnodeKind.PARTITION_STATE:
                    continue
                partitions.update(znode.partitions)
                if isinstance(write, Changed):
                    state = decode_partition_state(write.data.encode())
                    if state.leader == NO_LEADER:
                        leaderless.update(znode.partitions)
        self._seen_commits = len(commits)
        return partitions, topics, leaderless

    def _changes(
        self,
        touched: Sequence[TopicPartition],
        leaderless: set[TopicPartition],
        before: ClusterFacts,
    ) -> ClusterChanges:
        now = self.facts
        assignments = functools.cache(lambda topic: self._reader.topic(topic)[0])
        changes: list[ChangedPartition] = []
        moved: Counter[int] = Counter()
        lists: dict[str, list[TopicPartition]] = {
            name: []
            for name in ClusterChanges.__struct_fields__
            if name not in {"changes", "leaders_moved"}
        }
        for id_ in touched:
            old = self.partitions[id_]
            new = self._read(old, assignments(id_.topic))
            if new is None:
                del self.partitions[id_]
            else:
                self.partitions[id_] = new
            if new != old:
                changes.append(_change(old, new))
            if new is not None and new.leader != old.leader and now.is_led(new):
                moved[new.written_leader] += 1
            if new is not None and id_ in leaderless and now.is_led(new):
                lists["leaderless_meanwhile"].append(id_)
            for name in _lists_of(before, old, now, new):
                lists[name].append(id_)
        return ClusterChanges(
            changes=tuple(changes),
            leaders_moved=dict(sorted(moved.items())),
            **{name: tuple(found) for name, found in lists.items()},
        )

    def _read(
        self, old: PartitionFacts, assignments: Mapping[int, ReplicaAssignment]
    ) -> PartitionFacts | None:
        """Return a partition from its state and its topic's assignments, as they are now; None: it is gone."""
        assignment = assignments.get(old.partition)
        if assignment is None:
            return None
        state = self._reader.partition_state(old.id)
        deletion = self._cluster.tree.find(f"/admin/delete_topics/{old.topic}")
        fields = msgspec.structs.asdict(assignment) | {"deleting": deletion is not None}
        if state is not None:
            decided = state.leader_and_isr
            fields |= {
                "leader": decided.leader,
                "isr": decided.isr,
                "leader_epoch": decided.leader_epoch,
                "controller_epoch": state.controller_epoch,
            }
        return msgspec.structs.replace(old, **fields)


def _lists_of(
    before: ClusterFacts, old: PartitionFacts, now: ClusterFacts, new: PartitionFacts | None
) -> list[str]:
    """Return the lists of `ClusterChanges` to which a partition belongs, by what it was and is."""
    found = []
    was_offline, was_under = before.is_offline(old), before.is_under_min_isr(old)
    offline = new is not None and now.is_offline(new)
    under = new is not None and now.is_under_min_isr(new)
    if offline != was_offline:
        found.append("went_offline" if offline else "offline_ended")
    if under and not was_under:
        found.append("went_under_min_isr")
    elif was_under and under is False:
        found.append("under_min_isr_ended")
    elif (
        under is None
        and new is not None
        and len(new.isr) < len(new.replicas)
        and (new.leader, len(new.isr)) != (old.leader, len(old.isr))
    ):
        # It may have fallen below a min.insync.replicas that is not known.
        found.append("min_isr_unknown")
    return found


def _change(old: PartitionFacts, new: PartitionFacts | None) -> ChangedPartition:
    now = new or msgspec.structs.replace(old, leader=None, isr=(), replicas=())
    return ChangedPartition(
        topic=old.topic,
        partition=old.partition,
        leader_before=old.leader,
        leader=now.leader,
        isr_before=old.isr,
        isr=now.isr,
        replicas_before=old.replicas,
        replicas=now.replicas,
        leader_epoch=None if now.leader is None else now.leader_epoch,
        deleted=new is None,
    )
