"""`kcm doctor`: is everything there that the monitor needs, and is it well?

The rule: it reads and never writes: nothing is changed to ZooKeeper, Kafka or the disk. All checks
run at once, each within its time, and each says what to do.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from kcm.cli.exits import NOT_SO
from kcm.cli.options import Options, with_options
from kcm.cli.parts import STREAM, WATCH, AllSettings, load_all
from kcm.doctor.exporter import ANSWER_S, ask_ready, check_exporter
from kcm.doctor.findings import Check, Finding, Level, run_checks, unknown
from kcm.doctor.kafka import check_kafka, same_cluster, shown_cluster
from kcm.doctor.machine import check_machine
from kcm.queries.api_client import ExporterApi, cluster_path
from kcm.queries.options import DEFAULT_URL, AsJson, Exporter, print_json, printing
from pipeline.runtime import KcmError, UnreachableError
from streaming.config import StreamSettings
from zk_source.config import WatchSettings

DEADLINE_S = 20.0
WAITS_OF_TIMEOUT = 0.8
"""Of the time that a check has, how long one waits for what another finds."""
_NO_CLIENT = "the watcher is not installed here (package kazoo)"
_NAMES = (
    "zookeeper",
    "zk_auth",
    "zk_tls",
    "zk_tls_ca",
    "zk_tls_cert",
    "zk_tls_key",
    "zk_tls_key_password",
    "bootstrap_servers",
    "kafka_properties",
    "topic_prefix",
    "java_home",
)
_COLOURS = {
    Level.OK: typer.colors.GREEN,
    Level.WARN: typer.colors.YELLOW,
    Level.FAIL: typer.colors.RED,
}


class _Ids:
    """The two clusters' ids, each found by a check of its own while the third waits for both."""

    def __init__(self) -> None:
        self.watched: str | None = None
        self.own: str | None = None
        self.watched_checked = threading.Event()
        self.own_checked = threading.Event()


@with_options(
    (WATCH.title, WatchSettings),
    (STREAM.title, StreamSettings),
    only=_NAMES,
    defaults={"bootstrap_servers": "what the exporter reads, else 127.0.0.1:9092"},
)
def doctor(
    config: Path | None,
    options: Options,
    *,
    exporter: Exporter = DEFAULT_URL,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=1, max=600, help="How long a check may take."),
    ] = DEADLINE_S,
    as_json: AsJson = False,
) -> int:
    """Check everything that the monitor needs, a line each, and change nothing.

    Examples: kcm doctor, kcm doctor --zookeeper zk1:2181/kafka --bootstrap-servers k1:9092, kcm doctor --json | jq

    A line is ok, warn (to be checked by somebody), fail (figures are wrong, late or missing because of it), or - (not
    measured, and why). The exit code is 6 if one fails.
    """
    # Several checks ask it one after another: one that hangs must leave the others their time.
    api = ExporterApi(exporter, within_s=min(ANSWER_S, timeout / 4))
    settings = load_all(config, options)
    findings = run_checks(_checks(api, settings, timeout), timeout)
    with printing():
        if as_json:
            print_json([finding._asdict() for finding in findings])
        else:
            for line in lines(findings, coloured=sys.stdout.isatty()):
                sys.stdout.write(f"{line}\n")
    return NOT_SO if any(finding.level is Level.FAIL for finding in findings) else 0


def lines(findings: Iterable[Finding], *, coloured: bool) -> Iterable[str]:
    """Yield the findings, a line each, and how many there are of each level."""
    shown = list(findings)
    width = max(len(finding.about) for finding in shown)
    for finding in shown:
        level = f"{finding.level:<4}"
        if coloured and finding.level in _COLOURS:
            level = typer.style(level, fg=_COLOURS[finding.level], bold=True)
        todo = f" -> {finding.todo}" if finding.todo else ""
        yield f"{level}  {finding.about:<{width}}  {finding.text}{todo}"
    counts = [(level, sum(finding.level is level for finding in shown)) for level in Level]
    named = {Level.UNKNOWN: "not measured"}
    yield ", ".join(f"{count} {named.get(level, level)}" for level, count in counts if count)


def _checks(api: ExporterApi, settings: AllSettings, timeout_s: float) -> dict[str, Check]:
    """Return the checks in the order in which they are printed."""
    ids = _Ids()
    wait_s = timeout_s * WAITS_OF_TIMEOUT
    return {
        "machine": lambda: check_machine(settings.stream.java_home),
        **_zookeepers(settings.watch),
        "cluster": lambda: _cluster(settings.watch, ids),
        "kafka": lambda: _kafka(api, settings, ids),
        "apart": lambda: _apart(ids, wait_s),
        "exporter": lambda: check_exporter(api),
        "same cluster": lambda: _same(api, ids, wait_s),
    }


def _zookeepers(settings: WatchSettings) -> dict[str, Check]:
    """Return a check for each server, so that one that is away holds up none of the others."""

    def asked(address: str) -> Check:
        return lambda: [_zookeeper("check_server", settings, address)]

    if not _has_zookeeper_client():
        return {"zookeeper": lambda: [unknown("zookeeper", _NO_CLIENT)]}
    return {f"zookeeper {address}": asked(address) for address in settings.hosts.split(",")}


def _has_zookeeper_client() -> bool:
    return importlib.util.find_spec("kazoo") is not None


def _zookeeper(function: str, *arguments: Any) -> Any:
    """Call a check of ZooKeeper, whose client only the watcher brings."""
    module = importlib.import_module("kcm.doctor.zookeeper")
    return getattr(module, function)(*arguments)


def _cluster(settings: WatchSettings, ids: _Ids) -> Iterable[Finding]:
    try:
        if not _has_zookeeper_client():
            return []
        seen = _zookeeper("check_cluster", settings)
        ids.watched = seen.cluster_id
        findings: list[Finding] = seen.findings
        return findings
    finally:
        ids.watched_checked.set()


def _kafka(api: ExporterApi, settings: AllSettings, ids: _Ids) -> Iterable[Finding]:
    try:
        seen = check_kafka(_with_known_address(api, settings))
        ids.own = seen.cluster_id
        return seen.findings
    finally:
        ids.own_checked.set()


def _apart(ids: _Ids, wait_s: float) -> Iterable[Finding]:
    ends_at_s = time.monotonic() + wait_s
    for asked in (ids.watched_checked, ids.own_checked):
        asked.wait(max(0.0, ends_at_s - time.monotonic()))
    return [same_cluster(ids.watched, ids.own)]


def _same(api: ExporterApi, ids: _Ids, wait_s: float) -> Iterable[Finding]:
    """Check that the exporter shows the very cluster whose ZooKeeper was checked."""
    ends_at_s = time.monotonic() + wait_s
    try:
        names = api.cluster_names()
        shown = {name: api.get(cluster_path(name))["cluster_id"] for name in names}
    except KcmError:
        shown = {}  # its own line says why
    ids.watched_checked.wait(max(0.0, ends_at_s - time.monotonic()))
    return [shown_cluster(ids.watched, shown)]


def _with_known_address(api: ExporterApi, settings: AllSettings) -> Any:
    """Return the settings, with the exporter's own address of Kafka where none was given."""
    export = settings.export
    if "bootstrap_servers" in export.model_fields_set:
        return export
    try:
        servers = ask_ready(api).body["reading"].get("bootstrap_servers")
    except UnreachableError:
        return export
    return export if servers is None else export.model_copy(update={"bootstrap_servers": servers})
