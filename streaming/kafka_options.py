"""The pipeline's Kafka properties in Spark's words.

The rule: a user writes librdkafka's names once for all parts; here they become the Java client's.
A property that has no counterpart is refused by name, since a connection that is less secure than
asked for is worse than none.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from pipeline.runtime import UsageError
from pipeline.settings import PipelineSettings

_SAME = frozenset(
    {
        "security.protocol",
        "client.id",
        "client.dns.lookup",
        "ssl.endpoint.identification.algorithm",
        "sasl.kerberos.service.name",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "connections.max.idle.ms",
    }
)
"""Properties with one name and one meaning in both clients."""

_PASSIVE = frozenset({"debug", "log_level", "statistics.interval.ms", "socket.keepalive.enable"})
"""librdkafka's own, which change nothing that Spark must know."""

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def client_options(settings: PipelineSettings) -> dict[str, str]:
    """Return what source and sink need to connect, as Spark's `kafka.*` options.

    Raises UsageError naming a property that cannot be translated.
    """
    given = {name: value.get_secret_value() for name, value in settings.kafka_properties.items()}
    options = {"bootstrap.servers": settings.bootstrap_servers, **java_properties(given)}
    return {f"kafka.{name}": value for name, value in options.items()}


def java_properties(given: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties in the Java client's names.

    >>> java_properties({"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"})
    {'security.protocol': 'SASL_SSL', 'ssl.truststore.type': 'PEM', 'ssl.truststore.location': '/ca.pem'}
    """
    rest = dict(given)
    options = {name: rest.pop(name) for name in sorted(_SAME & rest.keys())}
    for name in _PASSIVE:
        rest.pop(name, None)
    options |= _sasl(rest) | _tls(rest)
    if rest:
        raise UsageError(
            f"kafka_properties: {', '.join(sorted(rest))}: has no counterpart in Spark's Kafka "
            "client; leave it out for `kcm stream`"
        )
    return options


def _sasl(rest: dict[str, str]) -> dict[str, str]:
    mechanism = rest.pop("sasl.mechanism", None) or rest.pop("sasl.mechanisms", None)
    rest.pop("sasl.mechanisms", None)
    if mechanism is None:
        return {}
    options = {"sasl.mechanism": mechanism}
    module = _LOGIN_MODULES.get(mechanism)
    if module:
        user, password = rest.pop("sasl.username", ""), rest.pop("sasl.password", "")
        login = f"username={_quoted(user)} password={_quoted(password)}"
        options["sasl.jaas.config"] = f"{module} required {login};"
    return options


def _tls(rest: dict[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    authority = rest.pop("ssl.ca.location", None)
    if authority:
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    certificate = rest.pop("ssl.certificate.location", None)
    key = rest.pop("ssl.key.location", None)
    if certificate and key:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": _content(certificate),
            "ssl.keystore.key": _content(key),
        }
        password = rest.pop("ssl.key.password", None)
        if password:
            options["ssl.key.password"] = password
    return options


def _content(path: str) -> str:
    try:
        return Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"kafka_properties: {path} cannot be read: {error}") from None


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
