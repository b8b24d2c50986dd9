"""Make the reference of events: docs/events.md.

The rule: kinds, their meaning and their fields come from the records and from the API's document.
"""

from __future__ import annotations

from typing import Any

from controller_model.records.events import AnyEvent
from docs.markdown import code, page, plain, table
from exporter.api.openapi import document

ABOUT = """What happened, as [`kcm events`](commands.md#kcm-events) shows it and [the API](http-api.md#apiv1clustersnameevents) gives it: one event for
each cause, with the partitions that it changed. The topic `<prefix>.events` keeps them for 30 days, the exporter the newest (`events_kept`).

Every event has `kind`, `id` (rises within a cluster), `at` (milliseconds since 1970), `position` (its place in the log) and, where one transaction was its
cause, `source_number` (in ZooKeeper the zxid). Of many partitions the API lists the first 20 and gives `partition_count`. What ZooKeeper does not hold is left out.

For preferred elections `by` names where the request came from: `kcm` ([`kcm elect`](commands.md#kcm-elect), which writes a record of it to the log), `znode`
(a request under /admin), `other` (a request that only a resync found). Without `by` no request was seen: the controller rebalanced by itself, or a tool used the
controller's API. `elected_by` of a `grade` counts elections by origin and infers those of the controller (`rebalance`); the rest is `other`."""
_EVERYWHERE = {"kind", "id", "at", "position", "source_number"}


def events_page() -> str:
    """Return the page."""
    rows = (
        (
            code(kind.__name__),
            plain((kind.__doc__ or "").partition("\n")[0]),
            _fields(kind.__name__),
        )
        for kind in AnyEvent.__args__
    )
    return page("Events", ABOUT, table(("Kind", "Means", "Fields"), rows))


def _fields(kind: str) -> str:
    properties: dict[str, Any] = document()["components"]["schemas"][kind]["properties"]
    shown = (
        f"{code(name)}{_values(schema)}"
        for name, schema in properties.items()
        if name not in _EVERYWHERE
    )
    return ", ".join(shown)


def _values(schema: dict[str, Any]) -> str:
    """Return the values of a field that has a fixed set; empty for any other field."""
    schemas = document()["components"]["schemas"]
    each = [schema, *schema.get("anyOf", [])]
    found = [schemas[ref["$ref"].rpartition("/")[2]] for ref in each if "$ref" in ref]
    values = [str(value) for enum in found for value in enum.get("enum", [])]
    return f" ({', '.join(values)})" if values else ""
