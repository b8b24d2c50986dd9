"""What an error of the Kafka client means for a part, and its text.

The rule: librdkafka has some hundred codes; what a part can do about them are the kinds of
`ReadTrouble`. A request itself often reports only a time-out: the client's error callback knows more
of the one server that did not answer, so what was `reported` there comes first.
"""

import enum
import re
from collections.abc import Sequence

from confluent_kafka import KafkaError

from pipeline.runtime import KcmError, UnreachableError, UsageError

_ALL_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001  # confluent-kafka names its local error codes with an underscore

_REPEATED_VALUE = re.compile(r'Invalid value ".*" for', re.DOTALL)


class ReadTrouble(enum.Enum):
    """What stands between a reader and a topic; the value is the line for the user."""

    AWAY = "{where} does not answer: {reason}; start it or correct bootstrap_servers"
    """No broker answers, or none leads the partition; it may pass."""
    DENIED = "{where} does not let the monitor read {topic}: {reason}; allow READ and DESCRIBE"
    MISSING = "there is no topic {topic} at {where}; check bootstrap_servers and topic_prefix"
    CUT = "{where} does not hold the next records of {topic} any more: {reason}"
    """Retention took them, a broker lost the end of its log, or the topic was re-created."""
    SETTINGS = "{where}: {reason}; check kafka_properties"
    """A client property is unknown, or the credentials are refused."""


_TROUBLES = {
    KafkaError.TOPIC_AUTHORIZATION_FAILED: ReadTrouble.DENIED,
    KafkaError.GROUP_AUTHORIZATION_FAILED: ReadTrouble.DENIED,
    KafkaError.UNKNOWN_TOPIC_OR_PART: ReadTrouble.MISSING,
    KafkaError._UNKNOWN_TOPIC: ReadTrouble.MISSING,  # noqa: SLF001  # see above
    KafkaError._UNKNOWN_PARTITION: ReadTrouble.MISSING,  # noqa: SLF001  # the same
    KafkaError._AUTO_OFFSET_RESET: ReadTrouble.CUT,  # noqa: SLF001  # the same
    KafkaError._LOG_TRUNCATION: ReadTrouble.CUT,  # noqa: SLF001  # the same
    KafkaError._INVALID_ARG: ReadTrouble.SETTINGS,  # noqa: SLF001  # the same
    KafkaError._AUTHENTICATION: ReadTrouble.SETTINGS,  # noqa: SLF001  # the same
}


_MAY_PASS = {ReadTrouble.AWAY, ReadTrouble.CUT}


class TopicReadError(KcmError):
    """Records cannot be read: the kind of trouble, Kafka's words for it, and the user's line."""

    def __init__(self, trouble: ReadTrouble, *, where: str, topic: str, reason: str) -> None:
        super().__init__(trouble.value.format(where=where, topic=topic, reason=reason))
        self.trouble = trouble
        self.reason = reason
        kind = UnreachableError if trouble in _MAY_PASS else UsageError
        self.exit_code = kind.exit_code


def trouble_of(error: KafkaError, reported: Sequence[KafkaError] = ()) -> ReadTrouble:
    """Return the kind of an error; a bad setting explains any other, an unknown code is AWAY."""
    kinds = [_TROUBLES.get(each.code(), ReadTrouble.AWAY) for each in (error, *reported)]
    return ReadTrouble.SETTINGS if ReadTrouble.SETTINGS in kinds else kinds[0]


def reason_of(error: Exception, reported: Sequence[KafkaError] = ()) -> str:
    """Return Kafka's words for what went wrong, or those of any other exception.

    The client repeats a value that it refuses, which may be a secret under a wrong name: it is cut.

    >>> reason_of(ValueError("no such property"))
    'no such property'
    """
    specific = [each for each in reported if each.code() != _ALL_DOWN]
    first = specific[-1] if specific else error.args[0] if error.args else error
    words = str(first.str() if isinstance(first, KafkaError) else first)
    return _REPEATED_VALUE.sub("Invalid value for", words)
