"""Certificates that do not fit, on either side: each is one line that says what is wrong and what to do."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from kcm.servers.ports import HOST
from kraft_source.wire.connection import Access, ControllerConnection, Tls
from kraft_source.wire.errors import RefusedError
from kraft_source.wire.messages import ControllerEndpoint
from pipeline.runtime import UnreachableError
from tests.support.certificates import NEEDS_OPENSSL, make_authority, make_certificate

pytestmark = NEEDS_OPENSSL
RESET = struct.pack("ii", 1, 0)
"""The option SO_LINGER of a socket that resets its connection when it is closed."""
OTHERS = "others"
"""A folder with an authority that nobody trusts."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with certificates of an authority, and those of another one."""
    folder = tmp_path_factory.mktemp("tls")
    make_authority(folder)
    make_certificate(folder, "server", HOST)
    make_certificate(folder, "elsewhere", "elsewhere.example")
    make_certificate(folder, "expired", HOST, days=-1)
    make_certificate(folder, "client", HOST)
    (folder / OTHERS).mkdir()
    make_authority(folder / OTHERS)
    make_certificate(folder / OTHERS, "client", HOST)
    return folder


@contextmanager
def listening(folder: Path, name: str, *, is_abrupt: bool = False) -> Iterator[ControllerEndpoint]:
    """Serve TLS with a certificate, and demand one of the same authority, as a controller's listener does.

    A client reads why it is refused, unless the server `is_abrupt`: it resets the connection, and with it its alert.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
    context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server((HOST, 0)) as server:

        def accept() -> None:
            while True:
                try:
                    plain, _ = server.accept()
                except OSError:
                    return
                with plain.dup() as kept:
                    kept.settimeout(10)
                    try:
                        with plain, context.wrap_socket(plain, server_side=True) as client:
                            client.recv(1)
                    except OSError:
                        if is_abrupt:
                            kept.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                            continue
                        # A server that closes while it has something to read resets the connection.
                        with suppress(OSError):
                            while kept.recv(1024):
                                pass

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield ControllerEndpoint(HOST, server.getsockname()[1])
        server.shutdown(socket.SHUT_RDWR)
    thread.join(10)


def tls(folder: Path, name: str, ca: str = "ca.pem") -> Tls:
    """Return our side of TLS."""
    return Tls(folder / ca, folder / f"{name}.pem", folder / f"{name}.key")


@pytest.mark.parametrize(
    ("name", "ca", "says"),
    [
        (
            "expired",
            "ca.pem",
            "certificate has expired): renew it, or set the clock of this machine",
        ),
        ("elsewhere", "ca.pem", "): name the server as its certificate does"),
        ("server", f"{OTHERS}/ca.pem", "): name the CA that signed it"),
    ],
)
def test_a_servers_certificate_that_does_not_fit_is_one_line(
    folder: Path, name: str, ca: str, says: str
) -> None:
    """Its time, its host, its authority: each needs something else."""
    with listening(folder, name) as there, pytest.raises(RefusedError) as caught:
        ControllerConnection(there, Access(tls=tls(folder, "client", ca)))
    text = str(caught.value)
    assert text.startswith(f"the controller at {there}: its certificate is not accepted (")
    assert text.endswith(says)
    assert "\n" not in text


@pytest.mark.parametrize("name", ["expired", f"{OTHERS}/client"])
def test_a_certificate_of_ours_that_is_refused_is_one_line(folder: Path, name: str) -> None:
    """With TLS 1.3 the server refuses it after our handshake has ended."""
    with listening(folder, "server") as there, pytest.raises(UnreachableError) as caught:
        ControllerConnection(there, Access(tls=tls(folder, name)))
    text = str(caught.value)
    assert text.startswith(f"the controller at {there}: it does not accept our certificate (")
    assert text.endswith("see whether it has expired, and who signed it")


def test_a_refusal_that_is_lost_names_our_certificate_too(folder: Path) -> None:
    """A connection that is reset takes the server's alert with it."""
    with (
        listening(folder, "server", is_abrupt=True) as there,
        pytest.raises(UnreachableError) as caught,
    ):
        ControllerConnection(there, Access(tls=tls(folder, "expired")))
    text = str(caught.value)
    assert (
        "may speak no TLS, or not accept our certificate" in text
        or "it does not accept our" in text
    )


def test_none_of_ours_is_asked_for(folder: Path) -> None:
    """Where the server demands one, the line says so."""
    with listening(folder, "server") as there, pytest.raises(UnreachableError) as caught:
        ControllerConnection(there, Access(tls=Tls(folder / "ca.pem")))
    assert str(caught.value).endswith("or ask for a certificate of ours")
