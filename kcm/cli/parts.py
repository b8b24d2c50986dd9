"""The parts as the command line knows them, and how to run one of them: a watcher of either kind, fold, exporter.

A part's code is imported only when it is run. So the exporter needs neither pyspark nor
kazoo, and a missing package is reported in one line that says what to install.
"""

import difflib
import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from exporter.core.config import ExportSettings
from kcm.cli.exits import traced
from kcm.cli.options import Options, SettingsClass
from kcm.cli.text import warn
from kraft_source.config import KraftSettings
from pipeline.build import DISTRIBUTION
from pipeline.runtime import (
    ENV_PREFIX,
    EnvironmentProblemError,
    UsageError,
    configure_logging,
    install_stop_signal,
)
from pipeline.settings import CONFIG_FILE_VARIABLE, load, read_layers
from streaming.config import StreamSettings
from zk_source.config import WatchSettings

_OTHER_VARIABLES = {CONFIG_FILE_VARIABLE, "KCM_HTTP_CONFIG_FILE", "KCM_IVY_SETTINGS"}
_OUR_PACKAGES = {
    "controller_model", "exporter", "kcm", "kraft_source", "pipeline", "source_log", "streaming", "web", "zk_source",
}  # fmt: skip
_ALIKE = 0.85
"""How similar two names must be for one to count as a misspelling of the other."""

Service = Callable[..., None]
"""A function of a service: `run` takes settings and a stop signal."""


class Part(NamedTuple):
    """A part: its verb (also the name of the extra that installs it), its settings and its service."""

    verb: str
    title: str
    settings: SettingsClass
    service: str


WATCH = Part("watch", "Watcher", WatchSettings, "zk_source.service.service")
KRAFT_WATCH = Part(
    "watch", "Watcher of a KRaft cluster", KraftSettings, "kraft_source.service.service"
)
STREAM = Part("stream", "Fold", StreamSettings, "streaming.service")
EXPORT = Part("export", "Exporter", ExportSettings, "exporter.serve.service")
PARTS = (WATCH, KRAFT_WATCH, STREAM, EXPORT)
"""All of them; a pipeline has one of the watchers for each cluster."""


class AllSettings(NamedTuple):
    """The settings of the parts of one pipeline, in the order of `pipeline_parts`."""

    watch: WatchSettings | KraftSettings
    stream: StreamSettings
    export: ExportSettings


ALL_SETTINGS = tuple(part.settings for part in PARTS)


def load_part(part: Part, config: Path | None, options: Options) -> Any:
    """Return a part's settings from options, environment and file; raises UsageError."""
    own = {name: value for name, value in options.items() if name in part.settings.model_fields}
    return load(part.settings, config, known=all_names(), **own)


def load_all(config: Path | None, options: Options) -> AllSettings:
    """Return the settings of all parts; a value that is bad for several parts is reported once."""
    loaded = []
    complaints: dict[str, None] = {}
    for part in pipeline_parts(config, options):
        try:
            loaded.append(load_part(part, config, options))
        except UsageError as error:
            complaints |= dict.fromkeys(str(error).splitlines())
    if complaints:
        raise UsageError("\n".join(complaints))
    return AllSettings(*loaded)


def watch_part(config: Path | None, options: Options) -> Part:
    """Return the watcher for the kind of cluster that the settings name; raises UsageError when they name two.

    Where they name none, it is one with ZooKeeper.
    """
    named = _named_clusters(config, options)
    if len(named) > 1:
        raise UsageError(
            f"{' and '.join(named.values())}: a watcher watches one cluster, so give either zookeeper, or "
            "controllers for a cluster in KRaft mode"
        )
    return next(iter(named), WATCH)


def require_cluster(config: Path | None, options: Options) -> None:
    """Raise UsageError when the settings name no cluster to watch."""
    if not _named_clusters(config, options):
        raise UsageError(
            "no cluster to watch is named: give --zookeeper HOST:PORT,..., or --controllers HOST:PORT,... for "
            "a cluster in KRaft mode"
        )


def _named_clusters(config: Path | None, options: Options) -> dict[Part, str]:
    """Return the watcher of each cluster that the settings name, with the origin of its name."""
    named = {}
    for part, name in ((WATCH, "zookeeper"), (KRAFT_WATCH, "controllers")):
        given = {name: options.get(name) or None}
        origin = read_layers(part.settings, config, known=all_names(), **given).origin(name)
        if origin != "default":
            named[part] = origin
    return named


def pipeline_parts(config: Path | None, options: Options) -> tuple[Part, Part, Part]:
    """Return the parts of a pipeline: the watcher of its cluster, the fold, the exporter."""
    return watch_part(config, options), STREAM, EXPORT


def all_names() -> set[str]:
    """Return the names of all settings of all parts."""
    return {name for each in ALL_SETTINGS for name in each.model_fields}


def run_part(
    part: Part,
    config: Path | None,
    options: Options,
    prepare: Callable[[Any], Any] = lambda settings: settings,
) -> int:
    """Run one part until it is told to stop; return the exit code.

    `prepare` adds settings that only the command line can know.
    """
    settings = load_part(part, config, options)
    configure_logging(settings.log_level, settings.log_format)
    for line in suspicious_variables():
        warn(f"warning: {line}")
    with traced(wanted=settings.log_level == "debug"):
        run = import_service(part)
        run(prepare(settings), install_stop_signal())
    return 0


def import_service(part: Part, name: str = "run") -> Service:
    """Return a function of a part's service; raises EnvironmentProblemError when a package is not installed."""
    try:
        service: Service = getattr(importlib.import_module(part.service), name)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if not package or package in _OUR_PACKAGES:
            raise
        raise EnvironmentProblemError(missing_package(package, part.verb)) from None
    return service


def missing_package(package: str, extra: str) -> str:
    """Return the error line for a package that is not installed.

    >>> missing_package("kazoo", "watch")
    "the Python package kazoo is not installed: pip install 'kafka-controller-monitor[watch]'"
    """
    return f"the Python package {package} is not installed: pip install '{DISTRIBUTION}[{extra}]'"


def suspicious_variables() -> list[str]:
    """Return a line for each environment variable that looks like a misspelt setting.

    Other variables with the same prefix are ignored: Kubernetes sets such variables for services.
    """
    known = {f"{ENV_PREFIX}{name.upper()}" for name in all_names()} | _OTHER_VARIABLES
    return [
        f"environment variable {name} is no setting and is ignored; is it {close[0]}?"
        for name in sorted(os.environ)
        if name.startswith(ENV_PREFIX) and name not in known
        if (close := difflib.get_close_matches(name, known, n=1, cutoff=_ALIKE))
    ]
