"""Pages of partitions and topics: complete, in order, and bounded in what a request reads."""

from __future__ import annotations

from typing import Any

import pytest

from controller_model.records.views import Counts, TopicView
from exporter.partitions import partition_pages
from tests.support.api_server import Served
from tests.support.samples import (
    as_of,
    cluster_view,
    topic_view,
)
from tests.support.sick_cluster import COUNTS, ids

PROD = "/api/v1/clusters/prod"


def wide_topic() -> list[TopicView]:
    """Return a topic in three chunks of two partitions; the last partition has another leader."""
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


def test_a_partition_with_a_last_good_value_is_marked_unreadable(served: Served) -> None:
    """Its own state cannot be parsed, or the assignment of its topic, which affects all partitions."""
    served.write(
        topic_view("state", unreadable=(1,)),
        topic_view("whole", unreadable_parts=("/brokers/topics/whole",)),
        topic_view("well"),
        cluster_view(counts=COUNTS, brokers_known=(0, 1, 2)),
    )
    found = served.json(f"{PROD}/partitions", limit=100)["partitions"]
    said = {(p["topic"], p["partition"]) for p in found if p["unreadable"]}
    assert said == {("state", 1), ("whole", 0), ("whole", 1)}
    assert {(p["topic"], p["partition"]) for p in found} > said


def test_an_epoch_that_is_not_known_is_none(served: Served) -> None:
    """A view has none for a partition, of which the leader is known all the same."""
    served.write(
        topic_view("t", leader_epoch=(None, 4), controller_epoch=(7, None)), cluster_view()
    )
    found = served.json(f"{PROD}/partitions", contains="t", limit=100)["partitions"]
    epochs = [(p["leader"], p["leader_epoch"], p["controller_epoch"]) for p in found]
    assert [each for each in epochs if None in each] == [(0, None, 7), (1, 4, None)]


@pytest.mark.parametrize("most_read", [1, 3, 1000])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("query", [{}, {"filter": "not-preferred"}, {"contains": "i"}])
def test_pages_contain_every_item_once_and_in_order(
    served: Served,
    limit: int,
    query: dict[str, Any],
    most_read: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the limits of a page and of a request, all pages together equal one large page."""
    served.write(*wide_topic(), cluster_view(counts=COUNTS, brokers_known=(0, 1, 2)))
    for of in ("partitions", "topics"):
        monkeypatch.setattr(partition_pages, "MAX_READ", 1000)
        whole = served.json(f"{PROD}/{of}", limit=1000, **query)
        assert whole["next"] is None
        monkeypatch.setattr(partition_pages, "MAX_READ", most_read)
        found: list[Any] = []
        after: dict[str, str] = {}
        while True:
            page = served.json(f"{PROD}/{of}", limit=limit, **query, **after)
            assert len(page[of]) <= limit
            assert len(found) <= len(whole[of])  # else the pages repeat
            found += page[of]
            assert page["next"] is None or page["next"] != after.get("after")
            if page["next"] is None:
                break
            after = {"after": page["next"]}
        assert found == whole[of]


def test_a_request_reads_a_bounded_number_of_partitions(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page may be empty and have a next one; following the pages finds everything."""
    monkeypatch.setattr(partition_pages, "MAX_READ", 2)
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


def test_topics_that_are_plain_count_a_fifth_of_what_a_request_reads(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a plain partition cannot meet the filter, a request gets past five times as many."""
    plain = [topic_view(f"plain-{number}") for number in range(9)]
    served.write(*plain, cluster_view(counts=COUNTS, brokers_known=(0, 1, 2)))
    monkeypatch.setattr(partition_pages, "MAX_READ", 2)
    for of, end in (("partitions", "plain-4/1"), ("topics", "plain-4")):
        path, asked = f"{PROD}/{of}", {"contains": "plain", "filter": "not-preferred"}
        page = served.json(path, **asked)
        assert (page[of], page["next"]) == ([], end)
        page = served.json(path, **asked, after=end)
        assert (page[of], page["next"]) == ([], None)


@pytest.mark.parametrize(
    ("of", "nothing"),
    [
        ("partitions", {"partitions": [], "next": None}),
        ("topics", {"topics": [], "next": None}),
        ("search", {"partitions": [], "next": None, "matched": 0}),
    ],
)
def test_a_filter_whose_count_is_zero_needs_no_search(
    served: Served, of: str, nothing: dict[str, Any]
) -> None:
    """For a healthy cluster of any size the answer that nothing is offline needs no search."""
    served.write(cluster_view(at=as_of(2), counts=Counts(), brokers_known=(0, 1, 2)))
    answer = served.json(f"{PROD}/{of}", filter="offline")
    assert {name: answer[name] for name in nothing} == nothing


def test_a_topic_has_the_number_of_its_partitions_in_each_condition(served: Served) -> None:
    """The counts of a topic are those of its partitions."""
    (topic,) = served.json(f"{PROD}/topics", filter="offline")["topics"]
    assert (topic["name"], topic["partitions"], topic["min_isr"]) == ("sick", 8, 2)
    assert topic["conditions"]["under-replicated"] == 3
    assert "deleting" not in topic["conditions"]
