"""The HTTP API on a real server: its document is what it answers, field for field."""

from __future__ import annotations

import json
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import AnyEvent
from controller_model.records.incidents import Incident
from controller_model.records.recommendations import Grade
from controller_model.records.views import ClusterCounters, ControllerView, Counts, Failover
from exporter.api import cluster_answers
from exporter.api.openapi import document
from exporter.api.operations import EVENT_KINDS, OPERATIONS, Operation
from exporter.serve.server import HttpServer
from tests.support.api_server import Served
from tests.support.json_schema import errors
from tests.support.samples import (
    broker_view,
    cluster_view,
    elected,
    incident,
    incidents_view,
    recommendation_view,
    topic_view,
)
from tests.support.waiting import DEADLINE_S

QUERIES: dict[str, tuple[str, ...]] = {
    "partitions": ("", "filter=offline", "filter=not-preferred&filter=electable", "limit=1"),
    "topics": ("", "contains=t", "filter=offline", "limit=1"),
    "events": ("", "limit=1", "kind=ControllerElected", "after=L1/1/0/0", "since=0"),
    "incidents": ("", "state=open", "state=closed", "limit=1"),
    "recommendations": ("", "broker=1", "limit=1"),
    "what_if": (
        "each=broker",
        "each=rack",
        "each=pair",
        "lose_broker=0",
        "lose_broker=0&lose_rack=b",
    ),
    "rehearsal": ("step=stop-broker:0", "step=kill-broker:0&step=start-broker:0&limit=1"),
}
"""What each operation is asked; none: once, without parameters."""


class Answer(NamedTuple):
    """What came over HTTP."""

    status: int
    headers: dict[str, str]
    body: Any


class Server(NamedTuple):
    """A server, and what it serves."""

    url: str
    served: Served

    def get(self, path: str, headers: dict[str, str] | None = None) -> Answer:
        """Send a request, and return the answer of any status."""
        request = urllib.request.Request(self.url + path, headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return Answer(answer.status, dict(answer.headers), json.loads(answer.read()))
        except urllib.error.HTTPError as error:
            with error:
                body = error.read()
                return Answer(error.code, dict(error.headers), json.loads(body) if body else None)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """A server of a cluster in which everything is set that can be."""
    served = Served()
    served.write(
        broker_view(0, rack="a", coordinated={"group": 3}, features={"f": {"min_version": 1}}),
        broker_view(1, rack="b", ends={"crashed": 1}),
        broker_view(2, live=False, host=None, port=None, epoch=None, since=None),
        topic_view("t", leader=(0, 0), adding={1: (2,)}, topic_id="x"),
        topic_view("u", leader=(-1, None), isr=((0,), None), min_isr=2, unclean=True),
        incidents_view(incident(8, closed_at=None, end=None), incident(7)),
        recommendation_view(),
        cluster_view(
            counts=Counts(offline=1, preferred_imbalance=3, preferred_electable=1),
            controller=ControllerView(id=0, epoch=7, elected_at=1, failover=Failover.DONE),
            counters=ClusterCounters(leader_elections={"preferred": 3}),
        ),
    )
    served.publish(elected(1))
    with HttpServer(served.app, "127.0.0.1", 0) as http:
        yield Server(http.url, served)


def asked() -> Iterator[tuple[Operation, str]]:
    """Yield every operation with every query."""
    for operation in OPERATIONS:
        for query in QUERIES.get(operation.handler, ("",)):
            yield operation, query


@pytest.mark.parametrize(
    ("operation", "query"), list(asked()), ids=lambda x: x if isinstance(x, str) else x.handler
)
def test_an_answer_matches_the_openapi_schema(
    server: Server, operation: Operation, query: str
) -> None:
    """No field is missing, none is of another type, and none is undocumented."""
    described = server.get("/api/v1/openapi.json").body
    answer = server.get(f"{operation.path.replace('{name}', 'prod')}?{query}")
    assert answer.status == 200, answer.body
    of_path = described["paths"][operation.path]["get"]
    schema = of_path["responses"]["200"]["content"]["application/json"]["schema"]
    assert list(errors(answer.body, schema, described)) == []


@pytest.mark.parametrize(
    ("operation", "query"), list(asked()), ids=lambda x: x if isinstance(x, str) else x.handler
)
def test_a_matching_etag_is_answered_by_304(
    server: Server, operation: Operation, query: str
) -> None:
    """The ETag of an answer, given back, is answered by 304 and no body; another one is not."""
    path = f"{operation.path.replace('{name}', 'prod')}?{query}"
    etag = server.get(path).headers["etag"]
    again = server.get(path, {"If-None-Match": f'"x", W/{etag}'})
    assert (again.status, again.body) == (304, None)
    assert again.headers["etag"] == etag
    assert server.get(path, {"If-None-Match": '"x"'}).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/",
        "/api/v1/clusters/nobody",
        "/api/v1/clusters?x=1",
        "/api/v1/clusters/prod/what-if",
        "/api/v2",
    ],
)
def test_an_error_matches_the_problem_schema(server: Server, path: str) -> None:
    """Whatever is wrong, the answer is problem+json with the status in it."""
    answer = server.get(path)
    assert answer.headers["content-type"] == "application/problem+json"
    schema = {"$ref": "#/components/schemas/Problem"}
    assert list(errors(answer.body, schema, document())) == []
    assert answer.body["status"] == answer.status
    assert answer.status in {400, 404}


COUNTING = {"TopicCreated", "TopicExpanded", "FailoverWork"}
"""Kinds that count their partitions and do not name them."""
LONG = st.integers(0, 2**62)
COUNTS = st.dictionaries(st.text(), st.integers(0, 9), max_size=3)


@st.composite
def events(draw: st.DrawFn, kind: str) -> EventRecord:
    """Return an event of a kind, with any values."""
    (made,) = (each for each in AnyEvent.__args__ if each.__name__ == kind)
    known = {
        "at": st.integers(0, 2**50),
        "position": st.builds(Position, LONG, st.integers(0, 2**50)),
        "source_number": st.none() | LONG,
        "epoch": st.none() | LONG,
        "partitions": st.integers(0, 9)
        if kind in COUNTING
        else st.lists(st.builds(TopicPartition, st.text(), st.integers(0, 9))).map(tuple),
        "incident": st.builds(Incident, broker_ends=COUNTS, leader_elections=COUNTS),
        "grade": st.builds(Grade),
    }
    fields = {name: s for name, s in known.items() if name in made.__struct_fields__}
    event = draw(st.builds(made, **fields))
    return EventRecord(v=1, cluster="prod", id=EventId("L", draw(LONG), 1, 0), event=event)


@pytest.mark.parametrize("kind", EVENT_KINDS)
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_every_kind_of_event_is_as_documented(kind: str, data: st.DataObject) -> None:
    """Any event of any kind fits its schema, and as an event exactly one of them."""
    record = data.draw(events(kind))
    body = json.loads(json.dumps(cluster_answers.event(record)))
    described = document()
    assert list(errors(body, {"$ref": f"#/components/schemas/{kind}"}, described)) == []
    assert list(errors(body, {"$ref": "#/components/schemas/Event"}, described)) == []
