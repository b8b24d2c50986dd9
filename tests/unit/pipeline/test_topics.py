"""The names and settings of the topics, and of their clients; the rest needs a broker."""

from __future__ import annotations

import pytest

from pipeline.settings import PipelineSettings, load
from pipeline.topics import MAX_MESSAGE_BYTES, client_properties, topic_names, topic_settings

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
