"""Make the OpenAPI 3.1 document of /api/v1.

Schemas are made from the records of the answers and of the model, so a new field is documented
at once. Only what the API writes differently from the model (64-bit numbers as text, partitions by name)
is defined here.
"""

import functools

import msgspec

from controller_model.insight.quorum import Lags
from controller_model.records.completeness import Completeness
from controller_model.records.events import AnyEvent
from controller_model.records.recommendations import Recommended
from controller_model.records.views import BrokerView, ClusterView
from exporter.api.answers import ANSWERS, SCHEMAS, Json
from exporter.api.cluster_answers import OF_ZNODES
from exporter.api.operations import CLUSTER, OPERATIONS, Operation
from exporter.api.problems import ClusterProblem
from pipeline.build import version
from pipeline.runtime import API_HEADER, API_VERSION

_TEXT: Json = {"type": "string"}
_WHOLE: Json = {"type": "integer"}
_LONG: Json = {"type": "string", "description": "A number of 64 bits, as text."}
_LONG_OR_NULL: Json = {"anyOf": [_LONG, {"type": "null"}]}
_NOT_IN_ANSWERS = ("view", "v", "cluster")


def _ref(name: str) -> Json:
    return {"$ref": f"{SCHEMAS}{name}"}


def _object(**properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(properties)}


@functools.cache
def document() -> Json:
    """Return the OpenAPI document as JSON."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Kafka Controller Monitor",
            "version": version(),
            "description": "Times are milliseconds since 1970. Numbers of 64 bits are text. "
            "An answer has an ETag unless it is older than what is shown. Errors are application/problem+json (RFC 9457).",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": {operation.path: {"get": _operation(operation)} for operation in OPERATIONS},
        "components": {
            "schemas": dict(sorted(_schemas().items())),
            "responses": {
                "Problem": {
                    "description": "What is wrong, and what to do.",
                    "content": {"application/problem+json": {"schema": _ref("Problem")}},
                }
            },
        },
    }


def _operation(operation: Operation) -> Json:
    parameters = [
        {"name": each.name, "in": "query", "description": each.text, "schema": each.schema()}
        for each in operation.parameters
    ]
    if "{name}" in operation.path:
        text = "The cluster's name."
        name: Json = {"name": "name", "in": "path", "required": True, "description": text}
        parameters.insert(0, {**name, "schema": _TEXT})
    etag = {"description": "Give it back as If-None-Match.", "schema": _TEXT}
    version = {
        "description": "By it, what answers is an exporter of kcm.",
        "schema": {"const": API_VERSION},
    }
    return {
        "operationId": operation.handler,
        "summary": operation.summary,
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "The answer.",
                "headers": {"ETag": etag, API_HEADER: version},
                "content": {"application/json": {"schema": _ref(operation.answer)}},
            },
            "304": {"description": "It is what the client has."},
            "default": {"$ref": "#/components/responses/Problem"},
        },
    }


def _schemas() -> dict[str, Json]:
    """Return the schemas of the answers and of the model's records, as the API writes them."""
    kinds = AnyEvent.__args__
    _, found = msgspec.json.schema_components(
        (
            *ANSWERS,
            Completeness,
            ClusterProblem,
            Lags,
            ClusterView,
            BrokerView,
            Recommended,
            *kinds,
        ),
        ref_template=f"{SCHEMAS}{{name}}",
    )
    schemas: dict[str, Json] = dict(found)
    schemas |= {
        "OpenApi": {"type": "object", "description": "An OpenAPI 3.1 document."},
        "Position": _object(generation=_LONG, seq=_WHOLE),
        "TopicPartition": _object(topic=_TEXT, partition=_WHOLE),
    }
    events = {kind.__name__ for kind in kinds}
    for name, schema in schemas.items():
        if "properties" in schema and name not in events:
            schema["required"] = list(schema["properties"])  # only events leave out fields
    for name in events:
        _reword_event(schemas[name])
    schemas["Event"] = {
        "oneOf": [_ref(name) for name in sorted(events)],
        "discriminator": {"propertyName": "kind"},
    }
    _reword_views(schemas)
    about = schemas.pop("AboutCluster")
    for operation in OPERATIONS:
        if operation.path.startswith(f"{CLUSTER}/"):
            schema = schemas[operation.answer]
            schema["properties"] = about["properties"] | schema["properties"]
            schema["required"] = about["required"] + schema["required"]
    return schemas


def _reword_event(schema: Json) -> None:
    properties, required = schema["properties"], schema["required"]
    properties["id"] = {"type": "string", "description": "Its name; rises within a cluster."}
    properties["source_number"] = _LONG
    if properties.get("partitions", {}).get("type") == "array":
        properties["partition_count"] = _WHOLE
        if "partition_count" not in required:
            required.append("partition_count")
    required.append("id")


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
        "problems": {
            "type": "array",
            "items": _ref("ClusterProblem"),
            "description": "What is wrong, critical problems first, by the thresholds of the alerts.",
        },
        "elections_within": {
            "type": "object",
            "additionalProperties": _WHOLE,
            "description": "Elections of the controller within each window up to now, as "
            "kafka_controller_recent_elections counts them: none from before counters_since that the controller "
            "found then does not show. Empty: not known.",
        },
        "brokers": {"type": "array", "items": _ref("Broker")},
        "events": {"type": "array", "items": _ref("Event")},
    }
    # The API shows these as parts of the cluster and of the broker themselves.
    for name in ("config", "counters"):
        del cluster["properties"][name]
    cluster["properties"] |= schemas.pop("ClusterConfig")["properties"]
    cluster["properties"]["kraft_controller"] = {
        "anyOf": [_WHOLE, {"type": "null"}],
        "description": "The `controller` of `migration`.",
    }
    counters = schemas.pop("ClusterCounters")["properties"]
    cluster["properties"] |= {
        name: {"anyOf": [each, {"type": "null"}]} for name, each in counters.items()
    }
    del broker["properties"]["record"]
    broker["properties"] |= schemas.pop("BrokerRecord")["properties"]
    broker["properties"]["epoch"] = _LONG_OR_NULL
    for name in ("BrokerStarted", "BrokerStopped"):
        schemas[name]["properties"]["epoch"] = _LONG_OR_NULL
    of_log = schemas["LogView"]["properties"]
    of_log["read_zxid"] = _LONG
    for name in OF_ZNODES:
        of_log[name] = {"anyOf": [of_log[name], {"type": "null"}]}
    schemas["KraftMigration"]["properties"]["metadata_offset"] = _LONG
    of_quorum = schemas["QuorumView"]["properties"]
    of_quorum["commits_stopped"] = {
        "anyOf": [{"type": "boolean"}, {"type": "null"}],
        "description": "As kafka_quorum_commits_stopped.",
    }
    of_quorum["spare_voters"] = {
        "anyOf": [_WHOLE, {"type": "null"}],
        "description": "As kafka_quorum_spare_voters.",
    }
    of_quorum["lags"] = _ref("Lags")
    schemas["QuorumView"]["required"] = list(of_quorum)
    schemas.pop("AsOf", None)
    with_safety = {**broker["properties"], "safe_to_stop": _ref("StopSafety")}
    for name, schema in (
        ("Cluster", cluster),
        ("Broker", broker),
        ("BrokerAndSafety", {**broker, "properties": with_safety}),
    ):
        schemas[name] = {**schema, "title": name, "required": list(schema["properties"])}
