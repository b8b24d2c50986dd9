"""Reads the web configuration file of Prometheus' exporter-toolkit: TLS, headers, passwords.

A setting that the file may hold but kcm does not support is refused by name when a part
starts, never ignored. A changed certificate or password takes effect without a restart. When the
file becomes bad, what was read before stays in effect.
"""

import re
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NoReturn

import msgspec

from pipeline.runtime import UsageError, get_logger
from pipeline.yaml_file import read_yaml

_HEADERS = {
    "Content-Security-Policy",
    "X-Frame-Options",
    "X-Content-Type-Options",
    "X-XSS-Protection",
    "Strict-Transport-Security",
}
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
_Version = Literal["TLS12", "TLS13"]
_VERIFY = {
    "NoClientCert": ssl.CERT_NONE,
    "VerifyClientCertIfGiven": ssl.CERT_OPTIONAL,
    "RequireAndVerifyClientCert": ssl.CERT_REQUIRED,
}
_BCRYPT = re.compile(r"\$2[abxy]?\$(0[4-9]|[12]\d|3[01])\$[./A-Za-z0-9]{53}")


class TlsServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section tls_server_config."""

    cert_file: str
    key_file: str
    client_auth_type: Literal[
        "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
    ] = "NoClientCert"
    """Go's two other values request a certificate and accept any: they are refused."""
    client_ca_file: str | None = None
    client_allowed_sans: tuple[str, ...] = ()
    """Names of which a client's certificate must hold one; empty: any will do."""
    min_version: _Version = "TLS12"
    max_version: _Version = "TLS13"


class HttpServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section http_server_config; http2 is accepted and has no effect: kcm serves HTTP/1.1."""

    http2: bool = True
    headers: dict[str, str] = {}
    """Headers that answers have, unless a page sets its own."""


class WebConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    tls_server_config: TlsServerConfig | None = None
    http_server_config: HttpServerConfig = HttpServerConfig()
    basic_auth_users: dict[str, str] = {}


class WebSecurity:
    """What a web configuration file asks for, as of now; without a file: nothing.

    Raise UsageError when the file, or a file that it names, cannot be used.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self.config = WebConfig() if path is None else _read(path)
        tls = self.config.tls_server_config
        self.context = None if tls is None or path is None else _context(tls, path)
        self._seen = self._files()

    @property
    def users(self) -> Mapping[str, str]:
        """The hashes of passwords by user; empty: no password is required."""
        return self.config.basic_auth_users

    def refresh(self) -> None:
        """Apply what has changed in the files; log what cannot be applied."""
        seen = self._files()
        if self._path is None or seen == self._seen:
            return
        self._seen = seen
        try:
            self._apply(_read(self._path), self._path)
        except UsageError as error:
            get_logger("web").warning(
                "the changed web configuration cannot be used, the old one stays in effect",
                reason=str(error),
            )
        else:
            get_logger("web").info("the web configuration was read again", file=str(self._path))

    def _apply(self, config: WebConfig, path: Path) -> None:
        tls = config.tls_server_config
        if _without_pair(config) != _without_pair(self.config):
            raise UsageError("of tls_server_config a restart takes all but cert_file and key_file")
        if self.context is not None and tls is not None:
            _context(tls, path)  # a pair that does not match must not replace one that does
            _load_pair(self.context, tls, path)
        self.config = config

    def _files(self) -> list[bytes]:
        """Return what the file and those that it names hold; empty where there is none."""
        if self._path is None:
            return []
        tls = self.config.tls_server_config
        names = () if tls is None else (tls.cert_file, tls.key_file)
        paths = (self._path, *(self._path.parent / name for name in names))
        return [path.read_bytes() if path.is_file() else b"" for path in paths]


def _read(path: Path) -> WebConfig:
    where = f"web_config_file {path}"
    config = read_yaml(path, WebConfig, where)
    if unknown := sorted(set(config.http_server_config.headers) - _HEADERS):
        raise UsageError(f"{where}: headers: {', '.join(unknown)} cannot be set")
    for user, hashed in config.basic_auth_users.items():
        if not _BCRYPT.fullmatch(hashed):
            raise UsageError(
                f"{where}: basic_auth_users: {user}: this is no bcrypt hash; make one with htpasswd -nBC 10"
            )
    return config


def _without_pair(config: WebConfig) -> TlsServerConfig | None:
    tls = config.tls_server_config
    return None if tls is None else msgspec.structs.replace(tls, cert_file="", key_file="")


def _context(tls: TlsServerConfig, path: Path) -> ssl.SSLContext:
    where = f"web_config_file {path}: tls_server_config"
    if (tls.client_auth_type == "NoClientCert") is not (tls.client_ca_file is None):
        raise UsageError(f"{where}: client_auth_type and client_ca_file need each other")
    if tls.client_allowed_sans and _VERIFY[tls.client_auth_type] is not ssl.CERT_REQUIRED:
        raise UsageError(f"{where}: client_allowed_sans needs RequireAndVerifyClientCert")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = _VERSIONS[tls.min_version]
    context.maximum_version = _VERSIONS[tls.max_version]
    try:
        _load_pair(context, tls, path)
        if tls.client_ca_file is not None:
            context.load_verify_locations(path.parent / tls.client_ca_file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}: a file cannot be used: {error}") from None
    context.verify_mode = _VERIFY[tls.client_auth_type]
    return context


def _load_pair(context: ssl.SSLContext, tls: TlsServerConfig, path: Path) -> None:
    def refuse() -> NoReturn:  # OpenSSL would ask for it on the terminal
        raise ValueError("the key has a password: give one without")

    context.load_cert_chain(
        path.parent / tls.cert_file, path.parent / tls.key_file, password=refuse
    )
