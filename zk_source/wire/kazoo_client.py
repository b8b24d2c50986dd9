# ruff: noqa: SLF001 -- kazoo has no public hook for its connection handler
"""Makes every kazoo client of kcm: with our connection handler, and without kazoo's own log.

Every client takes hosts, credentials and certificates from the settings, verifies host
names, and reconnects by itself. A kazoo client here knows no chroot.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from kazoo.client import KazooClient
from kazoo.exceptions import AuthFailedError, ConnectionDropped, SessionClosedRequireSaslError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KeeperState
from kazoo.retry import KazooRetry

from pipeline.runtime import UnreachableError
from zk_source.config import WatchSettings
from zk_source.wire.tls_advice import tls_advice

FIRST_RECONNECT_S = 0.05
STOP_TIMEOUT_S = 3.0
FIRST_WARNING_S = 2.0
MAX_WARNING_PAUSE_S = 60.0
_NO_TOKEN = b"\xff\xff\xff\xff"
"""The token of SetSASLResponse where it is null: a length of -1."""


class Authenticating(ConnectionHandler):  # type: ignore[misc]  # kazoo ships no types
    """kazoo's connection handler, which reports why it cannot connect and what to correct.

    Every refusal of SASL credentials is reported as the same error. A server that requires SASL
    answers with an error of its own, which would end kazoo's thread without a word about the
    credentials. A server without SASL answers each token with none, one that lets failed clients in
    (zookeeper.allowSaslFailedClients) does after its challenge (ZooKeeperServer.processSasl), and kazoo would
    ask again for ever.
    """

    refusal = "refused the credentials in {setting}: correct them"
    """What happened where `auth_failed`, and what to correct; `setting` names the credentials."""
    _challenged: bool | None = None
    """Whether the server has answered with a token; None outside of SASL."""
    _sasl_failed = False
    """It stays: kazoo's state is AUTH_FAILED for a moment only, and CLOSED once its thread has ended."""

    last_error = ""
    """Why the last attempt to connect failed; empty if none did."""
    tls_advice = ""
    """Which settings to correct after that; empty if TLS was not the cause."""

    @property
    def auth_failed(self) -> bool:
        """ZooKeeper refused the credentials."""
        return self._sasl_failed or bool(self.client.client_state == KeeperState.AUTH_FAILED)

    def _connect(self, host: str, hostip: str, port: int) -> Any:
        try:
            return super()._connect(host, hostip, port)
        except (ConnectionDropped, KazooTimeoutError) as error:
            shown = bool(self.client.certfile and self.client.keyfile)
            advice = tls_advice(error, has_certificate=shown) if self.client.use_ssl else ""
            self.last_error, self.tls_advice = f"{host}:{port}: {error}", advice
            raise

    def _authenticate_with_sasl(self, host: str, timeout: float) -> None:
        self._challenged = False
        try:
            super()._authenticate_with_sasl(host, timeout)
        except (AuthFailedError, SessionClosedRequireSaslError) as error:
            self._sasl_failed = True
            raise AuthFailedError(str(error) or "the server requires SASL") from error
        finally:
            self._challenged = None

    def _read_header(self, timeout: float) -> Any:
        header, buffer, offset = super()._read_header(timeout)
        if self._challenged is not None and not header.err:
            if not buffer.startswith(_NO_TOKEN, offset):
                self._challenged = True
            elif not self.client.sasl_cli.complete:
                if not self._challenged:
                    self.refusal = (
                        "has no SASL, which {setting} asks for: leave {setting} empty or use digest, or "
                        "configure SASL on the servers"
                    )
                raise AuthFailedError("the server has no further token")
        return header, buffer, offset


HandlerT = TypeVar("HandlerT", bound=Authenticating)


class Outage:
    """How long a ZooKeeper has not answered, and when to log that: soon, then ever more rarely."""

    def __init__(self, what: str, setting: str, clock_s: Callable[[], float]) -> None:
        """Begin now. `setting` names what to correct, as the message says it."""
        self._what = what
        self._setting = setting
        self._clock_s = clock_s
        self.end()

    def end(self) -> None:
        """Note that ZooKeeper answers: an outage may begin from now on."""
        self._since_s = self._clock_s()
        self._next_warning_s = FIRST_WARNING_S

    def warning_is_due(self) -> bool:
        """Return whether to log the outage now; the pauses after that grow up to `MAX_WARNING_PAUSE_S`."""
        waited_s = self._clock_s() - self._since_s
        if waited_s < self._next_warning_s:
            return False
        self._next_warning_s = min(waited_s * 2, waited_s + MAX_WARNING_PAUSE_S)
        return True

    def error(self, connection: Authenticating) -> UnreachableError:
        """Return the error that describes the outage to the user."""
        advice = connection.tls_advice or f"start it or correct the setting {self._setting}"
        return UnreachableError(
            f"{self._what} does not answer (for {self._clock_s() - self._since_s:.0f} s): "
            f"{connection.last_error or 'no answer yet'}; {advice}"
        )


def make_client(
    settings: WatchSettings, handler: type[HandlerT], *, most_reconnect_s: float, **options: Any
) -> tuple[KazooClient, HandlerT]:
    """Return a client that is not started, and its connection handler, which is made with `options`.

    Pauses between attempts to reach all hosts double up to `most_reconnect_s`, so that an
    overloaded ensemble is not flooded with them.
    """
    retry = KazooRetry(
        max_tries=-1,
        delay=FIRST_RECONNECT_S,
        max_delay=most_reconnect_s,
        max_jitter=0.2,
        sleep_func=time.sleep,
    )
    logger = logging.getLogger("zk_source.kazoo")
    logger.disabled = True  # kcm logs what happens itself
    client = KazooClient(
        hosts=settings.hosts,
        timeout=settings.session_timeout_s,
        auth_data=settings.auth_data(),
        sasl_options=settings.sasl_options(),
        connection_retry=retry,
        logger=logger,
        use_ssl=settings.zk_tls,
        ca=_text(settings.zk_tls_ca),
        certfile=_text(settings.zk_tls_cert),
        keyfile=_text(settings.zk_tls_key),
        keyfile_password=settings.tls_key_password(),
        verify_certs=True,
        check_hostname=True,
    )
    connection = handler(
        client,
        client._conn_retry.copy(),
        logger=logger,
        sasl_options=settings.sasl_options(),
        **options,
    )
    client._connection = connection
    return client, connection


def stop_client(client: KazooClient, within_s: float = STOP_TIMEOUT_S) -> None:
    """End the session and the threads; wait at most `within_s`."""

    def stop() -> None:
        client.stop()
        client.close()

    # kazoo's stop() waits for its thread without limit when the peer is silent.
    stopper = threading.Thread(target=stop, name="zookeeper-stop", daemon=True)
    stopper.start()
    stopper.join(within_s)


def _text(path: object) -> str | None:
    return None if path is None else str(path)
