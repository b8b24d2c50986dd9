"""Turn a recorded history into scrapes: what /metrics would have answered at each moment.

The rule: nothing is computed here that the monitor computes elsewhere. The replay's state is
projected to views as the fold does it, the views go into the exporter's own store, and its own
collector renders the answer. A moment is a multiple of the scrape interval by the log's clock; its
figures hold every change up to it and none after. What a log does not hold is assumed to be in
order: the fold and the exporter are in time, and no clock disagrees. The age of the watcher's last
sign of life is the age of its last record. The monitor's own parts (`kcm_watcher_*`, `kcm_fold_*`,
`kcm_exporter_*`) have no series.
"""

from collections.abc import Callable, Mapping

from controller_model.fold.projection import SentViews, project
from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import NOWHERE, AsOf, Position, check_cluster_name
from controller_model.records.completeness import LATE_MS, ReaderProgress
from controller_model.state.cluster import ClusterState
from exporter.core.records import ClusterSnapshot
from exporter.core.render import Format, escape
from exporter.intake.view_store import ViewStore
from exporter.scrape.collector import Collector
from pipeline.runtime import UsageError
from pipeline.topic_records import Record

MAX_SCRAPES = 50_000
"""More than the seven days at 15 s that <prefix>.changes holds."""

_LINEAGE = "backtest"

TakesScrape = Callable[[int, bytes], None]
"""Takes a moment, and its sample lines with their timestamps in the form of OpenMetrics."""


class ScrapeSampler:
    """Scrapes the history while it is replayed (`log_replay.Sampler`).

    Args:
        interval_ms: the scrape interval.
        labels: what Prometheus would add to each sample, such as `job`.
        begin_ms: no scrape before this time.
        end_ms: none after this time; None: up to the end of the log.
        scraped: takes each scrape.
    """

    def __init__(
        self,
        *,
        interval_ms: int,
        labels: Mapping[str, str],
        scraped: TakesScrape,
        begin_ms: int = 0,
        end_ms: int | None = None,
    ) -> None:
        self.next_at = 0
        self._first_at: int | None = None
        self._interval_ms = interval_ms
        self._begin_ms = begin_ms
        self._end_ms = end_ms
        self._scraped = scraped
        self._labels = "".join(f'{name}="{escape(value)}",' for name, value in labels.items())
        self._views = ViewStore()
        self._sent = SentViews()
        self._collector = Collector(self._reading)
        self._shown = NOWHERE
        self._known_at = 0
        """The time of the newest change that is shown."""

    @property
    def moments(self) -> range:
        """When it has scraped so far."""
        first_at = self.next_at if self._first_at is None else self._first_at
        return range(first_at, self.next_at, self._interval_ms)

    def sample_until(self, state: ClusterState, until: int) -> None:
        """Scrape at each moment before `until`, but not before the log's first resync has ended."""
        control = state.control
        if self._first_at is None:
            if not control.log.baseline or control.log.view.resync_under_way:
                return
            first_at = max(control.now, self._begin_ms)
            self.next_at = -(-first_at // self._interval_ms) * self._interval_ms
        end = until if self._end_ms is None else min(until, self._end_ms + 1)
        if self.next_at >= end:
            return
        self._show(state)
        while self.next_at < end:
            self._scrape(self.next_at)
            self.next_at += self._interval_ms

    def _show(self, state: ClusterState) -> None:
        """Load the state as the exporter loads it from the topic of views."""
        control = state.control
        self._known_at = control.now
        if control.log.position == self._shown:
            return
        if self._shown == NOWHERE:
            _check_name(control.cluster)
        self._shown = Position(*control.log.position)
        as_of = AsOf(_LINEAGE, *control.log.position)
        changed = None
        for key, _, value in project(state, as_of=as_of, folded_at=control.now, sent=self._sent):
            record = Record("", 0, 0, key.encode(), value, control.now)
            changed = self._views.apply(record) or changed
        control.touched.clear()
        if changed is not None:
            self._collector.update([changed], self._views.clusters)

    def _scrape(self, at: int) -> None:
        if len(self.moments) >= MAX_SCRAPES:
            raise UsageError(
                f"the history has more than {MAX_SCRAPES} scrapes: give --from and --to, or a longer "
                "--scrape-interval"
            )
        self._first_at = at if self._first_at is None else self._first_at
        collector = self._collector
        collector.worst_topics.update(collector.clusters, at)
        self._scraped(at, timed_lines(collector.scrape(Format.TEXT, at), self._labels, at))

    def _reading(self, snapshot: ClusterSnapshot) -> ReaderProgress:
        return ReaderProgress(
            read_ms=0,
            watcher_ms=max(0, self.next_at - self._known_at),
            session=snapshot.view.log.session,
            late_ms=LATE_MS,
        )


def timed_lines(exposition: bytes, labels: str, at: int) -> bytes:
    r"""Return the samples of an exposition, with more labels and their time, and with `up`.

    >>> timed_lines(b'# TYPE m gauge\nm{cluster="c"} 1\n', 'job="kcm",', 15_000).decode()
    'm{job="kcm",cluster="c"} 1 15.000\nup{job="kcm"} 1 15.000\n'
    """
    before = b"{" + labels.encode()
    after = b" %d.%03d\n" % divmod(at, 1000)
    samples = [
        line.replace(b"{", before, 1)
        for line in exposition.split(b"\n")
        if line and not line.startswith(b"#")
    ]
    samples.append(b"up{" + labels.rstrip(",").encode() + b"} 1")
    return after.join(samples) + after


def _check_name(cluster: str) -> None:
    try:
        check_cluster_name(cluster)
    except ModelError as error:
        if cluster:
            raise UsageError(str(error)) from None
        raise UsageError("no record of the log names its cluster: name it with --cluster") from None
