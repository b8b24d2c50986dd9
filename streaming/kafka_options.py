"""Translates the pipeline's Kafka properties into Spark's.

A user writes librdkafka's names once for all parts; here they become the Java client's. A
property that has no counterpart, or that lacks another property it needs, is refused by name: a
connection that is less secure than requested is worse than none.
"""

from collections.abc import Mapping
from pathlib import Path

from pipeline.runtime import UsageError
from pipeline.settings import PipelineSettings
from pipeline.topics import ANSWER_TIMEOUT_MS

_SAME = frozenset(
    {
        "security.protocol",
        "client.id",
        "client.dns.lookup",
        "ssl.endpoint.identification.algorithm",
        "sasl.kerberos.service.name",
        "sasl.kerberos.min.time.before.relogin",
        "reconnect.backoff.ms",
        "reconnect.backoff.max.ms",
        "connections.max.idle.ms",
    }
)
"""Properties with the same name and meaning in both clients."""

_PASSIVE = frozenset({"debug", "log_level", "statistics.interval.ms", "socket.keepalive.enable"})
"""Properties of librdkafka alone, which change nothing that matters to Spark."""

_LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"
_OAUTH = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLogin"
"""The prefix of the names of Kafka's OAUTHBEARER login module and callback handler."""


def client_options(settings: PipelineSettings) -> dict[str, str]:
    """Return what source and sink need to connect, as Spark's `kafka.*` options.

    Raise UsageError with the name of a property that cannot be translated.
    """
    given = {name: value.get_secret_value() for name, value in settings.kafka_properties.items()}
    given.setdefault("socket.timeout.ms", str(ANSWER_TIMEOUT_MS))
    options = {"bootstrap.servers": settings.bootstrap_servers, **java_properties(given)}
    return {f"kafka.{name}": value for name, value in options.items()}


def java_properties(given: Mapping[str, str]) -> dict[str, str]:
    """Return librdkafka's properties under the Java client's names.

    >>> java_properties({"security.protocol": "SASL_SSL", "ssl.ca.location": "/ca.pem"})
    {'security.protocol': 'SASL_SSL', 'ssl.truststore.type': 'PEM', 'ssl.truststore.location': '/ca.pem'}
    """
    rest = dict(given)
    options = {name: rest.pop(name) for name in sorted(_SAME & rest.keys())}
    for name in _PASSIVE:
        rest.pop(name, None)
    if limit_ms := rest.pop("socket.timeout.ms", None):
        # The admin client keeps trying a connection for as long as a whole call may take.
        options |= {"request.timeout.ms": limit_ms, "default.api.timeout.ms": limit_ms}
    options |= _sasl(rest) | _tls(rest)
    if rest:
        raise UsageError(
            f"kafka_properties: {', '.join(sorted(rest))}: has no counterpart in Spark's Kafka "
            "client; leave it out for `kcm stream`"
        )
    return options


def _sasl(rest: dict[str, str]) -> dict[str, str]:
    one, other = rest.pop("sasl.mechanism", None), rest.pop("sasl.mechanisms", None)
    mechanism = one or other
    if mechanism is None:
        return {}
    options = {"sasl.mechanism": mechanism}
    if module := _LOGIN_MODULES.get(mechanism):
        user, password = rest.pop("sasl.username", ""), rest.pop("sasl.password", "")
        options["sasl.jaas.config"] = _login(module, username=user, password=password)
    elif mechanism == "GSSAPI":
        options["sasl.jaas.config"] = _kerberos(rest)
    elif mechanism == "OAUTHBEARER":
        options |= _oauth(rest)
    else:
        raise UsageError(
            "kafka_properties: sasl.mechanism: `kcm stream` knows PLAIN, SCRAM-SHA-256, "
            "SCRAM-SHA-512, GSSAPI and OAUTHBEARER"
        )
    return options


def _kerberos(rest: dict[str, str]) -> str:
    """Return the login with a keytab; without one, with the tickets that kinit renews."""
    if "sasl.kerberos.keytab" not in rest:
        principal = rest.pop("sasl.kerberos.principal", None)
        return _login(_KERBEROS, useTicketCache="true", principal=principal)
    principal = _needed(rest, "sasl.kerberos.principal", of="sasl.kerberos.keytab")
    keytab = rest.pop("sasl.kerberos.keytab")
    return _login(_KERBEROS, useKeyTab="true", storeKey="true", keyTab=keytab, principal=principal)


def _oauth(rest: dict[str, str]) -> dict[str, str]:
    """Return the login with a token that an OpenID provider issues for a client's id and secret."""
    mechanism = "sasl.mechanism=OAUTHBEARER"
    prefix = "sasl.oauthbearer"
    if rest.pop(f"{prefix}.method", None) != "oidc":
        raise UsageError(f"kafka_properties: {mechanism} needs {prefix}.method=oidc")
    client = _needed(rest, f"{prefix}.client.id", of=mechanism)
    secret = _needed(rest, f"{prefix}.client.secret", of=mechanism)
    url = _needed(rest, f"{prefix}.token.endpoint.url", of=mechanism)
    scope = rest.pop(f"{prefix}.scope", None)
    return {
        f"{prefix}.token.endpoint.url": url,
        "sasl.login.callback.handler.class": f"{_OAUTH}CallbackHandler",
        "sasl.jaas.config": _login(
            f"{_OAUTH}Module", clientId=client, clientSecret=secret, scope=scope
        ),
    }


def _tls(rest: dict[str, str]) -> dict[str, str]:
    options: dict[str, str] = {}
    if "ssl.ca.pem" in rest:
        authorities = rest.pop("ssl.ca.pem")
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authorities}
    elif authority := rest.pop("ssl.ca.location", None):
        options |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority}
    certificate = _pem(rest, "ssl.certificate")
    key = _pem(rest, "ssl.key")
    if (certificate is None) is not (key is None):
        there, missing = ("key", "certificate") if certificate is None else ("certificate", "key")
        raise UsageError(
            f"kafka_properties: ssl.{there}.location and ssl.{there}.pem need "
            f"ssl.{missing}.location or ssl.{missing}.pem as well"
        )
    if certificate is not None and key is not None:
        options |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": certificate,
            "ssl.keystore.key": key,
        }
        if password := rest.pop("ssl.key.password", None):
            options["ssl.key.password"] = password
    elif store := rest.pop("ssl.keystore.location", None):
        password = _needed(rest, "ssl.keystore.password", of="ssl.keystore.location")
        options |= {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": store,
            "ssl.keystore.password": password,
        }
    return options


def _pem(rest: dict[str, str], name: str) -> str | None:
    """Take a certificate or a key, from its own text or from its file; None when neither is given."""
    if f"{name}.pem" in rest:
        return rest.pop(f"{name}.pem")
    path = rest.pop(f"{name}.location", None)
    try:
        return None if path is None else Path(path).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"kafka_properties: {path} cannot be read: {error}") from None


def _needed(rest: dict[str, str], name: str, *, of: str) -> str:
    """Take a property that another one needs; raise UsageError when it is not given."""
    if not rest.get(name):
        raise UsageError(f"kafka_properties: {of} needs {name} as well")
    return rest.pop(name)


def _login(module: str, **options: str | None) -> str:
    """Return a login of JAAS with those options that are not None."""
    given = (f"{name}={quoted(value)}" for name, value in options.items() if value is not None)
    return f"{module} required {' '.join(given)};"


def quoted(text: str) -> str:
    """Return a text as written in a configuration of JAAS, or in an argument file of Java."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
