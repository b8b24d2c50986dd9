"""Recommendations and what-ifs of a cluster that keeps changing, and of pairs of brokers."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.records.recommendations import RebalanceSummary
from controller_model.records.views import Counts, TopicView
from exporter.api import worker
from tests.support.api_server import Served
from tests.support.samples import (
    as_of,
    broker_view,
    cluster_view,
    recommendation_view,
    topic_view,
)

PROD = "/api/v1/clusters/prod"
PARTITIONS = 1_100
"""Enough for three chunks of a recommendation."""


def wide_topic(seq: int, *, led: int) -> TopicView:
    """Return a topic whose preferred leader is broker 0, which leads the first `led` partitions."""
    return topic_view(
        "t",
        as_of(seq),
        partitions=tuple(range(PARTITIONS)),
        replicas=((0, 1),) * PARTITIONS,
        isr=((0, 1),) * PARTITIONS,
        leader=(0,) * led + (1,) * (PARTITIONS - led),
        leader_epoch=(0,) * PARTITIONS,
        controller_epoch=(7,) * PARTITIONS,
        partition_epoch=(0,) * PARTITIONS,
        leader_recovery_state=(None,) * PARTITIONS,
    )


def step(served: Served, seq: int, *, led: int, **fields: Any) -> None:
    """Commit views in which broker 0 leads `led` partitions."""
    waiting = PARTITIONS - led
    counts = Counts(partitions=PARTITIONS, preferred_imbalance=waiting, preferred_electable=waiting)
    served.write(wide_topic(seq, led=led), cluster_view(at=as_of(seq), counts=counts, **fields))


@pytest.fixture
def served() -> Served:
    """A cluster in which broker 1 leads all partitions that prefer broker 0."""
    served = Served()
    served.write(broker_view(0), broker_view(1))
    step(served, 1, led=0)
    return served


@pytest.mark.parametrize("path", [f"{PROD}/recommendations", f"{PROD}/what-if?each=broker"])
def test_a_cached_answer_as_of_an_older_commit_never_gets_304(
    served: Served, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cached answer is sent unchanged, with its own as_of and without an ETag."""
    monkeypatch.setattr(worker, "REST", 1e9)
    first = served.get(path)
    etag = {"If-None-Match": first.headers["etag"]}
    assert served.get(path, headers=etag).status_code == 304
    step(served, 2, led=PARTITIONS - 1)
    aged = served.get(path, headers=etag)
    assert aged.status_code == 200
    assert "etag" not in aged.headers
    assert aged.headers["cache-control"] == "no-store"
    assert aged.json()["as_of"]["seq"] == 1
    fresh = served.get(path, headers=etag | {"Cache-Control": "no-cache"})
    assert fresh.json()["as_of"]["seq"] == 2
    assert served.get(path, headers=etag | {"Cache-Control": "no-cache"}).status_code == 200
    again = {"If-None-Match": fresh.headers["etag"], "Cache-Control": "no-cache"}
    assert served.get(path, headers=again).status_code == 304


def test_as_of_of_a_recommendation_is_that_of_its_oldest_part(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It contains the controller's next automatic rebalance, which may be older than the rest."""
    monkeypatch.setattr(worker, "REST", 1e9)
    served.json(f"{PROD}/recommendations")
    step(served, 2, led=10)
    answer = served.json(f"{PROD}/recommendations", broker=0)
    assert answer["partition_count"] == PARTITIONS - 10
    assert answer["next_rebalance"]["elects"] == PARTITIONS
    assert answer["as_of"]["seq"] == 1


def test_pages_of_another_recommendation_are_refused(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client must begin again: it would miss chunks that have moved to an earlier page."""
    monkeypatch.setattr(worker, "REST", 0)
    path = f"{PROD}/recommendations"
    first = served.json(path, limit=1)
    assert first["chunks"][0]["number"] == 1
    second = served.json(path, limit=1, after=first["next"])
    assert second["chunks"][0]["number"] == 2
    served.write(cluster_view(at=as_of(2), counts=Counts(preferred_electable=1)))
    assert served.json(path, limit=1, after=first["next"]) == second | {
        "as_of": {"lineage": "L1", "generation": "1", "seq": 2}
    }
    step(served, 3, led=500)
    refused = served.get(path, {"limit": 1, "after": first["next"]})
    assert refused.status_code == 409
    assert refused.headers["content-type"] == "application/problem+json"
    assert "begin again without it" in refused.json()["detail"]
    whole = served.json(path)
    assert (whole["partition_count"], whole["next"]) == (PARTITIONS - 500, None)
    by_number = served.json(path, limit=1, after=1)
    assert by_number["chunks"] == whole["chunks"][1:]


def test_the_next_rebalance_uses_a_new_threshold_at_once(served: Served) -> None:
    """The answer follows the new setting although no topic has changed."""
    path = f"{PROD}/recommendations"
    before = served.json(path)["next_rebalance"]["assumed"]
    assert before["leader_imbalance_per_broker_percentage"] == 10
    served.write(cluster_view(at=as_of(2), rebalance=RebalanceSummary(threshold_percentage=25)))
    after = served.json(path)["next_rebalance"]["assumed"]
    assert after["leader_imbalance_per_broker_percentage"] == 25


def test_the_command_to_copy_puts_an_ipv6_address_in_brackets(served: Served) -> None:
    """Otherwise its last colon would not separate the port."""
    served.write(broker_view(0, as_of(2), host="2001:db8::1"), cluster_view(at=as_of(2)))
    command = served.json(f"{PROD}/recommendations")["command"]
    assert "--bootstrap-server '[2001:db8::1]:9092' " in command


def test_what_if_lists_pairs_that_break_more_together_than_apart(served: Served) -> None:
    """Of three brokers, only the two that share partitions break more together than apart."""
    served.write(
        broker_view(2, as_of(2), rack="b"),
        topic_view("u", as_of(2), replicas=((2,), (2,)), isr=((2,), (2,)), leader=(2, 2)),
        cluster_view(at=as_of(2), brokers_live=(0, 1, 2), brokers_known=(0, 1, 2)),
    )
    answer = served.json(f"{PROD}/what-if", each="pair")
    assert answer["pair_count"] == 1
    (pair,) = answer["losses"]
    assert pair["brokers"] == [0, 1]
    assert pair["offline"] == PARTITIONS
    assert pair["beyond_members"] == {
        "offline": PARTITIONS,
        "stranded": 0,
        "unclean": 0,
        "under_min_isr": 0,
    }
    asked = served.json(f"{PROD}/what-if", lose_broker=[0, 1])
    assert asked["pair_count"] is None
    assert asked["losses"] == [pair | {"beyond_members": None}]
    with_another = served.json(f"{PROD}/what-if", lose_broker=[0, 2])["losses"][0]
    assert with_another["offline"] == 2, "what it breaks, broker 2 breaks alone"


def test_the_answer_has_the_triggered_recommendation_and_its_grades(served: Served) -> None:
    """The answer has the recommendation as it was made, and the grades of earlier ones."""
    path = f"{PROD}/recommendations"
    assert served.json(path)["triggered"] == {"standing": None, "graded": []}
    served.write(recommendation_view(as_of(2)), cluster_view(at=as_of(2)))
    answer = served.json(path)["triggered"]
    assert answer["standing"]["partitions"] == [{"topic": "t", "partition": 1}]
    assert answer["standing"]["brokers"] == [1]
    (grade,) = answer["graded"]
    assert grade["outcome"] == "relapsed"
    assert grade["examples_lost_again"] == [{"topic": "t", "partition": 1}]


@pytest.mark.parametrize("is_on", [True, False])
def test_the_next_rebalance_check_has_no_time_if_auto_rebalance_is_off(
    served: Served, is_on: bool
) -> None:  # pytest gives it by name
    """With auto.leader.rebalance.enable off, it elects nothing and never happens."""
    rebalance = RebalanceSummary(auto_leader_rebalance=is_on)
    step(served, 2, led=0, rebalance=rebalance)
    check = served.get(f"{PROD}/recommendations").json()["next_rebalance"]
    assert check["assumed"]["auto_leader_rebalance_enable"] is is_on
    assert check["elects"] == (PARTITIONS if is_on else 0)
    assert is_on or check["at_earliest"] is None
