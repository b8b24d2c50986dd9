"""Every client reconnects by itself, and an outage is reported soon, then ever more rarely."""

from __future__ import annotations

import logging
import ssl
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.exceptions import AuthFailedError, ConnectionDropped
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KeeperState

from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.wire.kazoo_client import (
    FIRST_WARNING_S,
    MAX_WARNING_PAUSE_S,
    Authenticating,
    Outage,
    make_client,
)
from zk_source.wire.tls_advice import NO_CERTIFICATE, REFUSED_CERTIFICATE

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


class Clock:
    """Seconds that pass only when a test lets them."""

    now_s = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def trouble(last_error: str = "", tls_advice: str = "") -> Authenticating:
    """Return the parts of a connection handler that an outage reads."""
    return cast("Authenticating", SimpleNamespace(last_error=last_error, tls_advice=tls_advice))


def test_warnings_of_an_outage_get_rarer_up_to_a_maximum_pause() -> None:
    """The pauses grow up to a minute, and the next outage begins with a short one again."""
    clock = Clock()
    outage = Outage("ZooKeeper at zk1:2181", "zookeeper", clock)
    warned = []
    for second in range(600):
        clock.now_s = 100.0 + second
        if outage.warning_is_due():
            warned.append(second)
    pauses = [after - before for before, after in pairwise(warned)]
    assert warned[0] == FIRST_WARNING_S
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_WARNING_PAUSE_S
    outage.end()
    assert not outage.warning_is_due()
    clock.now_s += FIRST_WARNING_S
    assert outage.warning_is_due()


def test_an_outage_warning_names_duration_cause_and_remedy() -> None:
    """TLS's advice replaces the general one."""
    clock = Clock()
    outage = Outage("ZooKeeper at zk1:2181", "zookeeper", clock)
    clock.now_s += 42
    assert str(outage.error(trouble())) == (
        "ZooKeeper at zk1:2181 does not answer (for 42 s): no answer yet; "
        "start it or correct the setting zookeeper"
    )
    assert str(outage.error(trouble("zk1:2181: refused", "give zk_tls_ca"))).endswith(
        ": zk1:2181: refused; give zk_tls_ca"
    )


@pytest.fixture
def certificates(tmp_path: Path) -> dict[str, str]:
    """Settings that name files of certificates, which nobody reads."""
    files = {name: str(tmp_path / name) for name in ("zk_tls_ca", "zk_tls_cert", "zk_tls_key")}
    for file in files.values():
        Path(file).touch()
    return files


def test_a_client_is_created_from_the_settings(
    certificates: dict[str, str], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Hosts without the chroot, the certificates, a handler that has seen no failure, and no log of kazoo's."""
    monkeypatch.setattr(logging.getLogger("zk_source.kazoo"), "disabled", False)
    options: dict[str, Any] = {"zookeeper": "zk1:2181,zk2:2182/kafka", "zk_tls": True}
    options |= {**certificates, "zk_tls_key_password": "hush"}
    client, connection = make_client(
        load(WatchSettings, **options), Authenticating, most_reconnect_s=1.0
    )
    assert [(host, port) for host, port in client.hosts] == [("zk1", 2181), ("zk2", 2182)]
    assert (client.chroot, client.use_ssl, client.verify_certs) == ("", True, True)
    secrets = [client.ca, client.certfile, client.keyfile, client.keyfile_password]
    assert secrets == [*certificates.values(), "hush"]
    assert client._connection is connection
    assert (connection.last_error, connection.tls_advice) == ("", "")
    assert not connection.auth_failed
    for log in (client.logger, connection.logger):
        log.error("kcm says this itself")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("tls", "shown", "advice"),
    [
        (False, (), ""),
        (True, (), NO_CERTIFICATE),
        (True, ("zk_tls_cert",), NO_CERTIFICATE),
        (True, ("zk_tls_cert", "zk_tls_key"), REFUSED_CERTIFICATE),
    ],
)
def test_a_failed_connection_says_why_and_which_settings_of_tls_to_correct(
    monkeypatch: pytest.MonkeyPatch,
    certificates: dict[str, str],
    shown: tuple[str, ...],
    advice: str,
    *,
    tls: bool,
) -> None:
    """A certificate is shown only with its key. Without TLS there is nothing of TLS to correct."""

    def connect(*_: object) -> None:
        raise ConnectionDropped("broken") from ssl.SSLError(1, "words")

    monkeypatch.setattr(ConnectionHandler, "_connect", connect)
    options: dict[str, Any] = {name: certificates[name] for name in shown}
    settings = load(WatchSettings, zk_tls=tls, **options)
    _, connection = make_client(settings, Authenticating, most_reconnect_s=1.0)
    with pytest.raises(ConnectionDropped):
        connection._connect("zk1", "10.0.0.1", 2181)
    assert (connection.last_error, connection.tls_advice) == ("zk1:2181: broken", advice)


CHALLENGE = b'realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess,qop="auth"'
NONE = b"\xff\xff\xff\xff"
SASL_REQUIRED = -124
"""ZooKeeper's SESSIONCLOSEDREQUIRESASLAUTH."""


REFUSED = "refused the credentials in zk_auth: correct them"


@pytest.mark.parametrize(
    ("answers", "err", "reason", "told"),
    [
        (
            [NONE],
            0,
            "no further token",
            "has no SASL, which zk_auth asks for: leave zk_auth empty or use digest, or",
        ),
        ([len(CHALLENGE).to_bytes(4, "big") + CHALLENGE, NONE], 0, "no further token", REFUSED),
        ([NONE], SASL_REQUIRED, "the server requires SASL", REFUSED),
    ],
    ids=["without SASL", "lets in", "requires SASL"],
)
def test_a_server_that_answers_no_token_is_not_asked_for_ever(
    monkeypatch: pytest.MonkeyPatch, answers: list[bytes], err: int, reason: str, told: str
) -> None:
    """One without SASL never has one; one that lets failed clients in has a challenge, and then none.

    One that requires SASL may answer with an error of its own. Other answers may look like no token.
    """
    asked: list[int] = []

    def read(_self: Any, _timeout: float) -> Any:
        return SimpleNamespace(xid=len(asked), zxid=0, err=err), answers[len(asked) - 1], 0

    monkeypatch.setattr(
        ConnectionHandler, "_submit", lambda _self, _request, _timeout, xid: asked.append(xid)
    )
    monkeypatch.setattr(ConnectionHandler, "_read_header", read)
    settings = load(WatchSettings, zk_auth="sasl:kcm:hush")
    _, connection = make_client(settings, Authenticating, most_reconnect_s=1.0)
    assert connection._read_header(1.0)[1] == NONE
    with pytest.raises(AuthFailedError, match=reason):
        connection._authenticate_with_sasl("zk", 1.0)
    assert connection._read_header(1.0)[1] == NONE
    for state in (KeeperState.AUTH_FAILED, KeeperState.CLOSED):  # as kazoo does with that error
        connection.client._session_callback(state)
        assert connection.auth_failed
    assert len(asked) == len(answers)
    assert connection.refusal.format(setting="zk_auth").startswith(told)
