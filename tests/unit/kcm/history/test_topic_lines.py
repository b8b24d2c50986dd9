"""A topic as lines: which partitions are read, the place of a line, and what is missing."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import partition_of
from kcm.history.replay_input import Line
from kcm.history.topic_lines import open_topic
from pipeline.settings import PipelineSettings, load
from tests.support.kafka_client import CUT_CODE, Client, Message, use_client

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

TOPIC = "kcm.changes"
PARTITIONS = 3


@pytest.fixture
def settings() -> PipelineSettings:
    """Return the defaults."""
    return load(PipelineSettings)


def test_every_line_has_its_topic_partition_and_offset(
    monkeypatch: pytest.MonkeyPatch, settings: PipelineSettings
) -> None:
    """The place is topic, partition and offset; an empty value is a line, a null (a forgotten cluster) is not."""
    first = [Message((TOPIC, 0), 0, value=b""), Message((TOPIC, 0), 1, value=None)]
    rest = [Message((TOPIC, partition), 0) for partition in (1, 2)]
    use_client(monkeypatch, Client([*first, *rest], ends=((0, 2), (0, 1)), partitions=PARTITIONS))
    with open_topic(settings, TOPIC) as lines:
        assert list(lines) == [
            Line(f"{TOPIC}[0]@0", b""),
            Line(f"{TOPIC}[1]@0", b"v"),
            Line(f"{TOPIC}[2]@0", b"v"),
        ]
        assert not lines.is_cut


def test_only_the_partition_of_the_cluster_is_read(
    monkeypatch: pytest.MonkeyPatch, settings: PipelineSettings
) -> None:
    """No other partition is read."""
    place = (TOPIC, partition_of("prod", PARTITIONS))
    client = Client([Message(place, 0)], ends=((0, 1),), partitions=PARTITIONS)
    use_client(monkeypatch, client)
    with open_topic(settings, TOPIC, cluster="prod") as lines:
        assert [line.place for line in lines] == [f"{place[0]}[{place[1]}]@0"]
    assert client.assigned == [{place: 0}]
    assert client.closed == 1


@pytest.mark.parametrize(
    "client",
    [
        Client([Message((TOPIC, 0), 4)], ends=((4, 5),)),
        Client([Message((TOPIC, 0), 0, CUT_CODE)], [Message((TOPIC, 0), 4)], ends=((0, 5),)),
    ],
    ids=["before", "meanwhile"],
)
def test_records_that_retention_took_are_noticed(
    monkeypatch: pytest.MonkeyPatch, settings: PipelineSettings, client: Client
) -> None:
    """This covers records deleted before the read and during it."""
    use_client(monkeypatch, client)
    with open_topic(settings, TOPIC) as lines:
        assert [line.place for line in lines] == [f"{TOPIC}[0]@4"]
        assert lines.is_cut
