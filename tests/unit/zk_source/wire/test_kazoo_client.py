"""Every client reconnects by itself, and an outage is reported soon, then ever more rarely."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kazoo.exceptions import AuthFailedError
from kazoo.protocol.connection import ConnectionHandler

from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.wire.kazoo_client import (
    FIRST_WARNING_S,
    MAX_WARNING_PAUSE_S,
    Authenticating,
    Outage,
    make_client,
)

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


def test_a_client_is_created_from_the_settings() -> None:
    """Hosts without the chroot, the certificates, and a handler that has seen no failure."""
    options: dict[str, Any] = {"zookeeper": "zk1:2181,zk2:2182/kafka", "zk_tls": True}
    client, connection = make_client(
        load(WatchSettings, **options), Authenticating, most_reconnect_s=1.0
    )
    assert [(host, port) for host, port in client.hosts] == [("zk1", 2181), ("zk2", 2182)]
    assert (client.chroot, client.use_ssl, client.verify_certs) == ("", True, True)
    assert client._connection is connection
    assert (connection.last_error, connection.tls_advice) == ("", "")
    assert not connection.auth_failed


CHALLENGE = b'realm="zk-sasl-md5",nonce="abc",charset=utf-8,algorithm=md5-sess,qop="auth"'
NONE = b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ([NONE], "has no SASL, which zk_auth asks for: leave zk_auth empty or use digest, or"),
        (
            [len(CHALLENGE).to_bytes(4, "big") + CHALLENGE, NONE],
            "refused the credentials in zk_auth: correct them",
        ),
    ],
)
def test_a_server_that_answers_no_token_is_not_asked_for_ever(
    answers: list[bytes], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One without SASL never has one; one that lets failed clients in has a challenge, and then none."""
    asked: list[int] = []

    def read(_self: Any, _timeout: float) -> Any:
        return SimpleNamespace(xid=asked[-1], zxid=0, err=0), answers[len(asked) - 1], 0

    monkeypatch.setattr(
        ConnectionHandler, "_submit", lambda _self, _request, _timeout, xid: asked.append(xid)
    )
    monkeypatch.setattr(ConnectionHandler, "_read_header", read)
    settings = load(WatchSettings, zk_auth="sasl:kcm:hush")
    _, connection = make_client(settings, Authenticating, most_reconnect_s=1.0)
    with pytest.raises(AuthFailedError, match="no further token"):
        connection._authenticate_with_sasl("zk", 1.0)
    assert len(asked) == len(answers)
    assert connection.refusal.format(setting="zk_auth").startswith(told)
