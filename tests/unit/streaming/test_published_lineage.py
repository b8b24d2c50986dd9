"""The ends of the topic of views show who wrote it last."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError

from controller_model.records.views import encode_view
from pipeline.kafka_errors import TopicReadError
from pipeline.settings import PipelineSettings, load
from pipeline.topics import EnsuredTopics, topic_names
from streaming.published_lineage import LOOK_BACK, published_lineage
from tests.support.kafka_client import AWAY_CODE, EOF_CODE, Client, Message, use_client
from tests.support.samples import beat

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 2, dict.fromkeys(NAMES, "id"))
OLD, NEW = "1795251600000-aa", "1795251600001-bb"


def lineage_of(monkeypatch: pytest.MonkeyPatch, client: Client) -> str | None:
    """Return the lineage that is read with this client."""
    use_client(monkeypatch, client)
    return published_lineage(load(PipelineSettings), TOPICS)


def view(partition: int, offset: int, lineage: str) -> Message:
    """Return a view that holds nothing except its lineage."""
    value = f'{{"as_of":{{"lineage":"{lineage}"}}}}'.encode()
    return Message((NAMES.views, partition), offset, value=value)


def test_the_newest_of_all_partitions_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the last records of each are read, and anything that is not the fold's view is skipped."""
    garbage = [Message((NAMES.views, 1), 6, value=value) for value in (None, b"\xff", b"[]")]
    client = Client(
        [view(0, 99, NEW), *garbage, view(1, 6, "zzz"), view(1, 6, OLD)],
        [Message((NAMES.views, 1), 7, EOF_CODE)],
        ends=((0, 100), (0, 7)),
    )
    assert lineage_of(monkeypatch, client) == NEW
    assert client.assigned == [{(NAMES.views, 0): 100 - LOOK_BACK, (NAMES.views, 1): 0}]


def test_beats_of_watchers_do_not_hide_the_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    """While no fold works only beats are written, so it reads further back."""
    place = (NAMES.views, 0)
    beats = [Message(place, n, value=encode_view(beat(n))) for n in range(50, 100)]
    client = Client(
        beats[-LOOK_BACK:],
        [Message((NAMES.views, 1), 0, EOF_CODE)],
        [view(0, 49, NEW), *beats],
        ends=((0, 100), (0, 0)),
    )
    assert lineage_of(monkeypatch, client) == NEW
    assert client.assigned == [{place: 100 - LOOK_BACK}, {place: 0}]


def test_empty_views_have_no_lineage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was written yet, or retention deleted it."""
    assert lineage_of(monkeypatch, Client(ends=((3, 3),))) is None


def test_views_that_may_not_be_read_are_a_warning(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The fold continues: only a restored checkpoint needs the answer."""
    client = Client(ends=(KafkaError.TOPIC_AUTHORIZATION_FAILED,))
    assert lineage_of(monkeypatch, client) is None
    assert "the fold may not read the views" in capsys.readouterr().out


def test_unreachable_brokers_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fold waits for them rather than continue with a checkpoint that may be too old."""
    with pytest.raises(TopicReadError, match="does not answer"):
        lineage_of(monkeypatch, Client(ends=(AWAY_CODE,)))
