"""The processor on Spark's in-memory tester: no JVM, but the real state calls.

That a batch may run again, in any worker, in any split of the log, is proved by the simulation.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from controller_model.fold import replay as replay_module
from controller_model.fold.projection import FORGET_AFTER_MS
from controller_model.kafka.ids import partition_of
from controller_model.records.changes import ChangeKind, ZnodeChange
from controller_model.records.election_requests import ElectionOrigin, encode_request
from controller_model.records.event_records import EventRecord, decode_event
from controller_model.records.events import (
    Anomaly,
    Baseline,
    LeadersElected,
)
from controller_model.records.views import (
    AnyView,
    ClusterView,
    decode_view,
)
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.sources.zookeeper.state import zookeeper_of
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.packing import UnreadableStateError
from streaming import processor as processor_module
from streaming.processor import FoldParameters, FoldProcessor, Remembered
from streaming.state_codec import ControlRow, StoredCluster, read_control
from streaming.state_map import StateMap, StatePart
from streaming.topic_journal import JournalLimits, RememberedTopics
from tests.support.histories import History, election_request, encode_changes, small_cluster
from tests.support.hostile import spoiled

LINEAGE = "0000000000001-abc"


def most_of_each_number() -> dict[str, int]:
    """Return the largest value that a record may hold of each of its numbers."""
    info = msgspec.inspect.type_info(ZnodeChange)
    assert isinstance(info, msgspec.inspect.StructType)
    kinds = {
        each.name: each.type.types
        if isinstance(each.type, msgspec.inspect.UnionType)
        else [each.type]
        for each in info.fields
    }
    return {
        name: kind.le or 0
        for name, types in kinds.items()
        for kind in types
        if isinstance(kind, msgspec.inspect.IntType) and name not in {"v", "generation", "seq"}
    }


MAX_OF_EACH = most_of_each_number()
NUMBERS = sorted(MAX_OF_EACH)


class Bench:
    """A processor, its rows' offsets, and the output of the last batch."""

    def __init__(self, lineage: str, *, partitions: int = 1, min_isr: int = 1) -> None:
        self.parameters = FoldParameters(
            lineage=lineage,
            views_topic="v",
            events_topic="e",
            partitions=partitions,
            assumed=Assumed(min_insync_replicas=min_isr),
        )
        self.tester = TwsTester(FoldProcessor(self.parameters, clock=lambda: 7))
        self.offset = 0
        self.read = 0
        self.out: list[Any] = []

    def rows(self, messages: Iterable[bytes | None], *, partition: int = 0) -> list[Row]:
        """Return messages as rows of the log."""
        made = []
        for message in messages:
            made.append(
                Row(
                    cluster="prod",
                    partition=partition,
                    offset=self.offset,
                    timestamp_ms=5_000 + self.offset,
                    value=message,
                )
            )
            self.offset += 1
        return made

    def fold(self, rows: list[Row], *, cluster: str = "prod") -> None:
        """Fold one batch."""
        self.out = self.tester.test(cluster, rows)

    def send(self, *messages: bytes | None) -> None:
        """Fold messages as one batch."""
        self.fold(self.rows(messages))

    def follow(self, history: History) -> None:
        """Fold what is new in a history as one batch."""
        self.send(encode_changes(self.news(history)))

    def news(self, history: History) -> list[ZnodeChange]:
        """Return what is new in a history."""
        new = history.changes[self.read :]
        self.read = len(history.changes)
        return new

    def again(self) -> None:
        """Let Spark create a new processor on the same state, as it does for each batch."""
        self.tester.processor = FoldProcessor(self.parameters, clock=lambda: 7)
        self.tester.processor.init(self.tester.handle)

    @property
    def states(self) -> dict[str, dict[Any, Any]]:
        """What Spark's state holds, by variable and key."""
        return {name: each.state for name, each in self.tester.handle.map_states.items()}

    @property
    def state(self) -> StateMap:
        """The cluster's state."""
        self.tester.handle.setGroupingKey("prod")
        return StateMap(self.tester.handle.map_states["cluster"])

    @property
    def control(self) -> ControlRow | None:
        """The control plane in the state."""
        return read_control(self.state)

    def put_back(self, states: dict[str, dict[Any, Any]]) -> None:
        """Put back what Spark's state held, as when a batch is not committed."""
        for name, held in states.items():
            self.states[name].clear()
            self.states[name].update(held)

    @property
    def views(self) -> dict[str, AnyView]:
        """The views of the last batch, in order, without nulls."""
        written = (row for row in self.out if row.topic == "v" and row.value is not None)
        return {row.key: decode_view(row.value) for row in written}

    @property
    def events(self) -> list[EventRecord]:
        """The events of the last batch."""
        return [decode_event(row.value) for row in self.out if row.topic == "e"]

    @property
    def cluster(self) -> ClusterView:
        """The cluster's view in the last batch."""
        view = self.views["prod/cluster"]
        assert isinstance(view, ClusterView)
        return view

    @property
    def tally(self) -> Any:
        """The row that only metrics see."""
        (row,) = [row for row in self.out if row.topic is None]
        return row


@pytest.fixture
def bench(request: pytest.FixtureRequest) -> Bench:
    """A bench in a lineage of its own, since a worker process remembers by lineage."""
    return Bench(f"0000000000001-{request.node.name}")


def make_a_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make changes of broker 2 raise an unexpected exception."""
    real = replay_module.replay

    def broken(state: Any, change: ZnodeChange) -> Any:
        if change.path == "/brokers/ids/2":
            raise KeyError("ours")
        return real(state, change)

    monkeypatch.setattr(replay_module, "replay", broken)


def test_a_resync_gives_all_views_and_one_baseline(bench: Bench) -> None:
    """The first batch reports the whole cluster: topics, brokers, the cluster last, one event."""
    bench.follow(small_cluster())
    assert list(bench.views)[-1] == "prod/cluster"
    assert set(bench.views) == {
        "prod/topic/t/0",
        *(f"prod/broker/{broker}" for broker in range(3)),
        "prod/incidents",
        "prod/recommendation",
        "prod/cluster",
    }
    assert bench.cluster.counts.partitions == 2
    assert bench.cluster.as_of.lineage == bench.parameters.lineage
    assert bench.cluster.folded_at == 7
    baselines = [r for r in bench.events if isinstance(r.event, Baseline)]
    assert len(baselines) == 1


def test_records_for_the_sink_carry_no_counts(bench: Bench) -> None:
    """Figures are added up over all rows; each is in the last row of its key, once."""
    history = small_cluster()
    bench.follow(history)
    records, counted = bench.out[:-1], bench.out[-1]
    bench.send(None)
    for row in (*records, *bench.out[:-1]):
        assert tuple(row)[:2] in {("v", 0), ("e", 0)}
        assert tuple(row)[4:] == (0, 0, 0, 0, None)
    assert tuple(counted) == (None,) * 4 + (len(history.changes), 0, 0, 0, 5_000)


def test_counts_cover_the_whole_batch(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if a cluster is forgotten in the middle of it; the newest record of all counts as the newest."""
    history = small_cluster()
    make_a_mistake(monkeypatch)
    message = encode_changes(history.changes)
    rows = bench.rows([message, None, message])
    bench.fold([rows[2], *rows[:2]])
    assert bench.tally.changes == 2 * len(history.changes)
    assert bench.tally.errors == 2
    assert bench.tally.newest_ms == 5_002


@pytest.mark.parametrize("more", [0, 1])
def test_a_record_that_the_sink_would_refuse_is_left_out(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, more: int
) -> None:
    """Only that record is lost, and it counts as an error; one that just fits is sent."""
    wide = dict.fromkeys(range(500), (0, 1))
    history = small_cluster(t={0: (0, 1)}, wide_a=wide, wide_b=wide)
    whole = Bench(bench.parameters.lineage)
    whole.follow(history)
    processor_module._remembered.clear()
    most = max(len(row.value or b"") for row in whole.out)
    fitting = [row.key for row in whole.out if len(row.value or b"") < most]
    assert len(fitting) == len(whole.out) - 2
    assert whole.out[-2].key in fitting, "others follow those that are left out"
    monkeypatch.setattr(processor_module, "MAX_CHANGE_BYTES", most - more)
    bench.follow(history)
    keys = [row.key for row in bench.out]
    assert keys == (fitting if more else [row.key for row in whole.out])
    assert bench.tally.errors == 2 * more


def test_an_anomaly_names_the_problem_of_a_message(bench: Bench) -> None:
    """Its place (a null there forgets nothing), its bytes, its records, or whose they are; what follows is read."""
    bench.parameters = dataclasses.replace(bench.parameters, partitions=8)
    bench.again()
    own = partition_of("prod", 8)
    assert own > 0, "what is in another partition must come first"
    history = small_cluster()
    other = History(cluster="other")
    other.broker(9)
    bench.fold(
        [
            *bench.rows([b"whatever", None], partition=0),
            *bench.rows(
                [b"garbage", b"", b'[{"v":9}]', encode_changes(other.changes)], partition=own
            ),
            *bench.rows([encode_changes(history.changes)], partition=own),
        ]
    )
    reasons = [r.event.reason for r in bench.events if isinstance(r.event, Anomaly)]
    assert [reason.partition(": ")[0] for reason in reasons] == [
        *[f"a message in partition 0, not {own}"] * 2,
        "not an array of changes",
        "not an array of changes",
        "damaged records, or of another version",
        "records that name another cluster",
    ]
    assert (bench.tally.unreadable, bench.tally.changes) == (6, len(history.changes))


def test_events_of_the_same_place_have_ids_that_grow(bench: Bench) -> None:
    """Over batches without events, and in another worker; readers take an id that they know for a repetition."""
    bench.follow(small_cluster(t={0: (0, 1, 2)}))
    ids = []
    for _ in range(3):
        bench.send(b"garbage")
        ids += [record.id for record in bench.events]
        bench.send(encode_request(election_request("t", 0)))
        assert bench.events == []
        processor_module._remembered.clear()
    assert len(ids) == 3
    assert ids == sorted(set(ids))


def test_garbage_alone_creates_no_cluster(bench: Bench) -> None:
    """A key that no watcher writes gets no view and no state."""
    bench.send(b"garbage", b"more")
    assert [row.topic for row in bench.out] == [None]
    assert bench.tally.unattributed == 2
    assert bench.control is None


@pytest.mark.parametrize("key", ["", "no name", "-x", "a" * 65])
def test_messages_with_an_invalid_cluster_key_are_unattributed(bench: Bench, key: str) -> None:
    """Messages without a key, or with one that cannot name a cluster, are counted for the fold's metrics."""
    bench.fold(bench.rows([encode_changes(small_cluster().changes), None]), cluster=key)
    assert [row.topic for row in bench.out] == [None]
    assert bench.tally.unattributed == 2


def test_records_go_to_the_partition_of_their_cluster() -> None:
    """All records of a cluster are in the partition that follows from its name, in both topics."""
    history = small_cluster()
    for partition in range(4):
        bench = Bench(f"{LINEAGE}-p{partition}", partitions=4)
        bench.fold(bench.rows([encode_changes(history.changes)], partition=partition))
        written = {row.partition for row in bench.out if row.topic is not None}
        if written:
            assert written == {partition}
            return
    pytest.fail("the cluster has no partition of its own")


def written(bench: Bench) -> dict[str, bytes | None]:
    """Return the batch's last value for each key of the views, in the order of first writes."""
    return {row.key: row.value for row in bench.out if row.topic == "v"}


def test_a_null_in_the_log_forgets_its_cluster(bench: Bench) -> None:
    """A null deletes each view that was ever published, the cluster's last, and no state is left."""
    history = small_cluster()
    history.topic("gone", {0: [0]})
    bench.follow(history)
    published = set(bench.views)
    history.topic_gone("gone")
    bench.follow(history)
    bench.send(None)
    nulls = written(bench)
    assert set(nulls.values()) == {None}
    assert set(nulls) == {*published, "prod/watcher"}
    assert list(nulls)[-1] == "prod/cluster"
    assert bench.events == []
    assert not any(bench.states.values())


def test_a_null_of_an_unknown_cluster_deletes_its_view(
    bench: Bench,
) -> None:
    """Its changes may have been deleted from the log before the null was."""
    bench.send(None)
    assert written(bench) == {"prod/cluster": None}
    assert bench.tally.unattributed == 0
    assert not any(bench.states.values())


def test_what_a_resync_was_denied_is_marked_in_the_state(bench: Bench) -> None:
    """From batch to batch: each znode counts once, and no longer once it was read again, whatever was read."""
    history, topic = small_cluster(), "/brokers/topics/t"
    bench.follow(history)
    history.start_resync()
    for path in history.znodes:
        if not path.startswith(topic):
            history.report(path)
    history.finish_resync(denied=(topic,), denied_more=0)
    bench.follow(history)

    def held_below() -> int | None:
        assert bench.tally.errors == 0
        assert bench.cluster.log.incomplete_since is None
        row = bench.control
        assert row is not None
        control = row.unpack((), bench.parameters.lineage).control
        ZOOKEEPER.adopt(control)
        tree = zookeeper_of(control).denied_trees.get(topic)
        return None if tree is None else tree.znodes

    assert held_below() == 3
    for _ in range(2):
        bench.again()
        history.report(f"{topic}/partitions/0/state")
        proof = history.reconciled(denied=(topic,), denied_more=0)
        bench.follow(history)
        assert (held_below(), bench.cluster.log.verified_at) == (2, proof.observed_at)
    for times in (1, 2):
        bench.again()
        history.record(ChangeKind.DELETED, path=f"{topic}/partitions/1/state", read_zxid=1)
        bench.follow(history)
        assert (held_below(), bench.cluster.log.stale) == (1, times)
    bench.again()
    history.report(topic)
    history.delete(f"{topic}/partitions/1/state")
    proof = history.reconciled()
    bench.follow(history)
    assert (held_below(), bench.cluster.log.verified_at) == (None, proof.observed_at)


def test_a_view_deleted_long_ago_gets_a_tombstone(bench: Bench) -> None:
    """A record without a value, so that compaction removes the key, before the commit mark."""
    history = small_cluster()
    bench.follow(history)
    history.topic_gone("t")
    bench.follow(history)
    history.heartbeat(after_ms=FORGET_AFTER_MS)
    bench.follow(history)
    written = [(row.key, row.value is None) for row in bench.out if row.topic == "v"]
    assert written == [("prod/topic/t/0", True), ("prod/cluster", False)]


def test_state_calls_do_not_grow_with_changes(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that knows the state appends all topics that a batch changed with one call."""
    names = [f"t{number}" for number in range(20)]
    history = small_cluster(**{name: {0: (0, 1, 2)} for name in names})
    bench.follow(history)
    handle = bench.tester.handle
    calls: list[tuple[str, StatePart | None]] = []

    def count(state: Any, method: str) -> None:
        real = getattr(state, method)

        def counted(*given: Any) -> Any:
            calls.append((method, StatePart(given[0][0]) if given else None))
            return real(*given)

        monkeypatch.setattr(state, method, counted)

    (state,) = handle.map_states.values()
    for method in ("getValue", "updateValue", "removeKey", "iterator", "clear"):
        count(state, method)
    for epoch in range(1, 20):
        for name in names:
            history.state(name, 0, leader=0, isr=[0, 1, 2][: 1 + epoch % 3], leader_epoch=epoch)
    bench.follow(history)
    assert calls == [
        ("getValue", StatePart.CONTROL),
        ("updateValue", StatePart.JOURNAL_0),
        *[("updateValue", StatePart.MEMBERS)] * 2,  # of the brokers that left and returned
        ("removeKey", StatePart.MEMBERS),  # of the broker that is in all ISRs again
        ("updateValue", StatePart.CONTROL),
    ]


def test_a_batch_that_changes_no_membership_writes_none(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a group of brokers that is stored unchanged, nor the removal of one that is not stored."""
    history = small_cluster(a={0: (0, 1, 2)}, b={0: (0, 1, 2)})
    bench.follow(history)
    state = bench.tester.handle.map_states["cluster"]
    keys: list[StatePart] = []

    def note(method: str) -> None:
        real = getattr(state, method)

        def noted(key: Any, *rest: Any) -> None:
            keys.append(StatePart(key[0]))
            real(key, *rest)

        monkeypatch.setattr(state, method, noted)

    note("updateValue")
    note("removeKey")
    history.state("a", 0, leader=0, isr=[0, 1, 2], leader_epoch=3)
    bench.follow(history)
    assert keys == [StatePart.JOURNAL_0, StatePart.CONTROL]


def test_another_worker_removes_memberships_that_are_gone(bench: Bench) -> None:
    """What is left would be counted by the next one."""
    history = small_cluster()
    bench.follow(history)
    assert bench.state.items(StatePart.MEMBERS)
    processor_module._remembered.clear()
    history.topic_gone("t")
    bench.follow(history)
    assert not bench.state.items(StatePart.MEMBERS)


@pytest.mark.parametrize("spoilt", [b"\xfe", msgspec.msgpack.encode({"t": b"\xfe"})])
def test_an_unreadable_state_ends_the_batch(bench: Bench, spoilt: bytes) -> None:
    """A state of another version ends the batch: a new lineage must begin."""
    history = small_cluster()
    bench.follow(history)
    bench.tester.handle.map_states["cluster"].updateValue((StatePart.JOURNAL_0, 0), (spoilt,))
    processor_module._remembered.clear()
    history.state("t", 0, leader=0, isr=[0, 1])
    with pytest.raises(UnreadableStateError):
        bench.follow(history)


def test_changed_assumed_settings_apply_without_a_new_lineage(bench: Bench) -> None:
    """After a restart a changed option shows in the figures, without a new lineage."""
    history = small_cluster()
    bench.follow(history)
    assert bench.cluster.min_isr_assumed == 1
    bench.parameters = FoldParameters(
        lineage=bench.parameters.lineage,
        views_topic="v",
        events_topic="e",
        partitions=1,
        assumed=Assumed(min_insync_replicas=3),
    )
    bench.again()
    history.heartbeat()
    bench.follow(history)
    assert bench.cluster.min_isr_assumed == 3
    assert bench.cluster.counts.at_min_isr == 2


def test_each_cluster_has_its_own_settings(bench: Bench) -> None:
    """One fold serves clusters whose brokers' files differ; for a cluster that is not named nothing is known."""
    for named, expected in (("prod", (2, 1)), ("other", (None, None))):
        bench.parameters = dataclasses.replace(
            bench.parameters,
            assumed=Assumed(),
            assumed_by_cluster={named: Assumed(min_insync_replicas=2)},
        )
        bench.again()
        history = small_cluster(t={0: (0, 1), 1: (0, 1)})
        history.state("t", 0, leader=0, isr=[0])
        history.state("t", 1, leader=0, isr=[0, 1])
        bench.follow(history)
        counts = bench.cluster.counts
        assert (bench.cluster.min_isr_assumed, counts.under_min_isr) == expected


def test_an_election_that_kcm_requested_is_named(bench: Bench) -> None:
    """Its request is neither a change nor garbage, and the next worker knows it. Another cluster's is garbage."""
    history = small_cluster(t=dict.fromkeys(range(10), (0, 1, 2)))
    history.state("t", 3, leader=1, isr=(0, 1, 2), leader_epoch=1)
    bench.follow(history)
    bench.send(encode_request(election_request("t", 3)))
    assert bench.events == []
    assert (bench.tally.changes, bench.tally.unreadable) == (0, 0)
    bench.send(encode_request(election_request("t", 3, cluster="other")))
    assert bench.tally.unreadable == 1
    bench.again()
    processor_module._remembered.clear()
    history.state("t", 3, leader=0, isr=(0, 1, 2), leader_epoch=2)
    bench.follow(history)
    (elected,) = (r.event for r in bench.events if isinstance(r.event, LeadersElected))
    assert elected.by is ElectionOrigin.KCM


def test_a_request_alone_creates_no_cluster(bench: Bench) -> None:
    """Only a watcher creates a cluster: nothing is stored, and nothing is published."""
    bench.send(encode_request(election_request("t", 3)))
    assert [row.topic for row in bench.out] == [None]
    assert bench.tally.unattributed == 1
    assert bench.control is None


@pytest.mark.parametrize("harm", spoiled(b"{}"))
def test_a_hostile_record_is_counted_and_the_others_are_folded(bench: Bench, harm: str) -> None:
    """Whatever 4 kB a cluster's record holds, the changes before and after it are folded."""
    history = small_cluster()
    bench.follow(history)
    history.heartbeat()
    good = encode_changes(bench.news(history))
    hostile = spoiled(b'{"v":1}')[harm]
    bench.send(b"[" + hostile + b"]", hostile, good)
    assert bench.cluster.log.unreadable >= 1
    assert bench.cluster.log.heartbeat_at == history.now + 1


@pytest.mark.parametrize("name", NUMBERS)
def test_the_largest_numbers_of_a_record_fit_into_the_state(bench: Bench, name: str) -> None:
    """Repeatedly: a state that cannot be written would end the fold at each start."""
    history = small_cluster()
    history.state("t", 0, leader=1, isr=[0, 1])
    history.heartbeat()
    bench.follow(history)
    *_, state, heartbeat = history.changes
    records = []
    for round_ in range(1, 9):
        for at, of in enumerate((state, heartbeat), start=1):
            body = json.loads(encode_changes([of]))[0]
            place = {"generation": of.generation + round_, "seq": at, "watcher": f"w{round_}"}
            number = 0 if round_ % 2 else MAX_OF_EACH[name]
            fresh = {"mzxid": 1_000 + round_, "read_zxid": 2_000 + round_}
            records.append(body | place | fresh | {name: number})
    bench.send(json.dumps(records).encode())
    assert bench.cluster.log.unreadable == 0
    assert bench.tally.errors == 0


@pytest.mark.parametrize("times", [(2**62,), (-5, 2**62, 7_000, 8_000)], ids=["none", "the third"])
def test_counters_begin_at_the_first_plausible_time(bench: Bench, times: tuple[int, ...]) -> None:
    """A watcher's clock may be wrong. Without a plausible time counters begin in 1970."""
    history = small_cluster()
    many = len(history.changes) - len(times)
    dated = zip(history.changes, (*times, *(times[-1],) * many), strict=True)
    bench.send(encode_changes([replace(change, observed_at=at) for change, at in dated]))
    assert bench.cluster.counters_since == (7_000 if len(times) > 1 else 0)


def test_the_limits_of_the_journal_are_those_of_the_parameters(bench: Bench) -> None:
    """The next batch writes a journal that is due at once into the base."""
    for least_bytes, lengths in ((64 << 10, (1, 0)), (0, (0, 0))):
        bench.parameters = dataclasses.replace(
            bench.parameters,
            lineage=f"{LINEAGE}-{least_bytes}",
            journal=JournalLimits(least_bytes=least_bytes),
        )
        bench.put_back({"cluster": {}})
        bench.read = 0
        bench.again()
        bench.follow(small_cluster())
        row = bench.control
        assert row is not None
        assert row.place.lengths == lengths


@pytest.mark.parametrize("context", [None, object()])
def test_only_a_worker_of_spark_freezes_what_lives_long(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, context: object
) -> None:
    """Elsewhere other code shares the process."""
    frozen: list[object] = []
    monkeypatch.setattr(processor_module, "TaskContext", SimpleNamespace(get=lambda: context))
    monkeypatch.setattr(processor_module, "freeze_long_lived", lambda: frozen.append(context))
    bench.again()
    assert frozen == ([] if context is None else [context])


def test_a_worker_forgets_the_topics_of_the_clusters_folded_longest_ago(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps those of the current cluster in any case."""
    key = (bench.parameters.lineage, "prod")
    bench.follow(small_cluster())
    size = processor_module._remembered[key].topics.size
    assert size > 0
    for limit, clusters in ((2 * size, {"a", "b"}), (size, {"b"}), (0, {"b"})):
        processor_module._remembered.clear()
        monkeypatch.setattr(processor_module, "_MAX_REMEMBERED_BYTES", limit)
        processor_module._remember((key[0], "a"), remembered_of(size))
        processor_module._remember((key[0], "b"), remembered_of(size))
        assert {cluster for _, cluster in processor_module._remembered} == clusters
    for limit, kept in ((2 * size, {"b", "c"}), (size, {"c"})):
        processor_module._remembered.clear()
        for cluster in "abc":
            monkeypatch.setattr(
                processor_module, "_MAX_REMEMBERED_BYTES", limit if cluster == "c" else 3 * size
            )
            processor_module._remember((key[0], cluster), remembered_of(size))
        assert {cluster for _, cluster in processor_module._remembered} == kept


def remembered_of(size: int) -> Remembered:
    """Return what a worker knows, with this size of topics."""
    control = ControlPlane("a", assumed=Assumed(), counters_since=0)
    return Remembered(StoredCluster(control), topics=RememberedTopics({0: bytes(size)}))


def test_each_fold_increments_the_fold_number_of_the_state(bench: Bench) -> None:
    """The state counts folds from 1, and the worker remembers which of these states it knows."""
    history = small_cluster()
    bench.follow(history)
    key = (bench.parameters.lineage, "prod")
    for folds in (1, 2, 3):
        row = bench.control
        assert row is not None
        assert row == processor_module._remembered[key].row
        assert row.folds == processor_module._remembered[key].held.folds == folds
        history.heartbeat()
        bench.again()
        bench.follow(history)
