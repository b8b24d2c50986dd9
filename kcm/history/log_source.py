"""Where a verb reads a recorded log: from files and bundles, from a KRaft node's folder, or from the topic.

What a bundle lacks is reported once, on standard error.
"""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from controller_model.history.log_replay import AssumedOf
from controller_model.kafka.ids import Position
from kcm.cli.text import time_text, warn
from kcm.history.bundle_file import Manifest
from kcm.history.options import ReplaySettings
from kcm.history.replay_input import STDIN, Line, check_files, lines_of, manifests_of
from pipeline.runtime import UsageError

LogFiles = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        help="Logs (JSON lines; gzip by name: .gz) or bundles, read as one log in this order; - is standard input. "
        "Or one folder: a copy of __cluster_metadata-0 of any broker or controller of a KRaft cluster.",
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
    proven_end: int | None = None
    """Of a folder: the offset from which on nothing proves that records were committed; None: all are proven."""

    def is_proven(self, position: Position) -> bool:
        """Return whether everything up to a position of the log is proven committed."""
        return self.proven_end is None or position.seq <= self.proven_end


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
    folders = [name for name in files if name != STDIN and Path(name).is_dir()]
    if folders and len(files) > 1:
        raise UsageError(f"{folders[0]} is a folder: it is a log of its own, so name it alone")
    if folders:
        return _folder_log(settings, Path(folders[0]), cluster)
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


def _folder_log(settings: ReplaySettings, path: Path, cluster: str | None) -> LogSource:
    from kcm.history.folder_input import folder_lines  # noqa: PLC0415  # it makes readers of Kafka's records first
    from kraft_source.folder import MetadataFolder  # noqa: PLC0415  # the same

    folder = MetadataFolder(path)
    proof = folder.prove()
    name = cluster or folder.cluster_id or path.resolve().name
    lines = folder_lines(folder, name, proof)
    if proof.end >= proof.log_end:
        return LogSource(lines, {}, settings.assumed)
    since = "" if proof.unproven_since is None else f", from {time_text(proof.unproven_since)} on,"
    warn(
        f"{folder.path}: proven committed are the offsets below {proof.end} ({proof.why}); the other "
        f"{proof.log_end - proof.end}{since} may have been replaced after an election, and are marked"
    )
    return LogSource(lines, {}, settings.assumed, proof.end)


def _topic_lines(settings: ReplaySettings, cluster: str | None) -> Iterator[Line]:
    from kcm.history.topic_lines import open_topic  # noqa: PLC0415  # a replay of files needs no Kafka client
    from pipeline.topics import topic_names  # noqa: PLC0415  # the same

    names = topic_names(settings.topic_prefix)
    with open_topic(settings, names.changes, cluster=cluster) as lines:
        yield from lines
