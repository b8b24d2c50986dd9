"""The fold on local Spark and a real broker: changes in, views and events out, over restarts.

The tests share one fold, each with clusters of its own, and stand in the order of the story: it
runs, it is stopped and killed and goes on, its topics vanish and it begins again.
"""

from __future__ import annotations

import os
import shutil
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import eq
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import OFFSET_END, TopicPartition
from confluent_kafka.admin import AdminClient

from bench.map_state import DictMapState
from controller_model.records.events import Anomaly, Baseline, ControllerElected, IsrShrunk
from controller_model.records.views import BrokerView, TopicView
from controller_model.state.packing import unpack_control
from controller_model.state.topic_state import TopicState
from kcm.__main__ import main
from kcm.history import forget
from kcm.servers.guard import process_table
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.supervisor import Supervisor
from pipeline.java import find_java
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.lineage import Lineage
from streaming.session import Session
from streaming.state_codec import StateTopics, read_control
from streaming.state_map import StateMap
from streaming.topic_journal import PackedTopics
from streaming.workspace import Workspace
from tests.component.fold.folding import FOLD_DEADLINE_S, Outcome, Stream
from tests.support.histories import History, encode_changes, small_cluster
from tests.support.processes import command_lines
from tests.support.waiting import wait_until


def cluster(name: str) -> History:
    """Return a small cluster with its baseline, under a name of its own."""
    history = small_cluster()
    history.cluster = name
    history.changes = [msgspec.structs.replace(c, cluster=name) for c in history.changes]
    return history


@pytest.fixture(scope="module")
def stream(
    supervisor: Supervisor,
    pipeline_broker: KraftBroker,
    jars: Jars,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Stream]:
    """One fold for all tests here."""
    fold = Stream(supervisor, pipeline_broker, jars, tmp_path_factory.mktemp("fold"))
    process = fold.start()
    yield fold
    (fold.process or process).kill()


@pytest.fixture(scope="module")
def outcome(stream: Stream) -> Iterator[Outcome]:
    """What the fold has written."""
    reader = Outcome(stream.bootstrap_servers, stream.names)
    yield reader
    reader.close()


@pytest.fixture(scope="module")
def lasting() -> History:
    """A cluster that all tests share."""
    return cluster("lasting")


def lineage_on_disk(stream: Stream) -> Lineage:
    """Return what the checkpoint folder says."""
    return msgspec.json.decode((stream.checkpoint_dir / "lineage.json").read_bytes(), type=Lineage)


def lineage_left(stream: Stream) -> str:
    """Wait until the checkpoints of all lineages but one are removed, after its first batch; return its name."""
    folder = stream.checkpoint_dir / "lineages"
    left = wait_until(lambda: [path.name for path in folder.iterdir()], lambda seen: len(seen) == 1)
    return left[0]


def test_changes_become_views_and_events(
    stream: Stream, outcome: Outcome, lasting: History
) -> None:
    """A resync, a broker's death and an election come out as views and as events, in order."""
    stream.append_new(lasting)
    lasting.broker_gone(0)
    lasting.elect(1)
    lasting.state("t", 0, leader=1, isr=[1, 2], leader_epoch=1)
    stream.append_new(lasting, at_a_time=1)
    view = outcome.folded(lasting)
    assert view.controller.id == 1
    assert view.controller.elections == 2
    assert view.brokers_live == (1, 2)
    topic = outcome.views["lasting/topic/t/0"]
    assert isinstance(topic, TopicView)
    assert topic.leader == (1, 1)
    broker = outcome.views["lasting/broker/0"]
    assert isinstance(broker, BrokerView)
    assert not broker.record.live
    kinds = [type(record.event) for record in outcome.events_of("lasting")]
    assert kinds.count(Baseline) == 1
    assert kinds.count(IsrShrunk) == 1
    assert kinds.index(Baseline) < kinds.index(ControllerElected)
    assert view.as_of.lineage == lineage_on_disk(stream).name


def test_the_worker_that_is_started_early_is_of_the_kind_that_the_fold_uses(stream: Stream) -> None:
    """Spark has one daemon for each environment that workers want: another one would serve the fold's batches."""
    assert stream.process is not None
    called = command_lines()
    below = [called.get(pid, b"") for pid in generation(stream.process.pid, 2)]
    assert sum(b"pyspark.daemon" in line for line in below) == 1


def test_garbage_in_the_log_stops_nothing(stream: Stream, outcome: Outcome) -> None:
    """Messages of others are counted, per cluster where a key names it, and the fold goes on."""
    history = cluster("littered")
    stream.write(b"no key, no JSON", key=None)
    stream.write(b"\x00\xff", key=b"\xff\xfe")
    stream.append_new(history)
    stream.write(b"\xff garbage", key="littered")
    stream.write(b'[{"v":2,"kind":"from the future"}]', key="littered")
    history.heartbeat()
    stream.append_new(history)
    view = outcome.folded(history)
    assert view.log.unreadable == 2
    anomalies = [r for r in outcome.events_of("littered") if isinstance(r.event, Anomaly)]
    assert len(anomalies) == 2
    unattributed = wait_until(
        lambda: stream.sample("kcm_fold_unattributed_total"),
        lambda seen: seen == 2,
        deadline_s=FOLD_DEADLINE_S,
    )
    assert unattributed == 2


@pytest.mark.usefixtures("no_settings_of_the_machine")
def test_a_forgotten_cluster_is_gone_from_views_and_state(
    stream: Stream, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kcm forget` takes its views back, and the same log is then taken as a new cluster's."""
    history = cluster("taken-out")
    stream.append_new(history)
    outcome.folded(history)
    monkeypatch.setattr(forget, "LISTEN_S", 0.5)
    options = ["--bootstrap-servers", stream.bootstrap_servers, "--topic-prefix", stream.prefix]
    assert main(["forget", "taken-out", "--yes", *options]) == 0

    def standing() -> list[str]:
        outcome.read()
        return [key for key in outcome.views if key.startswith("taken-out/")]

    wait_until(standing, lambda keys: not keys, deadline_s=FOLD_DEADLINE_S)
    stream.write(encode_changes(history.changes), key="taken-out")
    view = outcome.folded(history)
    assert view.log.not_newer == 0
    assert view.log.verified_at is not None
    assert view.counts.partitions == 2


def test_the_fold_exposes_batches_changes_and_lag(stream: Stream, outcome: Outcome) -> None:
    """Batches, changes and lag are metrics of the fold; an idle fold has no lag."""
    history = cluster("measured")
    stream.append_new(history)
    outcome.folded(history)
    # Views are written before the batch is counted.
    wait_until(
        lambda: (
            stream.sample("kcm_fold_changes_total") or 0,
            stream.sample("kcm_fold_lag_records"),
            stream.sample("kcm_fold_lag_seconds"),
        ),
        lambda seen: seen[0] >= len(history.changes) and seen[1:] == (0, 0),
        deadline_s=FOLD_DEADLINE_S,
    )
    assert (stream.sample("kcm_fold_batch_seconds_count") or 0) >= 1
    assert stream.sample("kcm_fold_errors_total") == 0


@pytest.mark.full
def test_a_batch_leaks_no_open_files(stream: Stream, outcome: Outcome) -> None:
    """Spark's JVM has as many files and sockets after a hundred batches as before."""
    assert stream.process is not None
    fold = stream.process.pid
    (jvm,) = [pid for pid, parent, _, _ in process_table() if parent == fold]
    history = cluster("endless")
    stream.append_new(history)
    outcome.folded(history)

    def open_files() -> int:
        return sum(1 for _ in Path(f"/proc/{jvm}/fd").iterdir())

    def opened_by_batches(batches: int) -> int:
        before = open_files()
        for _ in range(batches):
            history.heartbeat()
            stream.append_new(history)
            outcome.folded(history)
        return open_files() - before

    opened_by_batches(20)  # what a pool opens once
    assert opened_by_batches(100) < 25


def test_a_killed_fold_goes_on_where_it_was(
    stream: Stream, outcome: Outcome, lasting: History
) -> None:
    """After SIGKILL in the middle of work the counters are those of the log, once each."""
    lasting.state("t", 1, leader=1, isr=[1])
    stream.append_new(lasting)
    before = outcome.folded(lasting)
    assert stream.process is not None
    for _ in range(20):
        lasting.state("t", 1, leader=1, isr=[1, 2])
        lasting.state("t", 1, leader=1, isr=[1])
        stream.append_new(lasting, at_a_time=1)
    stream.process.kill()
    stream.start()
    lasting.heartbeat()
    stream.append_new(lasting)
    after = outcome.folded(lasting)
    assert after.as_of.lineage == before.as_of.lineage
    assert after.counters.isr_shrinks == before.counters.isr_shrinks + 20
    assert after.counters.isr_expands == before.counters.isr_expands + 20
    assert after.log.not_newer == 0
    ids = [record.id for record in outcome.events_of("lasting")]
    assert ids == sorted(set(ids))


@pytest.mark.full
@pytest.mark.timeout(600)
def test_a_slow_start_of_a_python_worker_begins_no_lineage(
    stream: Stream, outcome: Outcome, lasting: History
) -> None:
    """Three times in a row Spark's Python is not there within Spark's 10 s; then the fold goes on where it was."""
    lasting.state("t", 1, leader=1, isr=[1])
    stream.append_new(lasting)
    before = outcome.folded(lasting)
    assert stream.process is not None
    stream.process.kill()
    # Without a change nothing is planned, and no Python started, once the last batch is committed.
    lasting.state("t", 1, leader=1, isr=[1, 2])
    stream.append_new(lasting)
    # The first one may be done by the time that the fold says it is up.
    with ThreadPoolExecutor(1) as beside:
        slowed = beside.submit(slow_down, stream, 3)
        stream.start()
        slowed.result()
    after = outcome.folded(lasting)
    assert after.as_of.lineage == before.as_of.lineage
    assert after.counters_since == before.counters_since
    assert after.counters.isr_expands == before.counters.isr_expands + 1


def slow_down(stream: Stream, most: int) -> None:
    """Stop each Python that Spark starts with a query until Spark gives it up, so many times."""
    stopped: set[int] = set()
    for times in range(1, most + 1):
        (pid,) = wait_until(lambda: first_workers(stream) - stopped, deadline_s=FOLD_DEADLINE_S)
        os.kill(pid, signal.SIGSTOP)
        stopped.add(pid)
        wait_until(lambda: late_workers(stream), partial(eq, times), deadline_s=FOLD_DEADLINE_S)
        os.kill(pid, signal.SIGKILL)


def late_workers(stream: Stream) -> float | None:
    """Return how often Spark's Python did not start in time, as the fold counts it."""
    return stream.sample("kcm_fold_restarts_total", reason="worker")


def first_workers(stream: Stream) -> set[int]:
    """Return the processes that Spark starts with each query, before any worker."""
    assert stream.process is not None
    below = generation(stream.process.pid, 2)
    called = command_lines()
    return {p for p in below if b"transform_with_state_driver_worker" in called.get(p, b"")}


@pytest.mark.full
@pytest.mark.timeout(600)
@pytest.mark.parametrize("below", [1, 3], ids=["Spark's JVM", "the Python worker"])
def test_a_hung_jvm_or_worker_is_killed_and_the_fold_continues(
    stream: Stream, outcome: Outcome, lasting: History, below: int
) -> None:
    """A JVM that does not answer, or whose worker does nothing, is replaced by a new process."""
    lasting.state("t", 1, leader=1, isr=[1, 2])
    lasting.state("t", 1, leader=1, isr=[1])
    stream.append_new(lasting)
    before = outcome.folded(lasting)
    assert stream.process is not None
    hanging = family(stream.process.pid, below)
    for pid in hanging:
        os.kill(pid, signal.SIGSTOP)
    lasting.state("t", 1, leader=1, isr=[1, 2])
    stream.append_new(lasting)
    wait_until(
        lambda: hanging & {pid for pid, _, _, _ in process_table()},
        lambda left: not left,
        deadline_s=2 * FOLD_DEADLINE_S,
    )
    after = outcome.folded(lasting)
    assert after.as_of.lineage == before.as_of.lineage
    assert after.counters.isr_expands == before.counters.isr_expands + 1
    assert after.log.holes == 0
    assert stream.process.running


def family(pid: int | None, below: int) -> set[int]:
    """Return the processes so many generations below one: its JVM, its daemon, its workers."""
    pids = generation(pid, below)
    assert pids
    return pids


def generation(pid: int | None, below: int) -> set[int]:
    """Return the processes so many generations below one; empty where there are none yet."""
    pids = set() if pid is None else {pid}
    for _ in range(below):
        pids = {child for child, parent, _, _ in process_table() if parent in pids}
    return pids


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The place of a copy of the checkpoint folder, of the first lineage."""
    return tmp_path_factory.mktemp("copied") / "checkpoint"


def press_ctrl_c(stream: Stream) -> int | None:
    """Interrupt the fold as a terminal does, with all that it has started; return its exit code."""
    process = stream.process
    assert process is not None
    process.expected_running = False
    for pid in set().union(*(generation(process.pid, below) for below in range(4))):
        os.kill(pid, signal.SIGINT)
    wait_until(lambda: process.running, lambda runs: not runs, deadline_s=FOLD_DEADLINE_S)
    assert "Traceback" not in process.log_tail()
    return process.exit_code


def restore(stream: Stream, copied: Path) -> None:
    """Stop the fold, and start it on a copy of its checkpoint folder."""
    assert stream.process is not None
    assert stream.process.stop() == 0
    shutil.rmtree(stream.checkpoint_dir)
    shutil.copytree(copied, stream.checkpoint_dir)
    stream.start()


@pytest.mark.full
def test_a_restored_checkpoint_goes_on_where_it_was_copied(
    stream: Stream, outcome: Outcome, lasting: History, copied: Path
) -> None:
    """The log since then is folded again, in the same lineage: nothing is counted or reported twice."""
    stream.append_new(lasting)
    before = outcome.folded(lasting)
    assert press_ctrl_c(stream) == 0
    shutil.copytree(stream.checkpoint_dir, copied)
    stream.start()
    for _ in range(3):
        lasting.state("t", 1, leader=1, isr=[1])
        lasting.state("t", 1, leader=1, isr=[1, 2])
    stream.append_new(lasting, at_a_time=1)
    outcome.folded(lasting)
    duplicates = outcome.duplicates
    restore(stream, copied)
    lasting.heartbeat()
    stream.append_new(lasting)
    after = outcome.folded(lasting)
    assert after.as_of.lineage == before.as_of.lineage
    assert after.counters.isr_expands == before.counters.isr_expands + 3
    assert (after.log.holes, after.log.not_newer) == (0, 0)
    assert outcome.duplicates > duplicates
    ids = [record.id for record in outcome.events_of("lasting")]
    assert ids == sorted(set(ids))


@pytest.mark.full
def test_topics_made_anew_begin_a_new_lineage(
    stream: Stream, outcome: Outcome, lasting: History
) -> None:
    """When a topic vanishes under a running fold, the log is folded again under a newer name."""
    before = outcome.folded(lasting)
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers, "log_level": 2})
    admin.delete_topics([stream.names.views], operation_timeout=10)[stream.names.views].result()
    wait_until(
        lambda: lineage_on_disk(stream).name,
        lambda seen: seen > before.as_of.lineage,
        deadline_s=FOLD_DEADLINE_S,
    )
    outcome.read_again()  # its place in the former topic means nothing in this one
    after = outcome.folded(lasting, lineage=before.as_of.lineage)
    assert after.as_of.lineage > before.as_of.lineage
    assert after.counters.isr_shrinks == before.counters.isr_shrinks
    assert after.counts == before.counts
    assert stream.process is not None
    assert stream.process.running
    assert lineage_left(stream) == after.as_of.lineage


@pytest.mark.full
def test_a_checkpoint_of_an_earlier_lineage_is_not_continued(
    stream: Stream, outcome: Outcome, lasting: History, copied: Path
) -> None:
    """Its lineage is below the one that readers hold: they would accept nothing that it writes."""
    before = outcome.folded(lasting)
    restore(stream, copied)
    lasting.heartbeat()
    stream.append_new(lasting)
    after = outcome.folded(lasting, lineage=before.as_of.lineage)
    assert after.as_of.lineage > before.as_of.lineage
    assert after.counters.isr_shrinks == before.counters.isr_shrinks
    assert after.counts == before.counts
    assert lineage_left(stream) == after.as_of.lineage


@pytest.mark.full
def test_records_deleted_by_retention_are_reported_and_a_resync_repairs_it(
    stream: Stream, outcome: Outcome, lasting: History
) -> None:
    """Retention that overtook the fold is a hole, not a crash: the fold requests a resync."""
    before = outcome.folded(lasting)
    assert stream.process is not None
    assert stream.process.stop() == 0
    lasting.topic_gone("t")
    lasting.topic("after", {0: [1, 2]})
    stream.append_new(lasting)
    admin = AdminClient({"bootstrap.servers": stream.bootstrap_servers, "log_level": 2})
    everything = TopicPartition(stream.names.changes, 0, OFFSET_END)
    for cut in admin.delete_records([everything]).values():
        cut.result()
    lasting.heartbeat()
    stream.append_new(lasting)
    stream.start()
    reported = outcome.folded(lasting)
    assert reported.as_of.lineage == before.as_of.lineage
    assert reported.log.holes == before.log.holes + 1
    assert reported.log.incomplete_since is not None
    assert reported.counts == before.counts
    assert reported.resync_wanted is not None
    lasting.topic("t", {0: [0, 1], 1: [1, 2]}, seen=False)
    for topic, partition, isr in (("t", 0, [0, 1]), ("t", 1, [1, 2]), ("after", 0, [1, 2])):
        lasting.state(topic, partition, leader=isr[0], isr=isr, seen=False)
    lasting.resync(answers=reported.resync_wanted.number)
    stream.append_new(lasting)
    healed = outcome.folded(lasting)
    assert healed.log.incomplete_since is None
    assert healed.resync_wanted is None
    assert (healed.counts.topics, healed.counts.partitions) == (2, 3)


def test_the_log_of_the_fold_has_only_kcm_json_lines(stream: Stream) -> None:
    """Over all restarts the fold writes only JSON lines of kcm to standard error."""
    assert stream.process is not None
    lines = Path(stream.process.log_path).read_text().splitlines()
    assert lines
    assert [line for line in lines if not line.startswith('{"part":')] == []
    for line in lines:
        assert set(msgspec.json.decode(line)) >= {"event", "level", "part"}, line


@pytest.mark.full
def test_the_state_in_the_store_is_what_the_views_show(
    stream: Stream, outcome: Outcome, lasting: History, jars: Jars
) -> None:
    """Spark's own reader of the checkpoint finds, cluster by cluster, what the views say."""
    # The sink writes before Spark commits: a batch is in the state once the next one is written.
    places = []
    for _ in range(2):
        lasting.heartbeat()
        stream.append_new(lasting)
        view = outcome.folded(lasting)
        places.append((view.as_of.generation, view.as_of.seq))
    assert stream.process is not None
    stream.process.stop()
    settings = load(
        StreamSettings, checkpoint_dir=stream.checkpoint_dir, connector_jars=tuple(jars.connector)
    )
    checkpoint = stream.checkpoint_dir / "lineages" / lineage_on_disk(stream).name
    with Workspace(stream.checkpoint_dir, stop=threading.Event()) as workspace:
        session = Session(settings, workspace, find_java(os.environ).path)
        try:
            # The state store's coordinator comes up with the streams' manager, and not before.
            assert session.spark.streams.active == []
            stored = (
                session.spark.read.format("statestore")
                .option("stateVarName", "cluster")
                .load(str(checkpoint))
                .collect()
            )
        finally:
            session.close()
    held: dict[str, DictMapState] = {}
    for row in stored:
        state = held.setdefault(row.key.cluster, DictMapState())
        place = row.user_map_key.part, row.user_map_key.key
        state.updateValue(place, (row.user_map_value.packed,))
    controls = {name: read_control(StateMap(state)) for name, state in held.items()}
    stands = controls["lasting"]
    assert stands is not None
    control = unpack_control(stands.packed)
    assert control.log.position in places
    assert control.controller.view.elections == view.controller.elections
    assert control.counters.isr_shrinks == view.counters.isr_shrinks
    shown = {
        (seen.cluster, seen.name): seen
        for seen in outcome.views.values()
        if isinstance(seen, TopicView)
    }
    topics: dict[tuple[str, str], TopicState | None] = {}
    for name, each in controls.items():
        assert each is not None
        found = StateTopics(PackedTopics(StateMap(held[name]), each.place))
        topics |= {(name, topic): found.peek(topic) for topic in found.names()}
    assert set(topics) == set(shown)
    for key, topic in topics.items():
        assert topic is not None
        records = topic.partitions
        assert tuple(records) == shown[key].partitions
        assert tuple(r.leader for r in records.values()) == shown[key].leader
        assert tuple(r.isr for r in records.values()) == shown[key].isr
