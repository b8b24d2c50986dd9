"""The content of /metrics: both formats parse, None has no sample, only changes are rendered."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

import msgspec
import pytest
from prometheus_client import Metric as Family
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

from controller_model.metrics.catalogue import CATALOGUE
from controller_model.records.completeness import LATE_BEATS_MS, ReaderProgress, Stage
from controller_model.records.incidents import IncidentsSummary
from controller_model.records.metadata_log import QuorumReplica, QuorumSample
from controller_model.records.pending_writes import PendingWrites
from controller_model.records.quorum import QuorumView
from controller_model.records.recommendations import RebalanceSummary
from controller_model.records.views import AnyView, ControllerView, Counts
from exporter.core.render import Format
from exporter.intake.view_store import ViewStore
from exporter.scrape.collector import Collector, render_cluster
from tests.support.samples import (
    FRESH,
    T0,
    as_of,
    broker_view,
    cluster_view,
    last_incident,
    record,
    topic_view,
)

END = b"# EOF\n"


def collector_of(
    store: ViewStore, *views: AnyView, progress: Sequence[ReaderProgress] = (FRESH,)
) -> Collector:
    """Return a collector with these views; the last of `progress` is how far they are read."""
    collector = Collector(lambda _snapshot: progress[-1])
    changed = {cluster for view in views if (cluster := store.apply(record(view)))}
    collector.update(changed, store.clusters)
    return collector


def families(collector: Collector, format_: Format, now: int = T0) -> dict[str, Family]:
    """Return the metric families that a scraper parses."""
    body = collector.scrape(format_, now)
    if format_ is Format.TEXT:
        return {family.name: family for family in parse_text(body.decode())}
    return {f.name: f for f in parse_openmetrics((body + END).decode())}  # type: ignore[no-untyped-call]  # the package leaves it untyped


def value(found: dict[str, Family], name: str, **labels: str) -> float | None:
    """Return the first sample with these labels; None if there is none."""
    samples: Iterable[tuple[str, dict[str, str], float]] = (
        (s.name, s.labels, s.value) for family in found.values() for s in family.samples
    )
    return next((v for n, has, v in samples if n == name and labels.items() <= has.items()), None)


@pytest.mark.parametrize("format_", Format)
def test_two_clusters_parse_in_both_formats(format_: Format) -> None:
    """Strict parsers accept the whole body; each metric is declared once, whatever the clusters."""
    views = [
        view
        for name in ("a", "b")
        for view in (broker_view(0, cluster=name), broker_view(1, cluster=name), cluster_view(name))
    ]
    collector = collector_of(ViewStore(), *views)
    found = families(collector, format_)
    assert value(found, "kafka_controller_epoch", cluster="b") == 7
    assert value(found, "kafka_broker_leaders", cluster="a", broker="1") == 0
    body = collector.scrape(format_, T0)
    declared = [line for line in body.splitlines() if line.startswith(b"# TYPE ")]
    assert len(declared) == len(set(declared))


def test_openmetrics_has_created_times_info_and_units() -> None:
    """Each counter carries its created time; info and unit are declared."""
    collector = collector_of(ViewStore(), broker_view(0), cluster_view())
    found = families(collector, Format.OPENMETRICS)
    assert value(found, "kafka_controller_elections_created", cluster="prod") == T0 / 1000
    assert value(found, "kafka_broker_registrations_created", broker="0") == T0 / 1000
    assert found["kafka_broker"].type == "info"
    assert found["kafka_broker_imbalance_ratio"].unit == "ratio"
    assert b"_created" not in collector.scrape(Format.TEXT, T0)


def test_an_unknown_value_has_no_sample() -> None:
    """None is absent: neither zero nor NaN stands for it."""
    bare = cluster_view(
        controller=ControllerView(), log=msgspec.structs.replace(cluster_view().log, session=None)
    )
    collector = collector_of(ViewStore(), broker_view(0, host=None, since=None), bare)
    found = families(collector, Format.TEXT)
    for name in (
        "kafka_controller_epoch",
        "kafka_controller_elected_timestamp_seconds",
        "kafka_controller_last_vacancy_seconds",
        "kcm_cluster_watcher_connected",
        "kafka_broker_info",
        "kafka_broker_since_timestamp_seconds",
    ):
        assert value(found, name) is None
    assert value(found, "kafka_controller_id") == -1
    assert not any(math.isnan(s.value) for family in found.values() for s in family.samples)


def test_only_changed_brokers_are_rendered_again() -> None:
    """A broker whose view is the same keeps its bytes object; another start of the counters renders all again."""
    store = ViewStore()
    for view in (broker_view(0), broker_view(1), cluster_view()):
        store.apply(record(view))
    first = render_cluster(store.clusters["prod"], None)
    store.apply(record(broker_view(1, as_of(2), leaders=4)))
    store.apply(record(cluster_view(at=as_of(2))))
    second = render_cluster(store.clusters["prod"], first)
    assert second.each_broker[0] is first.each_broker[0]
    assert second.each_broker[1] is not first.each_broker[1]
    store.apply(record(cluster_view(at=as_of(3))))
    assert render_cluster(store.clusters["prod"], second).of_brokers is second.of_brokers
    store.apply(record(cluster_view(at=as_of(4), counters_since=T0 + 1)))
    third = render_cluster(store.clusters["prod"], second)
    assert third.each_broker[0] is not second.each_broker[0]


def test_the_cached_bytes_are_the_same_object_until_a_change() -> None:
    """The second of two scrapes without a change between them joins nothing."""
    store = ViewStore()
    collector = collector_of(store, broker_view(0), cluster_view())
    first = collector._cached_lines(Format.TEXT)
    assert collector._cached_lines(Format.TEXT) is first
    store.apply(record(cluster_view(at=as_of(2), controller=ControllerView(id=1))))
    collector.update({"prod"}, store.clusters)
    assert b'kafka_controller_id{cluster="prod"} 1\n' in collector._cached_lines(Format.TEXT)


def test_a_cluster_that_is_gone_leaves_no_series() -> None:
    """After an update without the cluster, none of its series is served."""
    store = ViewStore()
    collector = collector_of(store, broker_view(0), cluster_view())
    collector.update({"prod"}, {})
    assert collector.scrape(Format.TEXT, T0) == b""


def test_labels_are_escaped() -> None:
    """A host name with quotes, backslashes or line ends cannot break the format."""
    odd = 'a"b\\c\nd'
    collector = collector_of(ViewStore(), broker_view(0, rack=odd), cluster_view())
    for format_ in Format:
        assert value(families(collector, format_), "kafka_broker_info", rack=odd) == 1


def test_ages_are_computed_at_the_scrape() -> None:
    """Ages, up and the vacancy follow the time of the scrape without any new record."""
    controller = ControllerView(vacant_since=T0)
    progress = [ReaderProgress(read_ms=0, watcher_ms=1_500)]
    collector = collector_of(ViewStore(), cluster_view(controller=controller), progress=progress)
    fresh = families(collector, Format.TEXT, T0 + 1500)
    assert value(fresh, "kcm_cluster_up") == 1
    assert value(fresh, "kcm_cluster_behind_seconds", stage="watcher") == 1.5
    assert value(fresh, "kafka_controller_vacant_seconds") == 1.5
    progress.append(ReaderProgress(read_ms=0, watcher_ms=LATE_BEATS_MS + 1))
    late = families(collector, Format.TEXT, T0 + 1500)
    assert value(late, "kcm_cluster_up") == 0
    assert value(late, "kcm_cluster_status", status="behind") == 1
    assert value(late, "kcm_cluster_status", status="live") == 0


def test_recent_elections_leave_their_windows_as_time_passes() -> None:
    """An election 11 minutes ago is not in the last 10 minutes."""
    view = cluster_view(controller=ControllerView(id=0, recent_elections=((T0, 3),)))
    collector = collector_of(ViewStore(), view)

    def shown(now: int) -> list[float]:
        text = collector.scrape(Format.TEXT, now).decode()
        found = re.findall(r"^kafka_controller_recent_elections\{.*\} (\S+)$", text, re.MULTILINE)
        return [float(value) for value in found]

    assert shown(T0 + 1000) == [3, 3, 3]
    assert shown(T0 + 660_000) == [0, 3, 3]
    assert shown(T0 + 3_600_000) == [0, 0, 3]
    assert shown(T0 + 6 * 3_600_000) == [0, 0, 0]


def test_isr_leave_minutes_expire_from_their_window() -> None:
    """Each scrape counts them by their own times."""
    minute = T0 // 60_000
    known = broker_view(0, isr_leave_minutes=(minute - 1, minute))
    collector = collector_of(ViewStore(), known, cluster_view())

    def shown(now: int) -> list[str]:
        text = collector.scrape(Format.TEXT, now).decode()
        return re.findall(r"^kafka_broker_recent_isr_leaves(.*)$", text, re.MULTILINE)

    labels = '{cluster="prod",broker="0",window="30m"}'
    assert shown(T0) == [f"{labels} 2"]
    assert shown(T0 + 29 * 60_000) == [f"{labels} 1"]
    assert shown(T0 + 30 * 60_000) == [f"{labels} 0"]


def a_quorum() -> QuorumView:
    """Return a quorum of one voter of which all is known."""
    voter, broker = QuorumReplica(3000, 9, T0, T0), QuorumReplica(0, 9, T0, T0)
    return QuorumView(
        high_watermark=9,
        high_watermark_since=T0,
        leader=3000,
        leader_epoch=1,
        voters=(3000,),
        features={"metadata.version": 25},
        sample=QuorumSample(T0, 3000, 1, 9, (voter,), (broker,)),
        is_sampled=True,
        snapshot_end=4,
        snapshot_at=T0,
        unknown={"30:0": 1},
    )


def test_every_metric_of_the_catalogue_can_be_served() -> None:
    """A cluster with all figures known has every metric of the catalogue."""
    lost = topic_view("lost", leader=(-1, -1), isr=((1,), (1,)))
    full = cluster_view(
        config=msgspec.structs.replace(cluster_view().config, cluster_id="abc"),
        counts=Counts(
            topics=1,
            partitions=2,
            offline=2,
            under_min_isr=0,
            at_min_isr=0,
            under_replicated_at_min_isr=0,
            under_replicated_reassigning=0,
            min_isr_blocks=0,
            isr_empty=0,
            with_elr=0,
        ),
        min_isr_assumed=1,
        quorum=a_quorum(),
        controllers_safe_to_stop={3000: False},
        controller=ControllerView(
            id=0,
            epoch=1,
            elected_at=T0,
            vacant_since=T0,
            vacancy_last_min_ms=1,
            vacancy_last_max_ms=2,
            failover_since=T0,
            failover_last_ms=3,
            recent_elections=(),
        ),
        pending=msgspec.structs.replace(
            cluster_view().pending,
            oldest_reassignment_at=T0,
            oldest_deletion_at=T0,
            oldest_request_at=T0,
        ),
        log=msgspec.structs.replace(
            cluster_view().log, last_change_mtime=T0, divergent_since=T0, incomplete_since=T0
        ),
        pending_writes=PendingWrites(counts={"new_leader": 1}, oldest_at=T0, pending_since=T0),
        incidents=IncidentsSummary(
            total=2,
            open=2,
            last_started_at=T0,
            last_abnormal_at=T0,
            last_closed_at=T0,
            last_closed=last_incident(),
        ),
        rebalance=RebalanceSummary(recommendation=1, recommended_at=T0),
    )
    read = ReaderProgress(read_ms=0, watcher_ms=0, clock_skew_ms={Stage.FOLD: 1})
    known = broker_view(0, leader_skew=0.5, under_min_isr_if_lost=0, isr_leave_minutes=())
    of_kraft = broker_view(1, fenced=False, log_dirs_offline=0)
    views = (known, of_kraft, lost, full)
    collector = collector_of(ViewStore(), *views, progress=[read])
    collector.worst_topics.update(collector.clusters, T0)
    found = families(collector, Format.TEXT)
    served = {sample.name for family in found.values() for sample in family.samples}
    # While no controller answers, what they answered last is not shown; and this cluster is one in ZooKeeper.
    unreachable = "kafka_quorum_unreachable_since_timestamp_seconds"
    of_kraft_alone = {unreachable, "kafka_controller_possible_elections_total"}
    assert served == {metric.name for metric in CATALOGUE} - of_kraft_alone
