"""Reads the web configuration file of Prometheus' exporter-toolkit: TLS, headers, passwords.

The rule: a setting that the file may hold but kcm does not support is refused by name when a part
starts, never ignored. A changed certificate or password takes effect without a restart. When the
file becomes bad, what was read before stays in effect.
"""

import enum
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

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
_VERSIONS = {
    "TLS10": ssl.TLSVersion.TLSv1,
    "TLS11": ssl.TLSVersion.TLSv1_1,
    "TLS12": ssl.TLSVersion.TLSv1_2,
    "TLS13": ssl.TLSVersion.TLSv1_3,
}
_CIPHERS = {
    f"TLS_ECDHE_{key}_WITH_{theirs}": f"ECDHE-{key}-{ours}"
    for key in ("ECDSA", "RSA")
    for theirs, ours in (
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"),
        ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"),
    )
}
"""The TLS 1.2 cipher suites that Go considers secure, by Go's and by OpenSSL's names."""


class ClientAuth(enum.Enum):
    """Which certificate a client must present. Go's two other values request one and accept any: they are refused."""

    NONE = "NoClientCert"
    IF_GIVEN = "VerifyClientCertIfGiven"
    REQUIRED = "RequireAndVerifyClientCert"


_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.IF_GIVEN: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


class TlsServerConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The section tls_server_config."""

    cert_file: str
    key_file: str
    client_auth_type: ClientAuth = ClientAuth.NONE
    client_ca_file: str | None = None
    client_allowed_sans: tuple[str, ...] = ()
    min_version: str = "TLS12"
    max_version: str = "TLS13"
    cipher_suites: tuple[str, ...] = ()
    prefer_server_cipher_suites: bool = True


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
        self._seen = self._signature()

    @property
    def users(self) -> Mapping[str, str]:
        """The hashes of passwords by user; if empty, no password is required."""
        return self.config.basic_auth_users

    @property
    def allowed_names(self) -> tuple[str, ...]:
        """Names of which a client's certificate must hold one; if empty, any name will do."""
        tls = self.config.tls_server_config
        return () if tls is None else tls.client_allowed_sans

    def refresh(self) -> None:
        """Apply what has changed in the files; log what cannot be applied."""
        seen = self._signature()
        if self._path is None or seen == self._seen:
            return
        self._seen = seen
        log = get_logger("web")
        try:
            config = _read(self._path)
            self._load_certificate(config.tls_server_config, self._path)
        except UsageError as error:
            log.warning(
                "the changed web configuration cannot be used, the old one stays in effect",
                reason=str(error),
            )
            return
        self.config = config
        log.info("the web configuration was read again", file=str(self._path))

    def _load_certificate(self, tls: TlsServerConfig | None, path: Path) -> None:
        before = self.config.tls_server_config
        if tls is None or self.context is None or before is None:
            if tls is not before:
                raise UsageError("TLS is switched on and off by a restart")
            return
        # A pair that does not match must not replace one that does.
        _context(tls, path)
        if msgspec.structs.replace(tls, cert_file="", key_file="") != msgspec.structs.replace(
            before, cert_file="", key_file=""
        ):
            raise UsageError("of tls_server_config a restart takes all but cert_file and key_file")
        self.context.load_cert_chain(*_pair(tls, path), password=_no_password)

    def _signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        if self._path is None:
            return ()
        tls = self.config.tls_server_config
        names = () if tls is None else (tls.cert_file, tls.key_file)
        return tuple(map(_stat, (self._path, *(self._path.parent / name for name in names))))


def _stat(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


def _read(path: Path) -> WebConfig:
    config = read_yaml(path, WebConfig, f"web_config_file {path}")
    unknown = sorted(set(config.http_server_config.headers) - _HEADERS)
    if unknown:
        raise UsageError(f"web_config_file {path}: headers: {', '.join(unknown)} cannot be set")
    for user, hashed in config.basic_auth_users.items():
        if not _is_bcrypt(hashed):
            raise UsageError(
                f"web_config_file {path}: basic_auth_users: {user}: this is no bcrypt hash; "
                "make one with htpasswd -nBC 10"
            )
    return config


def _is_bcrypt(hashed: str) -> bool:
    import bcrypt  # noqa: PLC0415  # only where passwords are required

    try:
        bcrypt.checkpw(b"", _at_least_cost(hashed).encode())
    except ValueError:
        return False
    return hashed.isascii()


def _at_least_cost(hashed: str) -> str:
    """Return the hash with the lowest cost, to check its form quickly.

    >>> _at_least_cost("$2y$18$abc")
    '$2y$04$abc'
    """
    kind, dollar, rest = hashed[1:].partition("$")
    return f"{hashed[:1]}{kind}{dollar}04{rest[2:]}" if rest[:2].isdecimal() else ""


def _context(tls: TlsServerConfig, path: Path) -> ssl.SSLContext:
    where = f"web_config_file {path}: tls_server_config"
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.minimum_version = _VERSIONS[tls.min_version]
        context.maximum_version = _VERSIONS[tls.max_version]
        if tls.cipher_suites:
            context.set_ciphers(":".join(_CIPHERS[name] for name in tls.cipher_suites))
    except KeyError as error:
        raise UsageError(f"{where}: {error} is not known") from None
    if not tls.prefer_server_cipher_suites:
        context.options &= ~ssl.OP_CIPHER_SERVER_PREFERENCE
    if (tls.client_auth_type is ClientAuth.NONE) is not (tls.client_ca_file is None):
        raise UsageError(f"{where}: client_auth_type and client_ca_file need each other")
    if tls.client_allowed_sans and tls.client_auth_type is not ClientAuth.REQUIRED:
        raise UsageError(f"{where}: client_allowed_sans needs {ClientAuth.REQUIRED.value}")
    try:
        context.load_cert_chain(*_pair(tls, path), password=_no_password)
        if tls.client_ca_file is not None:
            context.load_verify_locations(path.parent / tls.client_ca_file)
    except (OSError, ValueError) as error:
        raise UsageError(f"{where}: a file cannot be used: {error}") from None
    context.verify_mode = _VERIFY[tls.client_auth_type]
    return context


def _pair(tls: TlsServerConfig, path: Path) -> tuple[Path, Path]:
    return path.parent / tls.cert_file, path.parent / tls.key_file


def _no_password() -> NoReturn:
    """Refuse a key with a password: OpenSSL would ask for it on the terminal."""
    raise ValueError("the key has a password, which nobody can type here")
