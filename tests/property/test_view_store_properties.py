"""Views may be read again from any offset, compacted or not: the shown views do not change."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from exporter.intake.view_store import ViewStore
from pipeline.topic_records import Record
from tests.support.samples import as_of, cluster_view, deleted, raw, record, topic_view

STEPS = st.lists(
    st.sampled_from(["next", "next", "again", "other", "nothing"]), min_size=1, max_size=14
)
"""A topic's next step (written, deleted, forgotten, written again), its last one once more, another
topic's view, or a batch of no topic's."""


def written(steps: Sequence[str]) -> tuple[list[Record], set[str]]:
    """Return what a fold writes in these steps, a batch each, and the topics that are there then."""
    records = [record(cluster_view(at=as_of(1)))]
    present: set[str] = set()
    stage = 0
    for seq, step in enumerate(steps, start=2):
        stage += step == "next"
        last = stage % 3 if step in {"next", "again"} and stage else None
        if last == 1:
            records.append(record(topic_view("t", as_of(seq))))
            present.add("t")
        elif last == 2:
            records.append(record(deleted(as_of(seq)), "prod/topic/t/0"))
            present.discard("t")
        elif last == 0:
            records.append(raw(b"prod/topic/t/0", None))
        elif step == "other":
            records.append(record(topic_view("other", as_of(seq))))
            present.add("other")
        records.append(record(cluster_view(at=as_of(seq))))
    return records, present


def shown(store: ViewStore) -> set[str]:
    """Return the topics that are shown."""
    return {entry.name for entry in store.clusters["prod"].topics.values()}


@given(STEPS, st.data())
def test_reading_again_from_anywhere_changes_nothing(steps: list[str], data: st.DataObject) -> None:
    """A topic that was deleted, forgotten and created again is there, however often it is read."""
    records, present = written(steps)
    store = ViewStore()
    for each in records:
        store.apply(each)
    assert shown(store) == present
    for each in records[data.draw(st.integers(0, len(records)), "read again from") :]:
        store.apply(each)
    store.apply(record(cluster_view(at=as_of(99))))
    assert shown(store) == present


@given(STEPS)
def test_a_compacted_topic_shows_the_same(steps: list[str]) -> None:
    """Only the newest record of each key is left."""
    records, present = written(steps)
    newest = {each.key: each for each in records}
    store = ViewStore()
    for each in sorted(newest.values(), key=lambda kept: kept.offset):
        store.apply(each)
    assert shown(store) == present


def test_a_cluster_deleted_by_hand_stays_deleted() -> None:
    """A null under its view's key, read once or twice; a null older than the view has no effect."""
    store = ViewStore()
    first, null = record(cluster_view(at=as_of(1))), raw(b"prod/cluster", None)
    again = record(cluster_view(at=as_of(2)))
    for each in (first, null):
        store.apply(each)
    assert not store.clusters
    for each in (again, null):
        store.apply(each)
    assert "prod" in store.clusters
