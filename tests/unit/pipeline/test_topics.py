"""The names and settings of the topics, and of their clients, and who may write; the rest needs a broker."""

from __future__ import annotations

import threading
from collections.abc import MutableMapping
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
import structlog
from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AclOperation, ConfigResource, ConfigSource, NewTopic

from pipeline import topics
from pipeline.runtime import UsageError
from pipeline.settings import PipelineSettings, load
from pipeline.topics import (
    MAX_MESSAGE_BYTES,
    check_writable,
    client_properties,
    ensure_topics,
    topic_names,
    topic_settings,
)

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


def test_only_the_views_are_compacted_and_all_take_the_largest_record() -> None:
    """Log and events are deleted by age; the views keep the newest record of each key."""
    names = topic_names("kcm")
    settings = topic_settings(names)
    assert {name: each["cleanup.policy"] for name, each in settings.items()} == {
        names.changes: "delete",
        names.views: "compact",
        names.events: "delete",
    }
    assert {each["max.message.bytes"] for each in settings.values()} == {str(MAX_MESSAGE_BYTES)}


def test_kafkas_clock_dates_the_records() -> None:
    """A writer's clock must not decide how long records are kept."""
    settings = topic_settings(topic_names("kcm")).values()
    assert {each["message.timestamp.type"] for each in settings} == {"LogAppendTime"}


def test_log_and_events_are_kept_as_long_as_the_pages_say() -> None:
    """At least seven and thirty days, whatever the broker's own limits are, and at most a segment longer."""
    names = topic_names("kcm")
    settings = topic_settings(names)
    for topic, days, hours in ((names.changes, 7, 6), (names.events, 30, 24)):
        assert settings[topic]["retention.ms"] == str(days * 24 * 3_600_000)
        assert settings[topic]["retention.bytes"] == "-1"
        assert settings[topic]["segment.ms"] == str(hours * 3_600_000)


def test_own_client_properties_take_precedence_and_create_no_topic() -> None:
    """Any property of librdkafka can be set; it gets secrets in clear text."""
    settings = load(
        PipelineSettings,
        bootstrap_servers="k:1",
        kafka_properties={"sasl.password": "hunter2", "log_level": "7"},
    )
    properties = client_properties(settings)
    assert properties["bootstrap.servers"] == "k:1"
    assert properties["sasl.password"] == "hunter2"
    assert properties["log_level"] == "7"
    assert properties["allow.auto.create.topics"] is False


AWAY = KafkaException(KafkaError(KafkaError._TRANSPORT, "no answer"))


class Admin:
    """A fake of confluent-kafka's AdminClient."""

    def __init__(self, answer: list[AclOperation] | KafkaException | None) -> None:
        self.answer = answer

    def describe_topics(
        self, asked: TopicCollection, *, include_authorized_operations: bool, request_timeout: float
    ) -> dict[str, Future[Any]]:
        """Answer for one topic, with what the client may do."""
        assert (list(asked.topic_names), include_authorized_operations) == (["kcm.changes"], True)
        assert request_timeout > 0
        future: Future[Any] = Future()
        if isinstance(self.answer, KafkaException):
            future.set_exception(self.answer)
        else:
            future.set_result(SimpleNamespace(authorized_operations=self.answer))
        return {"kcm.changes": future}

    def poll(self, _timeout_s: float) -> None:
        """Report nothing."""


def check(monkeypatch: pytest.MonkeyPatch, admin: Admin) -> None:
    """Check one topic against these brokers."""
    monkeypatch.setattr(topics, "AdminClient", lambda _properties, logger: logger or admin)
    check_writable(load(PipelineSettings, bootstrap_servers="k:1"), "kcm.changes")


def test_a_missing_right_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It names the Kafka, the topic and the right."""
    with pytest.raises(
        UsageError, match=r"at k:1 does not let the monitor write kcm\.changes; allow W"
    ):
        check(monkeypatch, Admin([AclOperation.DESCRIBE, AclOperation.READ]))


@pytest.mark.parametrize("answer", [[AclOperation.WRITE, AclOperation.READ], [], None, AWAY])
def test_unknown_rights_do_not_prevent_an_attempt(
    monkeypatch: pytest.MonkeyPatch, answer: list[AclOperation] | KafkaException | None
) -> None:
    """A broker that does not list rights, or does not answer, prevents nothing."""
    check(monkeypatch, Admin(answer))


class StartingAdmin:
    """A fake AdminClient of a broker that has just started: it knows the topics at the second question."""

    def __init__(
        self,
        *,
        chosen: dict[str, str] | None = None,
        defaults: dict[str, str] | None = None,
        refusal: int | None = None,
    ) -> None:
        """Hold what the topics set themselves, and what they take from the broker, other than ours."""
        self.asked = 0
        self.chosen = chosen or {}
        self.defaults = defaults or {}
        self.refusal = refusal
        self.altered: list[tuple[str, dict[str, str | None]]] = []

    def describe_topics(
        self, topics: TopicCollection, request_timeout: float
    ) -> dict[str, Future[Any]]:
        """Answer with three partitions each, or with an error."""
        assert request_timeout > 0
        self.asked += 1
        if self.asked == 1:
            return {name: failed(KafkaError.UNKNOWN_TOPIC_OR_PART) for name in topics.topic_names}
        return {
            name: done(SimpleNamespace(topic_id=f"id of {name}", partitions=[None] * 3))
            for name in topics.topic_names
        }

    def create_topics(self, new: list[NewTopic], **_: float) -> dict[str, Future[Any]]:
        """Refuse: they exist."""
        return {each.topic: failed(KafkaError.TOPIC_ALREADY_EXISTS) for each in new}

    def describe_configs(
        self, resources: list[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Future[Any]]:
        """Answer with the settings that they need."""
        assert request_timeout > 0
        ours = topic_settings(topic_names("kcm"))
        return {
            each: done(
                {
                    key: SimpleNamespace(
                        value=value, source=ConfigSource.DYNAMIC_TOPIC_CONFIG.value
                    )
                    for key, value in (ours[each.name] | self.chosen).items()
                }
                | {
                    key: SimpleNamespace(value=value, source=ConfigSource.DEFAULT_CONFIG.value)
                    for key, value in self.defaults.items()
                }
            )
            for each in resources
        }

    def incremental_alter_configs(
        self, resources: list[ConfigResource], request_timeout: float
    ) -> dict[ConfigResource, Future[Any]]:
        """Note what is set, or refuse it."""
        assert request_timeout > 0
        for each in resources:
            added = {entry.name: entry.value for entry in each.incremental_configs}
            self.altered.append((each.name, added))
        return {each: failed(self.refusal) if self.refusal else done(None) for each in resources}

    def poll(self, _timeout_s: float) -> None:
        """Report nothing."""


def done(result: Any) -> Future[Any]:
    """Return an answer."""
    future: Future[Any] = Future()
    future.set_result(result)
    return future


def failed(code: int) -> Future[Any]:
    """Return an error of Kafka."""
    future: Future[Any] = Future()
    future.set_exception(KafkaException(KafkaError(code)))
    return future


def test_topics_that_a_starting_broker_does_not_know_keep_their_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not those of the settings: changes in another partition than the cluster's would not be folded."""
    admin = StartingAdmin()
    monkeypatch.setattr(topics, "AdminClient", lambda _properties, logger: logger or admin)
    settings = load(PipelineSettings, bootstrap_servers="k:1", fail_fast=True, partitions=1)
    ensured = ensure_topics(settings, stop=threading.Event())
    assert (ensured.partitions, admin.asked) == (3, 2)


def ensured(
    monkeypatch: pytest.MonkeyPatch, admin: StartingAdmin
) -> list[MutableMapping[str, Any]]:
    """Check the topics of these brokers as a part does at its start; return what was logged."""
    monkeypatch.setattr(topics, "AdminClient", lambda _properties, logger: logger or admin)
    settings = load(PipelineSettings, bootstrap_servers="k:1", fail_fast=True)
    with structlog.testing.capture_logs() as logged:
        ensure_topics(settings, stop=threading.Event())
    return logged


def test_topics_of_an_older_release_get_what_they_lack(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody has set on the topic itself is added."""
    admin = StartingAdmin(defaults={"message.timestamp.type": "CreateTime"})
    logged = ensured(monkeypatch, admin)
    added = {"message.timestamp.type": "LogAppendTime"}
    assert admin.altered == [(name, added) for name in topic_names("kcm")]
    assert {line["log_level"] for line in logged} == {"info"}


def test_what_somebody_chose_stays_except_whose_clock_dates_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A longer retention is a choice; with the writers' clocks there is no retention that holds."""
    kept = {"segment.ms": "1000", "message.timestamp.type": "CreateTime"}
    admin = StartingAdmin(chosen=kept)
    logged = ensured(monkeypatch, admin)
    assert {tuple(added) for _, added in admin.altered} == {("message.timestamp.type",)}
    assert "segment.ms" in {line.get("setting") for line in logged}


def test_a_refused_change_is_one_line_with_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    """The part goes on: the figures are right without it."""
    admin = StartingAdmin(
        chosen={"message.timestamp.type": "CreateTime"},
        refusal=KafkaError.TOPIC_AUTHORIZATION_FAILED,
    )
    warned = [line for line in ensured(monkeypatch, admin) if line["log_level"] == "warning"]
    assert [line["do"] for line in warned] == [
        "kafka-configs.sh --bootstrap-server k:1 --alter "
        f"--entity-type topics --entity-name {name} --add-config message.timestamp.type=LogAppendTime"
        for name in topic_names("kcm")
    ]
