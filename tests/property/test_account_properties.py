"""Incidents and recommendations over random operations and failures of a cluster.

The clusters are those of the miniature controller: the writes are Kafka's, complete and in order.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator, Sequence

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller_model.records.changes import ZnodeChange
from controller_model.records.election_requests import MAX_PARTITIONS, ElectionRequest
from controller_model.records.events import (
    IncidentClosed,
    IncidentOpened,
    LeaderElectionKind,
    LeadersElected,
    RecommendationGraded,
    RecommendationMade,
)
from controller_model.records.incidents import STANDING_MS
from controller_model.records.recommendations import Outcome
from controller_model.state.control_plane import ElectionState
from tests.support.histories import Fold, election_request
from tests.support.watched import TOPICS, Watched, cluster, operation

BEAT_MS = 10_000
LogRecord = ZnodeChange | ElectionRequest
SEEDS = st.integers(0, 2**32)


def play(seed: int, *, beats: int = 12) -> Watched:
    """Return a cluster after random operations, with heartbeats in between."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    watched = cluster(draws)
    for _ in range(draws.randint(1, 25)):
        watched.simulator.perform(operation(draws))
        watched.report(beats=draws.choice((0, 0, 1)))
        for _ in range(draws.choice((0, 1, 2, beats))):
            watched.history.heartbeat()
    watched.fold.follow(watched.history)
    return watched


def cut(changes: Sequence[LogRecord], draws: random.Random) -> Iterator[Sequence[LogRecord]]:
    """Yield the changes in batches of any size."""
    start = 0
    while start < len(changes):
        end = start + draws.choice((1, 2, 7, 50))
        yield changes[start:end]
        start = end


@given(SEEDS)
@settings(max_examples=40)
def test_batches_restarts_and_repetitions_change_no_account(seed: int) -> None:
    """For any batches, any restart from a packed state and any redelivery of changes."""
    watched = play(seed)
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    other = Fold(packed=True)
    for batch in cut(watched.history.changes, draws):
        other.feed(batch)
        if draws.random() < 0.1:
            other.restart()
        if draws.random() < 0.2:
            other.feed(batch)
    assert other.accounts == watched.fold.accounts
    state, expected = other.state.control, watched.fold.state.control
    assert state.incidents == expected.incidents
    assert state.recommendations == expected.recommendations


@given(SEEDS)
@example(7320)  # a partition that is reassigned before it has a state is not a due write
@settings(max_examples=40)
def test_every_incident_closes_within_an_hour_of_the_last_failure(seed: int) -> None:
    """An hour after the last operation no incident is open, even if something is still abnormal."""
    watched = play(seed)
    for _ in range(STANDING_MS // BEAT_MS + 1):
        watched.history.heartbeat()
    watched.fold.follow(watched.history)
    assert watched.fold.state.control.incidents.open is None
    reported = [e for e in watched.fold.accounts if isinstance(e, IncidentOpened | IncidentClosed)]
    assert [type(event) for event in reported] == [IncidentOpened, IncidentClosed] * (
        len(reported) // 2
    )
    numbers = [e.number for e in reported if isinstance(e, IncidentOpened)]
    assert numbers == list(range(1, len(numbers) + 1))
    for event in reported:
        if isinstance(event, IncidentClosed):
            incident = event.incident
            assert not incident.zombie
            assert incident.closed_at is not None
            assert incident.started_at <= incident.last_abnormal_at <= incident.closed_at
            assert incident.offline_peak >= incident.offline_last
            assert set(incident.brokers_back) <= set(incident.brokers_lost)
            assert incident.complete
            assert incident.summary.endswith(".")


@given(SEEDS)
@settings(max_examples=40)
def test_every_election_by_failure_is_counted_in_one_incident(seed: int) -> None:
    """The counts of all incidents add up to the reported elections; none is counted twice."""
    watched = play(seed)
    control = watched.fold.state.control
    assert control.log.view.errors == 0
    incidents = [e.incident for e in watched.fold.accounts if isinstance(e, IncidentClosed)]
    if control.incidents.open is not None:
        incidents.append(control.incidents.open)
    for kind in (
        LeaderElectionKind.OFFLINE,
        LeaderElectionKind.UNCLEAN,
        LeaderElectionKind.CONTROLLED_SHUTDOWN,
    ):
        counted = sum(incident.leader_elections.get(kind.value, 0) for incident in incidents)
        assert counted == sum(
            len(event.partitions)
            for event in watched.fold.events
            if isinstance(event, LeadersElected) and event.election is kind
        )
    assert sum(incident.isr_shrinks for incident in incidents) <= control.counters.isr_shrinks


@given(SEEDS)
@settings(max_examples=40)
def test_a_recommendation_is_graded_before_the_next_is_made(seed: int) -> None:
    """The two events alternate under one number, and the grade's counts add up."""
    watched = play(seed, beats=40)
    reported = [
        event
        for event in watched.fold.accounts
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


def with_requests(changes: Sequence[ZnodeChange], draws: random.Random) -> list[LogRecord]:
    """Return a log with requests: early, late, repeated, wide, or for unknown partitions."""
    records: list[LogRecord] = []
    last = election_request("none", 0)
    for change in changes:
        if draws.random() < 0.1:
            topic = draws.choice((*TOPICS, "none"))
            wide = range(draws.choice((1, 3, MAX_PARTITIONS)))
            holds_ms = draws.choice((0, 60_000, 2**62))
            again = draws.random() < 0.2
            last = last if again else election_request(topic, *wide, holds_ms=holds_ms)
            records.append(last)
        records.append(change)
    return records


def without_origins(fold: Fold) -> object:
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


@given(SEEDS)
@settings(max_examples=40)
def test_requests_change_nothing_but_the_origin_of_elections(seed: int) -> None:
    """Any requests, at any place in the log, in any number: everything else is as without them."""
    watched = play(seed, beats=40)
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    other = Fold()
    other.feed(with_requests(watched.history.changes, draws))
    assert without_origins(other) == without_origins(watched.fold)


@given(SEEDS)
@settings(max_examples=40)
def test_origins_do_not_depend_on_batches_and_restarts(seed: int) -> None:
    """For any batches and any restart from a packed state; requests are part of the log like changes."""
    watched = play(seed, beats=40)
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    records = with_requests(watched.history.changes, draws)
    whole, other = Fold(), Fold(packed=True)
    whole.feed(records)
    for batch in cut(records, draws):
        other.feed(batch)
        if draws.random() < 0.1:
            other.restart()
    assert other.events == whole.events
    assert other.accounts == whole.accounts
    assert other.state.control.elections == whole.state.control.elections
    assert other.state.control.recommendations == whole.state.control.recommendations
