"""What the fold asks of a source: to turn records into facts, and to infer what no record states.

The rule: a source reads the state, and changes the cluster by facts alone. Its own are `ControlPlane.source`, each `Origin`,
and of `control.log` what only it can know of its reading:

- `view.heartbeat_at` and `last_change_at`, by which the figures' age is judged, and `views_from`, where a reading that
  touched every topic began;
- `view.resyncs`, `resync_under_way` and `reconciliations`, while it reads everything again or compares it; `divergent_since`
  with what differs; and `wanted`, which is None once a reading answers it;
- `view.unreadable`, one more for each value that cannot be read (`count_anomaly` reports it; topics and partitions have an
  `unreadable` of their own), and `view.hidden`, `denied`, `denied_more` and `hidden_reason` for what it may not read;
- what only ZooKeeper has: `view.session`, `session_since`, `zookeeper`, `znodes`, `digest`, `read_zxid`, `stale`,
  `missed_updates`, `last_change_mtime`, `kraft_since`, `left_since`, and `dropped`, also `pending.notifications`;
- `position`, `view.watcher`, `holes` and `not_newer`, if its records have an order of their own; otherwise the fold's.

`baseline` is set by `CountingStarts`; a source takes it back only while it states what is found again, or what it could not
read before. All else in the log's state belongs to the fold and to `state/completeness.py`. KRaft also brings
`control.quorum` up to date.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from controller_model.facts.facts import Fact
from controller_model.kafka.ids import Position
from controller_model.records.events import AnyEvent
from controller_model.records.pending_writes import PendingWrites
from controller_model.records.views import Capability
from controller_model.state.packing import own_state

if TYPE_CHECKING:
    from controller_model.state.cluster import ClusterState
    from controller_model.state.control_plane import ControlPlane

Handle = Callable[["ClusterState", Fact], list[AnyEvent]]
"""Applies a fact to a cluster, and returns what it reports (`handlers.apply_fact`)."""


class Inferred(NamedTuple):
    """What a source adds to the cluster's view when it is made."""

    pending_writes: PendingWrites = PendingWrites(counts=None)
    """None of the counts is known, unless the source infers them."""
    unreadable: tuple[str, ...] = ()
    """What belongs to no topic and cannot be read in its newest value, as operators name it: the first of
    them, the controller's before all others."""
    unreadable_count: int = 0
    unreadable_controller: bool = False


class LogRecord(Protocol):
    """A source's record in the log, as far as the fold reads it: a msgspec.Struct.

    `observed_at` is a field, which the fold replaces with the log's time where clocks disagree.
    """

    @property
    def generation(self) -> int:
        """Which history the record continues; rises."""

    @property
    def seq(self) -> int:
        """The number of the record within its generation."""

    @property
    def watcher(self) -> str:
        """Who wrote it."""

    @property
    def observed_at(self) -> int:
        """When it was written, by the watcher's clock, in milliseconds since 1970."""

    @property
    def position(self) -> Position:
        """Generation and seq."""


class Source:
    """One kind of source of clusters' facts; as it is, it infers nothing."""

    absent: tuple[Capability, ...]
    """What it never shows of a cluster (`LogView.absent`); () if it shows all. A source whose clusters delete topics at once
    has DELETIONS."""

    state_type: type[Any]
    """The struct of its own state, which is packed with the rest: `array_like=True`, each field with a default, and a
    `tag` by which the packed value is known for this source's. Without one a cluster's source is not found again."""

    has_own_order = False
    """Its records have an order of their own (`split` and `admit`). Otherwise they follow each other by their seqs, from
    one watcher in each generation."""

    clock_name = "the watcher's clock"
    """Whose clock the times of records are by."""

    def split(self, record: Any) -> Iterable[Any]:
        """Return the parts of a record, between which the health of the cluster may be sampled."""
        return (record,)

    def admit(self, _state: "ClusterState", _record: Any) -> tuple[Any | None, list[AnyEvent]]:
        """Return what of a record continues what is held, and what that shows; move the log's position to its end.

        None: it brings nothing, or nothing that can be applied yet.
        """
        raise NotImplementedError

    def name_of(self, record: Any) -> tuple[str, str]:
        """Return the kind of a record and the place that it is about, as operators name them."""
        raise NotImplementedError

    def begins_reading(self, record: Any) -> bool:
        """Return whether everything is read again from this record on."""
        raise NotImplementedError

    def apply(
        self, state: "ClusterState", record: Any, handle: Handle
    ) -> tuple[list[AnyEvent], bool]:
        """Apply a record; return its events, and whether the health of the cluster is sampled after it."""
        raise NotImplementedError

    def adopt(self, control: "ControlPlane") -> None:
        """Make `control.source` this source's own state: a new one, or what was unpacked."""
        control.source = own_state(control.source, self.state_type)
        control.log.view.absent = self.absent

    def interrupt(self, control: "ControlPlane", *, new_generation: bool) -> None:
        """Note that records are missing before the next one, or that another watcher continues."""

    def finish_batch(self, _state: "ClusterState", _handle: Handle) -> list[AnyEvent]:
        """Report what only the end of a batch shows."""
        return []

    def infer(self, _control: "ControlPlane") -> Inferred:
        """Return what only the source can add to the cluster's view; bring `pending` and `log.view` up to date."""
        return Inferred()

    def broker_state(self, _control: "ControlPlane", _broker: int) -> str | None:
        """Return the state that a broker is most likely in, by Kafka's name; None if that is not known."""
        return None

    def elections(self, control: "ControlPlane") -> tuple[int, int]:
        """Return (elections, missed ones) as if the log ended here."""
        view = control.controller.view
        return view.elections, view.missed_elections
