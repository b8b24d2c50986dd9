"""Kafka's own QuorumController and the model on the records that it writes, command by command."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controller_model.kafka.ids import NO_LEADER
from controller_model.kafka.metadata_records import LeaderChange, PartitionChange, Voter
from controller_model.records.events import AnyEvent, LeadersElected
from controller_model.records.view_facts import cluster_facts, partitions_in
from controller_model.records.views import BrokerView, TopicView
from kraft_source.observer.released import Committed, CommittedBatch
from kraft_source.slices import RecordMaker
from kraft_source.wire.batches import split_batches
from kraft_source.wire.messages import EpochEnd, EpochLeader
from kraft_source.wire.records import decode
from pipeline.java import find_java
from tests.support.kraft_cluster import START_MS, KraftFold
from tests.support.metadata_log import record_batch
from tests.support.release_jars import jars_of
from tests.support.releases import Release

SOURCE = Path(__file__).with_name("QuorumOracle.java")
NODE = 3000
END_S = 10  # a killed process is gone at once
STEP_MS = 100
LOG_DIRS = 2
"""With which each broker registers."""


class Part(NamedTuple):
    """A partition as Kafka's controller holds it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery: int
    elr: tuple[int, ...]
    last_known: tuple[int, ...]
    min_isr: int
    """min.insync.replicas of its topic, as it is configured."""


class Broker(NamedTuple):
    """A registration as Kafka's controller holds it."""

    epoch: int
    fenced: bool
    stopping: bool
    log_dirs: int
    """How many are online."""

    @property
    def is_active(self) -> bool:
        """Whether it may lead."""
        return not self.fenced and not self.stopping


class Gauges(NamedTuple):
    """Kafka's metrics of the cluster (ControllerMetadataMetrics)."""

    active: int
    fenced: int
    topics: int
    partitions: int
    offline: int
    imbalance: int


class Truth(NamedTuple):
    """What Kafka's controller holds."""

    topics: dict[str, str]
    parts: dict[str, Part]
    """By topic and number: `t-0`."""
    brokers: dict[int, Broker]
    features: dict[str, int]
    imbalanced: int
    gauges: Gauges


class KafkaFaultError(Exception):
    """Kafka's controller met an error of its own, and gave up its leadership."""


class Answer(NamedTuple):
    """What came of a command."""

    error: str
    batches: list[CommittedBatch]
    truth: Truth


@contextmanager
def oracle_of(release: Release, folder: Path) -> Iterator[Oracle]:
    """Run Kafka's controller of a release; skip the test where that cannot be."""
    if (compiler := shutil.which("javac")) is None:
        pytest.skip("the oracle is written in Java, and there is no javac")
    jars = ":".join(map(str, jars_of(release)))
    subprocess.run([compiler, "-nowarn", "-cp", jars, "-d", folder, SOURCE], check=True)
    oracle = Oracle(release, str(find_java(os.environ).path), f"{jars}:{folder}")
    try:
        yield oracle
    finally:
        oracle.close()


class Oracle:
    """A running QuorumOracle."""

    def __init__(self, release: Release, java: str, classpath: str) -> None:
        self.has_elr = release.line >= (4, 0)
        """Whether the release has eligible leader replicas (KIP-966)."""
        self._process = subprocess.Popen(
            [
                java,
                "-Xmx160m",
                "-XX:+UseSerialGC",
                "-cp",
                classpath,
                "org.apache.kafka.controller.QuorumOracle",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
        )
        self._now = START_MS

    def do(self, command: str) -> Answer:
        """Give a command; fail if the oracle breaks."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline().rstrip("\n")
        assert line, f"the oracle is gone after {command!r}"
        error, appended, state, gauges = line.split("\t")
        assert not error.startswith("BUG"), f"{command}: {error}"
        if error.startswith("FAULT"):
            raise KafkaFaultError(error)
        self._now += STEP_MS
        batches = [self._batch(*each.split(" ")) for each in appended.split("|") if each]
        return Answer(error, batches, _truth(state, gauges))

    def _batch(self, offset: str, epoch: str, records: str) -> CommittedBatch:
        first, of = int(offset), int(epoch)
        if records == "elected":
            change = LeaderChange(NODE, of, (Voter(NODE),))
            return CommittedBatch(first, first, of, self._now, [(first, change)])
        data = record_batch(first, of, list(map(bytes.fromhex, records.split(","))), at=self._now)
        (batch,) = split_batches(data)
        decoded = decode(batch)
        return CommittedBatch(
            batch.offset,
            batch.last_offset,
            batch.epoch,
            batch.at,
            decoded.records,
            decoded.unknown,
        )

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.communicate(timeout=END_S)


def _numbers(text: str) -> tuple[int, ...]:
    return () if text == "-" else tuple(map(int, text.split(",")))


def _part(words: Sequence[str]) -> Part:
    replicas, isr, adding, removing, elr, last_known = map(_numbers, (*words[:4], *words[8:10]))
    leader, leader_epoch, partition_epoch, recovery, min_isr = map(int, (*words[4:8], words[10]))
    return Part(
        replicas,
        isr,
        adding,
        removing,
        leader,
        leader_epoch,
        partition_epoch,
        recovery,
        elr,
        last_known,
        min_isr,
    )


def _broker(words: Sequence[str]) -> Broker:
    epoch, fenced, stopping, log_dirs = words
    return Broker(int(epoch), fenced == "true", stopping == "true", int(log_dirs))


def _truth(state: str, gauges: str) -> Truth:
    found = Truth({}, {}, {}, {}, 0, Gauges(*map(int, gauges.split(" "))))
    for line in state.split("|"):
        kind, name, *rest = line.split(" ")
        match kind:
            case "T":
                found.topics[name] = rest[0]
            case "P":
                found.parts[name] = _part(rest)
            case "B":
                found.brokers[int(name)] = _broker(rest)
            case "F":
                found.features[name] = int(rest[0])
            case _:
                found = found._replace(imbalanced=int(name))
    return found


class Model:
    """A fold of what the oracle appends."""

    def __init__(self) -> None:
        self.fold = KraftFold()
        self._maker = RecordMaker("prod", "w", "AAAAAAAAAAAAAAAAAAAAJg", 1, EpochEnd(0, -1))
        self.unclean = 0

    def feed(self, batches: list[CommittedBatch]) -> list[AnyEvent]:
        """Fold what was appended; return the events."""
        before = len(self.fold.events)
        if batches:
            assert not any(batch.unknown for batch in batches)
            end, epoch = batches[-1].last_offset + 1, batches[-1].epoch
            made = self._maker.handle_released(Committed(batches, end), EpochLeader(NODE, epoch))
            made += self._maker.flush()
            self.fold.feed([each.record for each in made])
        for batch in batches:
            self.unclean += sum(
                isinstance(each, PartitionChange) and each.leader_recovery_state == 1
                for _, each in batch.records
            )
        return self.fold.events[before:]

    def topics(self) -> list[TopicView]:
        """Return the views of topics."""
        return [each for each in self.fold.views().values() if isinstance(each, TopicView)]

    def brokers(self) -> list[BrokerView]:
        """Return the views of brokers."""
        return [each for each in self.fold.views().values() if isinstance(each, BrokerView)]

    def facts(self) -> tuple[Any, dict[str, Any]]:
        """Return the cluster's facts, and those of its partitions by topic and number."""
        views = self.fold.views()
        facts = cluster_facts(views["prod/cluster"], self.brokers())
        parts = [each for topic in self.topics() for each in partitions_in(topic)]
        return facts, {f"{each.topic}-{each.partition}": each for each in parts}

    def assert_shows(self, truth: Truth) -> None:
        """Compare views with what Kafka's controller holds, and figures with its metrics."""
        view = self.fold.cluster
        log = view.log
        assert (log.anomalies, log.errors, log.unreadable, log.holes) == (0, 0, 0, 0)
        assert {each.name: each.topic_id for each in self.topics()} == truth.topics
        assert self._parts() == {name: part[:-1] for name, part in truth.parts.items()}
        assert {
            each.id: (each.record.epoch, each.record.fenced, each.record.shutting_down)
            for each in self.brokers()
            if each.record.fenced is not None
        } == {broker: held[:3] for broker, held in truth.brokers.items()}
        assert {
            each.id: each.record.log_dirs_offline
            for each in self.brokers()
            if each.record.fenced is not None
        } == {broker: LOG_DIRS - held.log_dirs for broker, held in truth.brokers.items()}
        assert view.quorum is not None
        features = {name: level for name, level in view.quorum.features.items() if level}
        assert features == {n: level for n, level in truth.features.items() if level}
        self._assert_counts(view, truth)
        assert view.counters.unclean_elections == self.unclean

    def _parts(self) -> dict[str, tuple[Any, ...]]:
        shown = {}
        for topic in self.topics():
            rows = zip(
                topic.partitions, topic.replicas, topic.isr, topic.leader, topic.leader_epoch,
                topic.partition_epoch, topic.leader_recovery_state, strict=True,
            )  # fmt: skip
            for number, replicas, isr, *row in rows:
                lists = (
                    replicas,
                    isr,
                    topic.adding.get(number, ()),
                    topic.removing.get(number, ()),
                )
                eligible = (topic.elr.get(number, ()), topic.last_known_elr.get(number, ()))
                shown[f"{topic.name}-{number}"] = (*lists, *row, *eligible)
        return shown

    def _assert_counts(self, view: Any, truth: Truth) -> None:
        counts, parts, gauges = view.counts, truth.parts.values(), truth.gauges
        assert (counts.topics, counts.partitions) == (gauges.topics, gauges.partitions)
        assert counts.offline == counts.leaderless == gauges.offline
        assert counts.preferred_imbalance == gauges.imbalance == truth.imbalanced
        fenced = sum(each.record.fenced is True for each in self.brokers())
        assert fenced == gauges.fenced
        assert set(view.brokers_live) == {b for b, held in truth.brokers.items() if held.is_active}
        assert counts.recovering == sum(each.recovery for each in parts)
        assert counts.isr_empty == sum(not each.isr for each in parts)
        assert counts.with_elr == sum(bool(each.elr) for each in parts)
        led = [each for each in parts if each.leader != NO_LEADER]
        spare = [len(each.isr) - min(each.min_isr, len(each.replicas)) for each in led]
        assert counts.under_min_isr == sum(each < 0 for each in spare)
        assert counts.at_min_isr == spare.count(0)
        for each in self.brokers():
            leads = sum(part.leader == each.id for part in parts)
            assert each.leaders == leads


def elections(events: Sequence[AnyEvent]) -> set[str]:
    """Return the kinds of elections that events report."""
    return {str(each.election) for each in events if isinstance(each, LeadersElected)}


class Story:
    """Random commands; what comes next depends on what Kafka's controller holds."""

    BROKERS = (1, 2, 3, 4)
    TOPICS = ("a", "b", "c")

    def __init__(self, seed: int, *, elr: bool, log_dirs: bool) -> None:
        self._chance = random.Random(seed)  # noqa: S311  # the same story each time
        self._truth: Truth | None = None
        self._elr = elr
        kinds: list[tuple[int, Callable[[], str | None]]] = [
            (4, self._start),
            (12, self._unfence),
            (4, lambda: self._of_broker("beat {} fence", lambda held: not held.fenced)),
            (2, lambda: self._of_broker("beat {} stop", lambda held: held.is_active)),
            (1, lambda: self._of_broker("unregister {}", lambda _: True)),
            (3, self._create),
            (1, self._expand),
            (1, lambda: self._of_topic("delete {}")),
            (12, self._isr),
            (3, self._reassign),
            (1, lambda: self._of_partition("reassign {} cancel")),
            (2, lambda: self._of_partition("elect preferred {}")),
            (1, lambda: "elect preferred all"),
            (1, lambda: self._of_partition("elect unclean {}")),
            (3, lambda: "balance"),
            (3, self._configure),
            (1, lambda: "lead"),
        ]
        if elr:
            kinds.append((3, self._switch_elr))
        if log_dirs:
            kinds += [(2, self._place), (2, self._fail_dir)]
        self._kinds = [make for weight, make in kinds for _ in range(weight)]

    def begin(self) -> list[str]:
        """Return the commands that it begins with."""
        begin = [f"register {broker} clean" for broker in self.BROKERS[:3]]
        begin += [f"beat {broker} unfence" for broker in self.BROKERS[:3]]
        if self._elr:  # replicas are eligible while an ISR is below this
            begin.append(f"config broker - min.insync.replicas {self._chance.choice([2, 3])}")
        return [*begin, "create a 1,2,3;2,3,1;3,1,2"]

    def next(self, truth: Truth) -> str:
        """Return the next command."""
        self._truth = truth
        while (command := self._chance.choice(self._kinds)()) is None:
            pass
        return command

    @property
    def _held(self) -> Truth:
        assert self._truth is not None
        return self._truth

    def _pick(self, among: Any) -> Any:
        choices = sorted(among)
        return self._chance.choice(choices) if choices else None

    def _of_broker(self, command: str, is_fit: Callable[[Broker], bool]) -> str | None:
        broker = self._pick(b for b, held in self._held.brokers.items() if is_fit(held))
        return None if broker is None else command.format(broker)

    def _of_topic(self, command: str) -> str | None:
        topic = self._pick(self._held.topics)
        return None if topic is None else command.format(topic)

    def _of_partition(self, command: str) -> str | None:
        partition = self._pick(self._held.parts)
        return None if partition is None else command.format(partition)

    def _start(self) -> str | None:
        """Start a broker process that is not there, or was fenced; rarely one whose end nobody has noticed."""
        held = self._held.brokers
        is_early = self._chance.random() < 0.2
        broker = self._pick(b for b in self.BROKERS if b not in held or held[b].fenced or is_early)
        how = self._chance.choice(["clean", "unclean"])
        return None if broker is None else f"register {broker} {how}"

    def _unfence(self) -> str | None:
        """Unfence a broker; a process that shuts down never asks for that any more (BrokerLifecycleManager)."""
        return self._of_broker("beat {} unfence", lambda held: held.fenced and not held.stopping)

    def _assignment(self) -> str | None:
        known = sorted(self._held.brokers)
        if not known:
            return None
        factor = self._chance.randint(1, min(3, len(known)))
        return ",".join(map(str, self._chance.sample(known, factor)))

    def _create(self) -> str | None:
        topic = self._pick(each for each in self.TOPICS if each not in self._held.topics)
        first = self._assignment()
        if topic is None or first is None:
            return None
        factor = len(first.split(","))
        others = (self._assignment() for _ in range(self._chance.randint(0, 8)))
        parts = [first, *(each for each in others if each and len(each.split(",")) == factor)]
        return f"create {topic} {';'.join(parts[:4])}"

    def _expand(self) -> str | None:
        topic, assigned = self._pick(self._held.topics), self._assignment()
        return None if topic is None or assigned is None else f"expand {topic} {assigned}"

    def _isr(self) -> str | None:
        """Let a leader change its ISR: to all that are active, or to fewer; or let it end its recovery."""
        held = self._held
        partition = self._pick(name for name, part in held.parts.items() if part.leader >= 0)
        if partition is None:
            return None
        part = held.parts[partition]
        active = [b for b in part.replicas if b in held.brokers and held.brokers[b].is_active]
        others = [broker for broker in active if broker != part.leader]
        members = self._chance.sample(others, self._chance.randint(0, len(others)))
        if self._chance.random() < 0.5:
            members = others
        if part.recovery:
            members = []
        if {part.leader, *members} == set(part.isr) and not part.recovery:
            return None
        isr = ",".join(map(str, [part.leader, *members]))
        return f"isr {partition} {isr} 0"

    def _reassign(self) -> str | None:
        assigned = self._assignment()
        return None if assigned is None else self._of_partition(f"reassign {{}} {assigned}")

    def _configure(self) -> str | None:
        key, values = self._chance.choice(
            [
                ("min.insync.replicas", ["1", "2", "3", "-"]),
                ("unclean.leader.election.enable", ["true", "false", "-", "-"]),
            ]
        )
        value = self._chance.choice(values)
        if self._chance.random() < 0.3:
            # The configuration of the controller's node counts for its elections, and not for producers.
            of = self._chance.choice(["-", str(NODE)]) if key.startswith("unclean") else "-"
            return f"config broker {of} {key} {value}"
        return self._of_topic(f"config topic {{}} {key} {value}")

    def _switch_elr(self) -> str | None:
        """Switch ELRs on or off, while no partition waits for one: Kafka elects nobody because of that alone."""
        if not all(part.isr for part in self._held.parts.values()):
            return None
        return f"feature {ELR} {self._chance.choice([0, 1])}"

    def _place(self) -> str | None:
        partition = self._pick(self._held.parts)
        if partition is None:
            return None
        broker = self._pick(
            b for b in self._held.parts[partition].replicas if b in self._held.brokers
        )
        number = self._chance.choice([1, 2])
        return None if broker is None else f"place {broker} {number} {partition}"

    def _fail_dir(self) -> str | None:
        number = self._chance.choice([1, 2])
        return self._of_broker(
            f"beat {{}} unfence {number}", lambda held: held.is_active and held.log_dirs > 1
        )


ELR = "eligible.leader.replicas.version"
