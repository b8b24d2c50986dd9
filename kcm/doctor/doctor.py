"""`kcm doctor`: check that everything the monitor needs is there and works.

It only reads. It changes nothing in ZooKeeper, at controllers, in Kafka or on disk. All checks run at
once, each with a time limit, and each says what to do.
"""

import importlib.util
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from exporter.core.config import ExportSettings
from kcm.cli.exits import EXIT_CONDITION_FALSE
from kcm.cli.options import Options, with_options
from kcm.cli.parts import AllSettings, load_all
from kcm.cli.text import printable
from kcm.doctor.broker_files import IN_KRAFT, check_broker_files
from kcm.doctor.controllers import check_controller, check_quorum
from kcm.doctor.exporter import ANSWER_S, ask_ready, check_exporter
from kcm.doctor.findings import Check, ClusterFindings, Finding, Level, fail, run_checks, unknown
from kcm.doctor.kafka import ABOUT, NO_TOPIC, check_kafka, same_cluster, shown_cluster
from kcm.doctor.machine import check_machine
from kcm.queries.api_client import DEFAULT_URL, ExporterApi, cluster_path
from kcm.queries.options import AsJson, Exporter, HttpConfigFile, print_json, printing
from kraft_source.config import KraftSettings
from kraft_source.wire.messages import ControllerEndpoint
from pipeline.runtime import KcmError, UnreachableError
from pipeline.topics import topic_names
from streaming.config import StreamSettings
from zk_source.config import WatchSettings

DEADLINE_S = 20.0
WAITS_OF_TIMEOUT = 0.8
"""The part of a check's time for which it waits for a result of another check."""
_NO_ADDRESS = "not asked: kafka_properties may hold credentials, and no address is given for them"
_NO_CLIENT = "the watcher is not installed here (package kazoo)"
_NAMES = (
    "zookeeper",
    "zk_auth",
    "zk_tls",
    "zk_tls_ca",
    "zk_tls_cert",
    "zk_tls_key",
    "zk_tls_key_password",
    *(
        name
        for name in KraftSettings.model_fields
        if name == "controllers" or name.startswith("controller_")
    ),
    "bootstrap_servers",
    "kafka_properties",
    "secrets_dir",
    "topic_prefix",
    "java_home",
)
_COLOURS = {
    Level.OK: typer.colors.GREEN,
    Level.WARN: typer.colors.YELLOW,
    Level.FAIL: typer.colors.RED,
}


ClusterId: TypeAlias = Future[str | None]
"""A cluster's id, found by one check while others wait for it; None: not known."""


@with_options(
    WatchSettings,
    KraftSettings,
    StreamSettings,
    only=_NAMES,
    defaults={
        "controllers": "",
        "bootstrap_servers": "what the exporter reads, else 127.0.0.1:9092; must be given with "
        "kafka_properties",
    },
)
def doctor(
    config: Path | None,
    options: Options,
    *,
    exporter: Exporter = DEFAULT_URL,
    http_config_file: HttpConfigFile = None,
    timeout: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=1, max=600, help="How long a check may take."),
    ] = DEADLINE_S,
    as_json: AsJson = False,
) -> int:
    """Check everything that the monitor needs, one line per check; it changes nothing.

    Examples: kcm doctor, kcm doctor --zookeeper zk1:2181/kafka --bootstrap-servers k1:9092, kcm doctor --controllers c1:9093,c2:9093

    With --bootstrap-servers of a watched cluster it reads the settings in its brokers' configuration files, and prints what to set in the
    monitor. A line is ok, warn (a person should check it), fail (figures are wrong, late or missing because of it), or - (not measured, and
    why). The exit code is 6 if a check fails.
    """
    # Several checks ask it one after another: one that hangs must leave time to the others.
    api = ExporterApi(exporter, http_config_file, within_s=min(ANSWER_S, timeout / 4))
    settings = load_all(config, options)
    findings = run_checks(_checks(api, settings, timeout), timeout)
    with printing():
        if as_json:
            print_json([finding._asdict() for finding in findings])
        else:
            for line in lines(findings, coloured=sys.stdout.isatty()):
                sys.stdout.write(f"{line}\n")
    return EXIT_CONDITION_FALSE if any(finding.level is Level.FAIL for finding in findings) else 0


def lines(findings: Iterable[Finding], *, coloured: bool) -> Iterable[str]:
    """Yield the findings, a line each, and the number of findings at each level."""
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
    watched: ClusterId = Future()
    own: ClusterId = Future()
    ends_at_s = time.monotonic() + timeout_s * WAITS_OF_TIMEOUT
    return {
        "machine": lambda: check_machine(settings.stream.java_home),
        **_source_checks(settings.watch, watched, timeout_s / 2),
        "kafka": lambda: _of_watched(
            _found(lambda: _check_kafka(api, settings.export, timeout_s / 2), own),
            lambda: clusters_of(api, settings, *_known(watched, own, ends_at_s=ends_at_s)),
        ),
        "apart": lambda: [same_cluster(*_known(watched, own, ends_at_s=ends_at_s))],
        "exporter": lambda: check_exporter(api),
        "same cluster": lambda: _same(api, settings.watch, watched, ends_at_s),
        "brokers' files": lambda: _broker_files(api, settings, watched, own, ends_at_s),
    }


def _source_checks(
    settings: WatchSettings | KraftSettings, watched: ClusterId, within_s: float
) -> dict[str, Check]:
    """Return a check for each server or controller, so that one that is down delays no other, and one for all of them."""
    if isinstance(settings, KraftSettings):
        kraft = settings

        def controller(endpoint: ControllerEndpoint) -> Check:
            return lambda: [check_controller(kraft, endpoint)]

        return {
            **{f"controller {endpoint}": controller(endpoint) for endpoint in kraft.endpoints},
            "quorum": lambda: _found(lambda: check_quorum(kraft), watched),
        }
    if importlib.util.find_spec("kazoo") is None:
        watched.set_result(None)
        return {"zookeeper": lambda: [unknown("zookeeper", _NO_CLIENT)]}
    from kcm.doctor.zookeeper import check_cluster, check_server  # noqa: PLC0415  # only the watcher brings its client

    def server(address: str) -> Check:
        return lambda: [check_server(settings, address)]

    return {
        **{f"zookeeper {address}": server(address) for address in settings.hosts.split(",")},
        "cluster": lambda: _found(lambda: check_cluster(settings, within_s), watched),
    }


def _found(check: Callable[[], ClusterFindings], cluster_id: ClusterId) -> list[Finding]:
    """Return the findings of a check of a cluster, and give the cluster's id to the checks that wait."""
    seen = ClusterFindings([], None)
    try:
        seen = check()
    finally:
        cluster_id.set_result(seen.cluster_id)
    return seen.findings


def _known(*ids: ClusterId, ends_at_s: float) -> list[str | None]:
    """Return the clusters' ids; None for an id that is not found in time."""
    wait(ids, timeout=max(0.0, ends_at_s - time.monotonic()))
    return [each.result() if each.done() else None for each in ids]


def _of_watched(
    findings: list[Finding], clusters: Callable[[], Mapping[str, object]]
) -> Iterable[Finding]:
    """Return the findings of a Kafka; for a watched cluster, without those about missing topics."""
    lacking = [finding for finding in findings if finding.text == NO_TOPIC]
    names = list(clusters()) if len(lacking) == len(topic_names("")) else []
    if not names:
        return findings
    why = f"these are the brokers of {', '.join(names)}, which is watched; the topics are elsewhere"
    rest = [finding for finding in findings if finding.text != NO_TOPIC]
    return [*rest, unknown("topics", printable(why))]


def clusters_of(
    api: ExporterApi, settings: AllSettings, watched: str | None, own: str | None
) -> dict[str, dict[str, int | None]]:
    """Return the names under which a Kafka is watched, each with the settings that concern its brokers.

    `watched` is the id of the cluster in ZooKeeper or of the controllers, `own` the id of the Kafka that was asked.
    Whether a value that the exporter does not show is set is not known.
    """
    found: dict[str, dict[str, int | None]] = {}
    if own is None:
        return found
    try:
        for name in api.cluster_names():
            answer = api.get(cluster_path(name))
            if answer["cluster_id"] == own:
                # None: a part of the cluster cannot be seen.
                rebalance = answer["rebalance"] or {}
                found[name] = {
                    "min_insync_replicas": answer["min_isr_assumed"],
                    "leader_imbalance_percentage": rebalance.get("threshold_percentage"),
                    "auto_leader_rebalance": rebalance.get("auto_leader_rebalance"),
                }
                if answer.get("quorum") is not None:
                    found[name][IN_KRAFT] = 1
    except KcmError:
        pass  # its own check reports why
    if not found and watched == own:
        found[settings.watch.cluster] = {}
    return found


def _broker_files(
    api: ExporterApi, settings: AllSettings, watched: ClusterId, own: ClusterId, ends_at_s: float
) -> Iterable[Finding]:
    """Check the fold's settings against the brokers' own files, if the given brokers are watched."""
    # Only an address that the user gave is asked: any other may lead anywhere.
    is_named = "bootstrap_servers" in settings.export.model_fields_set
    watched_id, own_id = _known(watched, own, ends_at_s=ends_at_s) if is_named else (None, None)
    clusters = clusters_of(api, settings, watched_id, own_id)
    if not clusters:
        why = "no brokers of a watched cluster are named: --bootstrap-servers takes them, too"
        return [unknown("brokers' files", why)]
    return check_broker_files(settings.export, clusters)


def _same(
    api: ExporterApi, source: WatchSettings | KraftSettings, watched: ClusterId, ends_at_s: float
) -> Iterable[Finding]:
    """Check that the exporter shows the same cluster whose ZooKeeper, or whose controllers, were checked."""
    try:
        names = api.cluster_names()
        shown = {name: api.get(cluster_path(name))["cluster_id"] for name in names}
    except KcmError:
        shown = {}  # its own check reports why
    (watched_id,) = _known(watched, ends_at_s=ends_at_s)
    return [shown_cluster(watched_id, shown, is_kraft=isinstance(source, KraftSettings))]


def _check_kafka(api: ExporterApi, settings: ExportSettings, within_s: float) -> ClusterFindings:
    """Check the pipeline's Kafka at the configured address; without credentials, at the exporter's.

    Credentials are sent only to an address that the user gave: whoever answers in the exporter's
    place could name any other.
    """
    if "bootstrap_servers" in settings.model_fields_set:
        return check_kafka(settings, within_s)
    if settings.kafka_properties:
        return ClusterFindings([fail(ABOUT, _NO_ADDRESS, "give --bootstrap-servers")], None)
    try:
        servers = ask_ready(api).body["reading"].get("bootstrap_servers")
    except UnreachableError:
        servers = None
    known = {} if servers is None else {"bootstrap_servers": servers}
    return check_kafka(settings.model_copy(update=known), within_s)
