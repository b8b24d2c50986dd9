"""The web configuration file: what it asks for is done, and what is not supported is refused."""

from __future__ import annotations

import shutil
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import structlog

from pipeline.runtime import UsageError
from tests.support.certificates import NEEDS_OPENSSL, make_authority, make_certificate
from tests.support.waiting import wait_until
from tests.support.web import connected, exchange, request, serving, status, write_config
from web.config import WebSecurity
from web.server import WebOptions, WebServer

PAIR = "cert_file: server.pem, key_file: server.key"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, and certificates of the server, of its successor, and of two clients."""
    folder = tmp_path_factory.mktemp("web")
    make_authority(folder)
    for name, host in (
        ("server", "localhost"),
        ("next", "localhost"),
        ("ann", "ann"),
        ("ben", "ben"),
    ):
        make_certificate(folder, name, host)
    make_certificate(folder, "locked", "localhost", "-passout", "pass:hush")
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of those files, for one test to change."""
    return Path(shutil.copytree(made, tmp_path, dirs_exist_ok=True))


def client(folder: Path, name: str | None = None) -> ssl.SSLContext:
    """Return the TLS context of a client that trusts the CA, and presents a certificate if it has one."""
    context = ssl.create_default_context(cafile=str(folder / "ca.pem"))
    if name is not None:
        context.load_cert_chain(folder / f"{name}.pem", folder / f"{name}.key")
    return context


@contextmanager
def secured(
    folder: Path, tls: str, more: str = "", *, access_log: bool = False
) -> Iterator[WebServer]:
    """Serve with this section tls_server_config."""
    text = f"tls_server_config: {{{PAIR}{tls}}}\n{more}"
    with serving(WebOptions(write_config(folder, text), access_log=access_log)) as server:
        yield server


def answered(server: WebServer, tls: ssl.SSLContext | None) -> bool:
    """Return whether a client gets an answer."""
    try:
        return status(exchange(server, request(), tls=tls)) == 200
    except ssl.SSLError:
        return False


@NEEDS_OPENSSL
def test_a_certificate_turns_tls_on_and_plain_http_off(folder: Path) -> None:
    """A client that trusts the CA gets an answer, over TLS 1.2 or newer; without TLS there is no answer."""
    with secured(folder, "") as server:
        assert server.url.startswith("https://")
        assert answered(server, client(folder))
        assert not answered(server, None)
        assert not answered(server, ssl.create_default_context())
        for version, wanted in ((ssl.TLSVersion.TLSv1_2, True), (ssl.TLSVersion.TLSv1_3, True)):
            only = client(folder)
            only.minimum_version = only.maximum_version = version
            assert answered(server, only) is wanted
    with secured(folder, ", min_version: TLS13") as server:
        old = client(folder)
        old.maximum_version = ssl.TLSVersion.TLSv1_2
        assert not answered(server, old)
        assert answered(server, client(folder))
    with secured(folder, ", max_version: TLS12") as server:
        new = client(folder)
        new.minimum_version = ssl.TLSVersion.TLSv1_3
        assert not answered(server, new)
        assert answered(server, client(folder))


@NEEDS_OPENSSL
def test_a_client_needs_a_certificate_where_one_is_required(folder: Path) -> None:
    """It must hold one of the allowed names, where there is a list."""
    asked = ", client_ca_file: ca.pem, client_auth_type: "
    with secured(folder, f"{asked}RequireAndVerifyClientCert") as server:
        assert answered(server, client(folder, "ann"))
        assert not answered(server, client(folder))
    with secured(folder, f"{asked}VerifyClientCertIfGiven") as server:
        assert answered(server, client(folder, "ann"))
        assert answered(server, client(folder))
    allowed = f"{asked}RequireAndVerifyClientCert, client_allowed_sans: [ann]"
    with secured(folder, allowed) as server:
        assert answered(server, client(folder, "ann"))
        assert not answered(server, client(folder, "ben"))


@NEEDS_OPENSSL
def test_the_access_log_names_the_subject_of_a_clients_certificate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """If it was verified; a client without a certificate is not named."""
    asked = ", client_ca_file: ca.pem, client_auth_type: VerifyClientCertIfGiven"
    with secured(folder, asked, access_log=True) as server:
        assert answered(server, client(folder, "ann"))
        assert answered(server, client(folder))
    logged = capsys.readouterr()
    lines = [line for line in (logged.out + logged.err).splitlines() if "access" in line]
    assert ["commonName=ann" in line for line in lines] == [True, False]


def _served_certificate(server: WebServer, folder: Path) -> bytes | None:
    with connected(server, tls=client(folder)) as opened:
        assert isinstance(opened, ssl.SSLSocket)
        return opened.getpeercert(binary_form=True)


@NEEDS_OPENSSL
def test_a_renewed_certificate_is_served_without_a_restart(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A certificate whose key is missing is not served; until the key exists, the old one is."""
    monkeypatch.setattr("web.server._CHECK_FILES_INTERVAL_S", 0)
    renewed = ssl.PEM_cert_to_DER_cert(
        (folder / "next.pem").read_text()[(folder / "next.pem").read_text().index("-----BEGIN") :]
    )
    with secured(folder, "") as server:
        before = _served_certificate(server, folder)
        with structlog.testing.capture_logs() as logs:
            shutil.copy(folder / "next.pem", folder / "server.pem")
            wait_until(lambda: list(logs))
        assert (
            logs[0]["event"]
            == "the changed web configuration cannot be used, the old one stays in effect"
        )
        assert _served_certificate(server, folder) == before
        shutil.copy(folder / "next.key", folder / "server.key")
        wait_until(lambda: _served_certificate(server, folder) == renewed)


@NEEDS_OPENSSL
def test_a_change_that_needs_a_restart_is_logged_and_not_applied(folder: Path) -> None:
    """TLS that is removed from the file stays on."""
    path = write_config(folder, f"tls_server_config: {{{PAIR}}}")
    security = WebSecurity(path)
    for text in ("{}", "not yaml: [", f"tls_server_config: {{{PAIR}, min_version: TLS13}}"):
        path.write_text(text)
        with structlog.testing.capture_logs() as logs:
            security.refresh()
            security.refresh()
        assert [each["event"] for each in logs] == [
            "the changed web configuration cannot be used, the old one stays in effect"
        ], text
        assert security.config.tls_server_config is not None
        assert security.config.tls_server_config.min_version == "TLS12"


REFUSED = (
    ("[", "is not YAML"),
    ("- a", "Expected `object`"),
    ("rate_limit: {burst: 1}", "rate_limit"),
    ("tls_server_config: {cert_file: server.pem}", "key_file"),
    (f"tls_server_config: {{{PAIR}, curve_preferences: [X25519]}}", "curve_preferences"),
    (f"tls_server_config: {{{PAIR}, min_version: SSL30}}", "SSL30"),
    (f"tls_server_config: {{{PAIR}, cipher_suites: [RC4]}}", "unknown field `cipher_suites`"),
    (f"tls_server_config: {{{PAIR}, client_auth_type: RequireAnyClientCert}}", "RequireAny"),
    (f"tls_server_config: {{{PAIR}, client_ca_file: ca.pem}}", "need each other"),
    (
        f"tls_server_config: {{{PAIR}, client_auth_type: VerifyClientCertIfGiven}}",
        "need each other",
    ),
    (f"tls_server_config: {{{PAIR}, client_allowed_sans: [ann]}}", "client_allowed_sans needs"),
    ("tls_server_config: {cert_file: none.pem, key_file: server.key}", "cannot be used"),
    ("tls_server_config: {cert_file: server.pem, key_file: next.key}", "cannot be used"),
    ("tls_server_config: {cert_file: locked.pem, key_file: locked.key}", "has a password"),
    ("http_server_config: {headers: {Set-Cookie: a}}", "Set-Cookie cannot be set"),
    ("basic_auth_users: {ann: open}", "no bcrypt hash"),
    ("basic_auth_users: {ann: $2y$10$tooshort}", "no bcrypt hash"),
)


@NEEDS_OPENSSL
@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_an_unsupported_configuration_is_refused_in_one_line(
    folder: Path, text: str, why: str
) -> None:
    """Nothing in the file is ignored, and no hash of a password is repeated."""
    path = write_config(folder, text)
    with pytest.raises(UsageError) as caught:
        WebServer(lambda *_: None, "127.0.0.1", 0, WebOptions(path))  # type: ignore[arg-type]  # never called
    assert why in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "tooshort" not in str(caught.value)


def test_an_empty_file_has_no_users_and_a_missing_one_is_refused(tmp_path: Path) -> None:
    """A file that is named must exist."""
    assert not WebSecurity(write_config(tmp_path, "")).config.basic_auth_users
    with pytest.raises(UsageError, match="No such file"):
        WebSecurity(tmp_path / "none.yaml")
