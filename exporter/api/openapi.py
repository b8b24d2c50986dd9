"""The OpenAPI 3.1 document of /api/v1.

The rule: schemas of what the views and events hold are made from the model's own records, so a
field that is added there is documented at once; only what the API says in other words (64-bit
numbers as text) and the answers around them are written here. Fields may be added to answers,
none is renamed or taken away within v1.
"""

from __future__ import annotations

import functools
import importlib.metadata
from typing import Any

import msgspec

from controller_model.insights.loss import StopRisk
from controller_model.insights.pairs import RISKS
from controller_model.insights.rebalance import AutoRebalance, Blocked
from controller_model.records.completeness import Completeness
from controller_model.records.events import AnyEvent
from controller_model.records.recommendations import Recommended
from controller_model.records.views import BrokerView, ClusterView
from exporter.api.operations import OPERATIONS, Operation
from exporter.core.parameters import Parameter
from exporter.partitions.conditions import Condition

Json = dict[str, Any]

_DISTRIBUTION = "kafka-controller-monitor"
_TEXT: Json = {"type": "string"}
_WHOLE: Json = {"type": "integer"}
_NUMBER: Json = {"type": "number"}
_YES_NO: Json = {"type": "boolean"}
_LONG: Json = {"type": "string", "description": "A number of 64 bits, as text."}
_NOT_IN_ANSWERS = ("view", "v", "cluster")


def _maybe(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(item: Json) -> Json:
    return {"type": "array", "items": item}


def _ref(name: str) -> Json:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


_ABOUT = {"name": _TEXT, "as_of": _ref("Place"), "completeness": _ref("Completeness")}
_NEXT = _maybe({"type": "string", "description": "The `after` of the next page; null: the end."})
_SHARES = _list(_object(broker=_WHOLE, partition_count=_WHOLE))
_EXAMPLES = _list(_ref("TopicPartition"))


@functools.cache
def document() -> Json:
    """Return the document."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Controller Monitor",
            "version": importlib.metadata.version(_DISTRIBUTION),
            "description": "Times are milliseconds since 1970. Numbers of 64 bits are text. "
            "An answer has an ETag unless it is older than what is shown. Errors are application/problem+json (RFC 9457).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {operation.path: {"get": _operation(operation)} for operation in OPERATIONS},
        "components": {
            "schemas": dict(sorted(_schemas().items())),
            "responses": {"Problem": _problem_response()},
        },
    }


def _operation(operation: Operation) -> Json:
    parameters = [_parameter(parameter) for parameter in operation.parameters]
    if "{name}" in operation.path:
        text = "The cluster's name."
        parameters.insert(
            0,
            {"name": "name", "in": "path", "required": True, "description": text, "schema": _TEXT},
        )
    etag = {"description": "Give it back as If-None-Match.", "schema": _TEXT}
    return {
        "operationId": operation.handler,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "The answer.",
                "headers": {"ETag": etag},
                "content": {"application/json": {"schema": _ref(operation.answer)}},
            },
            "304": {"description": "It is what the client has."},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }


def _parameter(parameter: Parameter) -> Json:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.text,
        "schema": parameter.schema(),
    }


def _problem_response() -> Json:
    return {
        "description": "What is wrong, and what to do.",
        "content": {"application/problem+json": {"schema": _ref("Problem")}},
    }


def _schemas() -> dict[str, Json]:
    return _of_the_model() | {
        "Root": _object(openapi=_TEXT, clusters=_TEXT),
        "OpenApi": {"type": "object", "description": "An OpenAPI 3.1 document."},
        "Problem": _object(type=_TEXT, title=_TEXT, status=_WHOLE, detail=_TEXT),
        "Place": _object(lineage=_TEXT, generation=_LONG, seq=_WHOLE),
        "Position": _object(generation=_LONG, seq=_WHOLE),
        "TopicPartition": _object(topic=_TEXT, partition=_WHOLE),
        "Clusters": _object(clusters=_list(_ref("Summary")), next=_NEXT),
        "Summary": _object(
            name=_TEXT,
            href={"type": "string", "description": "Relative to the address of this answer."},
            completeness=_ref("Completeness"),
            controller=_object(id=_WHOLE, epoch=_maybe(_WHOLE)),
            elections=_WHOLE,
            brokers_live=_list(_WHOLE),
            counts=_ref("Counts"),
        ),
        "Brokers": _object(**_ABOUT, brokers=_list(_ref("BrokerAndSafety")), next=_NEXT),
        "Topics": _object(**_ABOUT, topics=_list(_topic()), next=_NEXT),
        "Partitions": _object(**_ABOUT, partitions=_list(_partition()), next=_NEXT),
        "Events": _object(
            **_ABOUT,
            events=_list(_ref("Event")),
            older=_maybe({"type": "string", "description": "The `before` of older events."}),
            newer=_maybe({"type": "string", "description": "The `after` of newer events."}),
            held_from=_maybe(
                {"type": "integer", "description": "When the oldest event was that is still held."}
            ),
        ),
        "Incidents": _object(**_ABOUT, total=_WHOLE, incidents=_list(_ref("Incident"))),
        "Recommendations": _recommendations(),
        "WhatIf": _object(
            **_ABOUT,
            losses=_list(_loss()),
            pair_count=_maybe(
                {"type": "integer", "description": "Pairs that break more together than apart."}
            ),
        ),
    }


def _topic() -> Json:
    counts = {"type": "object", "additionalProperties": _WHOLE}
    return _object(
        name=_TEXT,
        topic_id=_maybe(_TEXT),
        partitions=_WHOLE,
        replication_factor=_WHOLE,
        deleting=_YES_NO,
        min_isr=_maybe(_WHOLE),
        unclean=_maybe(_YES_NO),
        conditions=counts,
    )


def _partition() -> Json:
    return _object(
        topic=_TEXT,
        partition=_WHOLE,
        leader=_maybe(_WHOLE),
        preferred=_maybe(_WHOLE),
        replicas=_list(_WHOLE),
        isr=_maybe(_list(_WHOLE)),
        adding=_list(_WHOLE),
        removing=_list(_WHOLE),
        leader_epoch=_maybe(_WHOLE),
        controller_epoch=_maybe(_WHOLE),
        partition_epoch=_maybe(_WHOLE),
        min_isr=_WHOLE,
        conditions=_list({"type": "string", "enum": list(Condition)}),
    )


def _blocked() -> Json:
    reason = {"type": "string", "enum": list(Blocked)}
    return _list(_object(reason=reason, partition_count=_WHOLE, examples=_EXAMPLES))


def _recommendations() -> Json:
    chunk = _object(
        number=_WHOLE,
        partition_count=_WHOLE,
        imbalance_after=_WHOLE,
        election=_object(partitions=_list(_ref("TopicPartition"))),
    )
    broker = _object(
        broker=_WHOLE,
        preferred=_WHOLE,
        not_led_before=_WHOLE,
        not_led_after=_WHOLE,
        ratio_before=_NUMBER,
        ratio_after=_NUMBER,
    )
    rebalance = _object(
        assumed=_ref("AutoRebalance"),
        at_earliest=_maybe(_WHOLE),
        exceeding=_list(_WHOLE),
        elects=_WHOLE,
        blocked=_blocked(),
    )
    return _object(
        **_ABOUT,
        broker=_maybe(_WHOLE),
        imbalance_before=_WHOLE,
        imbalance_after=_WHOLE,
        partition_count=_WHOLE,
        chunk_count=_WHOLE,
        chunks=_list(chunk),
        next=_NEXT,
        brokers=_list(broker),
        blocked=_blocked(),
        command=_TEXT,
        next_rebalance=rebalance,
        triggered=_object(standing=_maybe(_ref("Recommended")), graded=_list(_ref("Grade"))),
    )


def _loss() -> Json:
    risk = {"type": "string", "enum": list(StopRisk)}
    reason = _object(risk=risk, text=_TEXT, partition_count=_WHOLE, examples=_EXAMPLES)
    return _object(
        brokers=_list(_WHOLE),
        racks=_list(_TEXT),
        safe=_maybe(_YES_NO),
        reasons=_list(reason),
        notes=_list(_TEXT),
        offline=_WHOLE,
        stranded=_WHOLE,
        under_min_isr=_WHOLE,
        unclean=_WHOLE,
        leaders_moved=_SHARES,
        leaders_after=_SHARES,
        beyond_members=_maybe(
            {
                **_object(**dict.fromkeys(map(str, RISKS), _WHOLE)),
                "description": "Of a pair: partitions that only the loss of both would harm.",
            }
        ),
    )


def _of_the_model() -> dict[str, Json]:
    """Return the schemas of the model's records, as the API words them."""
    kinds = AnyEvent.__args__
    _, found = msgspec.json.schema_components(
        (Completeness, AutoRebalance, ClusterView, BrokerView, Recommended, *kinds),
        ref_template="#/components/schemas/{name}",
    )
    schemas: dict[str, Json] = dict(found)
    events = {kind.__name__ for kind in kinds}
    for name, schema in schemas.items():
        if "properties" in schema and name not in events:
            schema["required"] = list(schema["properties"])  # only events leave out what is not
    for name in events:
        _reword_event(schemas[name])
    _reword_views(schemas)
    schemas["Event"] = {
        "oneOf": [_ref(name) for name in sorted(events)],
        "discriminator": {"propertyName": "kind"},
    }
    return schemas


def _reword_event(schema: Json) -> None:
    properties = schema["properties"]
    properties["id"] = {"type": "string", "description": "Its name; rises within a cluster."}
    properties["position"] = _ref("Position")
    properties["zxid"] = _LONG
    if properties.get("partitions", {}).get("type") == "array":
        properties["partitions"] = _EXAMPLES
        properties["partition_count"] = _WHOLE
        if "partition_count" not in schema["required"]:
            schema["required"] = [*schema["required"], "partition_count"]
    schema["required"] = [*schema["required"], "id"]


def _reword_views(schemas: dict[str, Json]) -> None:
    cluster = schemas.pop("ClusterView")
    broker = schemas.pop("BrokerView")
    for schema, also in ((cluster, ()), (broker, ("as_of",))):
        for name in (*_NOT_IN_ANSWERS, *also):
            del schema["properties"][name]
    cluster["properties"] |= {
        "name": _TEXT,
        "as_of": _ref("Place"),
        "views_from": _ref("Position"),
        "completeness": _ref("Completeness"),
        "brokers": _list(_ref("Broker")),
        "events": _list(_ref("Event")),
    }
    broker["properties"]["epoch"] = _maybe(_LONG)
    for name in ("BrokerStarted", "BrokerStopped"):
        schemas[name]["properties"]["epoch"] = _maybe(_LONG)
    schemas["LogView"]["properties"]["read_zxid"] = _LONG
    schemas["Recommended"]["properties"]["partitions"] = _EXAMPLES
    for name in ("examples_lost_again", "examples_not_regained"):
        schemas["Grade"]["properties"][name] = _EXAMPLES
    schemas.pop("AsOf", None)
    safety = _object(safe=_maybe(_YES_NO), why=_maybe(_TEXT), offline=_WHOLE, under_min_isr=_WHOLE)
    with_safety = {**broker["properties"], "safe_to_stop": safety}
    for name, schema in (
        ("Cluster", cluster),
        ("Broker", broker),
        ("BrokerAndSafety", {**broker, "properties": with_safety}),
    ):
        schemas[name] = {**schema, "title": name, "required": list(schema["properties"])}
