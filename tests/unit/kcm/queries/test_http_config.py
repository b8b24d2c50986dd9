"""An exporter with TLS and a password: it answers a client that has the file, and no other server gets the password."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from exporter.serve.server import HttpServer
from kcm.doctor.exporter import ask_ready
from kcm.queries.api_client import ExporterApi
from kcm.run.exporter_client import ClusterSeen, read_cluster
from pipeline.runtime import UnreachableError, UsageError
from tests.support.certificates import NEEDS_OPENSSL, make_authority, make_certificate
from tests.support.sick_cluster import sick_cluster
from tests.support.web import PASSWORD, hashed, write_config
from web.server import WebOptions

pytestmark = NEEDS_OPENSSL


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A CA, certificates of the exporter and of a client, and the file with the password."""
    folder = tmp_path_factory.mktemp("http-config")
    make_authority(folder)
    make_certificate(folder, "server", "kcm.example.com")
    make_certificate(folder, "client", "client")
    (folder / "password").write_text(f"{PASSWORD}\n")
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    """An exporter that asks for a certificate and a password."""
    text = f"""
        tls_server_config:
          cert_file: server.pem
          key_file: server.key
          client_auth_type: RequireAndVerifyClientCert
          client_ca_file: ca.pem
        basic_auth_users: {{alice: "{hashed()}"}}
    """
    options = WebOptions(write_config(folder, text))
    with HttpServer(sick_cluster().app, "127.0.0.1", 0, options) as server:
        yield server.url


def config(folder: Path, text: str) -> Path:
    """Write an HTTP client configuration."""
    path = folder / "client.yaml"
    path.write_text(text)
    return path


CERTIFICATE = "cert_file: client.pem, key_file: client.key"
TLS = f"tls_config: {{ca_file: ca.pem, server_name: kcm.example.com, {CERTIFICATE}}}"
USER = "basic_auth: {username: alice, password_file: password}"


def test_an_http_config_file_opens_a_secured_exporter(folder: Path, url: str) -> None:
    """The API, /readyz and /metrics answer, on each of several requests."""
    path = config(folder, f"{TLS}\n{USER}")
    api = ExporterApi(url, path)
    for _ in range(2):
        assert api.cluster_names() == ["prod"]
    assert list(ask_ready(api).body["clusters"]) == ["prod"]
    assert isinstance(read_cluster(url, "prod", path), ClusterSeen)
    unverified = f"tls_config: {{insecure_skip_verify: true, {CERTIFICATE}}}\n{USER}"
    assert ExporterApi(url, config(folder, unverified)).cluster_names() == ["prod"]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "CERTIFICATE_VERIFY_FAILED"),
        (f"tls_config: {{ca_file: ca.pem, {CERTIFICATE}}}", "CERTIFICATE_VERIFY_FAILED"),
        (f"tls_config: {{server_name: kcm.example.com, {CERTIFICATE}}}", "CERTIFICATE_VERIFY"),
        ("tls_config: {insecure_skip_verify: true}", "(?i)certificate required|disconnected|reset"),
    ],
)
def test_a_tls_failure_is_reported_with_its_reason(
    folder: Path, url: str, text: str, why: str
) -> None:
    """Examples are an unknown CA, another name, and a missing client certificate."""
    with pytest.raises(UnreachableError, match=why):
        ExporterApi(url, config(folder, text)).cluster_names()


def test_a_missing_or_wrong_password_names_the_option(folder: Path, url: str) -> None:
    """The exit code is 2, as for every option; /readyz needs no password and proves nothing."""
    wrong = "basic_auth: {username: alice, password: wrong}"
    for text in (TLS, f"{TLS}\n{wrong}"):
        api = ExporterApi(url, config(folder, text))
        with pytest.raises(UsageError, match=r"asks for a user and a password.*--http-config-file"):
            api.cluster_names()
        with pytest.raises(UnreachableError, match="asks for a user and a password"):
            ask_ready(api)
        assert "Unauthorized" in str(read_cluster(url, "prod", config(folder, text)))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("a: [", "is not YAML"),
        ("bearer_token: x", "bearer_token"),
        ("basic_auth: {password: x}", "username"),
        ("basic_auth: {username: a, password_file: none}", "No such file"),
        ("tls_config: {ca_file: none.pem}", "No such file"),
        ("tls_config: {ca_file: password}", "cannot be used"),
    ],
)
def test_a_bad_file_is_one_line(folder: Path, text: str, why: str) -> None:
    """The line names the option, the file and the problem."""
    path = config(folder, text)
    with pytest.raises(UsageError, match=why) as caught:
        ExporterApi("https://localhost:1", path)
    assert f"option --http-config-file: {path}" in str(caught.value)
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="No such file"):
        ExporterApi("https://localhost:1", folder / "nothing.yaml")


def test_the_password_goes_to_the_named_exporter_alone(folder: Path) -> None:
    """A redirect to another server does not carry the password."""
    requests: list[tuple[str, str | None]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            requests.append((self.path, self.headers.get("Authorization")))
            if self.path.startswith("/api"):
                self.send_response(302)
                self.send_header("Location", elsewhere)
            else:
                self.send_response(200)
            self.end_headers()

        def log_message(self, *_given: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        elsewhere = f"http://localhost:{server.server_port}/elsewhere"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            path = config(folder, "basic_auth: {username: alice, password: secret}")
            with pytest.raises(UnreachableError):
                ExporterApi(f"http://127.0.0.1:{server.server_port}", path).cluster_names()
        finally:
            server.shutdown()
            thread.join()
    assert [(path, header is not None) for path, header in requests] == [
        ("/api/v1/clusters", True),
        ("/elsewhere", False),
    ]
