"""Where a verb reads a recorded log: from files and bundles, or from the topic.

What a bundle lacks is reported once, on standard error.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, NamedTuple

import typer

from controller_model.history.log_replay import AssumedOf
from kcm.cli.text import warn
from kcm.history.bundle_file import Manifest
from kcm.history.options import ReplaySettings
from kcm.history.replay_input import Line, check_files, lines_of, manifests_of
from pipeline.runtime import UsageError

LogFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        help="Logs (JSON lines; gzip by name: .gz) or bundles, read as one log in this order; - is standard input.",
    ),
]
ClusterName = Annotated[
    str | None, typer.Option(metavar="NAME", help="Which cluster, if the log has several.")
]
FromTopic = Annotated[
    bool, typer.Option("--from-topic", help="Read <prefix>.changes instead of files.")
]


class LogSource(NamedTuple):
    """The lines of a log, and the manifests of the bundles among its files."""

    lines: Iterator[Line]
    manifests: Mapping[str, Manifest]
    assumed: AssumedOf
    """The values assumed for a cluster: from the settings, else from the bundle that holds its log."""


def open_log(
    settings: ReplaySettings, files: Sequence[str] | None, cluster: str | None, *, from_topic: bool
) -> LogSource:
    """Return the log in the topic or in the files; raises UsageError."""
    if from_topic and files:
        raise UsageError("give files or --from-topic, not both")
    if from_topic:
        return LogSource(_topic_lines(settings, cluster), {}, settings.assumed)
    if not files:
        raise UsageError("which log? name a FILE, - for standard input, or --from-topic")
    check_files(files)
    manifests = manifests_of(files)
    for name, manifest in manifests.items():
        for reason in manifest.missing:
            warn(f"{name}: missing: {reason}")
    assumed_by_bundle = {
        each.cluster: each.assumed_min_insync_replicas for each in manifests.values()
    }
    return LogSource(
        lines_of(files), manifests, lambda name: settings.assumed(name, assumed_by_bundle.get(name))
    )


def _topic_lines(settings: ReplaySettings, cluster: str | None) -> Iterator[Line]:
    from kcm.history.topic_lines import open_topic  # noqa: PLC0415  # a replay of files needs no Kafka client
    from pipeline.topics import topic_names  # noqa: PLC0415  # the same

    names = topic_names(settings.topic_prefix)
    with open_topic(settings, names.changes, cluster=cluster) as lines:
        yield from lines
