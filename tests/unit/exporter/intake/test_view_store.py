"""The view store: newest wins, batches swap at their commit marker, lineages replace, garbage is refused.

A newer lineage is shown once it has reached the position of the one that is shown, never before.
Views of another release that are not known are refused, never misread.
"""

from __future__ import annotations

import itertools
import json
from typing import Any

import msgspec
import pytest

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.kafka.ids import Position
from controller_model.records.changes import digest_text
from controller_model.records.completeness import Stage, Status, assess
from controller_model.records.views import AnyView, encode_view, view_digest
from exporter.core.records import ClusterSnapshot
from exporter.intake.batch_merge import VIEWS_MISSING
from exporter.intake.view_store import UNPROVEN_AT_MOST_MS, ViewStore
from tests.support.samples import (
    FRESH,
    T0,
    as_of,
    beat,
    broker_view,
    cluster_view,
    deleted,
    log_view,
    raw,
    record,
    topic_view,
)


def held(store: ViewStore, name: str = "prod") -> ClusterSnapshot:
    """Return the snapshot of a cluster that must be there."""
    return store.clusters[name]


def topics(store: ViewStore) -> set[str]:
    """Return the names of the topics that are shown."""
    return {entry.name for entry in held(store).topics.values()}


def test_views_wait_for_the_cluster_view_of_their_batch() -> None:
    """Nothing of a batch is shown before its commit marker, and everything at it."""
    store = ViewStore()
    assert store.apply(record(broker_view(0))) is None
    assert store.apply(record(topic_view("t"))) is None
    assert not store.clusters
    assert store.apply(record(cluster_view())) == "prod"
    assert list(held(store).brokers) == [0]
    assert topics(store) == {"t"}
    store.apply(record(broker_view(0, as_of(2), leaders=9)))
    assert held(store).brokers[0].leaders == 0
    store.apply(record(cluster_view(at=as_of(2))))
    assert held(store).brokers[0].leaders == 9


def test_a_snapshot_never_changes() -> None:
    """A later batch replaces the snapshot and does not change the one that a request holds."""
    store = ViewStore()
    for view in (broker_view(0, leaders=1), topic_view("t"), cluster_view()):
        store.apply(record(view))
    before, clusters = held(store), store.clusters
    store.apply(record(broker_view(0, as_of(2), leaders=2)))
    store.apply(record(deleted(as_of(2)), "prod/topic/t/0"))
    store.apply(record(cluster_view(at=as_of(2))))
    assert before.brokers[0].leaders == 1
    assert len(before.topics) == 1
    assert clusters["prod"] is before
    assert held(store).topics == {}
    assert (before.partition, held(store).partition) == (0, 0)


@pytest.mark.parametrize("order", list(itertools.permutations([1, 2, 3])))
def test_the_newer_view_wins_in_any_order(order: tuple[int, ...]) -> None:
    """In whatever order batches arrive, even twice, the newest one wins."""
    store = ViewStore()
    for seq in (*order, *order):
        store.apply(record(broker_view(0, as_of(seq), leaders=seq)))
        store.apply(record(cluster_view(at=as_of(seq))))
    assert held(store).brokers[0].leaders == 3
    assert held(store).view.as_of == as_of(3)


def test_the_newer_of_two_views_that_wait_wins() -> None:
    """An older batch that a sink repeats late does not replace the views of a newer one."""
    store = ViewStore()
    for seq in (2, 3, 1):
        store.apply(record(broker_view(0, as_of(seq), leaders=seq)))
    store.apply(record(cluster_view(at=as_of(3))))
    assert held(store).brokers[0].leaders == 3


def test_a_view_from_before_the_last_batch_does_not_return() -> None:
    """What a sink repeats late may have been deleted since."""
    store = ViewStore()
    store.apply(record(cluster_view(at=as_of(2))))
    store.apply(record(topic_view("deleted", at=as_of(1))))
    store.apply(record(cluster_view(at=as_of(3))))
    assert topics(store) == set()


def test_of_views_of_the_same_place_the_later_one_wins() -> None:
    """A batch may change views without getting further in the log."""
    store = ViewStore()
    for leaders in ((1,), (2, 3)):
        for each in leaders:
            store.apply(record(broker_view(0, leaders=each)))
        store.apply(record(cluster_view()))
        assert held(store).brokers[0].leaders == leaders[-1]


def test_beats_are_handed_over_once_and_in_order() -> None:
    """They belong to no batch, and wait for no commit marker."""
    store = ViewStore()
    assert store.pop_beats() == []
    for number in (1, 2):
        assert store.apply(record(beat(number))) is None
    assert [each.number for each in store.pop_beats()] == [1, 2]
    assert store.pop_beats() == []
    assert not store.clusters


def test_a_view_ahead_of_the_commit_marker_waits_for_its_own_marker() -> None:
    """A reader that begins between two batches does not show the later one's views early."""
    store = ViewStore()
    store.apply(record(broker_view(0, as_of(2), leaders=2)))
    store.apply(record(cluster_view(at=as_of(1))))
    assert held(store).brokers == {}
    store.apply(record(cluster_view(at=as_of(2))))
    assert held(store).brokers[0].leaders == 2


def test_a_new_lineage_replaces_all_views_of_the_older() -> None:
    """Brokers and topics of an older lineage are removed, even if the new one never names them."""
    store = ViewStore()
    for view in (broker_view(0), broker_view(1), topic_view("old"), cluster_view(at=as_of(900))):
        store.apply(record(view))
    store.apply(record(broker_view(1, as_of(1, lineage="L2"))))
    store.apply(record(cluster_view(at=as_of(1, lineage="L2"))))
    assert list(held(store).brokers) == [1]
    assert topics(store) == set()
    store.apply(record(cluster_view(at=as_of(901))))
    assert held(store).view.as_of.lineage == "L2"


def test_views_of_an_older_lineage_that_still_wait_are_dropped() -> None:
    """Leftovers of a lineage in a compacted topic never enter a newer one's snapshot."""
    store = ViewStore()
    store.apply(record(broker_view(7, as_of(5))))
    store.apply(record(cluster_view(at=as_of(1, lineage="L2"))))
    assert held(store).brokers == {}


def test_a_delete_or_tombstone_drops_only_its_cluster() -> None:
    """A delete or a tombstone under a cluster's key drops only that cluster."""
    store = ViewStore()
    for name in ("a", "b", "c"):
        store.apply(record(cluster_view(name)))
    assert store.apply(record(deleted(as_of(2), "a"), "a/cluster")) == "a"
    assert store.apply(raw(b"b/cluster", None)) == "b"
    assert set(store.clusters) == {"c"}
    assert store.apply(raw(b"nobody/cluster", None)) is None


def test_a_tombstone_drops_the_pending_views_of_an_unknown_cluster() -> None:
    """Compaction may have removed the cluster's own view, but not yet other views before the tombstone."""
    store = ViewStore()
    store.apply(record(broker_view(0)))
    assert store.apply(raw(b"prod/cluster", None)) is None
    store.apply(record(cluster_view()))
    assert held(store).brokers == {}


def test_an_older_delete_of_a_cluster_is_ignored() -> None:
    """A delete that is older than the snapshot does not drop it; one of the same change does."""
    store = ViewStore()
    store.apply(record(cluster_view(at=as_of(5))))
    assert store.apply(record(deleted(as_of(4)), "prod/cluster")) is None
    assert "prod" in store.clusters
    assert store.apply(record(deleted(as_of(5)), "prod/cluster")) == "prod"
    assert not store.clusters


def test_a_tombstone_drops_a_cluster_only_by_its_key_and_a_later_offset() -> None:
    """Compaction's tombstones are under other keys, and before newer views of the cluster.

    Where the topic was recreated, the offsets begin at 0 again.
    """
    store = ViewStore()
    early = raw(b"prod/cluster", None)
    store.apply(record(broker_view(0)))
    store.apply(record(cluster_view()))
    assert store.apply(early) is None
    assert store.apply(raw(b"prod/broker/0", None)) is None
    assert list(held(store).brokers) == [0]
    store.begin_reread()
    assert store.apply(early._replace(offset=0)) == "prod"
    assert not store.clusters


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (None, b"{}"),
        (b"prod/cluster", b""),
        (b"prod/cluster", b"not JSON"),
        (b"prod/cluster", b"\xff\xfe"),
        (b"\xff", encode_view(cluster_view())),
        (b"prod", encode_view(cluster_view())),
        (b"prod/unknown/1", encode_view(cluster_view())),
        (b"other/cluster", encode_view(cluster_view())),
        (b"prod/broker/1", encode_view(broker_view(0))),
        (b"prod/cluster", encode_view(cluster_view(v=2))),
        (b"other/topic/t/0", encode_view(deleted(as_of(1)))),
        (b"", None),
        (b"prod/unknown", None),
        (b"/cluster", None),
    ],
)
def test_a_malformed_view_is_refused_and_changes_nothing(
    key: bytes | None, value: bytes | None
) -> None:
    """A record that is damaged, of another version or under a wrong key raises an error."""
    store = ViewStore()
    with pytest.raises(UnreadableRecordError, match=r"\w+ \w+"):
        store.apply(raw(key, value))
    assert not store.clusters


def test_clusters_missing_from_a_recreated_topic_are_forgotten_when_asked() -> None:
    """After the topic was read again only clusters seen in it stay; until then all are served."""
    store = ViewStore()
    store.apply(record(cluster_view("stays")))
    store.apply(record(cluster_view("goes")))
    store.begin_reread()
    store.apply(record(cluster_view("stays", as_of(1, lineage="L2"))))
    assert set(store.clusters) == {"stays", "goes"}
    assert store.forget_unconfirmed() == ["goes"]
    assert set(store.clusters) == {"stays"}
    assert store.forget_unconfirmed() == []
    store.begin_reread()
    store.apply(record(cluster_view("stays", as_of(1, lineage="L2"))))
    assert store.forget_unconfirmed() == [], "the very same view confirms it"


def test_a_recreated_topic_that_was_read_from_the_middle_is_read_from_nothing() -> None:
    """What was shown of it lacks the views before that; it stays until the second reading has come as far."""
    store = ViewStore()
    first: list[AnyView] = [topic_view("t", as_of(1)), broker_view(0, as_of(1))]
    first.append(cluster_view(at=as_of(2)))
    last: list[AnyView] = [topic_view("u", as_of(5)), cluster_view(at=as_of(5))]
    for view in last:
        store.apply(record(view))
    store.begin_reread()
    for view in (*first, *last[:1]):
        assert store.apply(record(view)) is None
        assert held(store).view.as_of == as_of(5)
        assert list(held(store).topics) == ["prod/topic/u/0"]
    assert store.apply(record(last[-1])) == "prod"
    assert list(held(store).topics) == ["prod/topic/t/0", "prod/topic/u/0"]
    assert list(held(store).brokers) == [0]
    assert store.apply(record(cluster_view(at=as_of(6)))) == "prod", "it is followed as before"
    assert list(held(store).brokers) == [0]


def shown_store() -> ViewStore:
    """Return a store that shows lineage L1 as of its 900th change."""
    store = ViewStore()
    for view in (broker_view(0), broker_view(1), topic_view("old"), cluster_view(at=as_of(900))):
        store.apply(record(view))
    return store


def shown(store: ViewStore) -> tuple[str, Position]:
    """Return the lineage that is shown, and its position."""
    place = store.clusters["prod"].view.as_of
    return place.lineage, Position(place.generation, place.seq)


def l2(seq: int, *, at: int = T0, generation: int = 1, verified_at: int | None = T0) -> bytes:
    """Return a commit marker of the newer lineage, by the log's clock."""
    log = log_view(heartbeat_at=at, last_change_at=at, verified_at=verified_at)
    view = cluster_view(at=as_of(seq, generation=generation, lineage="L2"), log=log)
    return record(view).value or b""


def test_a_refold_stays_hidden_until_it_reaches_the_position_shown() -> None:
    """States that are days old stay hidden; at the older lineage's position everything swaps."""
    store = shown_store()
    store.apply(record(broker_view(5, as_of(1, lineage="L2"))))
    store.apply(record(topic_view("folded again", at=as_of(1, lineage="L2"))))
    for seq in (1, 500, 899):
        assert store.apply(raw(b"prod/cluster", l2(seq, at=T0 - 1000))) is None
        assert shown(store) == ("L1", (1, 900))
        assert {entry.name for entry in store.clusters["prod"].topics.values()} == {"old"}
    assert store.apply(raw(b"prod/cluster", l2(900, at=T0 - 1000))) == "prod"
    assert shown(store) == ("L2", (1, 900))
    assert {entry.name for entry in store.clusters["prod"].topics.values()} == {"folded again"}
    store.apply(record(topic_view("new", at=as_of(901, lineage="L2"))))
    assert store.apply(raw(b"prod/cluster", l2(901))) == "prod"
    store.apply(record(topic_view("newer", at=as_of(902, lineage="L2"))))
    assert store.apply(raw(b"prod/cluster", l2(902))) == "prod"
    assert topics(store) == {"folded again", "new", "newer"}, "each stands on the one before it"


def test_a_position_in_a_newer_watcher_generation_is_later() -> None:
    """Its seqs begin at 0 again, and its clock may be behind."""
    store = shown_store()
    assert store.apply(raw(b"prod/cluster", l2(1, at=T0 - 1000, generation=2))) == "prod"


def test_a_recreated_log_catches_up_by_its_timestamps() -> None:
    """Its positions begin at 0 again, and its first heartbeat is newer than the old log's last one."""
    store = shown_store()
    assert store.apply(raw(b"prod/cluster", l2(3, at=T0 - 1))) is None
    assert store.apply(raw(b"prod/cluster", l2(4, at=T0))) == "prod"
    assert shown(store) == ("L2", (1, 4))


def test_verified_figures_are_not_replaced_by_unverified_ones_at_once() -> None:
    """A log without its beginning has no full resync: the store waits for the requested one."""
    store = shown_store()
    assert store.apply(raw(b"prod/cluster", l2(950, at=T0 + 1, verified_at=None))) is None
    assert shown(store) == ("L1", (1, 900))
    assert store.apply(raw(b"prod/cluster", l2(960, at=T0 + 2))) == "prod"
    assert shown(store) == ("L2", (1, 960))


def test_unverified_figures_are_shown_after_ten_minutes() -> None:
    """After ten minutes by the log's clock, figures marked as incomplete are better than old ones."""
    store = shown_store()
    late = T0 + UNPROVEN_AT_MOST_MS
    assert store.apply(raw(b"prod/cluster", l2(950, at=late, verified_at=None))) is None
    assert store.apply(raw(b"prod/cluster", l2(951, at=late + 1, verified_at=None))) == "prod"


def test_unverified_figures_are_replaced_by_unverified_ones() -> None:
    """There are no verified figures to keep."""
    store = ViewStore()
    store.apply(record(cluster_view(at=as_of(9), log=log_view(verified_at=None))))
    assert store.apply(raw(b"prod/cluster", l2(9, verified_at=None))) == "prod"


def test_an_older_lineage_is_ignored_while_a_newer_one_is_held_back() -> None:
    """Once a newer lineage is held back, later views of the older one are not newer."""
    store = shown_store()
    store.apply(raw(b"prod/cluster", l2(10, at=T0 - 1000)))
    assert store.apply(record(cluster_view(at=as_of(901)))) is None
    assert shown(store) == ("L1", (1, 900))


@pytest.mark.parametrize(
    "value", [None, record(deleted(as_of(11, lineage="L2")), "prod/cluster").value]
)
def test_a_deleted_cluster_drops_its_held_back_and_pending_views(value: bytes | None) -> None:
    """A delete drops everything, so that nothing returns with a later batch or as its base."""
    store = shown_store()
    store.apply(record(topic_view("held back", at=as_of(10, lineage="L2"))))
    store.apply(raw(b"prod/cluster", l2(10, at=T0 - 1000)))
    store.apply(record(topic_view("waits", at=as_of(11, lineage="L2"))))
    assert store.apply(raw(b"prod/cluster", value)) == "prod"
    assert not store.clusters
    assert store.apply(raw(b"prod/cluster", l2(12))) == "prod"
    assert store.clusters["prod"].topics == {}


def newer(value: bytes | None, **fields: Any) -> bytes:
    """Return a record as a newer release would write it: with an unknown field, and the given ones."""
    body = json.loads(value or b"{}") | {"of_a_newer_release": {"any": [1]}} | fields
    return json.dumps(body).encode()


@pytest.mark.parametrize(
    ("key", "fields"),
    [
        (b"prod/of_a_newer_release", {"view": "of_a_newer_release"}),
        (b"prod/broker/1", {"v": 2}),
    ],
)
def test_views_of_another_kind_or_version_are_refused(key: bytes, fields: dict[str, Any]) -> None:
    """An older exporter shows the rest of the batch."""
    store = ViewStore()
    store.apply(record(broker_view(0)))
    with pytest.raises(UnreadableRecordError):
        store.apply(raw(key, newer(record(broker_view(1)).value, **fields)))
    assert store.apply(record(cluster_view())) == "prod"
    assert list(store.clusters["prod"].brokers) == [0]


def test_a_cluster_with_lost_views_is_incomplete_until_they_are_rewritten() -> None:
    """The view with a new leader is lost: the older view is shown, but not as live."""
    before = topic_view("t", as_of(1), leader=(0, 1))
    moved = topic_view("t", as_of(2), leader=(1, 1))
    digest = digest_text(view_digest(encode_view(moved), as_of(2)))
    store = ViewStore()
    store.apply(record(before))
    for seq in (3, 4):
        store.apply(record(cluster_view(at=as_of(seq), folded_at=T0 + seq, views_digest=digest)))
    shown = held(store).view
    assert (shown.log.incomplete_since, shown.log.incomplete_reason) == (T0 + 3, VIEWS_MISSING)
    verdict = assess(shown, FRESH, T0)
    assert (verdict.status, verdict.stage) == (Status.INCOMPLETE, Stage.FOLD)
    store.apply(record(msgspec.structs.replace(moved, as_of=as_of(5))))
    store.apply(record(cluster_view(at=as_of(5), views_digest=digest)))
    assert assess(held(store).view, FRESH, T0).status is Status.LIVE


def test_the_folds_own_reason_for_incomplete_figures_is_kept() -> None:
    """The fold reports its own reason and time for incomplete figures."""
    log = log_view(incomplete_since=T0, incomplete_reason="a hole")
    store = ViewStore()
    store.apply(record(cluster_view(log=log, views_digest=digest_text(1))))
    assert held(store).lacks_views
    assert held(store).view.log == log


def test_each_view_except_topics_has_the_digest_of_its_record() -> None:
    """By the digests an exporter notices that it lacks a view."""
    store = ViewStore()
    broker = record(broker_view(0))
    assert broker.value is not None
    store.apply(broker)
    store.apply(record(cluster_view()))
    held = store.clusters["prod"].digests
    assert held["prod/broker/0"] == view_digest(broker.value, broker_view(0).as_of) != 0
