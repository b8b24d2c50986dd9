"""What a metric is: its name and meaning, and how its samples are read from a view.

The rule: a metric is data. The exporter renders it, dashboards query it, documentation lists it,
all from one entry; None in a view makes no sample, and never a zero. Names keep Prometheus's
suffixes: `_total` for counters, base units, `_timestamp_seconds` for points in time.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from controller_model.records.completeness import Completeness, Stage
from controller_model.records.views import ClusterView

Sample: TypeAlias = tuple[tuple[str, ...], float]
"""The values of the labels after `cluster` (and `broker`), and the figure."""

V = TypeVar("V", contravariant=True)  # noqa: PLC0105  # one letter is what the generic needs

_MS_PER_S = 1000
"""Views count milliseconds, Prometheus seconds."""


class MetricType(enum.StrEnum):
    """Prometheus's types, as far as we need them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    INFO = "info"
    """A gauge of 1 whose labels are the value; a type of its own in OpenMetrics."""


_SUFFIXES = {MetricType.COUNTER: "_total", MetricType.GAUGE: "", MetricType.INFO: "_info"}


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Metric(Generic[V]):
    """One metric, read from a V: a ClusterView, a BrokerView, or a Moment."""

    name: str
    """As it stands in samples, suffix included."""
    type: MetricType
    help: str
    """What an operator should expect to see."""
    labels: tuple[str, ...]
    """All labels of a sample, `cluster` first."""
    unit: str
    """seconds, ratio, or empty."""
    read: Callable[[V], Iterable[Sample]]

    @property
    def family(self) -> str:
        """The name without its type's suffix, as OpenMetrics declares it."""
        return self.name.removesuffix(_SUFFIXES[self.type])


class TopicTrouble(NamedTuple):
    """How many partitions of a topic are in trouble."""

    topic: str
    offline: int
    under_min_isr: int
    under_replicated: int


class WorstTopics(NamedTuple):
    """The topics that are worst off, the worst first, and as of when; None before they are first computed."""

    at: int | None = None
    topics: tuple[TopicTrouble, ...] = ()
    led_short: tuple[tuple[int, int], ...] = ()
    """Each live broker, and how many under-replicated partitions it leads."""
    one_rack: int | None = None
    """Partitions with all replicas in one rack; None: not counted, or what it takes was denied."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """What depends on the time of the scrape, and so is not cached."""

    completeness: Completeness
    behind_ms: Mapping[Stage, int]
    vacant_ms: int | None
    """For how long nobody has held /controller, 0 when somebody holds it; None: it is not known."""
    worst: WorstTopics = dataclasses.field(default_factory=WorstTopics)
    next_rebalance_at: int | None = None
    """When the controller checks the balance next, at the earliest; None where it is not known."""


def one(figure: Callable[[V], float | None]) -> Callable[[V], Iterable[Sample]]:
    """Return a reader of a single sample without labels of its own; no sample for None."""

    def read(view: V) -> Iterable[Sample]:
        value = figure(view)
        return () if value is None else (((), value),)

    return read


def where_readable(
    path: str, metrics: Iterable[Metric[ClusterView]]
) -> tuple[Metric[ClusterView], ...]:
    """Return the metrics without samples while the watcher may not read what they are made of."""
    return tuple(
        dataclasses.replace(metric, read=_where_readable(path, metric.read)) for metric in metrics
    )


def _where_readable(
    path: str, read: Callable[[ClusterView], Iterable[Sample]]
) -> Callable[[ClusterView], Iterable[Sample]]:
    def samples(view: ClusterView) -> Iterable[Sample]:
        return () if view.log.is_denied(path) else read(view)

    return samples


def seconds(milliseconds: float | None) -> float | None:
    """Return milliseconds as seconds.

    >>> seconds(1500), seconds(None)
    (1.5, None)
    """
    return None if milliseconds is None else milliseconds / _MS_PER_S


def each_of(kinds: Iterable[str], counts: Mapping[str, int]) -> list[Sample]:
    """Return a sample for each kind, 0 where there was none, and for those not known here.

    A series that is there from the start lets `increase()` see its first event.

    >>> each_of(["a", "b"], {"b": 2, "new": 1})
    [(('a',), 0), (('b',), 2), (('new',), 1)]
    """
    names = [str(kind) for kind in kinds]
    names += sorted(set(counts) - set(names))
    return [((name,), counts.get(name, 0)) for name in names]


def state_of(states: Iterable[str], current: str) -> list[Sample]:
    """Return a sample for each state: 1 for the current one, 0 for the others.

    >>> state_of(["on", "off"], "off")
    [(('on',), 0), (('off',), 1)]
    """
    return [((str(state),), int(state == current)) for state in states]


def unit_of(family: str) -> str:
    """Return the unit that the name of a family ends with; empty for a plain number.

    >>> unit_of("kafka_broker_imbalance_ratio")
    'ratio'
    """
    return next((unit for unit in ("seconds", "ratio") if family.endswith(f"_{unit}")), "")


def gauge(name: str, text: str, figure: Callable[[V], float | None]) -> Metric[V]:
    """Return a gauge of a cluster, read from its view or from the moment of the scrape."""
    return Metric(
        name=name,
        type=MetricType.GAUGE,
        help=text,
        labels=("cluster",),
        unit=unit_of(name),
        read=one(figure),
    )


def counter(
    name: str, text: str, figure: Callable[[ClusterView], float | None]
) -> Metric[ClusterView]:
    """Return a counter of a cluster."""
    return Metric(
        name=name,
        type=MetricType.COUNTER,
        help=text,
        labels=("cluster",),
        unit=unit_of(name.removesuffix("_total")),
        read=one(figure),
    )


def labelled(
    name: str,
    text: str,
    labels: tuple[str, ...],
    read: Callable[[ClusterView], Iterable[Sample]],
) -> Metric[ClusterView]:
    """Return a metric of a cluster with labels of its own; its name implies its type."""
    return Metric(
        name=name, type=type_of(name), help=text, labels=("cluster", *labels), unit="", read=read
    )


def type_of(name: str) -> MetricType:
    """Return the type that the suffix of a name implies."""
    if name.endswith("_total"):
        return MetricType.COUNTER
    return MetricType.INFO if name.endswith("_info") else MetricType.GAUGE
