"""librdkafka's properties in the Java client's names."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from pipeline.runtime import UsageError
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.kafka_options import client_options, java_properties


def test_sasl_becomes_a_login_line() -> None:
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
    """The authority is a trust store by its path; certificate and key go in as text."""
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
def test_what_cannot_be_translated_is_refused_by_name(name: str) -> None:
    """A connection that is not as asked for is not made."""
    with pytest.raises(UsageError, match=name):
        java_properties({name: "x"})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """The line names the file, not Java's idea of it."""
    given = {"ssl.certificate.location": str(tmp_path / "none"), "ssl.key.location": "y"}
    with pytest.raises(UsageError, match=str(tmp_path / "none")):
        java_properties(given)


def test_source_and_sink_get_sparks_names() -> None:
    """Every option is the client's with `kafka.` before it."""
    settings = load(
        StreamSettings, bootstrap_servers="b:9092", kafka_properties={"client.id": SecretStr("me")}
    )
    assert client_options(settings) == {
        "kafka.bootstrap.servers": "b:9092",
        "kafka.client.id": "me",
    }
