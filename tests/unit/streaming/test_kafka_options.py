"""librdkafka's properties in the Java client's names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from pydantic import SecretStr

from pipeline.runtime import UsageError
from pipeline.settings import load
from pipeline.topics import client_properties
from streaming.config import StreamSettings
from streaming.kafka_options import client_options, java_properties


def test_sasl_user_and_password_become_sasl_jaas_config() -> None:
    """User and password of PLAIN and SCRAM go into sasl.jaas.config, quoted."""
    given = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.username": "kcm",
        "sasl.password": 'a"b\\c',
    }
    assert java_properties(given) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": "org.apache.kafka.common.security.scram.ScramLoginModule required "
        'username="kcm" password="a\\"b\\\\c";',
    }


def test_certificates_become_pem_stores(tmp_path: Path) -> None:
    """The authority is a trust store, given by its path; certificate and key are given as text."""
    (tmp_path / "cert").write_text("CERT")
    (tmp_path / "key").write_text("KEY")
    given = {
        "ssl.ca.location": "/ca.pem",
        "ssl.certificate.location": str(tmp_path / "cert"),
        "ssl.key.location": str(tmp_path / "key"),
        "ssl.key.password": "x",
    }
    assert java_properties(given) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/ca.pem",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CERT",
        "ssl.keystore.key": "KEY",
        "ssl.key.password": "x",
    }


@pytest.mark.parametrize(
    "name", ["enable.ssl.certificate.verification", "sasl.oauthbearer.config", "nonsense"]
)
def test_a_property_that_cannot_be_translated_is_refused_by_name(name: str) -> None:
    """A connection that would differ from the requested one is not opened."""
    with pytest.raises(UsageError, match=name):
        java_properties({name: "x"})


def test_properties_that_change_no_connection_are_left_out() -> None:
    """All parts are given the same ones, and what librdkafka logs about itself matters to it alone."""
    given = {"debug": "broker", "log_level": "7", "socket.keepalive.enable": "true"}
    assert java_properties({**given, "statistics.interval.ms": "0", "client.id": "me"}) == {
        "client.id": "me"
    }


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The error names the file, instead of Java's message."""
    given = {"ssl.certificate.location": str(tmp_path / "none"), "ssl.key.location": "y"}
    with pytest.raises(UsageError, match=str(tmp_path / "none")):
        java_properties(given)


def test_client_options_carry_the_kafka_prefix() -> None:
    """Every option is the client's, prefixed with `kafka.`."""
    settings = load(
        StreamSettings, bootstrap_servers="b:9092", kafka_properties={"client.id": SecretStr("me")}
    )
    assert client_options(settings) == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.client.id": "me",
        "kafka.request.timeout.ms": "10000",
        "kafka.default.api.timeout.ms": "10000",
    }


def test_both_clients_use_the_same_request_timeout() -> None:
    """Java and librdkafka give a half-open connection up after the time that the user set."""
    given = {"socket.timeout.ms": SecretStr("7000")}
    settings = load(StreamSettings, bootstrap_servers="b:9092", kafka_properties=given)
    assert client_options(settings)["kafka.request.timeout.ms"] == "7000"
    assert client_properties(settings)["socket.timeout.ms"] == "7000"


OIDC = {
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.oauthbearer.method": "oidc",
    "sasl.oauthbearer.client.id": "kcm",
    "sasl.oauthbearer.client.secret": 'a"b',
    "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
}
KEYTAB = {
    "sasl.mechanism": "GSSAPI",
    "sasl.kerberos.service.name": "kafka",
    "sasl.kerberos.keytab": "/k.keytab",
    "sasl.kerberos.principal": "kcm@EXAMPLE.COM",
}


def test_kerberos_becomes_a_login_by_keytab_or_tickets() -> None:
    """A keytab with its principal, or else what kinit keeps."""
    assert java_properties(KEYTAB) == {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required "
        'useKeyTab="true" storeKey="true" keyTab="/k.keytab" principal="kcm@EXAMPLE.COM";',
    }
    assert java_properties({"sasl.mechanisms": "GSSAPI"})["sasl.jaas.config"] == (
        'com.sun.security.auth.module.Krb5LoginModule required useTicketCache="true";'
    )


def test_a_token_of_an_openid_provider_becomes_a_login() -> None:
    """Client id, secret and scope are part of the login; the endpoint is a separate property."""
    found = java_properties({**OIDC, "sasl.oauthbearer.scope": "kafka"})
    package = "org.apache.kafka.common.security.oauthbearer"
    assert found == {
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": "https://id.example.com/token",
        "sasl.login.callback.handler.class": f"{package}.OAuthBearerLoginCallbackHandler",
        "sasl.jaas.config": f"{package}.OAuthBearerLoginModule required "
        'clientId="kcm" clientSecret="a\\"b" scope="kafka";',
    }


def test_librdkafka_takes_the_same_properties() -> None:
    """The names that are translated exist in librdkafka. A wheel has no Kerberos, and reports that."""
    common = {"bootstrap.servers": "127.0.0.1:1", "security.protocol": "SASL_PLAINTEXT"}
    AdminClient({**common, **OIDC}, logger=None)
    with pytest.raises(KafkaException, match="GSSAPI: recompile librdkafka"):
        AdminClient({**common, **KEYTAB}, logger=None)


def test_a_pkcs12_keystore_is_passed_on_unchanged() -> None:
    """Java reads the same file with the same password."""
    given = {"ssl.keystore.location": "/me.p12", "ssl.keystore.password": "x"}
    assert java_properties(given) == {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": "/me.p12",
        "ssl.keystore.password": "x",
    }


def test_inline_pem_is_passed_on_unchanged() -> None:
    """The properties themselves may contain authorities, certificate and key."""
    given = {"ssl.ca.pem": "CA", "ssl.certificate.pem": "CERT", "ssl.key.pem": "KEY"}
    assert java_properties(given) == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": "CA",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.certificate.chain": "CERT",
        "ssl.keystore.key": "KEY",
    }


def without(given: dict[str, str], name: str) -> dict[str, str]:
    """Return properties without one of them."""
    return {key: value for key, value in given.items() if key != name}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"ssl.certificate.pem": "CERT"}, "need ssl.key.location or ssl.key.pem"),
        ({"ssl.key.pem": "KEY"}, "need ssl.certificate.location or ssl.certificate.pem"),
        ({"ssl.key.password": "x"}, "ssl.key.password: has no counterpart"),
        ({"ssl.keystore.location": "/me.p12"}, "needs ssl.keystore.password"),
        ({"ssl.keystore.password": "x"}, "ssl.keystore.password: has no counterpart"),
        (
            {"ssl.certificate.pem": "C", "ssl.key.pem": "K", "ssl.keystore.location": "/me.p12"},
            "ssl.keystore.location: has no counterpart",
        ),
        ({"ssl.ca.pem": "CA", "ssl.ca.location": "/ca"}, "ssl.ca.location: has no counterpart"),
        (without(KEYTAB, "sasl.kerberos.principal"), "needs sasl.kerberos.principal"),
        (without(OIDC, "sasl.oauthbearer.method"), "needs sasl.oauthbearer.method=oidc"),
        (without(OIDC, "sasl.oauthbearer.client.id"), "needs sasl.oauthbearer.client.id"),
        (without(OIDC, "sasl.oauthbearer.client.secret"), "needs sasl.oauthbearer.client.secret"),
        (without(OIDC, "sasl.oauthbearer.token.endpoint.url"), "token.endpoint.url"),
        ({"sasl.mechanism": "hunter2"}, "knows PLAIN"),
        ({"sasl.username": "me", "sasl.password": "x"}, "sasl.password, sasl.username: has no"),
    ],
)
def test_an_incomplete_credential_is_refused(given: dict[str, str], words: str) -> None:
    """What cannot be used as intended is an error, never dropped, and its value is never shown."""
    with pytest.raises(UsageError, match=re.escape(words)) as caught:
        java_properties(given)
    assert "hunter2" not in str(caught.value)
