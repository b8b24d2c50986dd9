"""How to reach an exporter that has TLS or asks for a password: Prometheus' HTTP client configuration.

The file is the one that promtool takes (--http.config.file). Its password is sent only to the
exporter that the user named, wherever an answer redirects.
"""

import ssl
from pathlib import Path

import httpx
import msgspec

from pipeline.runtime import UsageError
from pipeline.yaml_file import read_yaml

OPTION = "--http-config-file"


class TlsConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which certificate authority to trust, and which certificate to present."""

    ca_file: str | None = None
    cert_file: str | None = None
    key_file: str | None = None
    server_name: str | None = None
    insecure_skip_verify: bool = False


class BasicAuth(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The user's name and password."""

    username: str
    password_file: str | None = None
    password: str | None = None


class HttpConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    tls_config: TlsConfig = TlsConfig()
    basic_auth: BasicAuth | None = None


def http_client(
    url: str, config_file: Path | None, *, timeout_s: float, proxy: str | None = None
) -> httpx.Client:
    """Return a client for the exporter at an address; raises UsageError for a bad file.

    `timeout_s` holds for connecting and for each read. Each request has its own connection, so none
    meets one that the exporter has just closed. Without `proxy` the client connects directly.
    """
    config, auth = HttpConfig(), None
    if config_file is not None:
        config = read_yaml(config_file, HttpConfig, f"option {OPTION}: {config_file}")
    tls, folder = config.tls_config, Path() if config_file is None else config_file.parent
    try:
        if basic := config.basic_auth:
            password = basic.password or ""
            if basic.password_file is not None:
                password = (folder / basic.password_file).read_text().strip()
            auth = (basic.username, password)
        # Loading the default certificates takes longer than a request.
        is_used = url.startswith("https:") or config_file is not None
        context = _tls_context(tls, folder) if is_used else False
    except (OSError, ValueError) as error:
        raise UsageError(
            f"option {OPTION}: {config_file}: a file cannot be used: {error}"
        ) from None

    def expect_name(request: httpx.Request) -> None:
        """Expect a certificate for the configured name, whatever address is used."""
        if tls.server_name:
            request.extensions["sni_hostname"] = tls.server_name

    try:
        return httpx.Client(
            auth=auth,
            event_hooks={"request": [expect_name]},
            follow_redirects=True,
            headers={"Accept-Encoding": "identity"},
            limits=httpx.Limits(max_keepalive_connections=0),
            proxy=proxy,
            timeout=timeout_s,
            trust_env=False,
            verify=context,
        )
    except (ImportError, ValueError) as error:
        raise UsageError(f"the proxy {proxy} cannot be used: {error}") from None


def _tls_context(tls: TlsConfig, folder: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    elif tls.ca_file is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(folder / tls.ca_file)
    if tls.cert_file is not None:
        context.load_cert_chain(folder / tls.cert_file, folder / (tls.key_file or tls.cert_file))
    return context
