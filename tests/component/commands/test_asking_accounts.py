"""Incidents and recommendations as the commands show them, out of the exporter and out of a log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import (
    IncidentClosed,
    IncidentOpened,
    RecommendationGraded,
    RecommendationMade,
)
from controller_model.records.incidents import IncidentsSummary
from controller_model.records.recommendations import RebalanceSummary
from exporter.serve.server import HttpServer
from kcm.__main__ import main
from tests.component.commands.test_asking import Shown
from tests.support.api_server import Served
from tests.support.histories import encode_changes, small_cluster
from tests.support.samples import (
    T0,
    as_of,
    broker_view,
    cluster_view,
    incident,
    incidents_view,
    recommendation_view,
    topic_view,
)


@pytest.fixture
def shown(capsys: pytest.CaptureFixture[str]) -> Iterator[Shown]:
    """A cluster with an open incident, a recommendation, and a grade."""
    served = Served()
    (grade,) = recommendation_view().graded
    facts = (
        IncidentOpened(at=T0, position=Position(1, 1), number=8, opened_by="BrokerStopped"),
        IncidentClosed(at=T0, position=Position(1, 2), incident=incident(8)),
        RecommendationMade(
            at=T0,
            position=Position(1, 3),
            number=2,
            brokers=(1,),
            threshold_percentage=10,
            partition_count=900,
            partitions=(TopicPartition("t", 1),),
        ),
        RecommendationGraded(at=T0, position=Position(1, 4), grade=grade),
    )
    served.write(
        broker_view(0),
        broker_view(1),
        topic_view("t", leader=(0, 0)),
        incidents_view(incident(8)),
        recommendation_view(),
        cluster_view(
            at=as_of(9),
            incidents=IncidentsSummary(
                total=8, open=8, open_since=T0, opened_by="BrokerStopped", last_closed_at=T0
            ),
        ),
    )
    served.publish(
        *(
            EventRecord(v=1, cluster="prod", id=EventId("L1", *fact.position, 0), event=fact)
            for fact in facts
        )
    )
    with HttpServer(served.app, "127.0.0.1", 0) as server:
        yield Shown(server.url, served, capsys)


def test_incidents_recommendations_and_grades_are_printed_in_words(shown: Shown) -> None:
    """An incident by its sentence, a recommendation by its number, a grade by its counts."""
    lines = shown.run("events").splitlines()
    assert lines[0].endswith("IncidentOpened, number 8, opened by BrokerStopped")
    assert lines[1].endswith("IncidentClosed 8: Broker 1 crashed and came back.")
    assert lines[2].endswith(
        "RecommendationMade 2: broker 1 above 10% imbalance, 900 partitions electable "
        "(kcm recommend): t-1, ..."
    )
    assert lines[3].endswith(
        "RecommendationGraded 1: relapsed; of 3 watched 2 regained their leader within 0.0 s, "
        "1 lost it again, 1 did not; elected: 2 by kcm elect"
    )


def test_status_shows_the_open_or_the_last_incident(shown: Shown) -> None:
    """Or, when none is, the last one."""
    assert "incident    number 8, open for " in shown.run("status")
    assert ", since BrokerStopped" in shown.run("status")
    over = IncidentsSummary(total=8, last_closed_at=T0)
    shown.served.write(cluster_view(at=as_of(10), incidents=over))
    assert "incident    none; 8 before, the last closed " in shown.run("status")
    shown.served.write(cluster_view(at=as_of(11)))
    assert "incident" not in shown.run("status").split("Incident")[0]


def test_recommend_shows_the_open_recommendation_and_the_last_grade(shown: Shown) -> None:
    """Beside what can be elected now."""
    out = shown.run("recommend")
    assert "recommended 2026-11-" in out
    assert ", for broker 1\n" in out
    assert "last time   RecommendationGraded 1: relapsed; of 3 watched 2 regained" in out
    assert "; elected: 2 by kcm elect\n" in out


def test_recommend_says_where_the_controller_elects_nothing_by_itself(shown: Shown) -> None:
    """No check is waited for that never comes."""
    rebalance = RebalanceSummary(auto_leader_rebalance=False)
    shown.served.write(cluster_view(at=as_of(10), rebalance=rebalance))
    assert "rebalance   the controller elects nothing by itself" in shown.run("recommend")


def test_a_replay_reports_the_incidents_of_a_log(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """With --events, in words and as JSON."""
    history = small_cluster()
    history.heartbeat()
    history.delete("/controller")
    history.elect(1)
    for _ in range(8):
        history.heartbeat()
    log = tmp_path / "log.jsonl"
    log.write_bytes(encode_changes(history.changes) + b"\n")
    assert main(["replay", str(log), "--events"]) == 0
    answer = capsys.readouterr().out
    assert "IncidentOpened, number 1, opened by ControllerVacated" in answer
    assert "IncidentClosed 1: Controller 0 -> 1, 10 ms without one; over after 10 ms." in answer
    assert main(["replay", str(log), "--events", "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    (closed,) = (
        line["event"]["incident"]
        for line in lines
        if line.get("event", {}).get("kind") == "IncidentClosed"
    )
    assert closed["controllers"] == [0, 1]
