"""Make the reference of the HTTP API: docs/http-api.md.

The rule: paths, parameters and fields are read from the table and the document that the exporter
itself uses. The examples are commands that a test runs against it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from exporter.api.openapi import document
from exporter.api.operations import EVENT_KINDS, OPERATIONS, Operation
from exporter.core.parameters import Parameter
from tools.docs.markdown import code, page, plain, shell, table

HOST = "http://localhost:9640"
CLUSTER_NAME = "prod"
"""The cluster in the examples."""

ABOUT = f"""The exporter serves this at `/api/v1`; `{OPERATIONS[1].path}` is the same as an OpenAPI 3.1 document, made from the same
table. Only GET and HEAD; no password: open it only to a network that you trust.

- **How far an answer is true** stands in each answer about a cluster: `completeness` has `status` (`live`, `behind`, `incomplete`,
  `divergent`, `blind`, `kraft`), `since`, the `stage` to blame, and `verified_at`. `as_of` is the place in the log that the answer holds for.
- **Numbers of 64 bits** (zxids, generations, broker epochs) are text, because many JSON readers round them. Times are milliseconds since 1970.
- **Pages.** `next` is the `after` of the next page, null at the end. All pages of a recommendation are of the same one: when it has become
  another one, the next page is refused with 409; begin again without `after`.
- **`Kcm-Api: v1`** is a header of each answer that is no error: by it, what answers is an exporter of kcm. The commands read no other.
- **ETag.** Give it back as `If-None-Match`: the answer is 304 without a body while it is the same to the byte, `as_of` and `completeness` included.
- **Of a moment ago.** Recommendations and what-ifs read every partition. While a cluster changes faster than they can be computed, the last one
  stands for four times as long as it took: its `as_of` is older than that of other answers, and it has no ETag. With the header
  `Cache-Control: no-cache` it is computed again, as the commands of `kcm` want it.
- **Addresses** in answers (`href` and those of `/api/v1`) are relative to the address of the answer.
- **Errors** are `application/problem+json` (RFC 9457) with a `detail` that says what to do: 400 for a parameter that is not known or not
  possible, 404 for a cluster or a path that is not served, 409 for a page of what is no more, 503 while the exporter cannot answer.
- Within v1, fields may be added to answers; none is renamed or taken away."""

OUTSIDE = f"""## Outside of /api/v1

| Path | Serves |
|---|---|
| `/` | The live page, for those who have no Grafana at hand. |
| `/metrics` | All [metrics](metrics.md), for Prometheus, as text or OpenMetrics. |
| `/metrics/partitions` | Five series for every partition, and the counts of brokers and partitions, in kafka_exporter's names ([metric by metric](migrating-from-kafka-exporter.md)), where `partition_metrics` is set. |
| `/runbooks`, `/runbooks/NAME` | The runbook of each alert, as alerts link to them. |
| `/healthz` | 200 while the exporter's loops turn; 503 with a `reason` after one has stood still for 60 s: only a restart helps. |
| `/readyz` | 200 once both topics were read to their ends and while the pipeline's Kafka answers and is read; 503 with `reasons` else. |

```
curl -s {HOST}/readyz
curl -s {HOST}/metrics
```"""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "topics": ("filter=under-replicated&limit=10",),
    "partitions": ("filter=offline", "filter=not-preferred&filter=electable&broker=1"),
    "events": ("since=2026-11-21T03:00:00Z&kind=ControllerElected&kind=BrokerStopped",),
    "recommendations": ("", "broker=1"),
    "what_if": ("each=broker", "each=pair", "lose_broker=1&lose_broker=2", "lose_rack=r1"),
    "rehearsal": ("step=stop-broker:1", "step=kill-broker:1&step=start-broker:1&limit=10"),
}
"""The parameters of each operation in its examples; operations that are missing here take none."""


def http_page() -> str:
    """Return the page."""
    operations = [block for operation in OPERATIONS for block in _operation(operation)]
    return page("HTTP API", ABOUT, *operations, OUTSIDE)


def _operation(operation: Operation) -> Iterator[str]:
    yield f"## {operation.path}"
    yield plain(operation.summary)
    yield shell(*map(_curl, _addresses(operation)))
    if operation.parameters:
        rows = ((code(each.name), _takes(each), plain(each.text)) for each in operation.parameters)
        yield table(("Parameter", "Takes", "Does"), rows)
    fields = document()["components"]["schemas"][operation.answer].get("properties", {})
    if fields:
        yield f"The answer: {', '.join(code(name) for name in fields)}."


def _addresses(operation: Operation) -> Iterator[str]:
    path = operation.path.replace("{name}", CLUSTER_NAME)
    for query in EXAMPLES.get(operation.handler, ("",)):
        yield f"{HOST}{path}{'?' if query else ''}{query}"


def _curl(address: str) -> str:
    return f"curl -s '{address}'" if "&" in address or "?" in address else f"curl -s {address}"


def _takes(parameter: Parameter) -> str:
    schema: dict[str, Any] = parameter.schema()
    one = schema.get("items", schema)
    if parameter.values == EVENT_KINDS:
        text = "a kind of [event](events.md)"
    elif "enum" in one:
        text = ", ".join(map(code, one["enum"]))
    elif one["type"] == "integer":
        default = f"; {one['default']} if not given" if "default" in one else ""
        text = f"{one['minimum']} to {one['maximum']}{default}"
    else:
        text = "a time" if parameter.is_time else "text"
    return f"{text}; repeatable" if parameter.many else text
