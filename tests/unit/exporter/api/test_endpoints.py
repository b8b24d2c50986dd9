"""The answers of the API: pages, events, incidents, recommendations, what-ifs."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import IsrShrunk
from controller_model.records.incidents import INCIDENTS_KEPT
from tests.support.api_server import Served
from tests.support.samples import (
    T0,
    as_of,
    cluster_view,
    elected,
    incident,
    incidents_view,
)

PROD = "/api/v1/clusters/prod"


def test_brokers_say_whether_they_may_stop(served: Served) -> None:
    """A broker that holds the only replica of partitions is not safe to stop; a dead one cannot be stopped."""
    brokers = served.json(f"{PROD}/brokers")["brokers"]
    assert [each["safe_to_stop"]["safe"] for each in brokers] == [False, True, None]
    assert brokers[2]["safe_to_stop"] == {
        "safe": None,
        "why": "not registered",
        "offline": 0,
        "under_min_isr": 0,
        "stranded": 0,
        "unclean": 0,
    }
    first = served.json(f"{PROD}/brokers", limit=2)
    second = served.json(f"{PROD}/brokers", limit=2, after=first["next"])
    assert [each["id"] for each in first["brokers"] + second["brokers"]] == [0, 1, 2]
    assert second["next"] is None


def test_a_recommendation_is_a_file_for_kafka_leader_election(served: Served) -> None:
    """It contains only partitions that can be elected; the answer says why the others cannot."""
    answer = served.json(f"{PROD}/recommendations")
    (chunk,) = answer["chunks"]
    assert chunk["election"] == {"partitions": [{"topic": "sick", "partition": 2}]}
    assert answer["imbalance_before"] - answer["imbalance_after"] == 1
    assert {each["reason"]: each["partition_count"] for each in answer["blocked"]} == {
        "not_in_isr": 1,
        "not_live": 1,
    }
    assert "--bootstrap-server kafka0:9092" in answer["command"]
    assert served.json(f"{PROD}/recommendations", broker=0)["chunks"] == []
    assert served.json(f"{PROD}/recommendations", broker=1)["partition_count"] == 1


def test_what_if_reports_the_partitions_that_a_loss_takes_offline(served: Served) -> None:
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


def test_events_are_paged_backwards_and_followed_from_any_event(served: Served) -> None:
    """Older pages end at the oldest event; `after` an event gives the newer ones, in order."""
    served.publish(*(shrunk(seq) if seq % 3 == 0 else elected(seq) for seq in range(1, 11)))
    path = f"{PROD}/events"
    assert served.json(path)["events"][0]["id"] == "L1/1/1/0"  # the views have reached 1
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


def test_events_are_filtered_by_kind_and_time(served: Served) -> None:
    """Only the named kinds are listed, and only from the time on."""
    served.publish(*(shrunk(seq) if seq % 3 == 0 else elected(seq) for seq in range(1, 11)))
    served.write(cluster_view(at=as_of(10), brokers_known=(0, 1, 2)))
    path = f"{PROD}/events"
    kinds = served.json(path, kind="IsrShrunk", limit=2)
    assert [each["id"] for each in kinds["events"]] == ["L1/1/9/0", "L1/1/6/0"]
    assert kinds["events"][0]["kind"] == "IsrShrunk"
    both = served.json(path, kind=["IsrShrunk", "ControllerElected"], since=T0 + 9)
    assert [each["id"] for each in both["events"]] == ["L1/1/10/0", "L1/1/9/0"]
    # `newer` is past the events that the filter left out: a follower does not search them again.
    after = served.json(path, kind="IsrShrunk", after="L1/1/9/0")
    assert (after["events"], after["newer"]) == ([], "L1/1/10/0")


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("/partitions?after=here", ["after", "here"]),
        ("/partitions?after=t/1_0", ["after", "t/1_0"]),
        ("/partitions?after=1", ["after", "'1'"]),
        ("/partitions?after=/1", ["after", "'/1'"]),
        ("/brokers?after=x", ["after"]),
        ("/brokers?after=1_0", ["after", "1_0"]),
        ("/brokers?after=-1", ["after", "-1"]),
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
    ],
)
def test_a_bad_parameter_is_refused_with_its_name_and_value(
    served: Served, path: str, names: list[str]
) -> None:
    """The problem's detail has the parameter, the given value, and what it may be."""
    answer = served.get(f"{PROD}{path}")
    assert answer.status_code == 400
    assert answer.headers["content-type"] == "application/problem+json"
    assert all(name in answer.json()["detail"] for name in names), answer.text


def test_incidents_are_newest_first_and_filtered_by_state(served: Served) -> None:
    """The open incident is first; incidents too old to be kept are still counted."""
    path = f"{PROD}/incidents"
    assert served.json(path)["incidents"] == []
    assert served.json(path)["total"] == 0
    is_open = incident(9, closed_at=None, end=None)
    served.write(
        incidents_view(is_open, incident(8), incident(7), at=as_of(2), total=9),
        cluster_view(at=as_of(2)),
    )
    answer = served.json(path)
    assert answer["total"] == 9
    assert [each["number"] for each in answer["incidents"]] == [9, 8, 7]
    assert answer["incidents"][1]["broker_ends"] == {"crashed": 1}
    assert answer["completeness"]["status"] == "live"
    assert [i["number"] for i in served.json(path, state="open")["incidents"]] == [9]
    assert [i["number"] for i in served.json(path, state="closed")["incidents"]] == [8, 7]
    assert [i["number"] for i in served.json(path, limit=1)["incidents"]] == [9]
    assert len(served.json(path, limit=INCIDENTS_KEPT + 1)["incidents"]) == 3
    assert served.get(path, {"limit": INCIDENTS_KEPT + 2}).status_code == 400, "none has so many"
    served.write(cluster_view(at=as_of(3)))
    assert served.json(path)["total"] == 9, "what did not change stands"


def test_incidents_of_an_older_lineage_are_not_served(served: Served) -> None:
    """Incidents are counted within a lineage, and end with it."""
    served.write(incidents_view(incident(7), at=as_of(2)), cluster_view(at=as_of(2)))
    newer = as_of(3, lineage="L2")
    served.write(cluster_view(at=newer))
    assert served.json(f"{PROD}/incidents")["total"] == 0
