"""The three topics on a real broker: made as promised, checked, and named when they cannot do."""

from __future__ import annotations

import threading
import time
import uuid

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType

from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import free_port
from pipeline.runtime import UnreachableError, UsageError
from pipeline.settings import PipelineSettings, load
from pipeline.topics import client_properties, ensure_topics, topic_ids, topic_names, topic_settings
from tests.support.topic_changes import delete_topic
from tests.support.waiting import DEADLINE_S


@pytest.fixture
def settings(pipeline_broker: KraftBroker) -> PipelineSettings:
    """Settings with a prefix of this test's own."""
    return load(
        PipelineSettings,
        bootstrap_servers=pipeline_broker.bootstrap_servers,
        topic_prefix=f"topics-{uuid.uuid4().hex[:8]}",
    )


def admin_of(settings: PipelineSettings) -> AdminClient:
    """Return a client for the test's own requests."""
    return AdminClient(client_properties(settings))


def make(settings: PipelineSettings, topic: NewTopic) -> None:
    """Create a topic as another program would."""
    admin = admin_of(settings)  # kept until the answers are there: they end with it
    for future in admin.create_topics([topic]).values():
        future.result()


def with_partitions(settings: PipelineSettings, partitions: int) -> PipelineSettings:
    """Return the settings with another number of partitions."""
    return settings.model_copy(update={"partitions": partitions})


def test_topics_are_made_with_the_promised_settings(settings: PipelineSettings) -> None:
    """All three exist afterwards, with as many partitions each, and every setting is in force."""
    ensured = ensure_topics(with_partitions(settings, 2), stop=threading.Event())
    names = topic_names(settings.topic_prefix)
    assert ensured.names == names
    assert ensured.partitions == 2
    assert set(ensured.ids) == set(names)
    wanted = topic_settings(names)
    resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
    admin = admin_of(settings)
    for resource, future in admin.describe_configs(resources).items():
        in_force = {key: entry.value for key, entry in future.result().items()}
        assert wanted[resource.name].items() <= in_force.items()


def test_topics_that_are_there_are_kept(settings: PipelineSettings) -> None:
    """A second part finds the same topics, and keeps their partitions over its own setting."""
    first = ensure_topics(with_partitions(settings, 3), stop=threading.Event())
    assert ensure_topics(settings, stop=threading.Event()) == first


def test_a_topic_made_anew_has_another_id(settings: PipelineSettings) -> None:
    """The id distinguishes a re-created topic from the one that was there before."""
    before = ensure_topics(settings, stop=threading.Event())
    admin = admin_of(settings)
    delete_topic(admin, before.names.views)
    after = ensure_topics(settings, stop=threading.Event())
    assert after.ids[after.names.views] != before.ids[before.names.views]
    assert after.ids[after.names.changes] == before.ids[before.names.changes]
    assert topic_ids(admin, after.names) == after.ids


def test_a_views_topic_that_is_not_compacted_is_refused(settings: PipelineSettings) -> None:
    """A wrong cleanup.policy is one line that names the topic, the setting and both values."""
    views = topic_names(settings.topic_prefix).views
    config = topic_settings(topic_names(settings.topic_prefix))[views]
    make(settings, NewTopic(views, 1, 1, config={**config, "cleanup.policy": "delete"}))
    with pytest.raises(UsageError) as caught:
        ensure_topics(settings, stop=threading.Event())
    message = str(caught.value)
    assert f"topic {views} has cleanup.policy=delete, the pipeline needs compact" in message
    assert len(message.splitlines()) == 1


def test_topics_of_unequal_partitions_are_refused(settings: PipelineSettings) -> None:
    """A cluster has the same partition in all three topics, so they must have as many."""
    names = topic_names(settings.topic_prefix)
    wanted = topic_settings(names)
    make(settings, NewTopic(names.changes, 3, 1, config=wanted[names.changes]))
    make(settings, NewTopic(names.views, 2, 1, config=wanted[names.views]))
    with pytest.raises(UsageError, match=f"{names.changes} has 3, {names.views} has 2"):
        ensure_topics(settings, stop=threading.Event())


def test_a_replication_factor_beyond_the_brokers_is_refused(settings: PipelineSettings) -> None:
    """What the broker refuses for good is an error, not tried again."""
    greedy = settings.model_copy(update={"replication_factor": 3})
    with pytest.raises(UsageError, match="cannot create topic"):
        ensure_topics(greedy, stop=threading.Event())


def test_an_unknown_property_is_refused(settings: PipelineSettings) -> None:
    """A property that librdkafka does not know is named as a bad setting."""
    bad = load(
        PipelineSettings,
        bootstrap_servers=settings.bootstrap_servers,
        kafka_properties={"no.such.property": "1"},
    )
    with pytest.raises(UsageError, match=r"no\.such\.property.*kafka_properties"):
        ensure_topics(bad, stop=threading.Event())


def test_fail_fast_gives_up_after_one_try() -> None:
    """An unreachable Kafka is named within seconds, with the reason that the machine gave."""
    address = f"127.0.0.1:{free_port()}"
    nowhere = load(PipelineSettings, bootstrap_servers=address, fail_fast=True)
    began = time.monotonic()
    with pytest.raises(UnreachableError, match=f"Kafka at {address} .*Connection refused"):
        ensure_topics(nowhere, stop=threading.Event())
    assert time.monotonic() - began < DEADLINE_S


@pytest.mark.full
def test_credentials_that_are_refused_are_a_bad_setting(settings: PipelineSettings) -> None:
    """A broker that does not take our way to log in is not waited for, and no secret is shown."""
    bad = load(
        PipelineSettings,
        bootstrap_servers=settings.bootstrap_servers,
        kafka_properties={
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "kcm",
            "sasl.password": "hunter2",
        },
    )
    with pytest.raises(UsageError, match="check kafka_properties") as caught:
        ensure_topics(bad, stop=threading.Event())
    assert "hunter2" not in str(caught.value)


def test_waiting_for_kafka_ends_with_the_stop_signal() -> None:
    """A part that waits for its Kafka can be stopped within seconds."""
    nowhere = load(PipelineSettings, bootstrap_servers=f"127.0.0.1:{free_port()}")
    stop = threading.Event()
    stopper = threading.Timer(0.5, stop.set)
    stopper.start()
    began = time.monotonic()
    with pytest.raises(UnreachableError):
        ensure_topics(nowhere, stop=stop)
    stopper.join()
    assert time.monotonic() - began < DEADLINE_S
