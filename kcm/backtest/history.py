"""Replay a log once: write its scrapes as blocks, and collect the incidents in it.

The rule: scrapes begin before the requested window, by as much as the rules can look back. So a
range of an hour is already full at the start of the window. Alerts and incidents from before the
window are not reported.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Self

from controller_model.history.log_replay import END, Point
from controller_model.records.events import AnyEvent, IncidentClosed
from controller_model.records.incidents import Incident
from controller_model.tracking import incident_tracker
from kcm.backtest.blocks import BlockWriter
from kcm.backtest.sampling import ScrapeSampler
from kcm.cli.text import read_milliseconds
from kcm.history.log_source import LogSource
from kcm.history.replay_run import ReplayRun
from pipeline.runtime import UsageError


class Window(NamedTuple):
    """The time in which alerts and incidents are reported; milliseconds since 1970."""

    from_ms: int | None
    """None: from the start of the log."""
    to_ms: int | None
    """None: to the end of the log."""

    @classmethod
    def read(cls, begin: str | None, end: str | None) -> Self:
        """Return the window that the options give; raises UsageError."""
        from_ms = None if begin is None else read_milliseconds("--from", begin)
        to_ms = None if end is None else read_milliseconds("--to", end)
        if from_ms is not None and to_ms is not None and from_ms > to_ms:
            raise UsageError(f"--from {begin} is after --to {end}")
        return cls(from_ms, to_ms)

    def of_bundles(self, source: LogSource) -> Self:
        """Return the window; where no option gives a time, the bundles' times are used."""
        manifests = source.manifests.values()
        begin = min((each.from_ms for each in manifests), default=None)
        end = max((each.to_ms for each in manifests), default=None)
        return self._replace(
            from_ms=begin if self.from_ms is None else self.from_ms,
            to_ms=end if self.to_ms is None else self.to_ms,
        )


class ScrapedHistory(NamedTuple):
    """What was replayed; times are milliseconds since 1970."""

    cluster: str
    scrapes: range
    samples: int
    window: tuple[int, int]
    incidents: list[Incident]
    """Incidents that were open at some time of the window and began within the scrapes, in their order."""


def record(
    source: LogSource,
    cluster: str | None,
    window: Window,
    *,
    reach_ms: int,
    interval_ms: int,
    labels: Mapping[str, str],
    folder: Path,
    blocks: Path,
) -> ScrapedHistory:
    """Replay a log and write its scrapes to `blocks`; raises UsageError, EnvironmentProblemError.

    `reach_ms` is how far the rules look back, `labels` is what Prometheus adds to each sample, and `folder` is for temporary texts.
    """
    closed: list[Incident] = []

    def collect_incidents(_cluster: str, events: Sequence[AnyEvent]) -> None:
        closed.extend(each.incident for each in events if isinstance(each, IncidentClosed))

    with BlockWriter(folder, blocks) as writer:
        sampler = ScrapeSampler(
            interval_ms=interval_ms,
            labels=labels,
            scraped=writer.write,
            begin_ms=max(0, (window.from_ms or 0) - reach_ms),
            end_ms=window.to_ms,
        )
        run = ReplayRun(
            cluster,
            (END if window.to_ms is None else Point(at=window.to_ms),),
            assumed=source.assumed,
            on_events=collect_incidents,
            sampler=sampler,
        )
        run.follow(source.lines)
    scrapes = sampler.moments
    if not scrapes:
        raise UsageError(
            "there is no scrape in the history: it is shorter than --scrape-interval, lies outside of "
            "--from and --to, or its first resync does not end"
        )
    control = run.replay.state.control
    found = [*closed, *(incident_tracker.newest(control)[:1] if control.incidents.open else ())]
    first_at, last_at = scrapes[0], scrapes[-1]
    begin = max(first_at, window.from_ms or 0)
    return ScrapedHistory(
        cluster=control.cluster,
        scrapes=scrapes,
        samples=writer.samples,
        window=(begin, last_at),
        incidents=[
            each
            for each in found
            if first_at - interval_ms <= each.started_at <= last_at
            and (each.closed_at is None or each.closed_at >= begin)
        ],
    )
