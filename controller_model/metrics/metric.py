"""What a metric is: its name and meaning, and how its samples are read from a view.

A metric is data. The exporter renders it, dashboards query it and documentation lists it,
all from one entry. None in a view makes no sample, never a zero. Names keep Prometheus's
suffixes: `_total` for counters, base units, `_timestamp_seconds` for points in time.
"""

import dataclasses
import enum
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from controller_model.records.completeness import Completeness, Stage

Sample: TypeAlias = tuple[tuple[str, ...], float]
"""The values of the labels after `cluster` (and `broker`), and the figure."""

V = TypeVar("V", contravariant=True)  # noqa: PLC0105  # one letter is what the generic needs
W = TypeVar("W", contravariant=True)  # noqa: PLC0105  # likewise

Reader: TypeAlias = Callable[[V], Iterable[Sample]]

_MS_PER_S = 1000
"""Views use milliseconds, Prometheus seconds."""


class MetricType(enum.StrEnum):
    """Prometheus's types, as far as kcm needs them."""

    COUNTER = "counter"
    GAUGE = "gauge"
    INFO = "info"
    """A gauge of 1 whose labels hold the value; a type of its own in OpenMetrics."""


_SUFFIXES = {MetricType.COUNTER: "_total", MetricType.INFO: "_info"}
_UNITS = ("seconds", "ratio")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Metric(Generic[V]):
    """One metric, read from a V: a ClusterView, a BrokerView or a Moment. Its name gives type and unit."""

    name: str
    """The name as in samples, including the suffix."""
    help: str
    """What an operator should expect to see."""
    labels: tuple[str, ...]
    """All labels of a sample, `cluster` first."""
    read: Reader[V]

    @cached_property
    def type(self) -> MetricType:
        """The type that the name's suffix implies."""
        found = (kind for kind, suffix in _SUFFIXES.items() if self.name.endswith(suffix))
        return next(found, MetricType.GAUGE)

    @cached_property
    def family(self) -> str:
        """The name without its type's suffix, as OpenMetrics declares it."""
        return self.name.removesuffix(_SUFFIXES.get(self.type, ""))

    @cached_property
    def unit(self) -> str:
        """The unit that the family's name ends with; empty for a plain number."""
        return next((unit for unit in _UNITS if self.family.endswith(f"_{unit}")), "")


class Samples(NamedTuple, Generic[V]):
    """What a metric shows, and how it is read."""

    help: str
    labels: tuple[str, ...]
    """The labels after `cluster` (and `broker`)."""
    read: Reader[V]


Table: TypeAlias = Mapping[str, Samples[V]]
"""Metrics by name, in the order in which they are served."""


class TopicTrouble(NamedTuple):
    """How many partitions of a topic are offline, under min.insync.replicas or under-replicated."""

    topic: str
    offline: int
    under_min_isr: int | None
    """None: of some partitions it is not known."""
    under_replicated: int


class WorstTopics(NamedTuple):
    """The topics with the most such partitions, worst first, and when they were counted (None: not yet)."""

    at: int | None = None
    topics: tuple[TopicTrouble, ...] = ()
    led_short: tuple[tuple[int, int], ...] = ()
    """Each live broker, and the number of under-replicated partitions that it leads."""
    one_rack: int | None = None
    """Partitions with all replicas in one rack; None: not counted, or a path that it needs was denied."""


@dataclasses.dataclass(frozen=True, kw_only=True, slots=True)
class Moment:
    """Values that depend on the time of the scrape, and so are not cached."""

    completeness: Completeness
    behind_ms: Mapping[Stage, int]
    clock_skew_ms: Mapping[Stage, int] = dataclasses.field(default_factory=dict)
    vacant_ms: int | None
    """For how many ms nobody has held /controller, 0 while somebody holds it; None: it is not known."""
    recent_elections: Mapping[str, int] = dataclasses.field(default_factory=dict)
    """Controller elections within each window; empty: not known."""
    isr_leave_minutes: Mapping[int, int] = dataclasses.field(default_factory=dict)
    """In how many minutes of the window replicas of each broker left an ISR, for brokers where it is known."""
    recent_fences: int | None = None
    """How many brokers the controller of a KRaft cluster fenced within the window, in one epoch and without a restart."""
    gone_registrations: Mapping[str, tuple[int, ...]] | None = None
    """Nodes of a KRaft cluster that are registered and gone, by kind; None: not known."""
    worst: WorstTopics = dataclasses.field(default_factory=WorstTopics)
    next_rebalance_at: int | None = None
    """The earliest time at which the controller checks the balance again; None if it is not known."""


def figure(text: str, read: Callable[[V], float | None]) -> Samples[V]:
    """Return the samples of a metric with one figure; None makes no sample."""
    return Samples(text, (), lambda view: () if (n := read(view)) is None else (((), n),))


def metrics(table: Table[V], *, of: tuple[str, ...] = ("cluster",)) -> tuple[Metric[V], ...]:
    """Return the metrics of a table; `of` are the labels that identify the cluster or the broker."""
    return tuple(
        Metric(name=name, help=samples.help, labels=(*of, *samples.labels), read=samples.read)
        for name, samples in table.items()
    )


def of_part(part: Callable[[W], V | None], table: Table[V]) -> Table[W]:
    """Return metrics of a part of a view, which have no samples where the part is not known."""

    def lifted(read: Reader[V]) -> Reader[W]:
        return lambda view: () if (held := part(view)) is None else read(held)

    return {
        name: Samples(samples.help, samples.labels, lifted(samples.read))
        for name, samples in table.items()
    }


def seconds(milliseconds: float | None) -> float | None:
    """Return milliseconds as seconds.

    >>> seconds(1500), seconds(None)
    (1.5, None)
    """
    return None if milliseconds is None else milliseconds / _MS_PER_S


def each_of(kinds: Iterable[str], counts: Mapping[str, int] | None) -> list[Sample]:
    """Return a sample for each kind, 0 if it has no count, and for other kinds in `counts`; none where it is not known.

    A series that exists from the start lets `increase()` see its first event.

    >>> each_of(["a", "b"], {"b": 2, "new": 1})
    [(('a',), 0), (('b',), 2), (('new',), 1)]
    """
    if counts is None:
        return []
    names = [str(kind) for kind in kinds]
    names += sorted(set(counts) - set(names))
    return [((name,), counts.get(name, 0)) for name in names]


def state_of(states: Iterable[str], current: str) -> list[Sample]:
    """Return a sample for each state: 1 for the current one, 0 for the others.

    >>> state_of(["on", "off"], "off")
    [(('on',), 0), (('off',), 1)]
    """
    return [((str(state),), int(state == current)) for state in states]
