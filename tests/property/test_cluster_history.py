"""What holds for every history of a cluster, however it is written, lost, read and cut.

The rule: every choice is Hypothesis's own, so that a failing history shrinks to the few steps that
matter. Histories are of three kinds: `exact` (Kafka's writes, all reported), `lossy` (the watcher
misses some and finds them later, in another order) and `edited` (znodes are written by hand as
well, with any content).
"""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from controller_model.fold import projection
from controller_model.fold.projection import SentViews, project
from controller_model.history.log_replay import END, LogReplay, Point
from controller_model.history.snapshot import Snapshot, encode_snapshot, snapshot
from controller_model.history.snapshot_diff import diff
from controller_model.kafka.coordinators import COORDINATOR_OF, coordinated_by
from controller_model.kafka.ids import AsOf
from controller_model.records.changes import ChangeKind, ZnodeChange, encode_change
from controller_model.records.election_requests import MAX_PARTITIONS, ElectionRequest
from controller_model.records.events import (
    ControllerZombie,
    CoordinatorsMoved,
    IncidentClosed,
    IncidentOpened,
    LeaderElectionKind,
    LeadersElected,
    RecommendationGraded,
    RecommendationMade,
)
from controller_model.records.incidents import STANDING_MS
from controller_model.records.loose_log import decode_line
from controller_model.records.recommendations import Outcome
from controller_model.records.views import AnyView, Deleted
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.sources.zookeeper.znode_kinds import is_published
from controller_model.state.cluster import ClusterState, MemoryTopicStore
from controller_model.state.control_plane import Assumed, ElectionState
from controller_simulator.cluster.operations import StartBroker
from controller_simulator.cluster.settings import SimulatorSettings
from controller_simulator.zookeeper.transactions import Changed, Committed, Created, Removed
from tests.property.brute_force import MIN_ISR, check, check_snapshot, plain
from tests.property.edits import DAMAGE, EDITS, TOPICS
from tests.support.histories import (
    Fold,
    History,
    count_from_scratch,
    election_request,
    encode_changes,
    repacked,
    replaced,
)
from tests.support.random_operations import RandomChoices, RandomOperations, partitions_of
from tests.support.scripted_operations import CreateTopic
from tests.support.scripted_simulator import ScriptedSimulator

RANDOMS = st.randoms(use_true_random=False)
SETTINGS = st.builds(
    SimulatorSettings,
    alter_partition=st.booleans(),
    auto_leader_rebalance=st.booleans(),
    unclean_leader_election=st.booleans(),
    delete_topic=st.sampled_from([True, True, True, False]),
)
KINDS = st.sampled_from(["exact", "lossy", "edited"])
BEAT_MS = 10_000
NOWHERE = AsOf("l", 0, 0)


class ClusterHistory(RuleBasedStateMachine):
    """A simulated cluster, the log that a watcher writes of it, and folds that read the log.

    `steady` follows at each step; `restarted` reads in batches of its own, from packed state, with
    repetitions.
    """

    @initialize(settings=SETTINGS, kind=KINDS, draws=RANDOMS)
    def begin(self, settings: SimulatorSettings, kind: str, draws: random.Random) -> None:
        """Begin with four brokers, two topics, and a baseline before them."""
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(projection, "PARTITIONS_PER_TOPIC_VIEW", 2)
        self.kind = kind
        self.simulator = ScriptedSimulator(settings=settings, choices=RandomChoices(draws.choice))
        self.history = History()
        self.reported = 0
        self.steady, self.restarted = Fold(), Fold(packed=True)
        self.requests: list[tuple[int, ElectionRequest]] = []
        self.held: dict[str, AnyView] = {}
        self.read = 0
        """How many changes the restarted fold has read."""
        self.counters = (0, 0, 0, 0, 0)
        self.whole = True
        """Whether no record is lost since the last resync."""
        self.at_rest = False
        self.history.resync()
        for broker in range(4):
            self.simulator.perform(StartBroker(broker))
        for topic in TOPICS[:2]:
            assignment = tuple(tuple(draws.sample(range(4), 3)) for _ in range(3))
            self.simulator.perform(CreateTopic(topic, assignment))
        self.report(draws)

    def teardown(self) -> None:
        """Compare the folds, and the ways to read the whole log again."""
        if hasattr(self, "history"):
            try:
                if self.at_rest:  # and not stopped within a step
                    self.at_the_end()
            finally:
                self.patch.undo()

    # --- what happens ---------------------------------------------------------------------

    def seen(self, draws: random.Random) -> bool:
        """Return whether the watcher reports the next write at once."""
        return self.kind == "exact" or draws.random() < 0.8

    def report(self, draws: random.Random) -> None:
        """Write what the cluster has committed to the znodes, and what the watcher sees to the log."""
        commits = self.simulator.commits[self.reported :]
        self.reported = len(self.simulator.commits)
        for commit in commits:
            with self.history.transaction():
                made = [write.path for write in commit.writes if self.make(write)]
            for path in dict.fromkeys(made):  # a watcher reads the result of a transaction once
                if self.seen(draws):
                    self.history.report(path)
        epoch = self.history.znodes.get("/controller_epoch")
        if epoch is not None and epoch.data.isdigit():
            self.history.epoch = int(epoch.data)

    def make(self, write: Committed) -> bool:
        """Perform a write; return whether ZooKeeper takes it, as its znodes were edited by hand."""
        znodes, path = self.history.znodes, write.path
        topic, state, _ = path.partition("/partitions/")
        if not is_published(path) or (state and topic not in znodes):
            return False
        if isinstance(write, Removed):
            if path in znodes:
                self.history.delete(path, seen=False)
                return True
            return False
        if isinstance(write, Changed) and path not in znodes:
            return False
        owner = write.owner if isinstance(write, Created) else 0
        self.history.set(path, write.data, ephemeral_owner=owner, seen=False)
        return True

    @rule(draws=RANDOMS)
    def operate(self, draws: random.Random) -> None:
        """Perform some operations or failures, with heartbeats in between or without."""
        self.at_rest = False
        self.simulator.choices = RandomChoices(draws.choice)
        for _ in range(draws.choice((1, 2, 4))):
            operation = RandomOperations(draws.choice, topics=TOPICS).draw(self.simulator)
            hypothesis.note(str(operation))
            self.simulator.perform(operation)
            self.report(draws)
            for _ in range(draws.choice((0, 0, 1))):
                self.history.heartbeat()

    @precondition(lambda self: self.kind == "edited")
    @rule(draws=RANDOMS)
    def edit(self, draws: random.Random) -> None:
        """Write a znode by hand."""
        self.at_rest = False
        before = len(self.history.changes)
        draws.choice(EDITS)(self.history, draws, self.seen(draws))
        hypothesis.note(str([change.path for change in self.history.changes[before:]]))

    @rule(after_ms=st.integers(10, BEAT_MS), count=st.sampled_from([1, 1, 12]))
    def beat(self, after_ms: int, count: int) -> None:
        """Let time pass."""
        for _ in range(count):
            self.history.heartbeat(after_ms=after_ms)

    @precondition(lambda self: self.kind != "exact")
    @rule(draws=RANDOMS)
    def read_late(self, draws: random.Random) -> None:
        """Let the watcher read any znode: a value that it missed, or one that it has reported."""
        paths = sorted({*self.history.znodes, *self.history.published})
        self.history.report(draws.choice(paths))

    @precondition(lambda self: self.kind != "exact")
    @rule(draws=RANDOMS)
    def repeat(self, draws: random.Random) -> None:
        """Deliver a record again."""
        self.history.changes.append(draws.choice(self.history.changes[-5:]))

    @precondition(lambda self: self.kind != "exact")
    @rule()
    def lose_a_record(self) -> None:
        """Leave a hole in the log."""
        self.history.seq += 1
        self.whole = False

    @rule(draws=RANDOMS)
    def request(self, draws: random.Random) -> None:
        """Let `kcm elect` announce elections: early, late, wide, or of unknown partitions."""
        wide = range(draws.choice((1, 3, MAX_PARTITIONS)))
        holds_ms = draws.choice((0, 60_000, 2**62))
        asked = election_request(draws.choice((*TOPICS, "none")), *wide, holds_ms=holds_ms)
        self.requests.append((len(self.history.changes), asked))

    @rule(draws=RANDOMS)
    def feed_restarted(self, draws: random.Random) -> None:
        """Feed a batch to the other fold, perhaps twice, and perhaps restart it from its packed state."""
        self.at_rest = False
        end = draws.randint(self.read, len(self.history.changes))
        batch = self.history.changes[self.read : end]
        self.read = end
        self.restarted.feed(batch)
        if draws.random() < 0.3:
            assert self.restarted.feed(batch) == []  # redelivery changes nothing
        if draws.random() < 0.3:
            self.restarted.restart()

    @rule()
    def reconcile(self) -> None:
        """Let the watcher find all that it missed, and end a reconciliation: a whole log verifies."""
        znodes, published = self.history.znodes, self.history.published
        for path in sorted({*znodes, *published}):
            if path not in znodes or published.get(path) != znodes[path].mzxid:
                self.history.report(path)
        self.history.reconciled()
        self.steady.follow(self.history)
        if self.whole:
            log = self.steady.state.control.log
            assert log.view.verified_at == self.history.changes[-1].observed_at
            self.check_against_the_tree()

    @rule(takes_over=st.booleans())
    def resync(self, takes_over: bool) -> None:
        """Let the watcher, or another one, read the whole tree: the fold then holds it."""
        if takes_over:
            self.history.new_generation("w2")
        self.history.now += 1_000
        self.history.resync(reason="reconnected")
        self.whole = True
        self.steady.follow(self.history)
        log = self.steady.state.control.log
        assert log.view.verified_at == self.history.changes[-1].observed_at
        assert log.view.incomplete_since is None
        self.check_against_the_tree()

    # --- what holds once the watcher has read everything ------------------------------------

    def check_against_the_tree(self) -> None:
        """The fold holds what a new one reads from a resync alone, and what the znodes say."""
        history, fold = self.history, self.steady
        damaged = (path for path, held in history.znodes.items() if held.data in DAMAGE)
        if any(not path.startswith("/admin/") for path in damaged):
            return  # an unreadable value has no last good one in a new fold
        later = History(znodes=history.znodes, zxid=history.zxid, now=history.now, generation=9)
        later.resync()
        new = Fold()
        new.feed(later.changes)
        facts, expected = fold.facts(), new.facts()
        if "/controller_epoch" not in history.znodes:
            facts["controller"] = (facts["controller"][0], None)  # the epoch outlives its znode
        assert facts == expected
        check_snapshot(history, plain(snapshot(fold.state)))
        if self.kind != "edited":
            controller = plain(snapshot(fold.state))["controller"]
            assert controller["elections"] == history.epoch
            assert controller["changes"] == max(0, history.epoch - 1)
            assert controller["id_changes"] <= controller["changes"]
            assert controller["missed_elections"] <= controller["changes"]

    # --- what always holds ------------------------------------------------------------------

    @invariant()
    def the_fold_follows(self) -> None:
        """After each step: totals and figures by brute force, views as from scratch, counters that only grow."""
        if not hasattr(self, "history"):
            return
        self.at_rest = True
        fold = self.steady
        fold.follow(self.history)
        control = fold.state.control
        assert control.totals == count_from_scratch(fold.state)
        self.check_counters()
        self.check_views()

    def check_counters(self) -> None:
        """Elections, missed elections and the vacancy's sums never fall."""
        controller = self.steady.state.control.controller
        now = (
            controller.view.elections,
            controller.view.missed_elections,
            controller.view.id_changes,
            controller.view.vacancy_total_min_ms,
            controller.view.vacancy_total_max_ms,
        )
        assert all(new >= old for new, old in zip(now, self.counters, strict=True))
        assert controller.view.vacancy_total_min_ms <= controller.view.vacancy_total_max_ms
        self.counters = now

    def check_views(self) -> None:
        """The published views, taken together, are those of the whole state, and have its digests."""
        for key, view in self.steady.views().items():
            if "/topic/" not in key and "/broker/" not in key:
                continue
            if isinstance(view, Deleted):
                self.held.pop(key, None)
            else:
                self.held[key] = msgspec.structs.replace(view, as_of=NOWHERE)
        expected, digests = views_from_scratch(self.steady)
        assert self.held == expected
        published = self.steady.state.control.published
        assert (published.topics, published.brokers) == digests

    @invariant()
    def figures_equal_brute_force(self) -> None:
        """The other fold's figures equal a count over its own partitions, wherever it is in the log."""
        if hasattr(self, "history") and self.read:
            check(self.restarted)

    @invariant()
    def the_controller_keeps_its_rules(self) -> None:
        """No leader is dead or out of the ISR while a controller works; an unclean one is alone."""
        if not hasattr(self, "history"):
            return
        tree = self.simulator.tree
        deleting = tree.children("/admin/delete_topics")
        for topic, partition in partitions_of(self.simulator):
            znode = tree.find(f"/brokers/topics/{topic}/partitions/{partition}/state")
            if znode is None or topic in deleting:
                continue
            state = json.loads(znode.data)
            if state.get("leader_recovery_state") == 1:
                assert len(state["isr"]) == 1
            if state["leader"] >= 0 and self.simulator.controller is not None:
                assert state["leader"] in self.simulator.live
                assert state["leader"] in state["isr"]

    # --- what holds for the whole log -------------------------------------------------------

    def at_the_end(self) -> None:
        """Compare the folds, the accounts, the log read in other ways, and the effect of old records."""
        self.check_coordinators()
        self.check_batches()
        self.check_requests()
        self.check_log_replay()
        if self.kind == "exact":
            self.check_accounts()
        self.check_stale_records()

    def check_coordinators(self) -> None:
        """Coordinators are the held leaders of the internal topics' partitions."""
        state = self.steady.state
        for topic in COORDINATOR_OF:
            held = state.topics.get(topic)
            leaders = [] if held is None else [r.leader for r in held.partitions.values()]
            counts = coordinated_by(leaders)
            for broker in range(4):
                reported = state.control.coordinators.get(topic, {}).get(broker, 0)
                assert reported == counts.get(broker, 0)
        moved = [event for event in self.steady.events if isinstance(event, CoordinatorsMoved)]
        assert all(event.from_broker != event.to_broker for event in moved)
        assert all(tp.topic in COORDINATOR_OF for event in moved for tp in event.partitions)

    def check_batches(self) -> None:
        """In any batches, with any restarts and repetitions: the same state, events and accounts."""
        self.restarted.feed(self.history.changes[self.read :])
        one, other = self.steady, self.restarted
        assert other.events == one.events
        assert other.accounts == one.accounts
        assert other.facts() == one.facts()
        control, expected = other.state.control, one.state.control
        assert control.incidents == expected.incidents
        assert control.recommendations == expected.recommendations
        assert control.totals.members == expected.totals.members
        repeated = control.log.view.not_newer
        assert other.feed(self.history.changes[-20:]) == []
        assert other.facts() == one.facts()
        assert control.log.view.not_newer == repeated + len(self.history.changes[-20:])

    def check_requests(self) -> None:
        """Requests change nothing but the origin of elections."""
        records: list[ZnodeChange | ElectionRequest] = list(self.history.changes)
        for place, asked in reversed(self.requests):
            records.insert(place, asked)
        with_requests, without = Fold(), Fold()
        with_requests.feed(records)
        without.feed(self.history.changes)
        assert without_origins(with_requests) == without_origins(without)

    def check_log_replay(self) -> None:
        """A recording of the log gives the fold's snapshot, at any point, and the differences between two."""
        middle = self.history.changes[len(self.history.changes) // 2]
        place = Point(until=middle.position)
        first, second = recorded(self.history.changes, place, END)
        assert encode_snapshot(second) == encode_snapshot(snapshot(self.steady.state))
        shorter = [c for c in self.history.changes if c.position <= middle.position]
        assert encode_snapshot(first) == encode_snapshot(recorded(shorter, END)[0])
        check_differences(first, second)
        check_differences(second, first)
        if self.kind == "exact" and self.history.generation == 1:
            self.check_bare_log(second)

    def check_bare_log(self, full: Snapshot) -> None:
        """A log without generations, seqs, watchers, times and names holds the same facts."""
        replay = LogReplay(assumed=lambda _: Assumed(min_insync_replicas=MIN_ISR))
        for change in self.history.changes:
            record = json.loads(encode_change(change))
            for name in ("v", "cluster", "generation", "watcher", "seq", "observed_at"):
                del record[name]
            replay.apply_changes(decode_line(json.dumps(record).encode()).changes)
        replay.finish()
        reported = replay.snapshots[END]
        assert reported is not None
        for name in ("topics", "brokers", "controller", "counts", "pending", "complete"):
            assert plain(reported)[name] == plain(full)[name]

    def check_accounts(self) -> None:
        """Kafka's own writes make no zombie; an hour after the last failure no incident is open."""
        for _ in range(STANDING_MS // BEAT_MS + 1):
            self.history.heartbeat(after_ms=BEAT_MS)
        fold = self.steady
        fold.follow(self.history)
        assert not any(isinstance(event, ControllerZombie) for event in fold.events)
        assert fold.state.control.log.view.errors == 0
        assert fold.state.control.incidents.open is None
        check_incidents(fold, complete=self.history.generation == 1)
        check_recommendations(fold)

    def check_stale_records(self) -> None:
        """An older read of any znode, reported late under a new place in the log, changes no fact."""
        self.history.resync()
        fold, changes = self.steady, self.history.changes
        fold.follow(self.history)
        before = fold.facts()
        newest = {c.path: c.mzxid or 0 for c in changes if c.kind is ChangeKind.SET}
        for change in changes:
            if change.kind is ChangeKind.SET:
                newest[change.path] = max(newest[change.path], change.mzxid or 0)
        old = [
            change
            for change in changes
            if change.kind is ChangeKind.SET
            and (
                (change.mzxid or 0) < newest[change.path] or change.path not in self.history.znodes
            )
            and (change.read_zxid or 0) < fold.state.control.source.deletes_read_zxid
        ]
        late = [
            replaced(
                change,
                seq=self.history.seq + place,
                generation=self.history.generation,
                watcher=self.history.watcher,
                observed_at=changes[-1].observed_at,
            )
            for place, change in enumerate(old, start=1)
        ]
        assert fold.feed(late) == []
        assert fold.facts() == before


def views_from_scratch(fold: Fold) -> tuple[dict[str, AnyView], tuple[int, int]]:
    """Return the views of all topics and brokers, computed from the state alone, and their digests."""
    control = repacked(fold.state.control)
    control.published.topics = 0
    new = ClusterState(control, MemoryTopicStore(), ZOOKEEPER)
    for name in fold.state.topics.names():
        topic = fold.state.topics.get(name)
        assert topic is not None
        new.topics.put(replaced(topic, view_digests=()))
        new.mark_changed(name)
    made = project(new, as_of=NOWHERE, folded_at=0, sent=SentViews())
    views = {
        key: view
        for key, view, _ in made
        if view is not None and ("/topic/" in key or "/broker/" in key)
    }
    return views, (control.published.topics, control.published.brokers)


def recorded(changes: Sequence[ZnodeChange], *points: Point) -> list[Snapshot]:
    """Return the snapshots that a recording of a log gives."""
    replay = LogReplay(points=points, assumed=lambda _: Assumed(min_insync_replicas=MIN_ISR))
    for start in range(0, len(changes), 7):
        replay.apply_changes(decode_line(encode_changes(changes[start : start + 7])).changes)
    replay.finish()
    taken = [replay.snapshots[point] for point in points]
    return [reported for reported in taken if reported is not None]


def check_differences(before: Snapshot, after: Snapshot) -> None:
    """Apply the differences to the first snapshot: they give the second."""
    patched = plain(before)
    for difference in diff(before, after).differences:
        *outer, last = difference.path
        where = patched
        for name in outer:
            where = where[name]
        if difference.after is None and len(outer) in {1, 3} and outer[0] in {"brokers", "topics"}:
            del where[last]
        else:
            where[last] = json.loads(msgspec.json.encode(difference.after))
    expected = plain(after)
    for name in ("as_of", "at"):
        patched.pop(name), expected.pop(name)
    assert patched == expected


def without_origins(fold: Fold) -> Any:
    """Return all state and events of a fold, except the origins of elections."""
    control = copy.deepcopy(fold.state.control)
    control.elections = ElectionState()
    control.published.recommendation = 0
    held = control.recommendations
    held.elected_by, held.rounds, held.others_at, held.grades = {}, {}, None, []
    events = [
        msgspec.structs.replace(event, by=None) if isinstance(event, LeadersElected) else event
        for event in fold.events
    ]
    accounts = [
        msgspec.structs.replace(event, grade=msgspec.structs.replace(event.grade, elected_by={}))
        if isinstance(event, RecommendationGraded)
        else event
        for event in fold.accounts
    ]
    return control, events, accounts, fold.facts()


def check_incidents(fold: Fold, *, complete: bool) -> None:
    """Incidents are numbered, closed and consistent; each election by failure is counted in one of them."""
    reported = [e for e in fold.accounts if isinstance(e, IncidentOpened | IncidentClosed)]
    assert [type(event) for event in reported] == [IncidentOpened, IncidentClosed] * (
        len(reported) // 2
    )
    numbers = [e.number for e in reported if isinstance(e, IncidentOpened)]
    assert numbers == list(range(1, len(numbers) + 1))
    incidents = [e.incident for e in reported if isinstance(e, IncidentClosed)]
    for incident in incidents:
        assert not incident.zombie
        assert incident.closed_at is not None
        assert incident.started_at <= incident.last_abnormal_at <= incident.closed_at
        assert incident.offline_peak >= incident.offline_last
        assert set(incident.brokers_back) <= set(incident.brokers_lost)
        assert incident.complete or not complete
        assert incident.summary.endswith(".")
    for kind in (
        LeaderElectionKind.OFFLINE,
        LeaderElectionKind.UNCLEAN,
        LeaderElectionKind.CONTROLLED_SHUTDOWN,
    ):
        assert sum(i.leader_elections.get(kind.value, 0) for i in incidents) == sum(
            len(event.partitions)
            for event in fold.events
            if isinstance(event, LeadersElected) and event.election is kind
        )
    assert sum(i.isr_shrinks for i in incidents) <= fold.state.control.counters.isr_shrinks


def check_recommendations(fold: Fold) -> None:
    """A recommendation is graded before the next is made, under one number, and the grade's counts add up."""
    reported = [
        event
        for event in fold.accounts
        if isinstance(event, RecommendationMade | RecommendationGraded)
    ]
    for made, graded in zip(reported[::2], reported[1::2], strict=False):
        assert isinstance(made, RecommendationMade)
        assert isinstance(graded, RecommendationGraded)
        grade = graded.grade
        assert made.number == grade.number
        assert len(made.partitions) == made.partition_count == grade.watched + grade.gone
        assert grade.regained + grade.not_regained == grade.watched
        assert grade.lost_again <= grade.regained
        assert sum(grade.elected_by.values()) == grade.elections
        assert all(count > 0 for count in grade.elected_by.values())
        assert (grade.outcome is Outcome.WITHDRAWN) == (grade.elected_at is None)


TestClusterHistory = ClusterHistory.TestCase
TestClusterHistory.settings = hypothesis.settings(max_examples=100, stateful_step_count=30)
