"""A second source in a dozen lines drives the fold to views: the proof that the cut is real."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller_model.facts import facts
from controller_model.facts.stamp import Stamp
from controller_model.fold.projection import SentViews, project
from controller_model.fold.replay import EventBatch
from controller_model.handlers.apply import apply_fact
from controller_model.insight.unseen import unseen
from controller_model.kafka.ids import NOWHERE, AsOf, Position, TopicPartition
from controller_model.records.events import BrokerEnd, ElectionCause, LeaderElectionKind
from controller_model.records.quorum import RegisteredController
from controller_model.records.views import (
    BrokerView,
    Capability,
    ClusterView,
    Failover,
    TopicView,
)
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.source import Source
from tests.support.metric_samples import of_broker, of_cluster
from tools.site import ROOT


class Told(msgspec.Struct, frozen=True):
    """A record of the toy source: facts that were made elsewhere."""

    seq: int
    facts: tuple[facts.Fact, ...]
    observed_at: int
    generation: int = 1
    watcher: str = "toy"

    @property
    def position(self) -> Position:
        """Generation and seq."""
        return Position(self.generation, self.seq)


class ToyState(msgspec.Struct, array_like=True, tag="toy"):
    """What the toy source holds: nothing."""


class ToySource(Source):
    """Facts from a list."""

    absent: tuple[Capability, ...] = ()
    state_type = ToyState

    def name_of(self, record: Told) -> tuple[str, str]:
        """Return its seq."""
        return "record", str(record.seq)

    def begins_reading(self, record: Told) -> bool:
        """Return whether it is the first."""
        return record.seq == 1

    def apply(self, state: ClusterState, record: Told, handle: Any) -> tuple[list[Any], bool]:
        """Hand on the facts."""
        return [event for fact in record.facts for event in handle(state, fact)], True


def stated(stamp: Stamp, partition: int, leader: int, isr: tuple[int, ...], **why: Any) -> Any:
    """Return a partition's state, with its stated cause."""
    named = (TopicPartition("t", partition),)
    return facts.PartitionIs(stamp, "t", partition, leader, isr, 1, 7, 0, named, 1, **why)


def told() -> list[Told]:
    """Return a cluster of two brokers that loses one, elects uncleanly, and deletes a topic."""
    at = [Stamp(seq * 1_000, Position(1, seq), 40 + seq) for seq in range(9)]
    brokers = [facts.BrokerIs(at[1], id_, 10 + id_, 1_000, host=f"b{id_}") for id_ in (1, 2)]
    topic = facts.TopicIs(at[1], "t", "id", {0: (1, 2), 1: (2, 1)}, {}, {}, since=1_000)
    states = [stated(at[1], p, leader, (1, 2), is_first=True) for p, leader in ((0, 1), (1, 2))]
    records = [
        (1, (*brokers, topic, *states, facts.ControllerIs(at[1], 3000, 900, epoch=7))),
        (2, (facts.CountingStarts(at[2], 5, is_vacant=False),)),
        (3, (facts.BrokerGone(at[3], 1, BrokerEnd.CRASHED),)),
        (4, (stated(at[4], 0, -1, (1,)), stated(at[4], 1, 2, (2,), by_controller=True))),
        (5, (stated(at[5], 0, 2, (2,), election=LeaderElectionKind.UNCLEAN),)),
        (
            6,
            (
                facts.ControllerGone(at[6], was_seen=True),
                facts.ControllerIs(at[6], 3001, 5_900, cause=ElectionCause.UNKNOWN, epoch=8),
            ),
        ),
        (7, (facts.TopicDeletionIs(at[7], "t", 7_000), facts.TopicGone(at[7], "t"))),
    ]
    # The last record's clock is far behind: the log's time goes on without it.
    return [Told(seq, stated, seq * 1_000 if seq < len(records) else 1) for seq, stated in records]


def test_facts_from_a_list_become_events_figures_and_views() -> None:
    """Elections, causes and epochs are as stated; nothing is inferred, and no source module is needed."""
    control = ControlPlane("toy", Assumed(min_insync_replicas=1), 0)
    state = ClusterState(control, MemoryTopicStore(), ToySource())
    views: dict[str, Any] = {}
    reported: list[str] = []
    sent = SentViews()
    for record in told():
        batch = EventBatch(state)
        batch.apply(record)
        reported += [type(event).__name__ for event in batch.finish()]
        assert batch.errors == 0
        as_of = AsOf("l", *record.position)
        changed = project(state, as_of=as_of, folded_at=0, sent=sent)
        views |= {each.key: each.view for each in changed}
        if record.seq == 5:
            topic = views["toy/topic/t/0"]
            assert isinstance(topic, TopicView)
            assert topic.leader == (2, 2)
            assert topic.isr == ((2,), (2,))
    assert reported == [
        "Baseline", "BrokerStopped", "IncidentOpened", "PartitionsOffline", "IsrShrunk", "IsrShrunk",
        "LeadersElected", "PartitionsOnline", "IsrShrunk", "IsrExpanded", "ControllerVacated",
        "ControllerElected", "Anomaly", "TopicDeletionRequested", "TopicDeleted",
    ]  # fmt: skip
    cluster, broker = views["toy/cluster"], views["toy/broker/1"]
    assert isinstance(cluster, ClusterView)
    assert isinstance(broker, BrokerView)
    assert cluster.controller is not None
    assert (cluster.controller.id, cluster.controller.epoch, cluster.controller.elections) == (
        3001,
        8,
        2,
    )
    assert cluster.counters is not None
    assert cluster.counters.unclean_elections == 1
    assert cluster.counts.partitions == 0
    assert not broker.record.live
    assert broker.record.ends == {"crashed": 1}
    assert broker.inferred_state is None


def folded(source: Source, *records: Told) -> dict[str, Any]:
    """Return the views of these records, or of what is told, by key, as this source shows them."""
    state = ClusterState(
        ControlPlane("toy", Assumed(min_insync_replicas=1), 0), MemoryTopicStore(), source
    )
    batch = EventBatch(state, fatal=(Exception,))
    for record in records or told()[:5]:
        batch.apply(record)
    batch.finish()
    changed = project(state, as_of=AsOf("l", 1, 5), folded_at=0, sent=SentViews())
    return {each.key: each.view for each in changed}


def test_what_a_source_does_not_infer_is_not_zero() -> None:
    """Pending writes and the controller's health have no sample, although it does not say that it shows none."""
    cluster = folded(ToySource())["toy/cluster"]
    assert cluster.can_see(Capability.PENDING_WRITES)
    for name in ("kafka_controller_pending_writes", "kafka_controller_health"):
        assert of_cluster(name, cluster) == []


@pytest.mark.parametrize(
    ("absent", "name"),
    [
        (Capability.CONTROLLER, "kafka_controller_id"),
        (Capability.BROKERS, "kafka_cluster_brokers"),
        (Capability.BROKERS, "kafka_cluster_brokers_known"),
        (Capability.BROKERS, "kafka_broker_live"),
        (Capability.TOPICS, "kafka_cluster_partitions"),
        (Capability.TOPICS, "kafka_broker_leaders"),
        (Capability.TOPIC_CONFIGS, "kafka_cluster_under_min_isr_partitions"),
        (Capability.TOPIC_CONFIGS, "kafka_broker_under_min_isr_if_lost_partitions"),
        (Capability.FOREIGN_WRITES, "kafka_cluster_foreign_writes"),
        (Capability.REQUESTS, "kafka_cluster_pending_notifications"),
    ],
)
def test_what_a_source_never_shows_has_no_sample(absent: Capability, name: str) -> None:
    """Neither zero nor what the fold holds of it all the same; nothing is missing, so the figures are complete."""

    def samples(source: Source) -> list[Any]:
        views = folded(source)
        if name.startswith("kafka_broker_"):
            return of_broker(name, views["toy/broker/2"])
        return of_cluster(name, views["toy/cluster"])

    blind = ToySource()
    blind.absent = (absent,)
    assert samples(ToySource())
    assert samples(blind) == []
    cluster = folded(blind)["toy/cluster"]
    assert not cluster.log.is_missing_some
    what = absent.replace("_", " ")
    assert unseen(cluster, frozenset({absent})) == (
        f"not known, because this cluster's source shows no {what}"
    )


def test_numbers_that_a_source_does_not_know_are_not_shown() -> None:
    """A partition of which only leader and ISR are known, and the end of a broker without a reason."""
    at = Stamp(1_000, Position(1, 1))
    bare = facts.PartitionIs(at, "t", 0, 1, (1,), -1, -1, -1, (TopicPartition("t", 0),))
    topic = facts.TopicIs(at, "t", None, {0: (1, 2)}, {}, {}, since=1_000)
    broker = facts.BrokerIs(at, 1, epoch=None, since=None)
    counting = facts.CountingStarts(at, None, is_vacant=False)
    views = folded(ToySource(), Told(1, (broker, topic, bare, counting), 1_000))
    shown = views["toy/topic/t/0"]
    assert (shown.leader, shown.isr) == ((1,), ((1,),))
    assert shown.leader_epoch == shown.controller_epoch == (None,)
    assert shown.partition_epoch == shown.leader_recovery_state == (None,)
    assert views["toy/cluster"].counts.recovering == 0
    assert facts.BrokerGone(at, 1).end is BrokerEnd.UNKNOWN


ANY = Stamp(0, NOWHERE)
EVERY = (
    *(fact for record in told() for fact in record.facts),
    facts.LogDirIsOffline(ANY, 3, is_news=True),
    facts.BrokerGone(ANY, 4, BrokerEnd.UNKNOWN, is_back=True),
    facts.PartitionGone(ANY, "t", 1),
    facts.PartitionGone(ANY, "u", 0),
    facts.TopicGone(ANY, "u"),
    facts.TopicConfigIs(ANY, "u", 2, unclean=True),
    facts.TopicDeletionIs(ANY, "u", 0),
    facts.TopicDeletionGone(ANY, "u"),
    facts.BrokerConfigIs(ANY, "9", 2, unclean=None),
    facts.ControllerConfirmed(ANY),
    facts.ControllerEpochIs(ANY, 9),
    facts.ElectionsAre(ANY, 5, 2),
    facts.ElectionConfirmed(ANY, 9, 1),
    facts.ElectionCauseIs(ANY, ElectionCause.UNKNOWN),
    facts.FailoverIs(ANY, Failover.DONE, took_ms=5),
    facts.KraftMigrationIs(ANY, under_way=True),
    facts.MigrationIs(ANY, None),
    facts.ClusterIdIs(ANY, "id"),
    facts.BrokerIdsAre(ANY, 2),
    facts.RequestIs(ANY, facts.RequestKind.REASSIGNMENT, (TopicPartition("t", 0),)),
    facts.RequestGone(ANY, facts.RequestKind.REASSIGNMENT),
    facts.BrokerIs(ANY, 5, 1, 0, fenced=True),
    facts.BrokerUnfenced(ANY, 5),
    facts.BrokerShutsDown(ANY, 6),
    facts.BrokerGone(ANY, 5, BrokerEnd.FENCED, is_fenced=True),
    facts.RegistrationGone(ANY, 7),
    facts.AssignmentsAre(ANY, "t", {0: (1, 3), 5: (2,)}, {0: (3,)}, {}, since=0),
    facts.FeatureIs(ANY, "metadata.version", 25),
    facts.FeatureIs(ANY, "metadata.version", None),
    facts.VotersAre(ANY, (3000,)),
    facts.RegisteredControllerIs(ANY, 3000, RegisteredController()),
    facts.RegisteredControllerIs(ANY, 3000, None),
    facts.MigrationStateIs(ANY, 1),
    facts.CandidaciesAre(ANY, 2),
    facts.QuorumIs(ANY, 3000, 7, 40),
)


@given(st.lists(st.lists(st.sampled_from(EVERY), max_size=6), max_size=8))
def test_facts_in_any_order_are_data(told_at: list[list[facts.Fact]]) -> None:
    """What a source says of a broker, a topic or a partition that nobody has seen is held, and never an error."""
    control = ControlPlane("toy", Assumed(min_insync_replicas=1), 0)
    state = ClusterState(control, MemoryTopicStore(), ToySource())
    for seq, said in enumerate(told_at, start=1):
        stamp = Stamp(seq * 1_000, Position(1, seq), seq)
        stamped = tuple(msgspec.structs.replace(fact, stamp=stamp) for fact in said)
        batch = EventBatch(state, fatal=(Exception,))
        batch.apply(Told(seq, stamped, stamp.at))
        batch.finish()
        project(state, as_of=AsOf("l", 1, seq), folded_at=0, sent=SentViews())


def test_a_source_says_itself_what_its_records_are() -> None:
    """What no source can share has no default, nor what it shows and holds; the rest infers nothing."""
    source, state = (
        Source(),
        ClusterState(ControlPlane("toy", Assumed(), 0), MemoryTopicStore(), ToySource()),
    )
    for ask in (
        lambda: source.name_of(None),
        lambda: source.begins_reading(None),
        lambda: source.apply(state, None, apply_fact),
        lambda: source.admit(state, None),
    ):
        with pytest.raises(NotImplementedError):
            ask()
    with pytest.raises(AttributeError, match="state_type"):
        ClusterState(ControlPlane("toy", Assumed(), 0), MemoryTopicStore(), source)
    assert source.split(7) == (7,)
    assert source.elections(state.control) == (0, 0)


def test_the_source_on_the_page_runs() -> None:
    """It prints the events that its comment names."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    program = page.partition("```python\nimport ")[2].partition("```")[0]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", f"import {program}"],
        capture_output=True, text=True, check=True, cwd=ROOT,
    )  # fmt: skip
    events = done.stdout.splitlines()[0]
    assert "BrokerStopped" in events
    assert f"# {events}\n" in program


def test_the_fold_imports_no_source() -> None:
    """A source that is never used is never loaded."""
    program = (
        "import sys, controller_model.fold.replay, controller_model.fold.projection\n"
        "print([name for name in sys.modules if name.startswith('controller_model.sources')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"
