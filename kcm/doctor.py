"""`kcm doctor`: is everything there that the monitor needs, and is it well?

The rule: it looks and never touches: nothing is written to ZooKeeper, Kafka or the disk. All checks
run at once, each within its time, and each says what to do.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from kcm.api_client import ExporterApi
from kcm.asking import DEFAULT_URL, AsJson, Exporter, print_json, printing
from kcm.doctor_exporter import check_exporter
from kcm.doctor_findings import Check, Finding, Level, run_checks, unknown
from kcm.doctor_kafka import look_at_kafka, same_cluster
from kcm.doctor_machine import check_machine
from kcm.exits import NOT_SO
from kcm.options import Options, with_options
from kcm.parts import STREAM, WATCH, AllSettings, load_all
from pipeline.runtime import KcmError
from streaming.config import StreamSettings
from zk_source.config import WatchSettings

DEADLINE_S = 20.0
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
        self.watched_asked = threading.Event()
        self.own_asked = threading.Event()


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

    A line is ok, warn (somebody should look), fail (figures are wrong, late or missing because of it), or - (not
    measured, and why). The exit code is 6 if one fails.
    """
    api = ExporterApi(exporter)
    settings = load_all(config, options)
    findings = run_checks(_checks(api, settings), timeout)
    with printing():
        if as_json:
            print_json([finding._asdict() for finding in findings])
        else:
            for line in lines(findings, coloured=sys.stdout.isatty()):
                sys.stdout.write(f"{line}\n")
    return NOT_SO if any(finding.level is Level.FAIL for finding in findings) else 0


def lines(findings: Iterable[Finding], *, coloured: bool) -> Iterable[str]:
    """Yield the findings, a line each, and how many there are of each level."""
    told = list(findings)
    width = max(len(finding.about) for finding in told)
    for finding in told:
        level = f"{finding.level:<4}"
        if coloured and finding.level in _COLOURS:
            level = typer.style(level, fg=_COLOURS[finding.level], bold=True)
        todo = f" -> {finding.todo}" if finding.todo else ""
        yield f"{level}  {finding.about:<{width}}  {finding.text}{todo}"
    counts = [(level, sum(finding.level is level for finding in told)) for level in Level]
    named = {Level.UNKNOWN: "not measured"}
    yield ", ".join(f"{count} {named.get(level, level)}" for level, count in counts if count)


def _checks(api: ExporterApi, settings: AllSettings) -> dict[str, Check]:
    """Return the checks in the order in which they are told."""
    ids = _Ids()
    return {
        "machine": lambda: check_machine(settings.stream.java_home),
        "zookeeper": lambda: _zookeeper(settings.watch, "check_servers"),
        "cluster": lambda: _cluster(settings.watch, ids),
        "kafka": lambda: _kafka(api, settings, ids),
        "apart": lambda: _apart(ids),
        "exporter": lambda: check_exporter(api),
    }


def _zookeeper(settings: WatchSettings, function: str) -> Any:
    """Call a check of ZooKeeper, whose client only the watcher brings."""
    if importlib.util.find_spec("kazoo") is None:
        return [unknown("zookeeper", "the watcher is not installed here (package kazoo)")]
    module = importlib.import_module("kcm.doctor_zookeeper")
    check: Callable[[WatchSettings], Any] = getattr(module, function)
    return check(settings)


def _cluster(settings: WatchSettings, ids: _Ids) -> Iterable[Finding]:
    try:
        if importlib.util.find_spec("kazoo") is None:
            return []
        seen = _zookeeper(settings, "look_into")
        ids.watched = seen.cluster_id
        findings: list[Finding] = seen.findings
        return findings
    finally:
        ids.watched_asked.set()


def _kafka(api: ExporterApi, settings: AllSettings, ids: _Ids) -> Iterable[Finding]:
    try:
        seen = look_at_kafka(_with_known_address(api, settings))
        ids.own = seen.cluster_id
        return seen.findings
    finally:
        ids.own_asked.set()


def _apart(ids: _Ids) -> Iterable[Finding]:
    ids.watched_asked.wait(DEADLINE_S)
    ids.own_asked.wait(DEADLINE_S)
    return [same_cluster(ids.watched, ids.own)]


def _with_known_address(api: ExporterApi, settings: AllSettings) -> Any:
    """Return the settings, with the exporter's own address of Kafka where none was given."""
    export = settings.export
    if "bootstrap_servers" in export.model_fields_set:
        return export
    try:
        name = api.cluster_names()[0]
        written_to = api.get(f"/clusters/{name}/maintenance")["written_to"]
    except (KcmError, IndexError):
        return export
    if written_to is None:
        return export
    return export.model_copy(update={"bootstrap_servers": written_to["bootstrap_servers"]})
