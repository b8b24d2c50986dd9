"""`kcm events`: list a cluster's events, and follow new ones."""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import typer

from kcm.queries.api_client import DEFAULT_URL, PAGE, ExporterApi, cluster_path
from kcm.queries.options import (
    AsJsonLines,
    Cluster,
    Exporter,
    HttpConfigFile,
    poll,
    print_json,
    printing,
    read_since,
)
from kcm.queries.status_text import event_line
from pipeline.clock import clock_ms

POLL_INTERVAL_S = 0.5
"""How often the exporter is polled while following; an answer without new events is a few bytes."""
MOST = 1_000_000
"""More events than an exporter may keep."""


Follow = Annotated[
    bool, typer.Option("--follow", "-f", help="Also print new events as they happen, until Ctrl-C.")
]
Since = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Only events since this time: 30m, 2h, 1d, 2026-11-21T10:00:00Z, or milliseconds "
        "since 1970.",
    ),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(metavar="KIND", help="Only this kind, such as ControllerElected; repeatable."),
]
Limit = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, max=MOST, help="The newest N. [default: 20; with --since all]"
    ),
]


def events(
    *,
    exporter: Exporter = DEFAULT_URL,
    http_config_file: HttpConfigFile = None,
    cluster: Cluster = None,
    follow: Follow = False,
    since: Since = None,
    kind: Kinds = None,
    limit: Limit = None,
    as_json: AsJsonLines = False,
) -> int:
    """Show the events of a cluster, the newest last.

    Examples: kcm events --follow, kcm events --since 2h --kind ControllerElected --kind BrokerStopped

    The exporter keeps the newest events only (its setting events_kept); the topic <prefix>.events has them all.
    """
    api = ExporterApi(exporter, http_config_file)
    since_ms = None if since is None else read_since(since, clock_ms())
    most = limit or (20 if since is None else MOST)
    with printing():
        name = api.choose(cluster)
        path = cluster_path(name, "/events")
        found, newer = newest(api, path, most=most, kind=kind, since=since_ms)
        for event in found:
            _show(event, as_json=as_json)
        if follow:
            sys.stdout.flush()
            for event in following(api, path, newer, kind=kind):
                _show(event, as_json=as_json)
                sys.stdout.flush()
    return 0


def newest(
    api: ExporterApi, path: str, *, most: int, **params: Any
) -> tuple[list[Any], str | None]:
    """Return the newest events, oldest first, and the place after which newer ones follow."""
    page = api.get(path, limit=min(most, PAGE), **params)
    newer, found = page["newer"], page["events"]
    while page["older"] is not None and len(found) < most:
        page = api.get(path, limit=min(most - len(found), PAGE), before=page["older"], **params)
        found = found + page["events"]
    return found[::-1], newer


def following(api: ExporterApi, path: str, newer: str | None, **params: Any) -> Iterator[Any]:
    """Yield new events as they are served; while an exporter is down, wait for it."""

    def ask() -> list[Any]:
        nonlocal newer
        found, at = [], newer
        while True:
            if at is None:
                page, at = newest(api, path, most=PAGE, **params)
            else:
                answer = api.get(path, after=at, limit=PAGE, **params)
                page, at = answer["events"], answer["newer"]
            found += page
            if len(page) < PAGE:
                newer = at  # only now: what was served before an error is served again
                return found

    for found in poll(ask, every_s=POLL_INTERVAL_S, begun=True):
        yield from found


def _show(event: Any, *, as_json: bool) -> None:
    if as_json:
        print_json(event, indent=None)
    else:
        sys.stdout.write(f"{event_line(event)}\n")
