"""Request preferred elections from the watched cluster, through Kafka's own admin protocol.

It requests preferred elections of named partitions and nothing else. Kafka's answer for
each partition is passed on under Kafka's name of the error.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import confluent_kafka as ck
from confluent_kafka.admin import AdminClient

from controller_model.kafka.ids import TopicPartition
from pipeline.kafka_errors import reason_of
from pipeline.runtime import UnreachableError, UsageError
from pipeline.settings import check_hosts

NOT_NEEDED = "ELECTION_NOT_NEEDED"
"""Kafka's error for a partition that its preferred replica leads already."""
_ANSWER_TIMEOUT_S = 5.0
_KEY = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)+|debug|log_level|retries")
"""The form of a librdkafka property's name; any other text may be a mistyped secret."""
_LEAST_SECRET = 3
"""Characters; a shorter value is part of too many words by chance."""
_ADDRESSES = {"bootstrap.servers", "metadata.broker.list"}


class ElectionRefusedError(Exception):
    """Kafka did not accept the request as a whole; whether it elected is not known."""


class Elections:
    """A client of the watched cluster that requests elections."""

    def __init__(self, bootstrap_servers: str, config: Path | None, *, within_s: float) -> None:
        """Take the address, a file of more client properties, and how long Kafka may take to elect.

        Raises UsageError.
        """
        try:
            self.servers = check_hosts(bootstrap_servers)
        except ValueError as error:
            raise UsageError(f"option --bootstrap-servers: {error}") from None
        more = {} if config is None else read_properties(config)
        properties: dict[str, Any] = {
            "bootstrap.servers": self.servers,
            "reconnect.backoff.max.ms": 2000,
            "socket.connection.setup.timeout.ms": 5000,
            # How long an election may take: confluent-kafka 2.16 fails on elect_leaders' own
            # timeouts.
            "socket.timeout.ms": int(within_s * 1000),
            "log_level": 2,
            **more,
        }
        self._client_errors: list[ck.KafkaError] = []
        properties["error_cb"] = self._client_errors.append
        try:
            self._admin = AdminClient(properties, logger=None)
        except (ck.KafkaException, TypeError, ValueError) as error:
            why = without_values(reason_of(error), more)
            raise UsageError(f"option --command-config: {why}") from None

    def cluster_id(self) -> str:
        """Return the cluster's id; raises UnreachableError."""
        try:
            future = self._admin.describe_cluster(request_timeout=_ANSWER_TIMEOUT_S)
            return str(future.result().cluster_id)
        except ck.KafkaException as error:
            self._admin.poll(0)  # delivers the client's errors
            why = reason_of(error, self._client_errors)
            raise UnreachableError(
                f"Kafka at {self.servers} does not answer: {why}; check --bootstrap-servers"
            ) from None

    def elect(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, str | None]:
        """Return Kafka's error for each partition, None for one that was elected.

        Raises ElectionRefusedError when there is no answer for each partition.
        """
        asked = [ck.TopicPartition(p.topic, p.partition) for p in partitions]
        try:
            future = self._admin.elect_leaders(ck.ElectionType.PREFERRED, asked)
            # Releases of the library differ: some wrap an error, some do not.
            answer: dict[Any, ck.KafkaException | ck.KafkaError | None] = future.result()
        except ck.KafkaException as error:
            raise ElectionRefusedError(reason_of(error)) from None
        return {
            TopicPartition(each.topic, each.partition): None if error is None else error_name(error)
            for each, error in answer.items()
        }


def read_properties(path: Path) -> dict[str, str]:
    """Return the properties in a file, one key=value a line; raises UsageError."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise UsageError(f"option --command-config: cannot read {path}: {why}") from None
    properties = {}
    for number, line in enumerate(lines, 1):
        text = line.strip()
        if not text or text.startswith(("#", "!")):
            continue
        key, sign, value = text.partition("=")
        if not sign or not _KEY.fullmatch(key.strip()):
            # the line itself may contain a secret
            raise UsageError(f"option --command-config: line {number} of {path} is not key=value")
        properties[key.strip()] = value.strip()
    if properties.keys() & _ADDRESSES:
        raise UsageError(f"option --command-config: {path}: give --bootstrap-servers instead")
    return properties


def without_values(text: str, properties: Mapping[str, str]) -> str:
    """Return the library's text without the values from a file: one of them may be a secret.

    >>> without_values('Invalid value "hunter2" for "sasl.mechanism"', {"sasl.mechanism": "hunter2"})
    'Invalid value "..." for "sasl.mechanism"'
    """
    for value in sorted(properties.values(), key=len, reverse=True):
        # A value that is part of a name, such as sasl, is not a secret, and names must stay
        # readable.
        if len(value) >= _LEAST_SECRET and not any(value in key for key in properties):
            text = text.replace(value, "...")
    return text


def error_name(error: ck.KafkaException | ck.KafkaError) -> str:
    """Return Kafka's name of an error; for an error of the library itself, the library's text.

    >>> error_name(ck.KafkaError(ck.KafkaError.PREFERRED_LEADER_NOT_AVAILABLE))
    'PREFERRED_LEADER_NOT_AVAILABLE'
    """
    cause = error.args[0] if isinstance(error, ck.KafkaException) else error
    name = str(cause.name())
    return str(cause.str()) if name.startswith("_") else name
