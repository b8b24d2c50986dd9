"""The probe's result for each answer of the brokers."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError

from pipeline import topic_probe
from pipeline.settings import PipelineSettings, load
from pipeline.topic_probe import TopicProbe, TopicsAnswer
from pipeline.topics import EnsuredTopics, topic_names
from tests.support.kafka_client import Admin
from tests.support.waiting import DEADLINE_S, wait_until

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")

NAMES = topic_names("kcm")
TOPICS = EnsuredTopics(NAMES, 2, dict.fromkeys(NAMES, "id"))
ASKED_AT = 1_000


@pytest.fixture
def admin(monkeypatch: pytest.MonkeyPatch) -> Admin:
    """Return the brokers of this test."""
    made = Admin(TOPICS.ids)
    monkeypatch.setattr(topic_probe, "AdminClient", lambda _properties, logger: logger or made)
    return made


def probe() -> TopicProbe:
    """Return a probe for the views' ends."""
    return TopicProbe(
        load(PipelineSettings),
        TOPICS,
        every_s=0.001,
        ends_of=[NAMES.views],
        clock=lambda: ASKED_AT,
    )


@pytest.mark.usefixtures("admin")
def test_an_answer_holds_ids_and_ends() -> None:
    """For each partition of the topics that were named, and no other."""
    asking = probe()
    asking.thread.start()
    answer = wait_until(lambda: asking.answer, lambda seen: seen is not None)
    asking.thread.close(DEADLINE_S)
    asking.thread.check()
    assert asking.failure is None
    assert answer == TopicsAnswer(
        asked_at=ASKED_AT,
        ids=TOPICS.ids,
        ends={(NAMES.views, 0): 10, (NAMES.views, 1): 11},
    )


def test_a_missing_topic_has_neither_id_nor_end_offsets(admin: Admin) -> None:
    """The probe requests nothing about it, so the other topics still have an answer."""
    admin.ids = {NAMES.changes: "id"}
    asking = probe()
    asking.thread.start()
    answer = wait_until(lambda: asking.answer, lambda seen: seen is not None)
    asking.thread.close(DEADLINE_S)
    assert answer is not None
    assert (answer.ids, answer.ends) == ({NAMES.changes: "id"}, {})


def test_unreachable_brokers_are_asked_again(admin: Admin) -> None:
    """The reason is kept until they answer; the last answer is kept, too."""
    admin.down = KafkaError(KafkaError._TRANSPORT, "Connection refused")
    asking = probe()
    asking.thread.start()
    wait_until(lambda: asking.failure, lambda seen: seen == "Connection refused")
    assert asking.answer is None
    admin.down = None
    wait_until(lambda: asking.failure, lambda seen: seen is None)
    asking.thread.close(DEADLINE_S)
    assert asking.answer is not None


def test_check_raises_a_programming_error_of_the_probe(
    admin: Admin, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not a failure of Kafka, and the thread does not end silently."""
    monkeypatch.setattr(admin, "list_offsets", None)
    asking = probe()
    asking.thread.start()
    asking.thread.close(DEADLINE_S)
    with pytest.raises(TypeError):
        asking.thread.check()


@pytest.mark.usefixtures("admin")
def test_each_turn_is_reported_in_the_probes_own_thread_until_it_is_closed() -> None:
    """Code that waits for something else than the probe still learns of every answer."""
    reported: list[tuple[str, bool]] = []
    asking = TopicProbe(
        load(PipelineSettings),
        TOPICS,
        every_s=0.001,
        on_turn=lambda asked: reported.append(
            (threading.current_thread().name, asked.answer is not None)
        ),
    )
    asking.thread.start()
    wait_until(lambda: len(reported), lambda count: count >= 3)
    asking.thread.close(DEADLINE_S)
    count = len(reported)
    assert set(reported) == {("topic-probe", True)}
    asking._poll()
    assert len(reported) == count
