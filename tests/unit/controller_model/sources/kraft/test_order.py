"""Which records continue what is held, by offset and epoch."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from controller_model.fold.replay import EventBatch
from controller_model.kafka import metadata_records as kafka
from controller_model.records.events import Anomaly
from controller_model.records.metadata_log import NO_EPOCH, MetadataBatch, MetadataSlice
from controller_model.records.views import ResyncWanted
from controller_model.sources.kraft import source
from controller_model.sources.kraft.state import EPOCHS_KEPT
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher

AT = 1_700_000_000_000


def a_slice(
    first: int, last: int, epoch: int, after: int = NO_EPOCH, **other: Any
) -> MetadataSlice:
    """Return a slice of records that set features, one at each offset."""
    records = tuple(kafka.FeatureLevel(f"f{at}", epoch) for at in range(first, last + 1))
    fields: dict[str, Any] = {"generation": 1, "watcher": "w"} | other
    return MetadataSlice(
        v=1, cluster="prod", observed_at=AT, first=first, last=last, after_epoch=after,
        epoch=epoch, batches=(MetadataBatch(first, AT, records),), **fields,
    )  # fmt: skip


HELD = [a_slice(0, 4, 1), a_slice(5, 9, 3, 1)]


@pytest.mark.parametrize(
    ("record", "end", "dropped", "wanted", "anomalies"),
    [
        (a_slice(10, 12, 3, 3), 13, 0, None, 0),  # continues
        (a_slice(10, 12, 4, 3), 13, 0, None, 0),  # begins an epoch
        (a_slice(10, 12, 3, 3, watcher="other"), 13, 0, None, 0),  # whoever wrote it
        (a_slice(7, 12, 3, 3), 13, 0, None, 0),  # partly held
        (a_slice(5, 9, 3, 1), 10, 1, None, 0),  # held
        (a_slice(0, 2, 1), 10, 1, None, 0),  # held, of an earlier epoch
        (a_slice(12, 13, 3, 3), 10, 0, 10, 0),  # a gap
        (a_slice(10, 12, 4, 2), 10, 0, "snapshot", 1),  # after another epoch
        (a_slice(7, 12, 4, 3), 10, 0, "snapshot", 1),  # partly held, under another epoch
        (a_slice(5, 9, 4, 1), 10, 0, "snapshot", 1),  # at held offsets, under another epoch
        (a_slice(10, 12, 2, 3), 10, 0, "snapshot", 1),  # epochs do not fall
        (a_slice(10, 12, 3, 3, generation=0), 10, 1, None, 0),  # a former history
        (a_slice(5, 9, 3, 1, generation=2), 10, 0, 0, 0),  # a new one, from its middle on
        (a_slice(0, 2, 1, generation=2), 3, 0, None, 0),  # a new one, from its beginning
    ],
)
def test_a_record_is_taken_by_its_offset_and_epoch(
    record: MetadataSlice, end: int, dropped: int, wanted: int | str | None, anomalies: int
) -> None:
    """It continues, repeats, leaves a gap that is asked for, or shows another history."""
    fold = KraftFold().feed([*HELD, record])
    view = fold.cluster
    assert view.quorum is not None
    assert view.quorum.end == end
    assert len(view.quorum.features) == end
    assert (view.log.not_newer, view.log.anomalies) == (dropped, anomalies)
    asked = view.resync_wanted
    assert (asked is None) is (wanted is None)
    assert isinstance(asked, ResyncWanted | None)
    if asked is not None:
        assert asked.offset == (None if wanted == "snapshot" else wanted)
    assert view.log.incomplete is (wanted is not None)


def test_a_repetition_changes_nothing() -> None:
    """All views are the same, and the log's counter shows what was dropped."""
    once, twice = KraftFold().feed(HELD), KraftFold().feed([*HELD, *HELD])
    same, again = once.views(), twice.views()
    assert again["prod/cluster"].quorum == same["prod/cluster"].quorum
    assert again["prod/cluster"].log.not_newer == len(HELD)


def test_what_lies_after_another_history_is_not_taken_without_a_snapshot() -> None:
    """Contiguous records do not prove a history of which one record was odd; a snapshot does."""
    cluster = KraftCluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    end = cluster.end
    cluster.tick(1_000)
    fold.feed([a_slice(end, end, 9, 8)])
    fold.feed(Watcher(cluster).slices(first=end))
    assert fold.cluster.log.incomplete
    fold.feed(Watcher(cluster, generation=2).snapshot())
    cluster.tick(1_000)
    fold.feed([Watcher(cluster, generation=2).heartbeat()])
    assert fold.cluster.resync_wanted is not None  # the heartbeat shows more than the snapshot
    fold.feed(Watcher(cluster, generation=2).slices(first=cluster.end - 2))
    assert not fold.cluster.log.incomplete


def test_only_the_first_sign_of_another_history_is_reported() -> None:
    """A watcher that writes on under it is no news each time."""
    fold = KraftFold().feed([*HELD, *[a_slice(10, 12, 4, 2)] * 5])
    assert fold.cluster.log.anomalies == 1


def test_a_gap_is_counted_once_and_closed_by_either_watcher() -> None:
    """What lies behind it is dropped until the offset that was asked for comes."""
    cluster = KraftCluster()
    cluster.tick(5_000)
    first, second, *rest = Watcher(cluster).slices([3, 6])
    fold = KraftFold().feed([first, *rest, *rest])
    assert (fold.cluster.log.holes, fold.cluster.log.incomplete) == (1, True)
    assert [type(each).__name__ for each in fold.events][-1] == "Incomplete"
    fold.feed([Watcher(cluster, "w2").slices([3, 6])[1]])
    assert fold.cluster.resync_wanted is None
    assert fold.cluster.log.incomplete  # more was seen to exist
    fold.feed(rest)
    assert not fold.cluster.log.incomplete
    assert second.first == 3


def test_a_heartbeat_shows_that_records_are_missing() -> None:
    """All that its watcher has published is before it, so a larger end is a gap."""
    cluster = KraftCluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    fold.feed([Watcher(cluster).heartbeat(end=cluster.end + 3)])
    wanted = fold.cluster.resync_wanted
    assert wanted is not None
    assert wanted.offset == cluster.end
    stale = Watcher(cluster).heartbeat(end=cluster.end - 1, leader=-1, leader_epoch=99)
    assert fold.feed([stale]).cluster.controller.id == cluster.controller


def test_the_epochs_that_are_held_are_limited() -> None:
    """Each election adds one, for ever; of an offset below them the epoch is not known, and a slice counts as held."""
    slices = [a_slice(0, 0, 1), *(a_slice(at, at, at + 1, at) for at in range(1, EPOCHS_KEPT + 2))]
    fold = KraftFold().feed(slices)
    assert len(fold.state.control.source.epochs) == EPOCHS_KEPT
    assert fold.feed([a_slice(1, 1, 9, 1)]).cluster.log.not_newer == 1
    assert fold.feed([a_slice(9, 9, 9, 1)]).cluster.log.anomalies == 1


def test_a_heartbeat_of_a_history_that_is_not_held_asks_for_a_snapshot() -> None:
    """Its watcher has begun another generation, whose beginning is missing."""
    cluster = KraftCluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    fold.feed([Watcher(cluster, generation=2).heartbeat()])
    wanted = fold.cluster.resync_wanted
    assert wanted is not None
    assert (wanted.offset, fold.state.control.log.position.generation) == (None, 1)


def test_a_controller_whose_clock_is_behind_is_reported() -> None:
    """The log's time goes on without it, and events keep the controller's own times."""
    cluster = KraftCluster()
    cluster.tick(60_000)
    fold = KraftFold().feed(Watcher(cluster).slices())
    place, now = cluster.end, cluster.now
    cluster.elect(3001, after_ms=-30_000)
    fold.feed(Watcher(cluster).slices(first=place))
    (anomaly,) = [each for each in fold.events if isinstance(each, Anomaly)]
    assert anomaly.reason.startswith("the active controller's clock stepped back by 30000 ms")
    assert fold.state.control.now == now
    controller = fold.cluster.controller
    assert (controller.elected_at, controller.vacancy_last_max_ms) == (now - 30_000, 0)


def test_after_a_clock_stepped_back_the_logs_time_passes_as_the_clusters() -> None:
    """It is reported once; heartbeats are of the same clock, and those of before the step change nothing."""
    cluster = KraftCluster()
    cluster.tick(60_000)
    fold = KraftFold().feed(Watcher(cluster).slices())
    place, stepped_at = cluster.end, cluster.now
    old = Watcher(cluster, "w2").heartbeat()
    cluster.elect(3001, after_ms=-30_000)
    fold.feed([*Watcher(cluster).slices(first=place), old])
    assert fold.state.control.now == stepped_at
    for _ in range(6):
        place = cluster.end
        cluster.tick(10_000)
        fold.feed([Watcher(cluster).heartbeat(end=place), *Watcher(cluster).slices(first=place)])
    assert 0 < fold.state.control.now - stepped_at <= 60_000
    assert fold.state.control.now >= cluster.now
    assert fold.cluster.log.anomalies == 1


@pytest.mark.parametrize("step_ms", [0, 3_000])
def test_what_was_appended_before_a_heartbeat_and_is_committed_later_is_no_clocks_step(
    step_ms: int,
) -> None:
    """The high watermark stands still while the followers are away; the log's time never goes back."""
    cluster = KraftCluster()
    cluster.tick(10_000)
    fold = KraftFold().feed(Watcher(cluster).slices())
    place = cluster.end
    cluster.elect(3001, after_ms=-step_ms)
    cluster.tick(1_000)
    fold.feed([Watcher(cluster).heartbeat(end=place, observed_at=cluster.now + 60_000)])
    fold.feed(Watcher(cluster).slices(first=place))
    assert fold.cluster.log.anomalies == 0
    assert fold.state.control.now == cluster.now + 60_000
    assert fold.cluster.controller.elected_at == cluster.now - 1_000
    place = cluster.end
    cluster.tick(70_000)
    fold.feed([Watcher(cluster).heartbeat(end=place)])
    assert (fold.state.control.now, fold.cluster.log.anomalies) == (cluster.now, 0)


def test_an_exception_costs_one_record_and_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bug of kcm is counted with the place of the record; what follows waits for a snapshot without one."""
    cluster = KraftCluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    place = cluster.end
    cluster.tick(1_000)
    cluster.write(kafka.FeatureLevel(kafka.METADATA_VERSION, 26))

    def fail(*_: object) -> Any:
        raise ZeroDivisionError

    snapshot = Watcher(cluster, generation=2).snapshot()
    batch = EventBatch(fold.state)
    with monkeypatch.context() as broken:
        readers: dict[type[Any], Any] = dict(source.READERS)
        broken.setattr(source, "READERS", readers | {kafka.FeatureLevel: fail})
        for record in (*Watcher(cluster).slices(first=place), *snapshot):
            batch.apply(record)
    assert batch.errors == 2
    paths = [each.path for each in batch.finish() if isinstance(each, Anomaly)]
    assert paths == [
        f"__cluster_metadata {place}-{cluster.end - 1}", f"__cluster_metadata {cluster.end}-1"
    ]  # fmt: skip
    beat = Watcher(cluster, generation=2).heartbeat()
    assert fold.feed([beat]).cluster.log.incomplete
    again = Watcher(cluster, generation=3)
    assert not fold.feed([*again.snapshot(), again.heartbeat()]).cluster.log.incomplete
    assert source.KRAFT.name_of(beat) == ("heartbeat", "__cluster_metadata")


def test_each_record_has_its_reader() -> None:
    """Records of whole partitions are read together, by a function of their own."""
    every = set(typing.get_args(kafka.MetadataRecord))
    assert set(source.READERS) == every - {kafka.Partition}


def test_another_cluster_id_under_one_name_is_an_anomaly() -> None:
    """The id is held as Fetch confirmed it."""
    fold = KraftFold().feed(
        [a_slice(0, 1, 1, cluster_id="one"), a_slice(2, 3, 1, 1, cluster_id="one")]
    )
    assert (fold.cluster.config.cluster_id, fold.cluster.log.anomalies) == ("one", 0)
    assert fold.feed([a_slice(4, 5, 1, 1, cluster_id="two")]).cluster.log.anomalies == 1


def test_a_heartbeat_that_waited_does_not_set_the_time_back() -> None:
    """Two watchers write in turn, and one of them may have been paused."""
    cluster = KraftCluster()
    late = Watcher(cluster).heartbeat()
    fold = KraftFold().feed(Watcher(cluster).slices())
    fold.feed([Watcher(cluster, "w2").heartbeat(observed_at=cluster.now + 60_000), late])
    assert fold.cluster.log.anomalies == 0
    assert fold.state.control.now == cluster.now + 60_000


def test_an_error_of_kcm_needs_a_snapshot() -> None:
    """What an exception left undone is not mended by the records that follow."""
    cluster = KraftCluster()
    fold = KraftFold().feed(Watcher(cluster).slices())
    fold.state.control.source.is_applying = True  # as an exception leaves it
    fold.state.control.log.view.incomplete_since = cluster.now
    end = cluster.end
    cluster.tick(1_000)
    fold.feed(Watcher(cluster).slices(first=end))
    assert fold.cluster.log.incomplete
    cluster.tick(500)
    fold.feed(Watcher(cluster).snapshot())
    fold.feed([Watcher(cluster).heartbeat()])
    assert not fold.cluster.log.incomplete
