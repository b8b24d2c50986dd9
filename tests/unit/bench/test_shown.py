"""When a change counts as shown: by the views of a complete batch, and by a count in a scrape."""

from __future__ import annotations

from bench.shown import Reached, storm_result, when_shown
from bench.znodes import Written
from controller_model.kafka.ids import TopicPartition
from controller_model.records.views import encode_view
from tests.support.samples import beat, cluster_view, topic_view

FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
CLUSTER = encode_view(cluster_view())


def _topic(*versions: int | None) -> bytes:
    count = len(versions)
    zeros = (0,) * count
    return encode_view(
        topic_view(
            "t",
            partitions=tuple(range(count)),
            replicas=((0,),) * count,
            leader=zeros,
            isr=((0,),) * count,
            leader_epoch=zeros,
            controller_epoch=zeros,
            partition_epoch=versions,
            leader_recovery_state=zeros,
        )
    )


def test_a_partition_is_shown_when_its_batch_is_complete() -> None:
    """The cluster's view ends a batch: readers switch to the batch then, and not before."""
    written = {FIRST: Written(1.0, 5)}
    views = [(1.5, _topic(5)), (1.6, encode_view(beat(1))), (2.0, CLUSTER), (3.0, CLUSTER)]
    assert when_shown(views, written) == {FIRST: 2.0}


def test_a_partition_is_shown_by_the_version_written_or_a_newer_one() -> None:
    """An older version was not the one written; partitions that were not written do not count."""
    written = {FIRST: Written(1.0, 5), SECOND: Written(1.0, 5)}
    views = [(1.0, _topic(4, 6, 9)), (2.0, CLUSTER), (3.0, _topic(5, None)), (4.0, CLUSTER)]
    assert when_shown(views, written) == {SECOND: 2.0, FIRST: 4.0}


def test_a_storm_result_has_tail_half_and_partition_times() -> None:
    """The tail is from the last write to the last one shown, the half from half to half."""
    written = {FIRST: Written(10.0, 1), SECOND: Written(12.0, 1)}
    scraped = Reached()
    scraped.note(1, 13.0)
    scraped.note(2, 14.5)
    result = storm_result(written, {FIRST: 12.5, SECOND: 14.0}, scraped)
    assert (result["tail_s"], result["half_s"]) == (2.5, 3.0)
    assert (result["partition_p50_s"], result["partition_max_s"]) == (2.0, 2.5)
    assert (result["written_per_s"], result["never_shown"]) == (1, 0)


def test_a_storm_that_was_not_shown_has_no_times() -> None:
    """A storm that was not shown in time must not count as a fast one."""
    written = {FIRST: Written(10.0, 1), SECOND: Written(12.0, 1)}
    result = storm_result(written, {FIRST: 12.5}, Reached())
    assert (result["tail_s"], result["half_s"], result["never_shown"]) == (None, None, 1)
