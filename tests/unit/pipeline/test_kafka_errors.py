"""The kind of problem that an error of Kafka is, and the line that the user reads."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from pipeline.kafka_errors import (
    MISSING_S,
    MissingTopic,
    ReadTrouble,
    TopicReadError,
    reason_of,
    trouble_of,
)

ALL_DOWN = KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down")
REFUSED = KafkaError(KafkaError._TRANSPORT, "Connection refused")
LOGIN = KafkaError(KafkaError._AUTHENTICATION, "SASL authentication error")
TIMED_OUT = KafkaError(KafkaError._TIMED_OUT, "Local: Timed out")


def test_a_specific_error_of_one_broker_explains_a_timeout() -> None:
    """The last specific error is used; that all brokers are down adds nothing."""
    error = KafkaException(TIMED_OUT)
    assert reason_of(error) == "Local: Timed out"
    assert reason_of(error, [REFUSED, ALL_DOWN]) == "Connection refused"
    assert reason_of(error, [ALL_DOWN]) == "Local: Timed out"
    assert reason_of(ValueError()) == ""


def test_refused_credentials_explain_any_other_error() -> None:
    """Waiting would not help, so it has precedence over the time-out that it causes."""
    assert trouble_of(TIMED_OUT) is ReadTrouble.AWAY
    assert trouble_of(TIMED_OUT, [REFUSED, LOGIN]) is ReadTrouble.SETTINGS


@pytest.mark.parametrize(
    ("trouble", "exit_code"),
    [
        (ReadTrouble.AWAY, 3),
        (ReadTrouble.DENIED, 2),
        (ReadTrouble.MISSING, 2),
        (ReadTrouble.CUT, 3),
        (ReadTrouble.SETTINGS, 2),
    ],
)
def test_each_kind_of_read_error_has_one_line_and_an_exit_code(
    trouble: ReadTrouble, exit_code: int
) -> None:
    """The line names the place, and the remedy or the error of Kafka."""
    error = TopicReadError(trouble, where="Kafka at k:1", topic="kcm.views", reason="why")
    assert error.exit_code == exit_code
    assert "Kafka at k:1" in str(error)
    assert "why" in str(error) or "kcm.views" in str(error)
    assert error.reason == "why"


def test_a_refused_value_is_not_repeated() -> None:
    """A password under the wrong name is not printed with the error about the name."""
    with pytest.raises(KafkaException) as caught:
        AdminClient({"sasl.oauthbearer.method": 'hunter2" for "x'})
    words = reason_of(caught.value)
    assert "hunter2" in str(caught.value)
    assert words == 'Invalid value for configuration property "sasl.oauthbearer.method"'


def test_a_topic_is_deleted_once_kafka_has_reported_it_as_missing_for_long_enough() -> None:
    """Any other answer in between shows that it was not, and so does an outage: it proves nothing."""
    missing = MissingTopic()
    assert not missing.is_deleted(5.0)
    assert not missing.is_deleted(5.0 + MISSING_S - 0.1)
    assert missing.is_deleted(5.0 + MISSING_S)
    missing.reset()
    assert not missing.is_deleted(6.0 + MISSING_S)
    assert missing.is_deleted(6.0 + 2 * MISSING_S)
