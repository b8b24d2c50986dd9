"""The questions that the API answers: filters, pages, events, recommendations, what-ifs."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import IsrShrunk
from controller_model.records.incidents import INCIDENTS_KEPT
from controller_model.records.views import Counts, TopicView
from exporter.partitions import partition_pages
from exporter.partitions.conditions import Condition
from tests.support.api_server import Served
from tests.support.samples import (
    T0,
    as_of,
    broker_view,
    cluster_view,
    elected,
    incident,
    incidents_view,
    recommendation_view,
    topic_view,
)

PROD = "/api/v1/clusters/prod"


def sick_topic() -> TopicView:
    """Return a topic in which each partition has another trouble; brokers 0 and 1 are live."""
    each = {
        0: ((0, 1), 0, (0, 1)),  # well
        1: ((1, 0), -1, (2,)),  # offline
        2: ((1, 0), 0, (0, 1)),  # led by another, electable
        3: ((0, 1), 0, (0,)),  # under min ISR, since the topic wants 2
        4: ((0, 1), None, None),  # no state
        5: ((2, 0), 0, (0,)),  # preferred replica is gone
        6: ((0,), 0, (0,)),  # one replica
        7: ((1, 2), 1, (1, 2)),  # both in one rack
    }
    zeros = (0,) * len(each)
    return topic_view(
        "sick",
        min_isr=2,
        partitions=tuple(each),
        replicas=tuple(replicas for replicas, _, _ in each.values()),
        leader=tuple(leader for _, leader, _ in each.values()),
        isr=tuple(isr for _, _, isr in each.values()),
        adding={0: (1,)},
        leader_epoch=zeros,
        controller_epoch=zeros,
        partition_epoch=zeros,
        leader_recovery_state=(None,) * len(each),
    )


COUNTS = Counts(
    offline=1,
    under_replicated=3,
    under_min_isr=2,
    at_min_isr=2,
    preferred_imbalance=3,
    preferred_electable=1,
    deleting_topics=1,
    min_isr_blocks=7,
    replicas_on_gone_brokers=2,
)


@pytest.fixture
def served() -> Served:
    """A cluster of two live brokers and one that is gone."""
    served = Served()
    served.write(
        broker_view(0, rack="a", offline_if_lost=2),
        broker_view(1, rack="b"),
        broker_view(2, live=False, rack="b", offline_if_lost=1),
        sick_topic(),
        topic_view("gone", deleting=True, leader=(-1, -1)),
        topic_view("well"),
        cluster_view(counts=COUNTS, brokers_known=(0, 1, 2)),
    )
    return served


def ids(found: list[dict[str, Any]]) -> list[str]:
    """Return partitions as text."""
    return [f"{each['topic']}-{each['partition']}" for each in found]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Condition.OFFLINE, {1}),
        (Condition.UNDER_REPLICATED, {1, 3, 5}),
        (Condition.UNDER_MIN_ISR, {3, 5}),
        (Condition.AT_MIN_ISR, {0, 2, 6, 7}),
        (Condition.NOT_PREFERRED, {1, 2, 5}),
        (Condition.ELECTABLE, {2}),
        (Condition.REASSIGNING, {0}),
        (Condition.WITHOUT_STATE, {4}),
        (Condition.SINGLE_REPLICA, {6}),
        (Condition.MIN_ISR_BLOCKING, {0, 1, 2, 3, 4, 5, 7}),
        (Condition.ON_GONE_BROKERS, {5, 7}),
        (Condition.ONE_RACK, {7}),
    ],
)
def test_a_filter_finds_what_its_definition_says(
    served: Served, condition: Condition, expected: set[int]
) -> None:
    """Of a topic with one trouble per partition, exactly those that have it are listed."""
    found = served.json(f"{PROD}/partitions", filter=condition.value, topic="sick")["partitions"]
    assert {each["partition"] for each in found} == expected
    assert all(condition in each["conditions"] for each in found)


def test_a_topic_that_is_being_deleted_is_in_no_trouble(served: Served) -> None:
    """Its partitions are found as being deleted, and as nothing else."""
    found = served.json(f"{PROD}/partitions", filter="deleting")["partitions"]
    assert ids(found) == ["gone-0", "gone-1"]
    assert all(each["conditions"] == ["deleting"] for each in found)


def test_filters_narrow_each_other(served: Served) -> None:
    """Several filters, a part of the name and a broker are all met."""
    path = f"{PROD}/partitions"
    both = served.json(path, filter=["not-preferred", "under-replicated"])["partitions"]
    assert ids(both) == ["sick-1", "sick-5"]
    assert ids(served.json(path, contains="ic", broker=2)["partitions"]) == ["sick-5", "sick-7"]
    assert served.json(path, topic="unknown")["partitions"] == []


def wide_topic() -> list[TopicView]:
    """Return a topic in three chunks of two partitions, of which the last is led by another."""
    return [
        topic_view(
            "wide",
            chunk=chunk,
            chunks=3,
            partitions=(2 * chunk, 2 * chunk + 1),
            replicas=((0, 1), (0, 1)),
            leader=(0, 1 if chunk == 2 else 0),
        )
        for chunk in range(3)
    ]


@pytest.mark.parametrize("most_read", [1, 3, 1000])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("query", [{}, {"filter": "not-preferred"}, {"contains": "i"}])
def test_pages_hold_everything_once_and_in_order(
    served: Served,
    limit: int,
    query: dict[str, Any],
    most_read: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the size of a page and of what a request reads, going on to the end gives what one large page gives."""
    served.write(*wide_topic(), cluster_view(counts=COUNTS, brokers_known=(0, 1, 2)))
    for of in ("partitions", "topics"):
        monkeypatch.setattr(partition_pages, "MOST_READ", 1000)
        whole = served.json(f"{PROD}/{of}", limit=1000, **query)
        assert whole["next"] is None
        monkeypatch.setattr(partition_pages, "MOST_READ", most_read)
        found: list[Any] = []
        after: dict[str, str] = {}
        while True:
            page = served.json(f"{PROD}/{of}", limit=limit, **query, **after)
            assert len(page[of]) <= limit
            assert len(found) <= len(whole[of])  # else it goes round in circles
            found += page[of]
            assert page["next"] is None or page["next"] != after.get("after")
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert found == whole[of]


def test_a_request_reads_a_bounded_number_of_partitions(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may be empty and have a next one; whoever goes on finds what is there."""
    monkeypatch.setattr(partition_pages, "MOST_READ", 2)
    first = served.json(f"{PROD}/partitions", filter="single-replica")
    assert (first["partitions"], first["next"]) == ([], "gone/1")
    page = first
    for _ in range(10):
        if page["partitions"] or page["next"] is None:
            break
        page = served.json(f"{PROD}/partitions", filter="single-replica", after=page["next"])
    assert ids(page["partitions"]) == ["sick-6"]
    topics = served.json(f"{PROD}/topics")
    assert [topic["name"] for topic in topics["topics"]] == ["gone"]
    assert topics["next"] == "gone"


def test_what_is_counted_as_none_is_not_searched_for(served: Served) -> None:
    """A healthy cluster of any size answers at once that nothing is offline."""
    served.write(cluster_view(at=as_of(2), counts=Counts(), brokers_known=(0, 1, 2)))
    answer = served.json(f"{PROD}/partitions", filter="offline")
    assert (answer["partitions"], answer["next"]) == ([], None)


def test_a_topic_tells_how_many_of_its_partitions_are_what(served: Served) -> None:
    """The counts of a topic are those of its partitions."""
    (topic,) = served.json(f"{PROD}/topics", filter="offline")["topics"]
    assert (topic["name"], topic["partitions"], topic["min_isr"]) == ("sick", 8, 2)
    assert topic["conditions"]["under-replicated"] == 3
    assert "deleting" not in topic["conditions"]


def test_brokers_tell_whether_they_may_stop(served: Served) -> None:
    """A broker that alone keeps partitions is not safe to stop; a dead one cannot be stopped."""
    brokers = served.json(f"{PROD}/brokers")["brokers"]
    assert [each["safe_to_stop"]["safe"] for each in brokers] == [False, True, None]
    first = served.json(f"{PROD}/brokers", limit=2)
    second = served.json(f"{PROD}/brokers", limit=2, after=first["next"])
    assert [each["id"] for each in first["brokers"] + second["brokers"]] == [0, 1, 2]
    assert second["next"] is None


def test_a_recommendation_is_the_file_of_kafkas_tool(served: Served) -> None:
    """Only what can be elected is in it, and what cannot be says why."""
    told = served.json(f"{PROD}/recommendations")
    (chunk,) = told["chunks"]
    assert chunk["election"] == {"partitions": [{"topic": "sick", "partition": 2}]}
    assert told["imbalance_before"] - told["imbalance_after"] == 1
    assert {each["reason"]: each["partition_count"] for each in told["blocked"]} == {
        "not_in_isr": 1,
        "not_live": 1,
    }
    assert "--bootstrap-server kafka0:9092" in told["command"]
    assert served.json(f"{PROD}/recommendations", broker=0)["chunks"] == []
    assert served.json(f"{PROD}/recommendations", broker=1)["partition_count"] == 1


def test_incidents_are_the_newest_first_and_can_be_chosen(served: Served) -> None:
    """The open one is in front; older ones than are kept are counted."""
    path = f"{PROD}/incidents"
    assert served.json(path)["incidents"] == []
    assert served.json(path)["total"] == 0
    is_open = incident(9, closed_at=None, end=None)
    served.write(
        incidents_view(is_open, incident(8), incident(7), at=as_of(2), total=9),
        cluster_view(at=as_of(2)),
    )
    told = served.json(path)
    assert told["total"] == 9
    assert [each["number"] for each in told["incidents"]] == [9, 8, 7]
    assert told["incidents"][1]["broker_ends"] == {"crashed": 1}
    assert told["completeness"]["status"] == "live"
    assert [i["number"] for i in served.json(path, state="open")["incidents"]] == [9]
    assert [i["number"] for i in served.json(path, state="closed")["incidents"]] == [8, 7]
    assert [i["number"] for i in served.json(path, limit=1)["incidents"]] == [9]
    assert len(served.json(path, limit=INCIDENTS_KEPT + 1)["incidents"]) == 3
    assert served.get(path, {"limit": INCIDENTS_KEPT + 2}).status_code == 400, "none has so many"
    served.write(cluster_view(at=as_of(3)))
    assert served.json(path)["total"] == 9, "what did not change stands"


def test_what_was_triggered_stands_beside_what_can_be_elected_now(served: Served) -> None:
    """The recommendation as it was made, and the grades of those before it."""
    path = f"{PROD}/recommendations"
    assert served.json(path)["triggered"] == {"standing": None, "graded": []}
    served.write(recommendation_view(as_of(2)), cluster_view(at=as_of(2)))
    told = served.json(path)["triggered"]
    assert told["standing"]["partitions"] == [{"topic": "t", "partition": 1}]
    assert told["standing"]["brokers"] == [1]
    (grade,) = told["graded"]
    assert grade["outcome"] == "relapsed"
    assert grade["examples_lost_again"] == [{"topic": "t", "partition": 1}]


def test_what_another_lineage_told_is_not_of_this_one(served: Served) -> None:
    """Incidents are counted within a lineage, and go with it."""
    served.write(incidents_view(incident(7), at=as_of(2)), cluster_view(at=as_of(2)))
    newer = as_of(3, lineage="L2")
    served.write(cluster_view(at=newer))
    assert served.json(f"{PROD}/incidents")["total"] == 0


def test_a_loss_tells_what_would_break(served: Served) -> None:
    """Losing a broker, a rack, or each broker in turn gives the same figures."""
    (one,) = served.json(f"{PROD}/what-if", lose_broker=0)["losses"]
    assert one["safe"] is False
    assert one["offline"] == 3  # sick-3, sick-5, sick-6
    (rack,) = served.json(f"{PROD}/what-if", lose_rack="a")["losses"]
    assert rack == one | {"racks": ["a"]}
    each = served.json(f"{PROD}/what-if", each="broker")["losses"]
    assert [loss["brokers"] for loss in each] == [[0], [1]]
    assert each[0] == one
    racks = served.json(f"{PROD}/what-if", each="rack")["losses"]
    assert [(loss["racks"], loss["brokers"]) for loss in racks] == [(["a"], [0]), (["b"], [1])]
    (gone,) = served.json(f"{PROD}/what-if", lose_broker=2)["losses"]
    assert gone["safe"] is None


def shrunk(seq: int) -> EventRecord:
    """Return the event of an ISR that shrank."""
    fact = IsrShrunk(
        at=T0 + seq,
        position=Position(1, seq),
        who=(1,),
        leader=0,
        by_controller=False,
        partitions=(TopicPartition("t", 0),),
    )
    return EventRecord(v=1, cluster="prod", id=EventId("L1", 1, seq, 0), event=fact)


def test_events_go_back_page_by_page_and_forward_from_any(served: Served) -> None:
    """Older pages end at the oldest event; after an event come those that are newer, in order."""
    served.tell(*(shrunk(seq) if seq % 3 == 0 else elected(seq) for seq in range(1, 11)))
    path = f"{PROD}/events"
    assert served.json(path)["events"][0]["id"] == "L1/1/1/0"  # the views have come to 1
    served.write(cluster_view(at=as_of(10), brokers_known=(0, 1, 2)))
    seen: list[str] = []
    page = served.json(path, limit=4)
    newer = page["newer"]
    while True:
        seen += [each["id"] for each in page["events"]]
        if page["older"] is None:
            break
        page = served.json(path, limit=4, before=page["older"])
    assert seen == [f"L1/1/{seq}/0" for seq in range(10, 0, -1)]
    assert newer == seen[0]
    after = served.json(path, after="L1/1/7/0", limit=2)
    assert [each["id"] for each in after["events"]] == ["L1/1/8/0", "L1/1/9/0"]
    assert after["newer"] == "L1/1/9/0"
    assert page["held_from"] == T0 + 1, "the time of the oldest event that is held"
    quiet = served.json(path, after=newer)
    assert (quiet["events"], quiet["newer"]) == ([], newer)


def test_events_are_chosen_by_kind_and_time(served: Served) -> None:
    """Only the kinds that are named come, and only those not before the time."""
    served.tell(*(shrunk(seq) if seq % 3 == 0 else elected(seq) for seq in range(1, 11)))
    served.write(cluster_view(at=as_of(10), brokers_known=(0, 1, 2)))
    path = f"{PROD}/events"
    kinds = served.json(path, kind="IsrShrunk", limit=2)
    assert [each["id"] for each in kinds["events"]] == ["L1/1/9/0", "L1/1/6/0"]
    assert kinds["events"][0]["kind"] == "IsrShrunk"
    both = served.json(path, kind=["IsrShrunk", "ControllerElected"], since=T0 + 9)
    assert [each["id"] for each in both["events"]] == ["L1/1/10/0", "L1/1/9/0"]
    # What a follower was not shown is not asked for again.
    after = served.json(path, kind="IsrShrunk", after="L1/1/9/0")
    assert (after["events"], after["newer"]) == ([], "L1/1/10/0")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/partitions?filter=offlin", ["filter", "offlin", "offline"]),
        ("/partitions?fliter=offline", ["fliter", "filter"]),
        ("/partitions?limit=0", ["limit", "1 to 1000"]),
        ("/partitions?limit=1001", ["limit"]),
        ("/partitions?limit=1&limit=2", ["limit", "often"]),
        ("/partitions?after=here", ["after", "here"]),
        ("/partitions?after=t/1_0", ["after", "t/1_0"]),
        ("/brokers?after=x", ["after"]),
        ("/brokers?after=1_0", ["after", "1_0"]),
        ("/brokers?after=-1", ["after", "-1"]),
        ("/events?kind=Nothing", ["kind", "ControllerElected"]),
        ("/events?since=yesterday", ["since", "2026-"]),
        ("/events?since=2026-11-21T10:00:00+01:00", ["since", "%2B"]),
        ("/events?after=1", ["after", "'1'"]),
        ("/events?after=a/1/1_0/1", ["after", "a/1/1_0/1"]),
        ("/events?before=a/1/-1/1", ["before", "a/1/-1/1"]),
        ("/events?after=a/1/1/1&before=a/1/1/1", ["not both"]),
        ("/recommendations?broker=7", ["broker", "7", "0, 1, 2"]),
        ("/recommendations?after=1_0", ["after", "1_0"]),
        ("/recommendations?after=-1", ["after", "-1"]),
        ("/recommendations?after=1/", ["after", "1/"]),
        ("/what-if", ["lose_broker", "each"]),
        ("/what-if?each=broker&lose_broker=1", ["each"]),
        ("/what-if?lose_rack=z", ["rack", "'z'", "a, b"]),
        (f"/topics?contains={'x' * 301}", ["contains", "300"]),
    ],
)
def test_what_cannot_be_answered_is_refused_by_name(
    served: Served, path: str, names: list[str]
) -> None:
    """The parameter, what was given, and what it may be stand in the problem's detail."""
    answer = served.get(f"{PROD}{path}")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert all(name in answer.json()["detail"] for name in names), answer.text


def test_an_answer_changes_its_etag_with_the_verdict(served: Served) -> None:
    """Figures that have become old are another answer, though nothing in them moved."""
    before = served.get(f"{PROD}/topics").headers["etag"]
    assert served.get(f"{PROD}/topics").headers["etag"] == before
    served.now += 60_000
    assert served.get(f"{PROD}/topics").headers["etag"] != before
