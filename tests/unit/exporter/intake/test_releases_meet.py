"""Parts of different releases on the same topics: what is not known is skipped and counted, never wrong."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.records.changes import (
    ChangeKind,
    ZnodeChange,
    decode_message,
    encode_changes,
)
from controller_model.records.event_records import encode_event
from exporter.intake.event_store import EventStore
from exporter.intake.view_store import ViewStore
from tests.support.samples import (
    EVENTS,
    as_of,
    broker_view,
    cluster_view,
    elected,
    event_record,
    raw,
    record,
    topic_view,
)


def newer(value: bytes | None, **fields: Any) -> bytes:
    """Return a record as a newer release would write it: with a field that we do not know, and these."""
    body = json.loads(value or b"{}") | {"of_a_newer_release": {"any": [1]}} | fields
    return json.dumps(body).encode()


def test_an_older_exporter_reads_a_newer_folds_views() -> None:
    """Fields that it does not know change nothing of those that it does."""
    store, plain = ViewStore(), ViewStore()
    for view in (broker_view(0), topic_view("t"), cluster_view()):
        old = record(view)
        plain.apply(old)
        store.apply(raw(old.key, newer(old.value)))
    assert store.counts.unreadable == 0
    assert store.clusters["prod"].view == plain.clusters["prod"].view
    assert store.clusters["prod"].brokers == plain.clusters["prod"].brokers


@pytest.mark.parametrize(
    ("key", "fields"),
    [
        (b"prod/of_a_newer_release", {"view": "of_a_newer_release"}),
        (b"prod/broker/1", {"v": 2}),
    ],
)
def test_views_of_another_kind_or_version_are_skipped_and_counted(
    key: bytes, fields: dict[str, Any]
) -> None:
    """An older exporter shows the rest of the batch."""
    store = ViewStore()
    store.apply(record(broker_view(0)))
    store.apply(raw(key, newer(record(broker_view(1)).value, **fields)))
    assert store.apply(record(cluster_view())) == "prod"
    assert list(store.clusters["prod"].brokers) == [0]
    assert store.counts.unreadable == 1


def test_events_of_another_kind_are_skipped_and_counted() -> None:
    """An older exporter goes on with the next event that it knows."""
    store = EventStore(kept=10)
    store.apply(event_record(elected(1)))
    strange = json.loads(encode_event(elected(2)))
    strange["event"]["kind"] = "OfANewerRelease"
    store.apply(raw(b"prod", json.dumps(strange).encode(), topic=EVENTS))
    store.apply(event_record(elected(3)))
    shown = store.search("prod", most=10, up_to=as_of(10**9)).events
    assert [event.id.seq for event in shown] == [3, 1]
    assert store.unreadable == 1


def test_a_newer_exporter_reads_an_older_folds_views() -> None:
    """What an older fold does not tell has its default: no field but those of the first release is needed."""
    store = ViewStore()
    first_release = {
        *("view", "v", "cluster", "as_of", "counters_since", "folded_at"),
        *("controller", "counts", "pending", "log", "id", "live", "name", "chunk", "chunks"),
    }
    for view in (broker_view(0), topic_view("t"), cluster_view(brokers_known=(0,))):
        body = json.loads(record(view).value or b"")
        kept = {name: value for name, value in body.items() if name in first_release}
        assert store.apply(raw(record(view).key, json.dumps(kept).encode())) in {None, "prod"}
    assert store.counts.unreadable == 0
    assert store.clusters["prod"].view.controller.id == 0


def test_a_fold_reads_an_older_and_a_newer_watchers_log() -> None:
    """Optional fields may be absent, unknown ones are passed over, another version is counted."""
    change = ZnodeChange(
        v=1,
        cluster="prod",
        generation=1,
        watcher="w",
        seq=1,
        kind=ChangeKind.HEARTBEAT,
        observed_at=1,
    )
    (body,) = json.loads(encode_changes([change]))
    log = [body, body | {"of_a_newer_release": 1}, body | {"v": 2}, body | {"kind": "of_a_newer"}]
    batch = decode_message(json.dumps(log).encode())
    assert batch.changes == (change, change)
    assert batch.unreadable == 2
    with pytest.raises(UnreadableRecordError):
        decode_message(b'{"of_a_newer_release": []}')
