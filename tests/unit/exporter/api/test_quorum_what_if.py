"""What-if and "safe to stop" of a KRaft cluster whose node 1 is broker and controller: views, metrics and API say the same."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from tests.support.api_server import Served
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher
from tests.support.metric_samples import of_broker, of_cluster
from tests.support.quorum_views import DEAD_MS, VOTERS, WHAT_IF, served


def verdicts(shown: Served, **asked: Any) -> dict[frozenset[int], tuple[bool | None, Any]]:
    """Return for each loss of an answer whether it is safe, and how the quorum's part is graded."""
    answer = shown.json(WHAT_IF, **asked)
    return {
        frozenset(loss["brokers"] + (loss["quorum"] or {"controllers": []})["controllers"]): (
            loss["safe"],
            loss["quorum"] and loss["quorum"]["grade"],
        )
        for loss in answer["losses"]
    }


def metrics(fold: KraftFold) -> dict[int, float]:
    """Return "safe to stop" of each node as the metrics show it: a node that is both has it twice, with one value."""
    views = fold.views()
    samples = of_cluster("kafka_controller_safe_to_stop", views["prod/cluster"])
    controllers = {int(label): value for (label,), value in samples}
    brokers = {
        broker: value
        for broker in (1, 2, 3)
        for _, value in of_broker("kafka_broker_safe_to_stop", views[f"prod/broker/{broker}"])
    }
    assert all(brokers[each] == controllers[each] for each in brokers.keys() & controllers.keys())
    return brokers | controllers


@pytest.mark.parametrize(
    ("behind", "unsafe"),
    [
        ({}, set()),
        ({3001: DEAD_MS}, {1, 3000}),
        ({1: DEAD_MS}, {3000, 3001}),
        ({1: DEAD_MS, 3001: DEAD_MS}, {3000}),
    ],
)
def test_a_node_is_safe_to_stop_if_it_is_as_broker_and_as_controller(
    behind: dict[int, int], unsafe: set[int]
) -> None:
    """Three voters: any one may stop while all are caught up, and only the dead one while one is not."""
    shown, fold = served(behind=behind)
    each = verdicts(shown, each="node")
    assert set(each) == {frozenset({node}) for node in (1, 2, 3, 3000, 3001)}
    assert {node for (node,), (safe, _) in each.items() if safe is False} == unsafe
    assert {node for node, value in metrics(fold).items() if value == 0} == unsafe
    assert len(metrics(fold)) == len(each)
    listed = shown.json("/api/v1/clusters/prod/brokers")["brokers"]
    assert {b["id"]: b["safe_to_stop"]["safe"] for b in listed} == {
        broker: broker not in unsafe for broker in (1, 2, 3)
    }
    if 1 in unsafe:
        assert "controller, too" in listed[0]["safe_to_stop"]["why"]


def test_a_node_is_lost_as_both_whichever_of_them_is_named() -> None:
    """The loss of node 1 is that of a broker and of a voter; with broker 2 partitions go offline, too."""
    shown, _ = served()
    named = [
        shown.json(WHAT_IF, **asked)["losses"][0]
        for asked in ({"lose_broker": 1}, {"lose_controller": 1})
    ]
    assert named[0] == named[1]
    assert named[0]["quorum"]["margin"] == 0
    assert sum(each["partition_count"] for each in named[0]["leaders_moved"]) > 0
    (both,) = shown.json(WHAT_IF, lose_broker=2, lose_controller=1)["losses"]
    assert (both["safe"], both["quorum"]["grade"]) == (False, "nothing_breaks")
    assert both["offline"] > 0
    (two,) = verdicts(shown, lose_controller=[1, 3001]).values()
    assert two == (False, "breaks")
    (leader,) = shown.json(WHAT_IF, lose_controller=3000)["losses"]
    assert leader["quorum"]["notes"] == [
        "the active controller is among them: another one is elected"
    ]
    assert (leader["brokers"], leader["offline"], leader["safe"]) == ([], 0, True)


def test_a_margin_is_asked_for() -> None:
    """With one voter to spare asked for, none of three may stop, and a dead one makes nothing worse."""
    shown, _ = served()
    assert set(verdicts(shown, each="controller", margin=1).values()) == {(False, "under_margin")}
    assert set(verdicts(shown, each="controller").values()) == {(True, "nothing_breaks")}
    shown, _ = served(behind={3001: DEAD_MS})
    assert verdicts(shown, each="controller", margin=1)[frozenset({3001})] == (True, "no_worse")


@pytest.mark.parametrize(
    "heartbeat", [{"quorum": None}, {"unreachable_since": 5}, {"leader": -1, "leader_epoch": 9}]
)
def test_what_is_not_known_is_said(heartbeat: dict[str, Any]) -> None:
    """Without a current answer to DescribeQuorum there is no verdict on controllers, and no sample; on brokers there is."""
    shown, fold = served(**heartbeat)
    each = verdicts(shown, each="node")
    assert {node for (node,), (safe, _) in each.items() if safe is None} == set(VOTERS)
    assert set(metrics(fold)) == {2, 3}
    answer = shown.json(WHAT_IF, each="controller")
    assert answer["quorum"]["unknown"] in answer["losses"][0]["quorum"]["text"]
    assert answer["quorum"]["sampled_at"] is None
    (two,) = verdicts(shown, lose_controller=[1, 3001]).values()
    assert two == (False, "breaks"), "too few would be left, however far they are"


def test_an_old_answer_is_not_one_of_now() -> None:
    """A heartbeat without a sample, after one with it, leaves no verdict."""
    cluster = KraftCluster()
    cluster.tick(1_000)
    watcher = Watcher(cluster)
    sample = QuorumSample(
        cluster.now,
        3000,
        cluster.epoch,
        cluster.end,
        (QuorumReplica(3000, cluster.end, cluster.now, cluster.now),),
    )
    fold = KraftFold().feed([*watcher.slices(), watcher.heartbeat(quorum=sample)])
    assert fold.cluster.controllers_safe_to_stop == {3000: False}, "it is the only voter"
    assert of_cluster("kafka_quorum_replica_lag_records", fold.cluster)
    fold.feed([watcher.heartbeat()])
    assert of_cluster("kafka_quorum_replica_lag_records", fold.cluster) == []
    assert fold.cluster.quorum.sample == sample, "when it was taken is still shown"


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"lose_controller": 77}, "no controller 77 is known; known: 1, 3000, 3001"),
        ({}, "say what is lost"),
        ({"lose_controller": 1, "each": "node"}, "say what is lost"),
        ({"each": "node", "margin": -1}, "is not a whole number"),
    ],
)
def test_a_question_that_has_no_answer_is_refused(asked: dict[str, Any], why: str) -> None:
    """With what there is."""
    answer = served()[0].get(WHAT_IF, asked)
    assert answer.status_code == 400
    assert why in answer.json()["detail"]
