"""The advice after a failed connection over TLS does not depend on the text of OpenSSL's or Java's errors."""

from __future__ import annotations

import ssl

import pytest
from kazoo.exceptions import ConnectionDropped
from kazoo.handlers.threading import KazooTimeoutError

from zk_source.wire.tls_advice import (
    NO_CERTIFICATE,
    REFUSED_CERTIFICATE,
    UNKNOWN_AUTHORITY,
    WRONG_NAME,
    tls_advice,
)

UNTRUSTED, NAME, ADDRESS = 20, 62, 64
"""OpenSSL's codes: X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY, ..._HOSTNAME_MISMATCH, ..._IP_..."""


def dropped(cause: Exception | None) -> ConnectionDropped:
    """Return what kazoo makes of an error of its socket, or of its end."""
    made = ConnectionDropped("socket connection broken")
    made.__context__ = cause
    return made


def untrusted(code: int) -> ssl.SSLCertVerificationError:
    """Return the error of a certificate that we do not trust."""
    error = ssl.SSLCertVerificationError(1, "words")
    error.verify_code = code
    return error


@pytest.mark.parametrize("has_certificate", [False, True])
def test_an_unreachable_server_gives_no_tls_advice(has_certificate: bool) -> None:
    """There is no advice about TLS when nobody listens, or nobody answers."""
    for error in (dropped(ConnectionRefusedError()), dropped(TimeoutError()), KazooTimeoutError()):
        assert tls_advice(error, has_certificate=has_certificate) == ""


@pytest.mark.parametrize(
    "words",
    [
        "sslv3 alert bad certificate",
        "sslv3 alert handshake failure",
        "tlsv13 alert certificate required",
        "any words of a Java to come",
    ],
)
def test_a_refusal_names_the_certificate_whatever_its_words(words: str) -> None:
    """The advice depends on whether we present one."""
    refused = dropped(ssl.SSLError(1, words))
    assert tls_advice(refused, has_certificate=False) == NO_CERTIFICATE
    assert tls_advice(refused, has_certificate=True) == REFUSED_CERTIFICATE


@pytest.mark.parametrize("how", [ConnectionResetError(), BrokenPipeError(), None], ids=repr)
def test_a_server_that_hangs_up_may_want_a_certificate(how: Exception | None) -> None:
    """Its alert can be lost with the connection. A client that presents a certificate gets no advice about one."""
    assert tls_advice(dropped(how), has_certificate=False) == NO_CERTIFICATE
    assert tls_advice(dropped(how), has_certificate=True) == ""


@pytest.mark.parametrize(
    ("code", "advice"),
    [(UNTRUSTED, UNKNOWN_AUTHORITY), (NAME, WRONG_NAME), (ADDRESS, WRONG_NAME)],
)
def test_the_advice_follows_the_reason_why_a_server_is_not_trusted(code: int, advice: str) -> None:
    """An unknown issuer and a wrong name have different advice."""
    assert tls_advice(dropped(untrusted(code)), has_certificate=True) == advice
    assert tls_advice(untrusted(code), has_certificate=False) == advice


def test_each_advice_is_another_one() -> None:
    """So a test that finds one has found the right one."""
    assert len({WRONG_NAME, UNKNOWN_AUTHORITY, NO_CERTIFICATE, REFUSED_CERTIFICATE}) == 4
