"""`kcm forget`: remove a cluster that is no longer watched from the monitor.

It asks before it does anything, and does nothing while a watcher of the cluster writes:
the cluster would return with its next change, without its history. Silence counts only after as
long as the log may be silent (LATE_MS).
"""

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from controller_model.insight.wording import counted
from controller_model.kafka.ids import partition_of
from controller_model.records.completeness import LATE_MS
from kcm.cli.exits import NOT_CONFIRMED
from kcm.cli.options import Options, with_options
from kcm.cli.parts import all_names
from kcm.cli.text import printable, time_text, warn
from kcm.history.cluster_records import (
    PublishedCluster,
    WatcherSigns,
    read_published,
    write_tombstones,
)
from pipeline.runtime import ConflictError, UsageError
from pipeline.settings import PipelineSettings, load
from pipeline.topic_reader import RecordReader
from pipeline.topics import TopicNames, check_writable, topic_names

NAMES = ("bootstrap_servers", "kafka_properties", "secrets_dir", "topic_prefix")
"""The settings that are options."""

LISTEN_S = LATE_MS / 1000
"""How long a working watcher may be silent where it may send no beats."""

_EACH_S = 1.0

ClusterName = Annotated[
    str,
    typer.Argument(metavar="CLUSTER", help="Name of the cluster, as its watchers had it."),
]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask, for scripts.")]


@with_options(PipelineSettings, only=NAMES)
def forget(config: Path | None, options: Options, *, cluster: ClusterName, yes: Yes = False) -> int:
    """Remove a cluster that is no longer watched from the monitor.

    Example: kcm forget old --bootstrap-servers kafka:9092

    Stop its watchers first: while one of them writes, the command does nothing (exit code 4). It listens for 25 s, shows what
    it will remove, and asks. Then exporters no longer show the cluster, and the fold drops its state and its counters, also if
    it reads the log again. Its events stay until the topic of events drops them. Exit code 7: it was not confirmed.
    """
    settings: PipelineSettings = load(PipelineSettings, config, known=all_names(), **options)
    names = topic_names(settings.topic_prefix)
    with RecordReader(
        settings, f"{settings.topic_prefix}.forget-{uuid.uuid4().hex[:12]}"
    ) as reader:
        partitions = reader.partitions(names.views)
        published = find(reader, names, cluster, partitions)
        for topic in (names.changes, names.views):
            check_writable(settings, topic)
        signs = WatcherSigns(reader, names, cluster, partition_of(cluster, partitions))
        warn(f"listening for a watcher of {cluster}, {LISTEN_S:.0f} s")
        check_unwatched(signs.has_written, cluster, within_s=LISTEN_S)
        if not (yes or is_confirmed(cluster, published, names)):
            warn("nothing was done: not confirmed (--yes does not ask)")
            return NOT_CONFIRMED
        check_unwatched(signs.has_written, cluster, within_s=0)
    write_tombstones(settings, names, cluster, partitions=partitions, keys=published.keys)
    typer.echo(f"forgotten: {cluster}, {counted(len(published.keys), 'view')}")
    typer.echo(
        "KcmBlind and KcmNoWatcherLeads fire for 6 hours; to silence them: "
        f"amtool silence add cluster={cluster} --duration=6h --comment=decommissioned"
    )
    return 0


def find(
    reader: RecordReader, names: TopicNames, cluster: str, partitions: int
) -> PublishedCluster:
    """Return what the views hold of a cluster; if nothing, raises UsageError that names the other clusters."""
    own = partition_of(cluster, partitions)
    here = read_published(reader, [(names.views, own)])
    if cluster in here:
        return here[cluster]
    others = [(names.views, each) for each in range(partitions) if each != own]
    known = sorted({*here, *read_published(reader, others)})
    listed = f"it has {', '.join(map(printable, known))}" if known else "it has none"
    raise UsageError(f"{names.views} has no cluster {printable(cluster)!r}: {listed}")


def check_unwatched(
    has_written: Callable[[], bool],
    cluster: str,
    *,
    within_s: float,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Raise ConflictError as soon as a watcher of the cluster writes; return when none has for that long."""
    until = clock() + within_s
    while True:
        left_s = until - clock()
        if has_written():
            raise ConflictError(
                f"a watcher of {cluster} still writes: stop all its watchers first; nothing was done"
            )
        if left_s <= 0:
            return
        sleep(min(_EACH_S, left_s))


def is_confirmed(cluster: str, published: PublishedCluster, names: TopicNames) -> bool:
    """Print what will be removed, and ask; no answer counts as no."""
    alive = "is not known" if published.alive_at is None else time_text(published.alive_at)
    typer.echo(
        f"{cluster}: {counted(len(published.keys), 'view')} in {names.views}; "
        f"last sign of life of its watcher: {alive}"
    )
    try:
        return typer.confirm("Forget its figures and counters?")
    except typer.Abort:
        typer.echo()
        return False
