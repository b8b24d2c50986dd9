"""Our state machines against Kafka's own controller, command by command, on the broker's jars."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from controller_model.kafka.elections import LeaderAndIsr, Strategy
from controller_model.kafka.ids import PartitionAndReplica, TopicPartition
from controller_model.kafka.replica_assignment import ReplicaAssignment
from controller_model.kafka.states import PartitionState, ReplicaState
from controller_model.sources.zookeeper.payloads import decode_reassign_partitions
from controller_simulator.controller.context import LeaderIsrAndControllerEpoch
from controller_simulator.controller.controller_io import REASSIGN_PARTITIONS_PATH
from controller_simulator.controller.partition_machine import ElectionResults
from controller_simulator.controller.requests import (
    LeaderAndIsrRequest,
    Request,
    UpdateMetadataRequest,
)
from controller_simulator.zookeeper.payload_writers import encode_partition_state
from controller_simulator.zookeeper.transactions import CreateZnode, DeleteZnode, SetZnode
from kcm.servers.jars import Jars
from tests.support.controllers import (
    EPOCH,
    Play,
    offline_partition_count,
    preferred_replica_imbalance_count,
    unfenced,
)

SOURCE = Path(__file__).with_name("ControllerOracle.java")
STORIES = 40
COMMANDS_PER_STORY = 40
END_S = 10  # a killed process is gone at once
BROKERS = (1, 2, 3, 5, 82, 97)
TOPIC_IDS = {"t": "AAAAAAAAAAAAAAAAAAAAAQ", "u": "AAAAAAAAAAAAAAAAAAAAAg"}
STRATEGIES = {
    "clean": (Strategy.OFFLINE, False),
    "unclean": (Strategy.OFFLINE, True),
    "Reassign": (Strategy.REASSIGN, False),
    "PreferredReplica": (Strategy.PREFERRED, False),
    "ControlledShutdown": (Strategy.CONTROLLED_SHUTDOWN, False),
}


class Oracle:
    """A running ControllerOracle: a command a line, four columns an answer."""

    def __init__(self, java: str, classpath: str) -> None:
        self._process = subprocess.Popen(
            [
                java,
                "-Xmx128m",
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
                "-cp",
                classpath,
                "ControllerOracle",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )

    def do(self, command: str) -> tuple[str, list[str], list[str], list[str]]:
        """Return answer, writes, requests and memory after a command."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline().rstrip("\n")
        assert line, f"the oracle is gone after {command!r}"
        answer, *columns = line.split("\t")
        writes, requests, memory = ([part for part in c.split("|") if part] for c in columns)
        return answer, writes, requests, memory

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate(timeout=END_S)


@pytest.fixture(scope="module")
def oracle(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oracle]:
    """Kafka's controller."""
    compiler, java = shutil.which("javac"), shutil.which("java")
    if compiler is None or java is None:
        pytest.skip("the oracle is written in Java, and there is no javac")
    folder = tmp_path_factory.mktemp("oracle")
    broker = ":".join(str(jar) for jar in jars.broker)
    subprocess.run([compiler, "-nowarn", "-cp", broker, "-d", folder, SOURCE], check=True)
    running = Oracle(java, f"{broker}:{folder}")
    yield running
    running.close()


# --- our side, in the oracle's words ----------------------------------------------------------


def name(partition: TopicPartition) -> str:
    """Name a partition as Kafka prints it."""
    return f"{partition.topic}-{partition.partition}"


def ints(values: Sequence[int]) -> str:
    """Print numbers as Java does."""
    return "[" + ", ".join(map(str, values)) + "]"


def decided(state: LeaderAndIsr) -> str:
    """Print leader, epoch, ISR and recovery state."""
    isr = "+".join(map(str, state.isr))
    return f"{state.leader}/{state.leader_epoch}/[{isr}]/{state.leader_recovery_state}"


def results(outcome: ElectionResults) -> str:
    """Print how elections ended, as Java prints a sorted map."""
    reported = {
        name(partition): decided(r) if isinstance(r, LeaderAndIsr) else r.error
        for partition, r in outcome.items()
    }
    return "{" + ", ".join(f"{key}={reported[key]}" for key in sorted(reported)) + "}"


def bools(value: bool) -> str:
    """Print a boolean as Java does."""
    return str(value).lower()


def request_line(request: Request) -> str:
    """Print a request."""
    head = (
        f"to {request.broker} {request.broker_epoch} {request.controller_id} "
        f"{request.controller_epoch}: "
    )
    if isinstance(request, LeaderAndIsrRequest):
        parts = [
            f"{name(p.partition)} {p.controller_epoch} {p.leader} {p.leader_epoch} {ints(p.isr)} "
            f"{p.partition_epoch} {ints(p.replicas)} {ints(p.adding)} {ints(p.removing)} "
            f"{bools(p.is_new)} {p.leader_recovery_state}"
            for p in request.partitions
        ]
        ids = ", ".join(
            f"{topic}={request.topic_ids[topic]}" for topic in sorted(request.topic_ids)
        )
        tail = f" leaders {ints(sorted(request.live_leaders))} ids {{{ids}}} {request.type}"
        return f"LeaderAndIsr {head}{', '.join(sorted(parts))}{tail}"
    if isinstance(request, UpdateMetadataRequest):
        parts = [
            f"{name(p.partition)} {p.controller_epoch} {p.leader} {p.leader_epoch} {ints(p.isr)} "
            f"{p.partition_epoch} {ints(p.replicas)} {ints(p.offline_replicas)}"
            for p in request.partitions
        ]
        tail = f" live {ints(sorted(request.live_brokers))}"
        return f"UpdateMetadata {head}{', '.join(sorted(parts))}{tail}"
    parts = [f"{name(p.partition)} {p.leader_epoch} {bools(p.delete)}" for p in request.partitions]
    return f"StopReplica {head}{', '.join(sorted(parts))}"


def write_line(write: CreateZnode | SetZnode | DeleteZnode) -> str | None:
    """Print a write; None for a container, and for what goes with its topic."""
    parts = write.path.split("/")
    is_state = parts[-1] == "state"
    if isinstance(write, CreateZnode):
        return f"create {parts[3]}-{parts[5]} {write.data}" if is_state else None
    if isinstance(write, SetZnode):
        if is_state:
            return f"set {parts[3]}-{parts[5]} {write.data} {write.expected_version}"
        if write.path == REASSIGN_PARTITIONS_PATH:
            asked = decode_reassign_partitions(write.data.encode())
            left = {name(p): ints(asked[p]) for p in asked}
            return "reassign {" + ", ".join(f"{p}={left[p]}" for p in sorted(left)) + "}"
        return f"assign {parts[3]} {write.data}"
    if write.path.startswith("/brokers/topics/"):
        return f"rmr {parts[3]}" if len(parts) == 4 else None
    return f"rm {write.path}"


class Ours:
    """Our machines, which take the oracle's commands."""

    def __init__(self) -> None:
        self.play = Play()
        self._commands: dict[str, Callable[..., str | None]] = {
            "live": self._live,
            "shutting": self._shutting,
            "dirs": self._dirs,
            "topic": self._topic,
            "assign": self._assign,
            "state": self._state,
            "nostate": self._nostate,
            "unclean": self._unclean,
            "startup": self._startup,
            "partitions": self._partitions,
            "trigger": lambda: results(self.play.partitions.trigger_online()),
            "replicas": self._replicas,
            "enqueue": lambda topics: self.play.deletion.enqueue(words(topics)),
            "resume": lambda topics: self.play.deletion.resume_for(words(topics)),
            "mark": lambda topics: self.play.deletion.mark_ineligible(words(topics)),
            "failed": lambda which: self.play.deletion.fail_replicas(replicas(which)),
            "deleted": lambda which: self.play.deletion.complete_replicas(replicas(which)),
            "alter": self._alter,
            "znode": self._znode,
            "go-on": lambda: self.play.reassignments.resume(lambda *_: True),
            "init": lambda topics, not_now: self.play.deletion.init(words(topics), words(not_now)),
            "try": self.play.deletion.try_topic_deletion,
            "caught-up": lambda p: self.play.reassignments.maybe_complete(partition(p)),
        }

    def do(self, command: str) -> tuple[str, list[str], list[str], list[str]]:
        """Do a command; return answer, writes, requests and memory in the oracle's words."""
        verb, *arguments = command.split(" ")
        answer: str | None = ""
        with self.play.io.event():
            answer = self._commands[verb](*arguments)
        done = self.play.take_transition()
        lines = [write_line(part) for write in done.writes for part in unfenced(write)]
        return (
            "broken off" if done.aborted else answer or "",
            [line for line in lines if line is not None],
            sorted(map(request_line, done.requests)),
            self._memory(),
        )

    def _live(self, brokers: str) -> None:
        self.play.context.live_broker_epochs = {b: 100 + b for b in numbers(brokers)}

    def _shutting(self, brokers: str) -> None:
        self.play.context.shutting_down = set(numbers(brokers))

    def _dirs(self, broker: str, which: str) -> None:
        self.play.context.replicas_on_offline_dirs[int(broker)] = set(partitions(which))

    def _topic(self, topic: str, topic_id: str) -> None:
        self.play.topic(topic)
        self.play.context.topic_ids[topic] = topic_id

    def _assign(self, which: str, *lists: str) -> None:
        self.play.context.assign(partition(which), ReplicaAssignment(*map(numbers, lists)))

    def _state(self, which: str, *facts: str) -> None:
        leader, epoch, isr, recovery, controller_epoch, version, too = facts
        state = LeaderAndIsr(int(leader), numbers(isr), int(epoch), int(recovery))
        data = encode_partition_state(state, int(controller_epoch))
        self.play.zookeeper.znodes[path(which)] = (data.decode(), int(version))
        if too == "too":
            self.play.context.leadership[partition(which)] = LeaderIsrAndControllerEpoch(
                state, int(controller_epoch), int(version)
            )

    def _nostate(self, which: str) -> None:
        self.play.zookeeper.znodes.pop(path(which), None)

    def _unclean(self, topics: str) -> None:
        self.play.zookeeper.unclean = set(words(topics))

    def _startup(self) -> None:
        self.play.replicas.startup()
        self.play.partitions.startup()

    def _partitions(self, which: str, target: str, strategy: str) -> str:
        chosen, allow_unclean = STRATEGIES.get(strategy, (None, False))
        outcome = self.play.partitions.handle_state_changes(
            partitions(which), PartitionState(target), chosen, allow_unclean=allow_unclean
        )
        return results(outcome)

    def _replicas(self, which: str, target: str) -> None:
        self.play.replicas.handle_state_changes(replicas(which), ReplicaState(target))

    def _alter(self, which: str, target: str) -> str:
        asked = None if target == "cancel" else numbers(target)
        error = self.play.reassignments.alter({partition(which): asked})[partition(which)]
        return f"{which} {error or 'NONE'}"

    def _znode(self, asked: str) -> None:
        pairs = (one.split("=") for one in asked.split(";"))
        self.play.zookeeper.reassignments = {partition(p): numbers(r) for p, r in pairs}
        self.play.reassignments.process_znode()

    def _memory(self) -> list[str]:
        context = self.play.context
        lines = [f"P {name(p)} {state}" for p, state in context.partition_states.items()]
        lines += [
            f"R {r.topic}-{r.partition}:{r.replica} {state}"
            for r, state in context.replica_states.items()
        ]
        lines += [
            f"L {name(p)} {decided(s.leader_and_isr)} {s.partition_epoch} {s.controller_epoch}"
            for p, s in context.leadership.items()
        ]
        lines += [
            f"A {topic}-{p} {ints(a.replicas)}{ints(a.adding)}{ints(a.removing)}"
            for topic, by_partition in context.assignments.items()
            for p, a in by_partition.items()
        ]
        lines += [f"Q {topic}" for topic in context.topics_to_be_deleted]
        lines += [f"S {topic}" for topic in context.topics_with_deletion_started]
        lines += [f"I {topic}" for topic in context.topics_ineligible_for_deletion]
        lines += [f"B {name(p)}" for p in context.being_reassigned]
        offline = offline_partition_count(context)
        lines.append(f"G {offline} {preferred_replica_imbalance_count(context)}")
        return sorted(lines)


def words(text: str) -> list[str]:
    """Read a list; "-" is the empty one."""
    return [] if text == "-" else text.split(",")


def numbers(text: str) -> tuple[int, ...]:
    """Read numbers."""
    return tuple(map(int, words(text)))


def partition(text: str) -> TopicPartition:
    """Read a partition."""
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def partitions(text: str) -> list[TopicPartition]:
    """Read partitions."""
    return [partition(word) for word in words(text)]


def replicas(text: str) -> list[PartitionAndReplica]:
    """Read replicas."""
    pairs = (word.rsplit(":", 1) for word in words(text))
    return [PartitionAndReplica(*partition(first), int(broker)) for first, broker in pairs]


def path(which: str) -> str:
    """Return a partition's state znode."""
    topic, number = partition(which)
    return f"/brokers/topics/{topic}/partitions/{number}/state"


# --- stories ----------------------------------------------------------------------------------


class Story:
    """A random cluster, and what happens to it; what comes next depends on what is."""

    def __init__(self, seed: int, ours: Ours) -> None:
        self._chance = random.Random(seed)  # noqa: S311 - a test repeats
        self._context = ours.play.context
        self._zookeeper = ours.play.zookeeper
        self._kinds: list[Callable[[], str | None]] = [
            self._brokers,
            self._brokers,
            lambda: f"shutting {self._some(BROKERS, most=1)}",
            self._dirs,
            lambda: f"unclean {self._some(TOPIC_IDS, most=2)}",
            self._other_isr,
            self._other_isr,
            self._elect,
            self._elect,
            lambda: "trigger",
            self._mark_partitions,
            self._move_replicas,
            self._move_replicas,
            lambda: f"enqueue {self._chance.choice(list(TOPIC_IDS))}",
            lambda: f"resume {self._chance.choice(list(TOPIC_IDS))}",
            lambda: f"mark {self._chance.choice(list(TOPIC_IDS))}",
            lambda: self._answer("failed"),
            lambda: self._answer("deleted"),
            lambda: self._answer("deleted"),
            self._alter,
            self._alter,
            self._caught_up,
            self._caught_up,
            self._znode,
            lambda: "go-on",
            lambda: f"init {self._some(TOPIC_IDS)} {self._some(TOPIC_IDS)}",
            lambda: "try",
        ]

    def beginning(self) -> Iterator[str]:
        """Return the commands that make the cluster."""
        yield f"live {self._some(BROKERS, least=3)}"
        yield "shutting -"
        for broker in BROKERS:
            yield f"dirs {broker} -"
        yield "unclean -"
        for topic, topic_id in TOPIC_IDS.items():
            yield f"topic {topic} {topic_id}"
            for number in range(3):
                which = f"{topic}-{number}"
                assigned = self._some(BROKERS, least=1, most=4)
                yield f"assign {which} {assigned} - -"
                if self._chance.random() < 0.8:
                    yield self._state(which, words(assigned), too="too")
        yield "startup"

    def next(self) -> str:
        """Return what happens next."""
        while True:
            command = self._chance.choice(self._kinds)()
            if command is not None:
                return command

    def is_torn(self) -> bool:
        """Return whether a reassignment broke off before its new replicas had states.

        A deletion of such a topic breaks off too, at a place that the order of a hash set decides.
        """
        context = self._context
        return any(
            one not in context.replica_states
            for one in context.replicas_of_partitions(context.all_partitions())
        )

    def _some(
        self, choices: Sequence[object] | dict[str, str], *, least: int = 0, most: int = 9
    ) -> str:
        pool = list(choices)
        count = self._chance.randint(min(least, len(pool)), min(most, len(pool)))
        return ",".join(str(one) for one in self._chance.sample(pool, count)) or "-"

    def _state(self, which: str, assigned: Sequence[str], *, too: str) -> str:
        isr = self._some(list(assigned), least=1)
        leader = self._chance.choice([*words(isr), "-1"])
        known = self._zookeeper.znodes.get(path(which), ("", 0))[1]
        facts = (
            leader,
            self._chance.randint(0, 9),
            isr,
            self._chance.choice("0001"),
            self._chance.choice((EPOCH, EPOCH - 1, EPOCH, EPOCH + 1 if too == "" else EPOCH)),
            known + self._chance.randint(0, 2),
        )
        return " ".join(["state", which, *map(str, facts), too or "only"])

    def _partition(self) -> str:
        found = [name(p) for p in self._context.all_partitions()]
        return self._chance.choice(found) if found else "t-0"

    def _brokers(self) -> str:
        return f"live {self._some(BROKERS, least=1)}"

    def _dirs(self) -> str:
        return f"dirs {self._chance.choice(BROKERS)} {self._some(['t-0', 't-1', 'u-0'])}"

    def _other_isr(self) -> str | None:
        which = self._partition()
        assigned = [str(r) for r in self._context.replicas_of(partition(which))]
        if not assigned or path(which) not in self._zookeeper.znodes:
            return None
        too = "too" if self._chance.random() < 0.7 else ""
        return self._state(which, assigned, too=too)

    def _serving(self) -> list[str]:
        """Name the partitions that Kafka would elect: not of topics whose deletion has begun."""
        gone = self._context.topics_with_deletion_started
        return [name(p) for p in self._context.all_partitions() if p.topic not in gone]

    def _elect(self) -> str:
        chosen = self._some(self._serving(), most=3)
        return f"partitions {chosen} OnlinePartition {self._chance.choice(list(STRATEGIES))}"

    def _mark_partitions(self) -> str | None:
        serving = self._serving()
        if not serving:
            return None
        target = self._chance.choice(["NewPartition", "OfflinePartition", "NonExistentPartition"])
        return f"partitions {self._chance.choice(serving)} {target} -"

    def _replicas_of(self, which: str) -> list[str]:
        return [f"{which}:{r}" for r in self._context.replicas_of(partition(which))]

    def _move_replicas(self) -> str | None:
        which = self._partition()
        assigned = self._replicas_of(which)
        target = self._chance.choice(list(ReplicaState))
        most = len(assigned) - 1 if target is ReplicaState.NON_EXISTENT else 3
        chosen = self._some(assigned, least=1, most=max(most, 0)) if most > 0 else "-"
        return None if chosen == "-" else f"replicas {chosen} {target}"

    def _answer(self, verb: str) -> str | None:
        started = [
            f"{r.topic}-{r.partition}:{r.replica}"
            for r, state in self._context.replica_states.items()
            if state is ReplicaState.DELETION_STARTED
        ]
        chosen = self._some(started, least=1)
        return None if chosen == "-" else f"{verb} {chosen}"

    def _alter(self) -> str:
        target = self._some(BROKERS, least=1, most=3)
        if self._chance.random() < 0.2:
            target = "cancel"
        return f"alter {self._partition()} {target}"

    def _znode(self) -> str:
        asked = {self._partition(): self._some(BROKERS, least=1, most=3) for _ in range(3)}
        return "znode " + ";".join(f"{p}={r}" for p, r in asked.items())

    def _caught_up(self) -> str | None:
        moving = list(self._context.being_reassigned)
        if not moving:
            return None
        chosen = self._chance.choice(moving)
        if self._chance.random() < 0.5 and path(name(chosen)) in self._zookeeper.znodes:
            everybody = ",".join(map(str, self._context.replicas_of(chosen)))
            version = self._zookeeper.znodes[path(name(chosen))][1] + 1
            leader = self._context.replicas_of(chosen)[-1]
            return f"state {name(chosen)} {leader} 9 {everybody} 0 {EPOCH} {version} too"
        return f"caught-up {name(chosen)}"


@pytest.mark.parametrize("seed", range(STORIES))
def test_the_model_writes_and_sends_what_kafkas_controller_does(
    seed: int, jars: Jars, oracle: Oracle
) -> None:
    """Writes to the byte and in order, requests field by field, and all of the memory, each time."""
    del jars
    oracle.do("reset")
    ours = Ours()
    story = Story(seed, ours)
    commands = [*story.beginning()]
    for command in commands:
        compare(ours, oracle, command, commands)
    for _ in range(COMMANDS_PER_STORY):
        if story.is_torn():
            break
        commands.append(story.next())
        compare(ours, oracle, commands[-1], commands)


def compare(ours: Ours, oracle: Oracle, command: str, commands: list[str]) -> None:
    """Do a command on both sides; the order of writes counts for each partition and topic.

    Between partitions it is that of Kafka's hash sets, which says nothing.
    """
    expected, got = oracle.do(command), ours.do(command)
    story = "\n".join(commands)
    assert got[0] == expected[0], story
    assert sorted(got[1], key=subject) == sorted(expected[1], key=subject), story
    assert got[2:] == expected[2:], story


def subject(write: str) -> str:
    """Return the topic or partition that a write is about."""
    return write.split(" ")[1]
