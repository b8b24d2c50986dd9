"""What is shown of a KRaft cluster: what it does not have has no line, be it as 0 or as not known."""

from __future__ import annotations

import pytest

from exporter.api.cluster_answers import OF_ZNODES
from exporter.api.openapi import document
from kcm.queries.recommend import recommendation_text
from kcm.queries.status import read_status
from kcm.queries.status_text import screen
from tests.support.in_process_api import api_of
from tests.support.json_schema import errors
from tests.support.kraft_cluster import START_MS
from tests.support.kraft_shown import kraft_served
from tests.unit.kcm.queries.test_status_text import text_of


def test_the_status_says_nothing_of_what_does_not_exist() -> None:
    """No work of the controller, no requests, no foreign writes; the controller is a node, and a broker is fenced."""
    served, cluster = kraft_served()
    answer = read_status(api_of(served), None)
    text = text_of(screen(answer, answer["abnormal"], cluster.now))
    assert "figures are live" in text
    assert "controller  node 3000 for 2 s, epoch 1\n" in text
    quorum = f"quorum      voters [3000], candidacies 0, metadata.version 25, committed up to {cluster.end}\n"
    assert quorum in text
    assert "controllers not safe to stop: [3000]" in text, "it is the only voter"
    (fenced,) = [line for line in text.splitlines() if line.startswith("3 b3")]
    assert fenced.split()[2] == "fenced"
    for words in ("not known", "waiting", "its work", "failover", "foreign", "pending write"):
        assert words not in text, words


def test_commits_that_stand_still_are_shown_with_their_age() -> None:
    """The high watermark of a quorum grows with each no-op: one that has not moved for long is no healthy one."""
    for still_ms, words in ((0, ""), (9_999, ""), (10_000, ", and no further for 1 min")):
        served, cluster = kraft_served(still_ms)
        answer = read_status(api_of(served), None)
        shown = text_of(screen(answer, [], cluster.now + 60_000))
        assert "voters [3000], none may be lost, candidacies 0" in shown
        assert f"committed up to {cluster.end}{words}\n" in shown
        problem = (
            "critical    A leader answers, and nothing is committed to the metadata log for 1 min"
        )
        assert (problem in shown) == bool(words)


def test_a_controller_that_does_not_answer_is_shown_with_its_age() -> None:
    """It may be dead although others name it; where nobody answers, nothing is said of it alone."""
    served, cluster = kraft_served(leader_silent_since=START_MS)
    after_s = (cluster.now - START_MS) // 1_000
    shown = text_of(screen(read_status(api_of(served), None), [], cluster.now))
    assert f"; controller 3000 has not answered for {after_s} s\n" in shown
    assert "critical    Controller 3000 does not answer, which others name as active" in shown
    served, cluster = kraft_served(leader=None, unreachable_since=START_MS)
    shown = text_of(screen(read_status(api_of(served), None), [], cluster.now))
    assert f"; no controller has answered for {after_s} s\n" in shown
    assert "Controller 3000" not in shown


def test_problems_come_first_with_the_alerts_on_them() -> None:
    """They are those of the live page, critical ones first; one whose alert has not fired yet is pending."""
    served, cluster = kraft_served()
    answer = read_status(api_of(served), None)
    lines = text_of(screen(answer, [], cluster.now)).splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith("cluster "))
    shown = lines[begin + 1 : begin + 1 + len(answer["problems"])]
    assert [line.split()[0] for line in shown] == [p["severity"] for p in answer["problems"]]
    assert (
        "warning     Broker 3 is fenced; 6 replicas there for 2 s (KafkaBrokerFenced, pending)"
        in shown
    )


def test_hidden_is_not_known_and_absent_is_not_a_line() -> None:
    """Of the same answer: where the cluster has requests, one that cannot be read is not known."""
    served, cluster = kraft_served()
    answer = read_status(api_of(served), None)
    answer["log"]["absent"] = ["pending_writes"]
    shown = text_of(screen(answer, [], cluster.now))
    assert "waiting     not known: requests\n" in shown


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("rehearsal?step=stop-broker:1", "kcm what-if says what the loss of brokers would break"),
        ("pending-writes", "a KRaft cluster has no requests and no pending writes"),
    ],
)
def test_a_question_without_meaning_is_refused_in_one_line(path: str, words: str) -> None:
    """The refusal says why, and of a rehearsal what can be asked instead."""
    served, _ = kraft_served()
    answer = served.get(f"/api/v1/clusters/prod/{path}")
    assert answer.status_code == 409
    assert words in answer.text
    assert "\\n" not in answer.text


def test_the_next_rebalance_is_by_krafts_rule() -> None:
    """There is no threshold and no fixed time; Kafka elects for each partition, whatever was assumed."""
    served, _ = kraft_served()
    answer = api_of(served).get("/clusters/prod/recommendations")
    planned = answer["next_rebalance"]
    assert planned["assumed"]["leader_imbalance_per_broker_percentage"] is None
    assert planned["at_earliest"] is None
    metrics = served.get("/metrics").text
    assert "kafka_cluster_imbalance_threshold_ratio{" not in metrics
    assert "kafka_cluster_next_rebalance_timestamp_seconds{" not in metrics
    shown = text_of(recommendation_text(answer, [], None, []))
    assert "no threshold, 1,000 in a round" in shown


@pytest.mark.parametrize(
    "path", ["/clusters/{name}", "/clusters/{name}/recommendations", "/clusters"]
)
def test_an_answer_about_a_kraft_cluster_matches_the_openapi_document(path: str) -> None:
    """Also where a figure is null that a cluster in ZooKeeper always has; of znodes there is no number."""
    served, _ = kraft_served()
    described = document()
    schema = described["paths"][f"/api/v1{path}"]["get"]["responses"]["200"]["content"][
        "application/json"
    ]
    body = served.json(f"/api/v1{path.format(name='prod')}")
    assert list(errors(body, schema["schema"], described)) == []
    if path == "/clusters/{name}":
        assert {name: body["log"][name] for name in OF_ZNODES} == dict.fromkeys(OF_ZNODES)
