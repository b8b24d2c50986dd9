"""Classifies errors of the Kafka client by what they mean for a part, and extracts their text.

Librdkafka has some hundred codes; the kinds of `ReadTrouble` are what a part can do about
them. A request itself often reports only a time-out. The client's error callback knows more about
the server that did not answer, so what it `reported` has precedence.
"""

import enum
import re
from collections.abc import Sequence

from confluent_kafka import KafkaError

from pipeline.runtime import KcmError, UnreachableError, UsageError

_ALL_DOWN = KafkaError._ALL_BROKERS_DOWN  # noqa: SLF001  # confluent-kafka names its local error codes with an underscore

_NO_SASL = re.compile(
    r": SASL \S+ mechanism handshake failed: Broker: Request not valid in current SASL state.*",
    re.DOTALL,
)
"""ILLEGAL_SASL_STATE is what a listener without SASL answers to a handshake (KafkaApis.handleSaslHandshakeRequest)."""
_REPEATED_VALUE = re.compile(r'Invalid value ".*" for', re.DOTALL)


class ReadTrouble(enum.Enum):
    """What prevents reading a topic; the value is the line for the user."""

    AWAY = "{where} does not answer: {reason}; start it or correct bootstrap_servers"
    """No broker answers, or the partition has no leader; this may pass."""
    DENIED = "{where} does not let the monitor read {topic}: {reason}; allow READ and DESCRIBE"
    MISSING = "there is no topic {topic} at {where}; check bootstrap_servers and topic_prefix"
    CUT = "{where} does not hold the next records of {topic} any more: {reason}"
    """Retention deleted the records, a broker lost the end of its log, or the topic was re-created."""
    SETTINGS = "{where}: {reason}; check kafka_properties"
    """A client property is unknown, or the credentials were refused."""


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


MAY_PASS = {ReadTrouble.AWAY, ReadTrouble.CUT}
"""Troubles that a retry can end. The others are for the user to fix, or need new topics."""

MISSING_S = 10.0
"""How long Kafka must report a topic as missing before it counts as deleted."""


class MissingTopic:
    """Decides whether a topic that Kafka reports as missing was deleted.

    One such answer proves nothing. A broker that has just started does not know its
    topics until the controller has sent them to it (Kafka's UpdateMetadata, or the metadata log of
    KRaft), and a topic that was created a moment ago is not known to all brokers. Kafka's own
    clients therefore retry UNKNOWN_TOPIC_OR_PARTITION.
    """

    def __init__(self) -> None:
        self._since_s: float | None = None

    def is_deleted(self, now_s: float) -> bool:
        """Note the answer that it is missing; return whether there was no other one for `MISSING_S`."""
        if self._since_s is None:
            self._since_s = now_s
        return now_s - self._since_s >= MISSING_S

    def reset(self) -> None:
        """Note any other answer, or none."""
        self._since_s = None


class TopicReadError(KcmError):
    """Records cannot be read: the kind of problem, Kafka's text, and the line for the user."""

    def __init__(self, trouble: ReadTrouble, *, where: str, topic: str, reason: str) -> None:
        super().__init__(trouble.value.format(where=where, topic=topic, reason=reason))
        self.trouble = trouble
        self.reason = reason
        kind = UnreachableError if trouble in MAY_PASS else UsageError
        self.exit_code = kind.exit_code


def trouble_of(error: KafkaError, reported: Sequence[KafkaError] = ()) -> ReadTrouble:
    """Return the kind of an error; a bad setting explains any other error, an unknown code is AWAY."""
    kinds = [_TROUBLES.get(each.code(), ReadTrouble.AWAY) for each in (error, *reported)]
    return ReadTrouble.SETTINGS if ReadTrouble.SETTINGS in kinds else kinds[0]


def reason_of(error: Exception, reported: Sequence[KafkaError] = ()) -> str:
    """Return Kafka's text of an error, or the text of any other exception.

    The client repeats a value that it refuses, which may be a secret under a wrong name, so it is
    cut off. What it says of a listener without SASL names neither.

    >>> reason_of(ValueError("no such property"))
    'no such property'
    """
    specific = [each for each in reported if each.code() != _ALL_DOWN]
    first = specific[-1] if specific else error.args[0] if error.args else error
    words = str(first.str() if isinstance(first, KafkaError) else first)
    words = _NO_SASL.sub(": this port has no SASL, which security.protocol asks for", words)
    return _REPEATED_VALUE.sub("Invalid value for", words)
