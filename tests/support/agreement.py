"""Compare what the simulator writes with what a real cluster wrote, operation by operation.

The rule: everything is compared except what `MASKED` names. Every value that the simulator had to
be given, because on real clusters chance decides it, is counted with its reason (`Reason`). Order
is compared as far as Kafka guarantees one: each partition sees the same writes in the same order,
its own and those that belong to no other partition (`projections`).
"""

from __future__ import annotations

import enum
import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import dropwhile
from typing import Any, NamedTuple, TypeGuard

from controller_model.history.snapshot import encode_snapshot, snapshot
from controller_model.kafka.ids import TopicPartition
from controller_simulator.cluster.settings import Choices, SimulatorSettings
from controller_simulator.controller.controller_io import ISR_CHANGES_PATH, state_path
from controller_simulator.zookeeper.transactions import Changed, Commit, Committed, Created, Removed
from controller_simulator.zookeeper.tree import ZnodeTree
from tests.support.histories import Fold
from tests.support.recordings import Recording
from tests.support.scripted_operations import ScriptedOperation
from tests.support.scripted_simulator import ScriptedSimulator, load_scripted
from tests.support.znode_log import ZnodeLog, take_over

MASKED = {
    "timestamp": "the clock (ControllerZNode.encode, BrokerIdZNode.encode)",
    "port": "where the test's brokers listen (KafkaServer.createBrokerInfo)",
    "endpoints": "the same",
    "host": "the same",
}
"""Fields of payloads that are not compared, and their Kafka source."""

NOT_COMPARED = {
    "/latest_producer_id_block": "ids of producers (ZkProducerIdManager); no controller writes it"
}
"""Znodes that are not compared, and their Kafka source."""


TOPIC_PARTS = 4
"""Parts of a topic's path, including the empty one before the first slash."""


class Reason(enum.StrEnum):
    """Why a write cannot be predicted: chance decided it, and the simulator was given the outcome."""

    RACE_FOR_CONTROLLER = "several brokers stand for election at once (KafkaController.elect)"
    TOPIC_ID = "the topic id is random (AdminZkClient.createTopicWithAssignment, Uuid.randomUuid)"
    CLUSTER_ID = "the cluster id is random (KafkaZkClient.createOrGetClusterId)"
    SLOW_FOLLOWER = "a follower falls behind on a busy machine (Partition.maybeShrinkIsr)"
    SHUTDOWN_RACE = "a fetch under way brings back who shuts down (Partition.fetchRecords)"
    RACE_TO_ISR = "several followers catch up at once (Partition.maybeExpandIsr)"


class _AlteredIsr(NamedTuple):
    """A write of an ISR: its place in the recording, and the brokers before and after."""

    place: int
    before: list[int]
    after: list[int]


class RecordedChance(Choices):
    """The outcomes of chance in a recording; counts the questions."""

    def __init__(self, recording: Recording, tree: ZnodeTree) -> None:
        """Look everything up in this recording, which continues from what the tree holds."""
        super().__init__()
        self._tree = tree
        self.given: Counter[Reason] = Counter()
        self.until = 0
        """How many writes belong to the operations up to the current one."""
        self._states: dict[tuple[str, int, int], tuple[int, dict[str, Any]]] = {}
        """Place and content of each change of a state, by path, number of topics of that name so far, and version."""
        self._simulated = _Written()
        self._counted = len(tree.commits)
        recorded = _Written()
        self._wider_before: list[int] = []
        """By place, how many of the writes before it belong to the whole topic or to none."""
        self._cluster_id = ""
        self._topics_made: Counter[str] = Counter()
        self._winners: list[int] = []
        topic_ids: dict[str, list[Any]] = {}
        writes = [write for commit in recording.commits for write in commit.writes]
        for place, write in enumerate(writes):
            parts = write.path.split("/")
            self._wider_before.append(recorded.wider_than_partitions_of(_scope(write.path)[0]))
            recorded.count(write)
            if _is_election(write):
                self._winners.append(json.loads(write.data)["brokerid"])
            elif write.path == "/cluster/id" and isinstance(write, Created):
                self._cluster_id = json.loads(write.data)["id"]
            elif parts[:3] == ["", "brokers", "topics"]:
                ids = topic_ids.setdefault(parts[3] if len(parts) >= TOPIC_PARTS else "", [])
                if len(parts) == TOPIC_PARTS and isinstance(write, Created):
                    ids += filter(None, [json.loads(write.data).get("topic_id")])
                elif parts[-1] == "state" and isinstance(write, Changed):
                    key = (write.path, len(ids), write.version)
                    self._states[key] = (place, json.loads(write.data))
        self._topic_ids = {name: iter(ids) for name, ids in topic_ids.items()}

    def first(self, candidates: tuple[int, ...]) -> int:
        """Return the broker that took /controller next."""
        self._count_simulated()
        winner = self._winners[self._simulated.elections]
        assert winner in candidates, f"{winner} is not among {candidates}"
        if len(candidates) > 1:
            self.given[Reason.RACE_FOR_CONTROLLER] += 1
        return winner

    def falls_behind(self) -> tuple[TopicPartition, tuple[int, ...]] | None:
        """Return the followers that left an ISR next, under the current leader epoch.

        They leave when all has been written that their partition saw before and that is not its own.
        """
        self._count_simulated()
        for partition, altered in self._altered_isrs():
            gone = tuple(b for b in altered.before if b not in altered.after)
            wider = self._simulated.wider_than_partitions_of(partition.topic)
            if gone and self._wider_before[altered.place] <= wider:
                self.given[Reason.SLOW_FOLLOWER] += 1
                return partition, gone
        return None

    def _count_simulated(self) -> None:
        for commit in self._tree.commits[self._counted :]:
            for write in commit.writes:
                self._simulated.count(write)
        self._counted = len(self._tree.commits)

    def taken_back(self, stopping: int) -> TopicPartition | None:
        """Return a partition whose leader next wrote this follower back into the ISR."""
        for partition, altered in self._altered_isrs():
            if altered.after == [*altered.before, stopping]:
                self.given[Reason.SHUTDOWN_RACE] += 1
                return partition
        return None

    def _altered_isrs(self) -> Iterator[tuple[TopicPartition, _AlteredIsr]]:
        """Yield the partitions whose ISR leaders write next under the current epoch."""
        for topic in self._tree.children("/brokers/topics"):
            for number in self._tree.children(f"/brokers/topics/{topic}/partitions"):
                partition = TopicPartition(topic, int(number))
                altered = self._altered_isr(partition)
                if altered is not None:
                    yield partition, altered

    def _altered_isr(self, partition: TopicPartition) -> _AlteredIsr | None:
        """Return what the leader writes next under the current epoch; None if that is not what comes next."""
        znode = self._tree.find(state_path(partition))
        place, written = self._next(partition)
        if znode is None or place >= self.until:
            return None
        standing = json.loads(znode.data)
        if standing["leader_epoch"] != written["leader_epoch"]:
            return None
        return _AlteredIsr(place, standing["isr"], written["isr"])

    def catches_up(self, partitions: Collection[TopicPartition]) -> TopicPartition:
        """Return the partition whose state was written next; this is only order, so it is not counted."""
        return min(partitions, key=lambda partition: self._next(partition)[0])

    def keeps_up(self, partition: TopicPartition, follower: int) -> bool:
        """Return whether a follower may join next: not if it was another one that joined."""
        altered = self._altered_isr(partition)
        joined = [] if altered is None else [b for b in altered.after if b not in altered.before]
        return not joined or follower in joined

    def joins(
        self, partition: TopicPartition, isr: tuple[int, ...], candidates: tuple[int, ...]
    ) -> int:
        """Return the replicas that joined the ISR next."""
        if len(candidates) == 1:
            return candidates[0]
        self.given[Reason.RACE_TO_ISR] += 1
        _, written = self._next(partition)
        joined = next((c for c in candidates if written.get("isr") == [*isr, c]), None)
        return candidates[0] if joined is None else joined

    def _next(self, partition: TopicPartition) -> tuple[int, dict[str, Any]]:
        """Return place and content of the next write of a state; a very late place when there is none."""
        path = state_path(partition)
        znode = self._tree.find(path)
        version = 0 if znode is None else znode.version + 1
        key = (path, self._topics_made[partition.topic], version)
        return self._states.get(key, (1 << 30, {}))

    def topic_id(self, topic: str) -> str:
        """Return the id that the topic was given."""
        self.given[Reason.TOPIC_ID] += 1
        self._topics_made[topic] += 1
        topic_id: str = next(self._topic_ids[topic])
        return topic_id

    def cluster_id(self) -> str:
        """Return the id that the cluster was given."""
        self.given[Reason.CLUSTER_ID] += 1
        return self._cluster_id


class _Written:
    """How much of what orders the writes of partitions was written."""

    def __init__(self) -> None:
        self.elections = 0
        self._by_topic: Counter[str] = Counter()
        """Writes that belong to all partitions of a topic; those of no topic are under an empty name."""

    def count(self, write: Committed) -> None:
        self.elections += _is_election(write)
        topic, partition = _scope(write.path)
        if not partition and _has_order(write.path) and write.path not in NOT_COMPARED:
            self._by_topic[topic] += 1

    def wider_than_partitions_of(self, topic: str) -> int:
        """Return how many of the writes that a topic's partitions see belong to none of them alone."""
        return self._by_topic[topic] + self._by_topic[""]


def _is_election(write: Committed) -> TypeGuard[Created]:
    """Return whether a broker took /controller."""
    return write.path == "/controller" and isinstance(write, Created)


@dataclass
class Agreement:
    """How far a simulated cluster wrote what a real one wrote."""

    written: int = 0
    """Writes of the real cluster's controller and brokers that were compared."""
    given: Counter[Reason] = field(default_factory=Counter)
    """For how many of them the simulator was given an outcome, by reason."""
    differences: list[str] = field(default_factory=list)
    quiet_points: int = 0

    def summary(self) -> str:
        """Return the result as text."""
        given = "; ".join(f"{count} x {reason}" for reason, count in sorted(self.given.items()))
        return (
            f"{self.written} writes, {len(self.differences)} differences at {self.quiet_points} "
            f"quiet points, {self.predicted_share:.1%} predicted; given: {given}"
        )

    @property
    def predicted_share(self) -> float:
        """The share of writes (0..1) that was predicted exactly without a given outcome."""
        return 1 - self.given.total() / self.written


def agree(recording: Recording, settings: SimulatorSettings | None = None) -> Agreement:
    """Play a recording's script on the simulator; compare every write, and every quiet point."""
    tree = ZnodeTree()
    chance = RecordedChance(recording, tree)
    simulator = ScriptedSimulator(settings=settings, choices=chance, tree=tree)
    agreement = Agreement()
    real, simulated = _Observed(), _Observed()
    for operation, commits in recording.segments():
        start = len(simulator.commits)
        chance.until += sum(len(commit.writes) for commit in commits)
        simulator.perform(operation)
        mine = simulator.commits[start:]
        theirs = [commit for commit in commits if not _is_ours(commit)]
        agreement.written += sum(len(list(_compared(commit))) for commit in theirs)
        agreement.differences += _differences(operation, theirs, mine)
        agreement.differences += _disagreements(
            operation, real.snapshot(commits), simulated.snapshot(mine)
        )
        agreement.differences += _drifts(operation, commits, mine, len(simulator.brokers))
        agreement.quiet_points += 1
    agreement.given = chance.given
    return agreement


def agree_from_each_point(
    recording: Recording, settings: SimulatorSettings | None = None
) -> list[str]:
    """Load the cluster at each quiet point, and return the differences of the next operation.

    State that only the controller and the brokers hold in memory is lost at each point.
    """
    tree = ZnodeTree()
    found = []
    segments = recording.segments()
    for place, (operation, commits) in enumerate(segments):
        if tree.find("/controller") is not None:
            rest = Recording(
                tuple(commit for _, later in segments[place:] for commit in later),
                recording.quiet[place:],
            )
            taken_over = ZnodeTree()
            for commit in tree.commits:
                take_over(taken_over, commit)
            chance = RecordedChance(rest, taken_over)
            simulator = load_scripted(taken_over, settings=settings, choices=chance)
            chance.until = sum(len(commit.writes) for commit in commits)
            before = len(simulator.commits)
            simulator.perform(operation)
            theirs = [commit for commit in commits if not _is_ours(commit)]
            found += _differences(operation, theirs, simulator.commits[before:])
        for commit in commits:
            take_over(tree, commit)
    return found


def _is_ours(commit: Commit) -> bool:
    """Return whether a commit only opened or closed a session without ephemerals: a client's."""
    return not commit.writes


def _compared(commit: Commit) -> Iterator[Committed]:
    return (write for write in commit.writes if write.path not in NOT_COMPARED)


def _differences(
    operation: ScriptedOperation, real: Iterable[Commit], simulated: Iterable[Commit]
) -> list[str]:
    """Return the differences in the writes of an operation; those that depend on order come last."""
    theirs, mine = _writes(real), _writes(simulated)
    found = []
    missing, extra = Counter(theirs) - Counter(mine), Counter(mine) - Counter(theirs)
    found += [f"{operation}: only real: {write}" for write in missing]
    found += [f"{operation}: only simulated: {write}" for write in extra]
    if not found:
        ours = projections(mine)
        found += [
            f"{operation}: {scope}: another order: {sequence} / {ours[scope]}"
            for scope, sequence in projections(theirs).items()
            if sequence != ours[scope]
        ]
    return found


def _drifts(
    operation: ScriptedOperation, real: Iterable[Commit], simulated: Iterable[Commit], brokers: int
) -> list[str]:
    """Return where more or fewer requests were refused than simulated: each takes a zxid.

    They are compared whenever both have written the same; in between the order may differ (`projections`).
    After an election each other broker may be refused once, because its own attempt comes too late,
    as late as a busy machine delays it (KafkaController.elect).
    """
    found = []
    late = refused = expected = 0
    ahead: Counter[tuple[_Comparable, ...]] = Counter()
    for (theirs, more), (mine, more_expected) in zip(
        _refused(real), _refused(simulated), strict=False
    ):
        refused += more
        expected += more_expected
        ahead[tuple(_writes([theirs]))] += 1
        ahead[tuple(_writes([mine]))] -= 1
        if not any(ahead.values()):
            if not expected <= refused <= expected + late:
                found.append(f"{operation}: {refused} refused before {theirs}, not {expected}")
            late -= min(max(refused - expected, 0), late)
            refused = expected = 0
        if any(map(_is_election, theirs.writes)):
            late += brokers - 1
    return found


def _refused(commits: Iterable[Commit]) -> Iterator[tuple[Commit, int]]:
    """Yield each commit that wrote, and how many requests were refused since the one before it.

    Before the first commit of an operation this is not known: the test's own client was active.
    """
    refused, last = 0, None
    for commit in dropwhile(_is_ours, commits):
        refused += 0 if last is None else commit.zxid - last - 1
        last = commit.zxid
        if not _is_ours(commit):
            yield commit, refused
            refused = 0


_Comparable = tuple[str, str, str, bool, int]


def _writes(commits: Iterable[Commit]) -> list[_Comparable]:
    """Return writes in the form that is compared: kind, path, masked data, ephemeral or not, version.

    Znodes that end with a session are deleted at once; ZooKeeper's log lists them in the order of a
    hash set.
    """
    return [
        (
            type(write).__name__,
            _unnumbered(write.path),
            "" if isinstance(write, Removed) else _masked(write.path, write.data),
            isinstance(write, Created) and write.owner != 0,
            write.version if isinstance(write, Changed) else 0,
        )
        for commit in commits
        for write in sorted(_compared(commit), key=lambda w: w.path if commit.closes else "")
    ]


def _masked(path: str, data: str) -> str:
    """Return a payload without the values of masked fields; other payloads are compared as bytes.

    A notification of ISRs names partitions in the order of their changes, which is not compared.
    """
    if not data.startswith("{"):
        return data
    content: dict[str, Any] = json.loads(data)
    if path.startswith(ISR_CHANGES_PATH):
        content["partitions"].sort(key=lambda named: (named["topic"], named["partition"]))
    for name in MASKED.keys() & content.keys():
        content[name] = ""
    return json.dumps(content)


def _unnumbered(path: str) -> str:
    """Return a path without the sequence number of a notification, for which two brokers race."""
    parent, _, name = path.rpartition("/")
    return f"{parent}/*" if parent == ISR_CHANGES_PATH else f"{parent}/{name}"


def projections(writes: Iterable[_Comparable]) -> dict[_Scope, list[_Comparable]]:
    """Return, for each topic and partition, the writes that it sees, in order.

    Those are its own, its topic's, and those that belong to no topic. The order among partitions
    and topics is that of Scala's immutable hash sets, of pipelined requests, and of brokers that
    answer at the same time.
    """
    ordered = [(_scope(write[1]), write) for write in writes if _has_order(write[1])]
    return {
        scope: [write for other, write in ordered if other in {("", ""), (scope[0], ""), scope}]
        for scope in {scope for scope, _ in ordered} | {("", "")}
    }


_Scope = tuple[str, str]
"""A topic and its partition; empty where a path has none."""

_TOPIC_PARENTS = ("/brokers/topics/", "/config/topics/", "/admin/delete_topics/")


def _has_order(path: str) -> bool:
    """Return whether a znode's place among others is compared: notifications of ISRs come when brokers send them."""
    return not path.startswith(ISR_CHANGES_PATH)


def _scope(path: str) -> _Scope:
    parent = next((parent for parent in _TOPIC_PARENTS if path.startswith(parent)), None)
    if parent is None:
        return ("", "")
    topic, _, rest = path.removeprefix(parent).partition("/")
    return topic, rest.removeprefix("partitions").strip("/").partition("/")[0]


class _Observed:
    """A cluster as seen by an observer who follows its log."""

    def __init__(self) -> None:
        self._log = ZnodeLog("prod")
        self._fold = Fold()
        self._fold.feed(self._log.resync())

    def snapshot(self, commits: Iterable[Commit]) -> dict[str, Any]:
        """Return the snapshot after these commits, without what is not compared.

        That is the clock, the place in the log and brokers' epochs: requests of racing brokers that
        are refused (KafkaController.elect) take zxids, not records, and not the same twice.
        """
        self._fold.feed(self._log.follow(commits))
        seen: dict[str, Any] = json.loads(encode_snapshot(snapshot(self._fold.state)))
        del seen["as_of"], seen["at"]
        for broker in seen["brokers"].values():
            del broker["epoch"]
        return seen


def _disagreements(operation: ScriptedOperation, real: Any, simulated: Any) -> list[str]:
    """Return the fields in which two snapshots differ."""
    theirs, mine = dict(_leaves(real)), dict(_leaves(simulated))
    return [
        f"{operation}: snapshot {name}: real {theirs.get(name)!r}, simulated {mine.get(name)!r}"
        for name in sorted(theirs.keys() | mine.keys())
        if theirs.get(name) != mine.get(name)
    ]


def _leaves(content: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict) and content:
        for key, value in content.items():
            yield from _leaves(value, f"{name}.{key}")
    else:
        yield name, content
