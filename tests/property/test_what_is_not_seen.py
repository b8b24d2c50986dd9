"""What may not be read is not known, everywhere: no answer contradicts the truth, it may only say less.

A cluster lives; one watcher reads all of it, another is denied some paths, from the start or later, and is granted
them again. Whatever a reader of the second one's figures is shown must be what the first one's shows, or "not known".
"""

from __future__ import annotations

import io
import random
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from controller_model.insight.loss import lose, safety
from controller_model.insight.rebalance import recommend
from controller_model.insight.thresholds import THRESHOLDS
from controller_model.insight.unseen import unseen
from controller_model.metrics.catalogue import BROKER_METRICS, CLUSTER_METRICS
from controller_model.metrics.metric import Metric, MetricType
from controller_model.records import visibility
from controller_model.records.changes import ChangeKind, SessionState
from controller_model.records.completeness import ReaderProgress
from controller_model.records.events import BrokerStarted, BrokerStopped, LeadersElected
from controller_model.sources.zookeeper.denied_paths import is_below
from exporter.api import cluster_answers
from exporter.api.insight_answers import safe_to_stop
from exporter.api.problems import problems_of
from exporter.core.records import ClusterSnapshot
from exporter.partitions.conditions import judge
from exporter.scrape.collector import Collector
from kcm.queries.status_text import fleet, screen
from rehearsal.rehearse import CannotRehearseError, rehearse
from rehearsal.steps import read_step
from tests.property.brute_force import Seen, seen
from tests.support.histories import Fold, History, state_path

ROOTS = (
    "/",
    "/brokers",
    "/brokers/ids",
    "/brokers/ids/1",
    "/brokers/topics",
    "/brokers/topics/t",
    "/brokers/topics/t/partitions",
    state_path("t", 0),
    "/controller",
    "/controller_epoch",
    "/config",
    "/config/topics",
    "/config/topics/t",
    "/admin",
    "/admin/delete_topics",
    "/admin/preferred_replica_election",
    "/isr_change_notification",
    "/cluster",
)
REPLICAS = {0: (0, 1, 2), 1: (1, 2, 0)}


class Play:
    """A cluster, a fold of all of it, and a fold of what a watcher may read."""

    def __init__(self, denied: tuple[str, ...]) -> None:
        self.cluster = History()
        self.read = History()
        """The log of the watcher that is denied some paths; its znodes are the cluster's."""
        self.read.znodes = self.cluster.znodes
        self.denied: tuple[str, ...] = denied
        self._taken = 0
        for broker in range(3):
            self.cluster.broker(broker, seen=False)
        self.cluster.elect(0, seen=False)
        self.cluster.set("/cluster/id", {"version": "1", "id": "abc"}, seen=False)
        for topic in ("t", "u"):
            self.cluster.topic(topic, REPLICAS, seen=False)
            for partition, replicas in REPLICAS.items():
                self.cluster.state(topic, partition, leader=replicas[0], isr=replicas, seen=False)
        content = {"version": 1, "config": {"min.insync.replicas": "2"}}
        self.cluster.set("/config/topics/t", content, seen=False)
        self.all, self.some = Fold(min_isr=1), Fold(min_isr=1)
        self.cluster.resync()
        self._resync()
        self.follow()

    def _sync_clocks(self) -> None:
        self.read.now, self.read.zxid = self.cluster.now, self.cluster.zxid

    def _resync(self) -> None:
        self._sync_clocks()
        self.read.start_resync()
        for path in self.cluster.znodes:
            if not is_below(path, self.denied):
                self.read.report(path)
        self.read.finish_resync(denied=self.denied, denied_more=0)
        self._taken = len(self.cluster.changes)

    def follow(self) -> None:
        """Let both folds follow; of a denied znode the second watcher learns nothing."""
        for change in self.cluster.changes[self._taken :]:
            self._taken += 1
            if change.kind not in {ChangeKind.SET, ChangeKind.DELETED}:
                continue
            if not is_below(change.path, self.denied):
                fields = msgspec.structs.asdict(change)
                fields |= {"seq": self.read.seq + 1}
                self.read.seq += 1
                self.read.changes.append(type(change)(**fields))
                if change.kind is ChangeKind.SET:
                    self.read.published[change.path] = change.mzxid or 0
                else:
                    self.read.published.pop(change.path, None)
        self.all.follow(self.cluster)
        self.some.follow(self.read)

    def beat(self, after_ms: int = 10_000) -> None:
        """Let time pass; both watchers say that they live, and one what it is denied."""
        self.follow()
        self.cluster.heartbeat(after_ms=after_ms)
        self._sync_clocks()
        fields: dict[str, Any] = {"session": SessionState.CONNECTED}
        self.read.record(ChangeKind.HEARTBEAT, denied=self.denied, denied_more=0, **fields)
        self.follow()

    def deny(self, path: str) -> None:
        """Deny one more path; what is below it stays as it was read last."""
        self.follow()
        above = [each for each in self.denied if not is_below(each, (path,))]
        if not is_below(path, self.denied):
            self.denied = tuple(sorted([*above, path]))
        for gone in [each for each in self.read.published if is_below(each, self.denied)]:
            del self.read.published[gone]
        self.beat(after_ms=0)

    def grant(self, *, by_resync: bool) -> None:
        """Allow everything again, and read it."""
        self.follow()
        was, self.denied = self.denied, ()
        if by_resync:
            self._resync()
        else:
            self._sync_clocks()
            held = [path for path in self.cluster.znodes if is_below(path, was)]
            for path in held:
                self.read.report(path)
            self.beat(after_ms=0)
            self._resync()  # what was deleted meanwhile
        self.beat(after_ms=0)

    def live(self, draws: random.Random) -> None:
        """Let something happen in the cluster, as Kafka does it."""
        cluster, choice = self.cluster, draws.random()
        broker = draws.randrange(3)
        topic, partition = draws.choice("tu"), draws.randrange(2)
        path = state_path(topic, partition)
        registered = [b for b in range(3) if f"/brokers/ids/{b}" in cluster.znodes]
        if choice < 0.15 and broker in registered:
            cluster.broker_gone(broker)
        elif choice < 0.3 and broker not in registered:
            cluster.broker(broker)
        elif choice < 0.4 and cluster.controller_id is None and registered:
            cluster.elect(draws.choice(registered))
        elif choice < 0.7 and path in cluster.znodes:
            epoch = cluster.znodes[path].version + 1
            isr = draws.sample(REPLICAS[partition], draws.randint(1, 3))
            live = [b for b in isr if b in registered]
            leader = live[0] if live else -1
            cluster.state(topic, partition, leader=leader, isr=isr, leader_epoch=epoch)
        elif choice < 0.8:
            flips = (
                "/admin/delete_topics/u",
                "/admin/preferred_replica_election",
                "/isr_change_notification/isr_change_0000000001",
            )
            flip = draws.choice(flips)
            if flip in cluster.znodes:
                cluster.delete(flip)
            else:
                named = {"version": 1, "partitions": [{"topic": "t", "partition": 0}]}
                cluster.set(flip, named)
        elif choice < 0.9:
            settings_ = {"min.insync.replicas": str(draws.randint(1, 3))}
            cluster.set(f"/config/topics/{topic}", {"version": 1, "config": settings_})
        else:
            self.beat(draws.choice([10_000, 60_000]))


def judged(fold: Fold) -> tuple[Seen, ClusterSnapshot]:
    """Return a cluster as readers hold it."""
    held = seen(fold)
    snapshot = ClusterSnapshot(
        name="prod", partition=0, view=held.cluster, brokers=dict(sorted(held.brokers.items()))
    )
    return held, snapshot


def samples(metric: Metric[Any], view: Any) -> dict[tuple[str, ...], float]:
    """Return a metric's samples by their labels."""
    return dict(metric.read(view))


COUNTS_LESS = {
    "kafka_controller_elections_total",
    "kafka_cluster_brokers_known",
    "kafka_cluster_incident_open",
}
"""Besides counters: what may be less where something was not seen."""
OF_WHAT_WAS_SEEN = ("kcm_", "kafka_cluster_incident_", "kafka_cluster_recommend")
"""Prefixes of metrics about the log, or of what sums up what was seen."""
JUDGED_BY_TIME = {"kafka_controller_health", "kafka_controller_failover"}
"""States that depend on since when something is known: never worse than the truth."""


def check_metrics(metrics: Any, some: Any, truth: Any) -> None:
    """No sample differs from the truth; a counter may be less."""
    for metric in metrics:
        if metric.name.startswith(OF_WHAT_WAS_SEEN) or metric.name in JUDGED_BY_TIME:
            continue
        if "_seconds" in metric.name:
            continue  # when something was seen
        right = samples(metric, truth)
        for labels, value in samples(metric, some).items():
            if labels == ("unknown",):
                assert value <= sum(right.values()), metric.name
            elif metric.type is MetricType.COUNTER or metric.name in COUNTS_LESS:
                assert value <= right.get(labels, 0), (metric.name, labels)
            else:
                assert right.get(labels) == value, (metric.name, labels)


def check(play: Play) -> None:
    """Compare every surface of what is seen with that of the truth."""
    now = play.cluster.now
    (some, shown), (truth, true) = judged(play.some), judged(play.all)
    check_metrics(CLUSTER_METRICS, some.cluster, truth.cluster)
    for broker, view in some.brokers.items():
        if broker not in truth.brokers:
            # Only an assignment that is old names it.
            assert view.leaders is None
            continue
        right = truth.brokers[broker]
        check_metrics(BROKER_METRICS, view, right)
        safety_of = safe_to_stop(view)
        assert safety_of.safe in {None, right.safe_to_stop}
    check_problems(shown, true, now)
    check_status(shown, true, now)
    check_insight(some, truth)
    known = {p.id: judge(p, truth.facts) for p in truth.partitions}
    for partition in some.partitions:
        met = [each for each, is_met in judge(partition, some.facts).items() if is_met]
        assert all(known[partition.id][each] for each in met), partition


def check_problems(shown: ClusterSnapshot, true: ClusterSnapshot, now: int) -> None:
    """The page names no problem that is none, except that it may not read."""
    collector = Collector(lambda _: ReaderProgress(read_ms=0, watcher_ms=0))

    def alerts(snapshot: ClusterSnapshot) -> set[str | None]:
        found = problems_of(snapshot, collector.moment(snapshot, now), now, THRESHOLDS)
        # Without a known start, an alert may be pending or firing: that is less than the truth.
        return {
            each.alert for each in found if each.alert != "KafkaBrokerGoneAtMinIsr" or each.state
        }

    extra = alerts(shown) - alerts(true)
    assert extra <= {"KcmPathsDenied", "KcmIncompleteOrDivergent"}, extra


def status_of(snapshot: ClusterSnapshot, now: int) -> str:
    """Return what `kcm status` prints of the cluster."""
    collector = Collector(lambda _: ReaderProgress(read_ms=0, watcher_ms=0))
    moment = collector.moment(snapshot, now)
    problems = problems_of(snapshot, moment, now, THRESHOLDS)
    answer = msgspec.to_builtins(cluster_answers.detail(snapshot, moment, problems, []))
    answer["brokers"] = [
        msgspec.to_builtins(cluster_answers.broker_answer(b) | {"safe_to_stop": safe_to_stop(b)})
        for b in snapshot.brokers.values()
    ]
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(screen(answer, [], now))
    short = msgspec.to_builtins(
        cluster_answers.summary(snapshot, collector.completeness(snapshot, now))
    )
    console.print(fleet([short]))
    return console.export_text()


def check_status(shown: ClusterSnapshot, true: ClusterSnapshot, now: int) -> None:
    """`kcm status` prints nobody only where nobody is it, and says that the rest is not known."""
    text, right = status_of(shown, now), status_of(true, now)
    if "NOBODY" in text or "nobody" in text:
        assert "NOBODY" in right
    if " NO " in text:
        assert " NO " in right
    if shown.view.log.is_missing_some:
        assert "not known" in text or not visibility.REHEARSALS.intersection(shown.view.log.hidden)


def check_insight(some: Seen, truth: Seen) -> None:
    """What-ifs, rehearsals and recommendations are the true ones, or refused."""
    view = some.cluster
    if not unseen(view, visibility.LEADERS):
        assert recommend(some.partitions, some.facts) == recommend(truth.partitions, truth.facts)
    if not unseen(view, visibility.LOSSES):
        for broker in truth.facts.live:
            mine = lose(some.partitions, some.facts, {broker})
            right = lose(truth.partitions, truth.facts, {broker})
            assert (mine, safety(mine, some.facts)) == (right, safety(right, truth.facts))
    if unseen(view, visibility.REHEARSALS):
        return
    for broker in truth.facts.live:
        steps = [read_step(f"kill-broker:{broker}")]
        try:
            right_steps = rehearse(truth.facts, truth.partitions, steps).steps
        except CannotRehearseError:
            return
        assert rehearse(some.facts, some.partitions, steps).steps == right_steps


@pytest.mark.parametrize("path", ROOTS)
def test_what_is_denied_from_the_start_is_not_known(path: str) -> None:
    """A healthy cluster has no problem but the path, and each surface says that it is not known."""
    play = Play((path,))
    for _ in range(6):
        play.beat()
        check(play)
    assert play.some.state.control.log.view.is_missing_some or path == "/config/brokers"
    assert {type(event).__name__ for event in play.some.events} <= {"Baseline", "Verified"}
    assert play.some.accounts == []


@given(
    st.lists(st.sampled_from(ROOTS), max_size=2),
    st.lists(
        st.sampled_from(["live", "live", "live", "beat", "deny", "grant", "read"]), max_size=14
    ),
    st.randoms(use_true_random=False),
)
@settings(max_examples=25, deadline=None)
def test_no_answer_contradicts_the_truth(
    denied: list[str], steps: list[str], draws: random.Random
) -> None:
    """At every moment, whatever is denied, from the start or later, and read again or not."""
    play = Play(tuple(sorted(set(denied) if not is_nested(denied) else set(denied[:1]))))
    check(play)
    for step in steps:
        match step:
            case "live":
                play.live(draws)
                play.follow()
            case "beat":
                play.beat()
            case "deny":
                play.deny(draws.choice(ROOTS))
            case _:
                play.grant(by_resync=step == "read")
        check(play)
    check_events(play)


def is_nested(paths: list[str]) -> bool:
    """Whether one of these paths is below another."""
    return any(a != b and is_below(a, (b,)) for a in paths for b in paths)


def check_events(play: Play) -> None:
    """What is reported has happened."""
    brokers = {
        (type(e), e.broker) for e in play.all.events if isinstance(e, BrokerStarted | BrokerStopped)
    }
    leaders: dict[Any, set[int]] = {}
    for event in play.all.events:
        if isinstance(event, LeadersElected):
            for partition in event.partitions:
                leaders.setdefault(partition, set()).add(event.to_broker)
    for event in play.some.events:
        if isinstance(event, BrokerStarted | BrokerStopped):
            assert (type(event), event.broker) in brokers, event
        elif isinstance(event, LeadersElected):
            for partition in event.partitions:
                assert event.to_broker in leaders.get(partition, set()), event
