"""Ends a batch of the fold: its events as numbered records, and the views that it changed."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from controller_model.fold.projection import Projected, SentViews, project
from controller_model.fold.replay import EventBatch
from controller_model.kafka.ids import AsOf
from controller_model.records.event_records import EventId, EventRecord, coalesce, number


class BatchOutput(NamedTuple):
    """What a batch adds to the topics, before it is encoded."""

    events: Sequence[EventRecord]
    views: Iterator[Projected]
    """The cluster's view comes last. Each is made when it is asked for: take all before the state changes again."""


def finish_batch(
    batch: EventBatch, *, lineage: str, after: EventId | None, folded_at: int, sent: SentViews
) -> BatchOutput:
    """End a batch. `after`: the last event of the batch before; `sent`: the views that earlier batches sent."""
    state = batch.state
    events = coalesce(batch.finish())
    records = number(state.control.cluster, lineage, events, after=after)
    position = state.control.log.position
    as_of = AsOf(lineage, position.generation, position.seq)
    return BatchOutput(records, project(state, as_of=as_of, folded_at=folded_at, sent=sent))
