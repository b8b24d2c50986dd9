"""A topic as lines: which partitions are read, where a line stands, what is missing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Self

import pytest

from controller_model.kafka.ids import partition_of
from kcm.history import topic_lines
from kcm.history.replay_input import Line
from kcm.history.topic_lines import open_topic
from pipeline.settings import PipelineSettings, load
from pipeline.topic_records import Extent, Place, Record

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

TOPIC = "kcm.changes"
PARTITIONS = 3


class Reader:
    """Stands for the reader of a topic of three partitions, which begin at `low`."""

    def __init__(self, low: int = 0, cut_while_read: tuple[Place, ...] = ()) -> None:
        self.low = low
        self.cut: set[Place] = set()
        self._cut_while_read = cut_while_read

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is open."""

    def partitions(self, topic: str, *, timeout_s: float) -> int:
        """Return how many there are."""
        assert (topic, timeout_s > 0) == (TOPIC, True)
        return PARTITIONS

    def extents(self, places: Iterable[Place], *, timeout_s: float) -> list[Extent]:
        """Return one record for each place."""
        assert timeout_s > 0
        return [Extent(place, self.low, self.low + 1) for place in places]

    def read(self, extents: Iterable[Extent], *, silent_s: float) -> Iterator[Record]:
        """Yield them: a deleted one on partition 0."""
        assert silent_s > 0
        for (topic, partition), low, _ in extents:
            yield Record(topic, partition, low, None, b"x" if partition else None, 0)
        self.cut.update(self._cut_while_read)


@pytest.fixture
def settings() -> PipelineSettings:
    """Return the defaults."""
    return load(PipelineSettings)


def use(monkeypatch: pytest.MonkeyPatch, reader: Reader) -> None:
    """Let the next topic be read by this reader."""
    monkeypatch.setattr(topic_lines, "RecordReader", lambda _settings, _group: reader)


def test_every_line_says_where_it_stands(
    monkeypatch: pytest.MonkeyPatch, settings: PipelineSettings
) -> None:
    """Topic, partition and offset; a record without a value is an empty line, not a hole."""
    use(monkeypatch, Reader())
    with open_topic(settings, TOPIC) as lines:
        assert list(lines) == [
            Line(f"{TOPIC}[0]@0", b""),
            Line(f"{TOPIC}[1]@0", b"x"),
            Line(f"{TOPIC}[2]@0", b"x"),
        ]
        assert not lines.is_cut


def test_a_cluster_stands_in_one_partition(
    monkeypatch: pytest.MonkeyPatch, settings: PipelineSettings
) -> None:
    """No other partition is read for it."""
    use(monkeypatch, Reader())
    with open_topic(settings, TOPIC, cluster="prod") as lines:
        (line,) = lines
    assert line.place == f"{TOPIC}[{partition_of('prod', PARTITIONS)}]@0"


@pytest.mark.parametrize("reader", [Reader(low=4), Reader(cut_while_read=((TOPIC, 1),))])
def test_records_that_retention_took_are_noticed(
    monkeypatch: pytest.MonkeyPatch, settings: PipelineSettings, reader: Reader
) -> None:
    """Before the topic was read, or while it was."""
    use(monkeypatch, reader)
    with open_topic(settings, TOPIC) as lines:
        assert len(list(lines)) == PARTITIONS
        assert lines.is_cut
