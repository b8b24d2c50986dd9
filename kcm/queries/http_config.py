"""How to reach an exporter that has TLS or asks for a password: Prometheus' HTTP client configuration.

The rule: the file is the one that promtool takes (--http.config.file). Its password is sent only to
the exporter that the user named, wherever an answer redirects.
"""

import ssl
import urllib.request
from pathlib import Path
from typing import Any

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

    tls_config: TlsConfig | None = None
    basic_auth: BasicAuth | None = None


Handlers = list[urllib.request.BaseHandler]


class _Context(ssl.SSLContext):
    """Expects a certificate for a given name, if there is one, whatever address is used."""

    name: str | None = None

    def wrap_socket(self, *given: Any, **named: Any) -> ssl.SSLSocket:
        if self.name:
            named["server_hostname"] = self.name
        return super().wrap_socket(*given, **named)


def http_handlers(path: Path | None, url: str) -> Handlers:
    """Return urllib's handlers for the exporter at an address; raises UsageError for a bad file."""
    if path is None:
        return []
    config = read_yaml(path, HttpConfig, f"option {OPTION}: {path}")
    tls, auth, folder = config.tls_config, config.basic_auth, path.parent
    handlers: Handlers = []
    try:
        if tls is not None:
            handlers.append(urllib.request.HTTPSHandler(context=_context(tls, folder)))
        if auth is not None:
            known = urllib.request.HTTPPasswordMgrWithPriorAuth()
            password = _password(auth, folder)
            known.add_password(None, url, auth.username, password, is_authenticated=True)
            handlers.append(urllib.request.HTTPBasicAuthHandler(known))
    except (OSError, ValueError) as error:
        raise UsageError(f"option {OPTION}: {path}: a file cannot be used: {error}") from None
    return handlers


def _context(tls: TlsConfig, folder: Path) -> ssl.SSLContext:
    context = _Context(ssl.PROTOCOL_TLS_CLIENT)
    context.name = tls.server_name
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


def _password(auth: BasicAuth, folder: Path) -> str:
    if auth.password_file is None:
        return auth.password or ""
    return (folder / auth.password_file).read_text().strip()
