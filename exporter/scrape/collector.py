"""Make the bytes of /metrics: rendered when a cluster changes, joined when scraped.

A scrape does no work that grows with a cluster. The reading thread renders a broker again only when its
view has changed, and a cluster only when its batch is complete. A scrape renders only the few figures of each
cluster that depend on the time; the rest is one join of cached bytes, itself cached until something changes.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from controller_model.insight.quorum import gone_registrations
from controller_model.insight.rebalance import next_check_at
from controller_model.metrics.catalogue import BROKER_METRICS, CLUSTER_METRICS, NOW_METRICS
from controller_model.metrics.metric import Metric, Moment
from controller_model.records.completeness import Completeness, ReaderProgress, assess, behind_ms
from controller_model.records.recent import elections_within, fenced_within, leaves_within
from controller_model.records.views import BrokerView
from exporter.core.records import ClusterSnapshot
from exporter.core.render import NO_LINES, Format, Lines, header, lines
from exporter.partitions.worst_topics import WorstTopicsStore

Families = tuple[Lines, ...]
"""One Lines per metric, in the order of the catalogue."""

_CACHED_METRICS: tuple[Metric[Any], ...] = (*CLUSTER_METRICS, *BROKER_METRICS)


class RenderedCluster(NamedTuple):
    """A cluster's lines, and what the next rendering reuses of them."""

    snapshot: ClusterSnapshot
    of_cluster: Families
    of_brokers: Families
    each_broker: Mapping[int, tuple[BrokerView, Families]]


def render_cluster(snapshot: ClusterSnapshot, before: RenderedCluster | None) -> RenderedCluster:
    """Return a cluster's lines; those of unchanged brokers are taken from the rendering before."""
    view = snapshot.view
    created = view.counters_since
    of_cluster = tuple(lines(metric, view, (snapshot.name,), created) for metric in CLUSTER_METRICS)
    if before is not None and before.snapshot.view.counters_since != created:
        before = None  # the start of counters is in the lines, too
    known = before.each_broker if before is not None else {}
    rendered: dict[int, tuple[BrokerView, Families]] = {}
    for id_, broker in snapshot.brokers.items():
        old = known.get(id_)
        if old is None or old[0] is not broker:
            labels = (broker.cluster, str(id_))
            old = broker, tuple(lines(each, broker, labels, created) for each in BROKER_METRICS)
        rendered[id_] = old
    if before is not None and rendered == before.each_broker:
        return RenderedCluster(snapshot, of_cluster, before.of_brokers, before.each_broker)
    of_brokers = tuple(
        _join(family)
        for family in zip(*(families for _, families in rendered.values()), strict=True)
    )
    return RenderedCluster(
        snapshot, of_cluster, of_brokers or (NO_LINES,) * len(BROKER_METRICS), rendered
    )


def _join(family: Sequence[Lines]) -> Lines:
    text = b"".join(part.text for part in family)
    if all(part.openmetrics is part.text for part in family):
        return Lines(text, text)
    return Lines(text, b"".join(part.openmetrics for part in family))


class Collector:
    """The rendered clusters. One thread calls `update`, any thread may call the others."""

    def __init__(self, reading_of: Callable[[ClusterSnapshot], ReaderProgress]) -> None:
        self.worst_topics = WorstTopicsStore()
        self._reading_of = reading_of
        self.clusters: Mapping[str, ClusterSnapshot] = {}
        """The rendered clusters by name; never changed, only replaced."""
        self._rendered: Mapping[str, RenderedCluster] = {}
        self._version = 0
        self._joined: dict[Format, tuple[int, bytes]] = {}
        """The joined lines of each format, and the version that they were made from."""

    def update(self, changed: Iterable[str], clusters: Mapping[str, ClusterSnapshot]) -> None:
        """Render the clusters that changed, and drop those that are gone."""
        rendered = {name: old for name, old in self._rendered.items() if name in clusters}
        for name in changed:
            if name in clusters:
                rendered[name] = render_cluster(clusters[name], rendered.get(name))
        self._rendered = dict(sorted(rendered.items()))
        self.clusters = {name: each.snapshot for name, each in self._rendered.items()}
        self._version += 1

    def completeness(self, snapshot: ClusterSnapshot, now: int) -> Completeness:
        """Return how complete a cluster's figures are at `now` (ms since 1970)."""
        return assess(snapshot.view, self._reading_of(snapshot), now)

    def scrape(self, format_: Format, now: int) -> bytes:
        """Return all samples about clusters, without the "# EOF" of OpenMetrics."""
        return self._now_lines(format_, now) + self._cached_lines(format_)

    def _now_lines(self, format_: Format, now: int) -> bytes:
        moments = [(name, self.moment(held, now)) for name, held in self.clusters.items()]
        parts: list[bytes] = []
        for metric in NOW_METRICS:
            family = [lines(metric, now_facts, (name,), None).text for name, now_facts in moments]
            parts += _family(metric, format_, family)
        return b"".join(parts)

    def moment(self, snapshot: ClusterSnapshot, now: int) -> Moment:
        """Return the figures of a cluster that depend on the time."""
        view, reading = snapshot.view, self._reading_of(snapshot)
        controller = view.controller
        elected_at = None if controller is None else controller.elected_at
        return Moment(
            completeness=assess(view, reading, now),
            behind_ms=behind_ms(reading),
            clock_skew_ms=reading.clock_skew_ms,
            vacant_ms=None
            if controller is None or controller.migrating_to_kraft
            else max(0, now - (controller.vacant_since or now)),
            recent_elections={}
            if controller is None
            else elections_within(controller.recent_elections, now),
            isr_leave_minutes={
                id_: leaves_within(broker.record.isr_leave_minutes, now)
                for id_, broker in snapshot.brokers.items()
                if None not in {broker.record.live, broker.leaders}
            },
            recent_fences=None
            if view.quorum is None
            else fenced_within(view.quorum.recent_fences, now),
            gone_registrations=gone_registrations(view, snapshot.brokers.values(), now),
            worst=self.worst_topics.of(snapshot.name),
            next_rebalance_at=None
            if elected_at is None or not view.has_zookeeper
            else next_check_at(elected_at, now),
        )

    def _cached_lines(self, format_: Format) -> bytes:
        # The version is read first: after a change in between, the next scrape joins again.
        version, rendered = self._version, self._rendered
        joined_of, body = self._joined.get(format_, (None, b""))
        if joined_of != version:
            body = _join_clusters(format_, rendered.values())
            self._joined[format_] = (version, body)
        return body


def _join_clusters(format_: Format, clusters: Iterable[RenderedCluster]) -> bytes:
    held = tuple(clusters)
    of_clusters = zip(
        _CACHED_METRICS,
        zip(*((*c.of_cluster, *c.of_brokers) for c in held), strict=True),
        strict=bool(held),
    )
    parts: list[bytes] = []
    for metric, blocks in of_clusters:
        parts += _family(metric, format_, [block.of(format_) for block in blocks])
    return b"".join(parts)


def _family(metric: Metric[Any], format_: Format, blocks: Sequence[bytes]) -> Sequence[bytes]:
    """Return a metric's header and samples; empty when there are no samples."""
    return (header(metric, format_), *blocks) if any(blocks) else ()
