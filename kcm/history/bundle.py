"""`kcm bundle`: one file of an incident, for the post-mortem.

It only reads the topics. What the topics no longer hold is listed in the bundle's
manifest and printed; no bundle is incomplete without saying so.
"""

from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from controller_model.history.log_replay import END, Point
from controller_model.history.snapshot import Snapshot, encode_snapshot
from controller_model.records.changes import AnyRecord
from controller_model.state.control_plane import Assumed
from kcm.cli.options import Options, with_options
from kcm.cli.text import read_milliseconds, time_text
from kcm.history.bundle_file import VERSION, Manifest, Versions, write_bundle
from kcm.history.bundle_log import IncidentEvents, IncidentLog
from kcm.history.log_source import ClusterName
from kcm.history.options import NAMES, ReplaySettings, load_replay, position_text
from kcm.history.replay_input import Line
from kcm.history.replay_run import ReplayRun
from kcm.history.topic_lines import open_topic
from pipeline.build import version
from pipeline.clock import clock_ms
from pipeline.kafka_errors import ReadTrouble, TopicReadError
from pipeline.runtime import UsageError
from pipeline.topics import topic_names

_QUIET_AT_MOST_MS = 60_000
"""A log whose last record is older than this at `--to` lacks its end: heartbeats come every 10 s."""


From = Annotated[
    str,
    typer.Option(
        "--from",
        metavar="TIME",
        help="When the incident began: 2026-11-21T10:00:00Z, or milliseconds since 1970.",
    ),
]
To = Annotated[str, typer.Option("--to", metavar="TIME", help="When the incident was over.")]
Output = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="The bundle. [default: kcm-CLUSTER-TIME.zip in this folder]"),
]


@with_options(ReplaySettings, only=NAMES)
def bundle(
    config: Path | None,
    options: Options,
    *,
    begin: From,
    end: To,
    output: Output = None,
    cluster: ClusterName = None,
) -> int:
    """Pack the log, the events and the snapshots of an incident into one file.

    Example: kcm bundle --bootstrap-servers k1:9092 --from 2026-11-21T10:00:00Z --to 2026-11-21T10:30:00Z

    `kcm replay FILE` opens it. The log in it begins at the last complete resync before --from, so that the snapshots are exact. What
    the topics no longer hold is listed in the output and in the bundle.
    """
    from_ms, to_ms = read_milliseconds("--from", begin), read_milliseconds("--to", end)
    if from_ms > to_ms:
        raise UsageError(f"--from {begin} is after --to {end}")
    _check_output(output)
    settings = load_replay(config, options)
    with closing(IncidentLog(cluster, from_ms=from_ms, to_ms=to_ms)) as log:
        first, last = _read_log(settings, log)
        path, manifest = _pack(settings, log, first, last, output)
    _report(path, manifest)
    return 0


def _check_output(output: Path | None) -> None:
    if output is None:
        return
    if output.exists():
        raise UsageError(f"{output} exists already: choose another --output")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"cannot write {output}: there is no folder {output.absolute().parent}")


def _read_log(settings: ReplaySettings, log: IncidentLog) -> tuple[AnyRecord, AnyRecord]:
    """Read the topic into the log; return the first and the last change that are kept."""
    topic = topic_names(settings.topic_prefix).changes
    with open_topic(settings, topic, cluster=log.chosen) as lines:
        for line in lines:
            log.add_message(line.data)
            if log.is_over and log.chosen is not None:
                break
    names = log.replay.clusters
    if log.chosen is None and len(names) > 1:
        listed = ", ".join(sorted(names))
        raise UsageError(f"{topic} has several clusters; choose one by --cluster: {listed}")
    if log.first is None or log.last is None:
        has = f" of cluster {log.chosen}" if log.chosen else ""
        raise UsageError(f"{topic} has no change{has} up to --to")
    return log.first, log.last


def _missing_from(log: IncidentLog, first: AnyRecord, last: AnyRecord) -> list[str]:
    """Return the parts of the incident that the log does not hold."""
    missing = []
    if log.at_from is None:
        missing.append(f"the log begins at {time_text(first.observed_at)}, after --from")
    if not log.is_anchored:
        missing.append(
            "the log holds no whole resync (of a KRaft cluster: no snapshot) before --from: what had not changed "
            "since it begins is not known"
        )
    if log.to_ms - last.observed_at > _QUIET_AT_MOST_MS:
        missing.append(f"the log ends at {time_text(last.observed_at)}, before --to")
    if log.unreadable:
        missing.append(f"{log.unreadable} records of the log cannot be read")
    return missing


def _pack(
    settings: ReplaySettings,
    log: IncidentLog,
    first: AnyRecord,
    last: AnyRecord,
    output: Path | None,
) -> tuple[Path, Manifest]:
    topics = topic_names(settings.topic_prefix)
    assumed = settings.assumed(log.replay.cluster or "")
    before, after = _snapshots(log, assumed)
    cluster = log.replay.cluster or "cluster"
    events, complaints = _events(settings, log, cluster)
    manifest = Manifest(
        v=VERSION,
        cluster=cluster,
        from_ms=log.from_ms,
        to_ms=log.to_ms,
        log_first=first.position,
        log_last=after.position,
        at_from=log.at_from,
        changes=log.changes,
        events=len(events),
        topics=(topics.changes, topics.events),
        versions=Versions(kcm=version()),
        made_at=clock_ms(),
        assumed_min_insync_replicas=assumed.min_insync_replicas,
        missing=(*_missing_from(log, first, last), *complaints),
    )
    begin = time_text(log.from_ms).partition(".")[0].replace("-", "").replace(":", "")
    path = output or Path(f"kcm-{cluster}-{begin}Z.zip")
    _check_output(path)
    write_bundle(
        path,
        manifest,
        log=log.lines(),
        events=events,
        before=None if before is None else encode_snapshot(before),
        after=encode_snapshot(after),
    )
    return path, manifest


def _snapshots(log: IncidentLog, assumed: Assumed) -> tuple[Snapshot | None, Snapshot]:
    """Return the snapshots of the kept log at both ends: a replay of the bundle must give the same ones."""
    points = (Point(at=log.from_ms), END)
    run = ReplayRun(log.replay.cluster, points, assumed=lambda _: assumed, warn=lambda _: None)
    run.follow(Line("", line) for line in log.lines())
    taken = run.replay.snapshots
    after = taken[END]
    if after is None:
        raise UsageError("nothing in the log is a readable change")
    return taken[points[0]], after


def _events(
    settings: ReplaySettings, log: IncidentLog, cluster: str
) -> tuple[list[bytes], list[str]]:
    """Return the cluster's events of the incident, and those parts that are missing."""
    topic = topic_names(settings.topic_prefix).events
    events = IncidentEvents(cluster, from_ms=log.from_ms, to_ms=log.to_ms)
    try:
        with open_topic(settings, topic, cluster=cluster) as lines:
            for line in lines:
                events.add_message(line.data)
            return events.kept, events.missing(topic, is_cut=lines.is_cut)
    except TopicReadError as error:
        if error.trouble is not ReadTrouble.MISSING:
            raise
        return [], [str(error)]


def _report(path: Path, manifest: Manifest) -> None:
    first, last = position_text(manifest.log_first), position_text(manifest.log_last)
    typer.echo(
        f"{path}: cluster {manifest.cluster}, {manifest.changes} changes ({first} to {last}), "
        f"{manifest.events} events"
    )
    for reason in manifest.missing:
        typer.echo(f"kcm: missing: {reason}", err=True)
    typer.echo(f"open it: kcm replay {path} --at {time_text(manifest.from_ms)}", err=True)
