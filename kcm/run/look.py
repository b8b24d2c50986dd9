"""`kcm look`: watch one cluster at once, in one process: no Kafka, no Spark, no Java, nothing on disk.

The watcher, the model and the exporter are those of the whole monitor; only the topics between them are in memory
(`look_topics`). What that gives up is said at the start.
"""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.completeness import Status
from controller_model.records.views import ClusterView
from exporter.core.config import ExportSettings
from exporter.serve.service import Exporter, serving
from kcm.cli.exits import traced
from kcm.cli.options import NO_CLUSTER, Options, option_name, with_options
from kcm.cli.parts import (
    AllSettings,
    Service,
    import_service,
    load_all,
    require_cluster,
    suspicious_variables,
    watch_part,
)
from kcm.cli.text import known, time_text, warn
from kcm.run.look_topics import LookTopics
from kraft_source.config import KraftSettings
from pipeline.clock import clock_ms
from pipeline.runtime import configure_logging, install_stop_signal, queue_output
from pipeline.stop_signal import StopSignal
from pipeline.supervised_thread import SupervisedThread
from source_log.lease import SoleWatcher
from source_log.terms import Term
from streaming.config import StreamSettings
from zk_source.config import WatchSettings

CHECK_INTERVAL_S = 0.1
"""How soon the first figures, a change of their status, and the end of a thread are noticed."""
QUIET_S = 10.0
"""The longest time without a line before the first figures."""

DEFAULTS: dict[str, Any] = {"fail_fast": True, "log_level": "warning", "linger_ms": 0}
"""Where they differ, for somebody at a terminal: a wrong address is told at once, and in few lines. And no change waits
for others: a batch of this fold costs little."""

_OF_BROKERS = {name for name in StreamSettings.model_fields if "min_insync" in name} | {
    "leader_imbalance_percentage",
    "assumed_leader_imbalance_percentage",
    "auto_leader_rebalance",
}
_OF_TOPICS = {
    *("bootstrap_servers", "kafka_properties", "topic_prefix", "partitions", "replication_factor"),
    *("metrics_host", "watcher_metrics_port", "kafka_gone_s", "forget_after_s", "linger_ms"),
}
NAMES = _OF_BROKERS | {
    name
    for settings in (WatchSettings, KraftSettings, ExportSettings)
    for name in settings.model_fields
    if name not in _OF_TOPICS and not name.startswith("election_")
}
"""The settings that it has: of the source, of the watched brokers' own files, of the HTTP server."""


@with_options(
    *(WatchSettings, KraftSettings, StreamSettings, ExportSettings),
    only=NAMES,
    defaults={**NO_CLUSTER, "fail_fast": "true", "log_level": "warning"},
)
def look(config: Path | None, options: Options) -> int:
    """Watch one of your clusters at once, in one process: nothing to install, nothing kept.

    Examples: kcm look --zookeeper zk1:2181,zk2:2181/kafka, kcm look --controllers c1:9093,c2:9093

    It needs no Kafka of its own, no Spark and no Java, keeps everything in memory, and leaves nothing behind. From its start
    on it shows the same figures as kcm up, on the same page, API and metrics. It has no log: what was before is not known,
    nothing is left to replay, no second watcher takes over, and it watches one cluster. Every option can also be given as
    an environment variable (--port as KCM_PORT) or in the configuration file (port = 9640). Give passwords there: arguments
    are visible to all users. Ctrl-C ends it.
    """
    settings = load_all(config, options)
    require_cluster(config, options)
    watch = settings.watch
    changed = {name: each for name, each in DEFAULTS.items() if name not in watch.model_fields_set}
    settings = settings._replace(watch=watch.model_copy(update=changed))
    configure_logging(settings.watch.log_level, watch.log_format)
    for line in suspicious_variables():
        warn(f"warning: {line}")
    with traced(wanted=watch.log_level == "debug"):
        run_term = import_service(watch_part(config, options), "run_term")
        queue_output()
        Look(settings).until(install_stop_signal(), run_term)
    return 0


class Look:
    """One look at a cluster, from its start to a stop signal or an error that the user must see."""

    def __init__(self, settings: AllSettings) -> None:
        self._watch, self._export = settings.watch, settings.export
        assumed = settings.stream.assumed(self._watch.cluster)
        watch = self._watch
        self._where = (
            f"ZooKeeper at {watch.zookeeper}"
            if isinstance(watch, WatchSettings)
            else f"the controllers at {watch.controllers}"
        )
        self._topics = LookTopics(self._watch, assumed)
        self._began = time.monotonic()
        self._quiet_until = self._began + QUIET_S
        self._told: tuple[str, str] | None = None
        """What was told last of the figures' status and of the controller."""

    def until(self, stop: StopSignal, run_term: Service) -> None:
        """Watch until `stop` is set; end every thread, whatever ends the look."""
        for line in self._first_lines():
            _say(line)
        topics = self._topics
        term = Term(topics.ensured, SoleWatcher(), "look", 0, topics.open_clients)
        with serving(self._export, stop, topics.feed) as exporter:

            def poll() -> None:
                try:
                    exporter.check()
                    self._show_status(exporter)
                except BaseException:
                    stop.set()
                    raise

            progress = SupervisedThread("progress", poll, every_s=CHECK_INTERVAL_S)
            progress.start()
            try:
                run_term(self._watch, term, exporter.registry, stop)
            finally:
                progress.close(QUIET_S)
            progress.check()
            _say("stopping")

    def _first_lines(self) -> Iterator[str]:
        watch = self._watch
        name = "zookeeper" if isinstance(watch, WatchSettings) else "controllers"
        source = f"{option_name(name)} {getattr(watch, name)}"
        yield f"looking at cluster {watch.cluster}, by {self._where}, in this process alone"
        yield (
            "it knows nothing of what was before, keeps nothing when it ends, and no second watcher takes over; with a "
            f"log, its replay, and more clusters: kcm up {source} --cluster {watch.cluster}"
        )

    def _show_status(self, exporter: Exporter) -> None:
        """Tell when the figures are there, and what changes of their status and of the controller."""
        now, before = time.monotonic(), self._told
        snapshot = exporter.collector.clusters.get(self._watch.cluster)
        if snapshot is None:
            what, is_live = "no figures yet", False
        else:
            completeness = exporter.collector.completeness(snapshot, clock_ms())
            what = f"the figures are {completeness.status}"
            is_live = completeness.status is Status.LIVE
        if snapshot is None or not (is_live or before):
            if now >= self._quiet_until:
                self._quiet_until = now + QUIET_S
                _say(f"not ready after {now - self._began:.0f} s: {what}")
            return
        view, url = snapshot.view, exporter.url
        controller = _controller(view)
        self._told = what, controller
        if before is None:
            brokers, partitions = len(view.brokers_live or ()), known(view.counts.partitions)
            _say(f"live: {controller}, {brokers} brokers, {partitions} partitions")
            _say(f"the page: {url}/ (metrics at {url}/metrics, API at {url}/api/v1)")
            _say(f"(after {now - self._began:.1f} s; Ctrl-C ends it)")
            return
        if what != before[0]:
            since = "" if completeness.since is None else f" since {time_text(completeness.since)}"
            stage = "" if completeness.stage is None else f", by the {completeness.stage}"
            is_blind = completeness.status is Status.BLIND
            _say(what + since + (f": no answer from {self._where}" if is_blind else stage))
        if controller != before[1]:
            _say(controller)


def _controller(view: ClusterView) -> str:
    controller = view.controller
    if controller is None or controller.id == NO_CONTROLLER:
        return "no controller"
    return f"controller is {controller.id}, epoch {known(controller.epoch)}"


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
