"""How far a checkpoint has folded the log is read from Spark's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from pipeline.settings import PipelineSettings, load
from pipeline.topics import EnsuredTopics, topic_names
from streaming.truncated_log import folded_to, truncated_log
from tests.support.kafka_client import Client, use_client

METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795296813809,"conf":{"a":"b"}}'


def batch(checkpoint: Path, number: int, *lines: str) -> None:
    """Write the offsets of a batch as Spark does."""
    (checkpoint / "offsets").mkdir(exist_ok=True)
    (checkpoint / "offsets" / str(number)).write_text("\n".join(("v1", METADATA, *lines)))


def test_the_offsets_are_those_of_the_newest_batch(tmp_path: Path) -> None:
    """Batches are sorted by number: 10 is after 9. Other files in the folder are not batches."""
    batch(tmp_path, 9, '{"kcm.changes":{"0":23,"1":4}}')
    batch(tmp_path, 10, '{"kcm.changes":{"0":25,"1":4}}')
    (tmp_path / "offsets" / ".11.tmp").write_text("half")
    assert folded_to(tmp_path, "kcm.changes") == {0: 25, 1: 4}


@pytest.mark.parametrize(
    "line", ["-", "", "null", '{"kcm.changes":7}', '{"other":{"0":1}}', "\udcff"]
)
def test_a_batch_without_readable_offsets_gives_none(tmp_path: Path, line: str) -> None:
    """A batch without offsets of this topic, or in another form, gives no offsets."""
    batch(tmp_path, 0)
    with (tmp_path / "offsets" / "0").open("ab") as file:
        file.write(b"\n" + line.encode(errors="surrogateescape"))
    assert folded_to(tmp_path, "kcm.changes") == {}


def test_a_checkpoint_without_a_batch_gives_no_offsets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new lineage has folded nothing, and needs no client of Kafka to know that the log has lost nothing of it."""
    monkeypatch.setattr("streaming.truncated_log.RecordReader", None)
    assert folded_to(tmp_path, "kcm.changes") == {}
    names = topic_names("kcm")
    topics = EnsuredTopics(names, 1, {name: name for name in names})
    assert truncated_log(load(PipelineSettings), topics, tmp_path) is None


@pytest.mark.parametrize(
    ("ends", "short"), [((23, 4), None), ((23, 3), (1, 3, 4)), ((22, 9), (0, 22, 23))]
)
def test_each_partition_must_reach_as_far_as_it_was_folded(
    ends: tuple[int, int],
    short: tuple[int, int, int] | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that was restored from an older copy is found, whichever it is."""
    batch(tmp_path, 0, '{"kcm.changes":{"0":23,"1":4}}')
    use_client(monkeypatch, Client(ends=tuple((0, end) for end in ends), partitions=2))
    names = topic_names("kcm")
    topics = EnsuredTopics(names, 2, {name: name for name in names})
    why = truncated_log(load(PipelineSettings), topics, tmp_path)
    if short is None:
        assert why is None
        return
    partition, end, folded = short
    about = f"partition {partition} ends at {end}, the checkpoint has folded it up to {folded}"
    assert why == f"topic kcm.changes, {about}"


def test_a_partition_that_the_log_never_had_is_found_without_kafka(tmp_path: Path) -> None:
    """A damaged file may name it: Kafka would say for ever that it is missing, and the fold would wait."""
    batch(tmp_path, 0, '{"kcm.changes":{"0":23,"8":4}}')
    names = topic_names("kcm")
    topics = EnsuredTopics(names, 1, {name: name for name in names})
    why = truncated_log(load(PipelineSettings), topics, tmp_path)
    assert why == "the checkpoint has folded partition 8 of topic kcm.changes, which has none"
