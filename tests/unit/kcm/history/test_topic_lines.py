"""A topic whose leader moves is asked again; one that nobody leads for long is told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcm.history import topic_lines
from kcm.history.topic_lines import TopicExtent, TopicReading
from pipeline.runtime import UnreachableError
from pipeline.settings import PipelineSettings, load

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

TOPIC = "kcm.changes"


class _Asked:
    """A consumer of one partition that is answered so, one answer after the other."""

    def __init__(self, *answers: int | tuple[int, int]) -> None:
        self.answers = list(answers)

    def list_topics(self, topic: str, timeout: float) -> Any:
        del timeout
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: None})})

    def get_watermark_offsets(self, _place: object, timeout: float) -> tuple[int, int]:
        del timeout
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, int):
            raise KafkaException(KafkaError(answer))
        return answer

    def close(self) -> None:
        """Nothing is open."""


def _reading(monkeypatch: pytest.MonkeyPatch, asked: _Asked) -> TopicReading:
    monkeypatch.setattr(topic_lines, "Consumer", lambda _properties: asked)
    monkeypatch.setattr(topic_lines, "_RETRY_S", 0.001)
    monkeypatch.setattr(topic_lines, "_REQUEST_TIMEOUT_S", 0.05)
    return TopicReading(load(PipelineSettings, bootstrap_servers="kafka:9092"), TOPIC)


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE]
)
def test_a_leader_that_moves_is_waited_for(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """The partition is there: its ends come with the next answer."""
    reading = _reading(monkeypatch, _Asked(code, code, (3, 8)))
    assert reading.extents == (TopicExtent(0, 3, 8),)


@pytest.mark.parametrize(
    "code", [KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.TOPIC_AUTHORIZATION_FAILED]
)
def test_what_does_not_pass_is_told(monkeypatch: pytest.MonkeyPatch, code: int) -> None:
    """A leader that is never found, and what asking again would not change."""
    with pytest.raises(UnreachableError, match="kafka:9092 does not answer"):
        _reading(monkeypatch, _Asked(code))
