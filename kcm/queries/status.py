"""`kcm status`: the state of a cluster on one screen."""

import sys
from typing import Annotated, Any

import typer
from rich.console import RenderableType
from rich.live import Live
from rich.text import Text

from kcm.queries.api_client import DEFAULT_URL, ApiAnswer, ExporterApi, cluster_path
from kcm.queries.options import (
    AsJson,
    Cluster,
    Exporter,
    HttpConfigFile,
    console,
    poll,
    print_json,
    printing,
)
from kcm.queries.status_text import MAX_PARTITIONS, fleet, screen
from pipeline.clock import clock_ms

POLL_INTERVAL_S = 1.0
MAX_BROKERS = 1000
ABNORMAL = ("offline", "under-min-isr", "under-replicated")
"""What is listed on the screen, the worst first."""


def status(
    *,
    exporter: Exporter = DEFAULT_URL,
    http_config_file: HttpConfigFile = None,
    cluster: Cluster = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh every second, until Ctrl-C.")
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Show the state of a cluster on one screen.

    Examples: kcm status, kcm status --watch, kcm status --cluster prod --json | jq .counts.offline

    With several clusters and without --cluster, it prints one line for each, the worst first.
    """
    api = ExporterApi(exporter, http_config_file)
    with printing():
        if watch:
            _watch(api, cluster, as_json=as_json)
        answer = read_status(api, cluster)
        if as_json:
            print_json(answer)
        else:
            console().print(shown(answer, clock_ms()), crop=False)
    return 0


def read_status(api: ExporterApi, cluster: str | None) -> Any:
    """Return the API's answer: for one cluster in full, or (no name, and several) for all in short."""
    if cluster is None:
        clusters = api.get("/clusters")["clusters"]
        if len(clusters) > 1:
            return {"clusters": clusters}
    name = api.choose(cluster)
    answer = api.get(cluster_path(name))
    brokers = api.pages(cluster_path(name, "/brokers"), "brokers", most=MAX_BROKERS)
    more = {"brokers": list(brokers), "abnormal": _abnormal(api, name, answer["counts"])}
    return ApiAnswer({**answer, **more}, api.url)


def shown(answer: Any, now_ms: int) -> RenderableType:
    """Return an answer as text for a terminal."""
    if "clusters" in answer:
        return fleet(answer["clusters"])
    return screen(answer, answer["abnormal"], now_ms)


def _abnormal(api: ExporterApi, cluster: str, counts: dict[str, int]) -> list[Any]:
    found: dict[tuple[str, int], Any] = {}
    path, most = cluster_path(cluster, "/partitions"), MAX_PARTITIONS + 1
    for condition in ABNORMAL:
        if counts[condition.replace("-", "_")]:
            for each in api.pages(path, "partitions", most=most, filter=condition):
                found.setdefault((each["topic"], each["partition"]), each)
    return list(found.values())


def _watch(api: ExporterApi, cluster: str | None, *, as_json: bool) -> None:
    """Show it again and again; never returns, Ctrl-C ends it."""
    if as_json or not sys.stdout.isatty():
        _repeat(api, cluster, as_json=as_json)
    with Live(console=console(), screen=True, auto_refresh=False) as live:

        def on_unreachable(line: str) -> None:
            live.update(Text(line, style="bold red"), refresh=True)

        for answer in poll(
            lambda: read_status(api, cluster),
            every_s=POLL_INTERVAL_S,
            on_unreachable=on_unreachable,
        ):
            live.update(shown(answer, clock_ms()), refresh=True)


def _repeat(api: ExporterApi, cluster: str | None, *, as_json: bool) -> None:
    """Print it whenever it has changed; never returns."""
    before = None
    for answer in poll(lambda: read_status(api, cluster), every_s=POLL_INTERVAL_S):
        if answer != before:
            before = answer
            if as_json:
                print_json(answer, indent=None)
            else:
                console().print(shown(answer, clock_ms()), "", crop=False)
            sys.stdout.flush()
