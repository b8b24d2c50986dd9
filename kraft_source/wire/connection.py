"""One TCP connection to a controller: TLS, SASL, the versions that both know, one request at a time.

Each request has a deadline, within which its whole answer must be there. The size of an answer is
checked before it is read. Whatever goes wrong closes the connection and is one line that names the address:
`UnreachableError` where another attempt may help, `RefusedError` where a setting or a right has to change first.
"""

import socket
import ssl
import struct
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kraft_source.wire.codec import READ_ERRORS, Values, reader, write
from kraft_source.wire.errors import (
    NOT_A_CONTROLLER,
    ErrorCode,
    LateAnswerError,
    RefusedError,
    error_name,
)
from kraft_source.wire.messages import (
    Answer,
    ControllerEndpoint,
    FetchSnapshot,
    Request,
    fetch_answer,
    fetch_values,
    snapshot_answer,
    snapshot_values,
)
from kraft_source.wire.sasl import Credentials
from kraft_source.wire.schemas import MESSAGES
from pipeline.runtime import UnreachableError, UsageError

TIMEOUT_S = 5.0
"""For a request where the caller says nothing else, and for connecting with TLS and SASL."""

MAX_ANSWER_BYTES = 32 * 2**20
"""The largest answer that is read: a batch has at most 8 MiB, and an answer to Fetch little more than what was asked for."""

CLIENT_ID = "kcm"
RENEWAL = 0.8
"""The share of a SASL session's life after which the connection is made anew, before the server closes it."""

_MS = 1000
_SIZE = struct.Struct(">i")
_RECEIVE_BYTES = 2**18
_TLS_RECORDS = frozenset({0x15, 0x16})
"""The first byte of a TLS alert or handshake, where a size of Kafka's would begin with 0."""
_IN_EVERY_KAFKA = {"ApiVersions": 3, "SaslHandshake": 1, "SaslAuthenticate": 2}
_EXPIRED, _NOT_YET_VALID = 10, 9
_OTHER_HOST = frozenset({62, 64})
"""Codes of OpenSSL's X509_V_ERR for certificates whose time is not now, and which name another host."""
_SINCE_TEXT = "kcm watches Kafka 3.7 and newer in KRaft mode"


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM for TLS; none: the system's authorities, and no certificate of our own."""

    ca: Path | None = None
    """Trusted in addition to the system's own."""
    certificate: Path | None = None
    key: Path | None = None
    key_password: str | None = None

    def __repr__(self) -> str:
        return f"Tls(ca={self.ca}, certificate={self.certificate})"

    def context(self) -> ssl.SSLContext:
        """Return a context that checks the server's name; the files are read again, so renewed ones are used."""
        try:
            context = ssl.create_default_context()
            if self.ca is not None:
                context.load_verify_locations(self.ca)
            if self.certificate is not None:
                # Without a password of ours OpenSSL would ask the terminal for one.
                context.load_cert_chain(self.certificate, self.key, self.key_password or "")
        except (OSError, ValueError) as error:
            files = ", ".join(str(each) for each in (self.ca, self.certificate, self.key) if each)
            raise UsageError(f"cannot use the TLS files {files}: {error}") from None
        return context


@dataclass(frozen=True, slots=True)
class Access:
    """How controllers are reached, and which cluster they must belong to."""

    cluster_id: str | None = None
    """Controllers of another cluster refuse our requests; None: any cluster's are read."""
    tls: Tls | None = None
    credentials: Credentials | None = None


class ControllerConnection:
    """A connection to one controller, ready for requests."""

    def __init__(
        self, endpoint: ControllerEndpoint, access: Access, *, timeout_s: float = TIMEOUT_S
    ) -> None:
        """Connect, log in, and learn which versions the controller knows."""
        self.endpoint = endpoint
        self._access = access
        self._timeout_s = timeout_s
        self._correlation_id = 0
        self._deadline_s = time.monotonic() + timeout_s
        self._expires_s: float | None = None
        self._socket: socket.socket | None = None
        self.versions: dict[str, int] = {}
        """The version of each request that both sides know."""
        self.features: dict[str, int] = {}
        """The finalized features of the cluster and their levels, as the controller knows them."""
        self.zk_migration_ready = False
        """Whether the quorum takes a cluster over from ZooKeeper."""
        with self._one_line(is_setup=True):
            self._socket = self._connect()
            self._agree_on_versions()
            if access.credentials is not None:
                self._log_in(access.credentials)

    @property
    def is_expiring(self) -> bool:
        """Whether the SASL session ends soon, so that a new connection should replace this one."""
        return self._expires_s is not None and time.monotonic() > self._expires_s

    def ask(self, request: Request, *, timeout_s: float = TIMEOUT_S) -> Answer:
        """Return the controller's answer to one of the observer's requests."""
        cluster_id = self._access.cluster_id
        if isinstance(request, FetchSnapshot):
            values = self.call(
                "FetchSnapshot", snapshot_values(request, cluster_id), timeout_s=timeout_s
            )
            with self._one_line():
                return snapshot_answer(values)
        values = self.call("Fetch", fetch_values(request, cluster_id), timeout_s=timeout_s)
        with self._one_line():
            return fetch_answer(values, self.versions["Fetch"])

    def call(self, name: str, values: Values, *, timeout_s: float = TIMEOUT_S) -> Values:
        """Return the answer to a request by its name in `schemas`, all of which must be there in time."""
        self._deadline_s = time.monotonic() + timeout_s
        with self._one_line():
            version = self.versions.get(name)
            if version is None:
                raise RefusedError(f"does not offer {name} in a version of ours: {_SINCE_TEXT}")
            return self._exchange(name, version, values)

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _connect(self) -> socket.socket:
        plain = socket.create_connection(self.endpoint, timeout=self._timeout_s)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._access.tls is None:
            return plain
        try:
            context = self._access.tls.context()
            plain.settimeout(self._left_s())
            return context.wrap_socket(plain, server_hostname=self.endpoint.host)
        except BaseException:
            plain.close()
            raise

    def _agree_on_versions(self) -> None:
        """Choose the newest version of each request that both sides know (ApiVersions)."""
        ours = {"client_software_name": CLIENT_ID, "client_software_version": "1"}
        answer = self._exchange("ApiVersions", _IN_EVERY_KAFKA["ApiVersions"], ours)
        if answer["error_code"]:
            raise RefusedError(f"refuses ApiVersions ({error_name(answer['error_code'])})")
        self.features = {
            each["name"]: each["max_version_level"] for each in answer.get("finalized_features", ())
        }
        self.zk_migration_ready = answer.get("zk_migration_ready", False)
        theirs = {each["api_key"]: each for each in answer["api_keys"]}
        self.versions = dict(_IN_EVERY_KAFKA)
        for name in ("Fetch", "FetchSnapshot", "DescribeQuorum", "DescribeCluster"):
            message = MESSAGES[f"{name}Request"]
            known = theirs.get(message.api_key)
            if known is None:
                continue
            version = min(known["max_version"], message.versions[1])
            if version >= max(known["min_version"], message.versions[0]):
                self.versions[name] = version
        if MESSAGES["FetchSnapshotRequest"].api_key not in theirs:
            raise RefusedError(NOT_A_CONTROLLER)
        if "Fetch" not in self.versions:
            raise RefusedError(f"has no version of Fetch that we know: {_SINCE_TEXT}")

    def _log_in(self, credentials: Credentials) -> None:
        mechanism = credentials.mechanism
        answer = self._exchange("SaslHandshake", 1, {"mechanism": mechanism})
        if answer["error_code"] == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(answer["mechanisms"] or ()) or "none"
            raise RefusedError(f"does not offer SASL {mechanism}: it offers {offered}")
        if answer["error_code"] == ErrorCode.ILLEGAL_SASL_STATE:
            raise RefusedError("has no SASL on this listener: leave the credentials out")
        if answer["error_code"]:
            raise RefusedError(f"refuses SASL {mechanism} ({error_name(answer['error_code'])})")
        dialogue = credentials.dialogue()
        message = next(dialogue)
        while True:
            answer = self._exchange("SaslAuthenticate", 2, {"auth_bytes": message})
            if answer["error_code"]:
                why = answer["error_message"] or error_name(answer["error_code"])
                raise RefusedError(f"does not accept our SASL {mechanism} credentials: {why}")
            try:
                message = dialogue.send(answer["auth_bytes"])
            except StopIteration:
                break
        if answer["session_lifetime_ms"] > 0:
            life_s = answer["session_lifetime_ms"] / _MS
            self._expires_s = time.monotonic() + RENEWAL * life_s

    def _exchange(self, name: str, version: int, values: Values) -> Values:
        """Send a request and return its answer."""
        request, response = MESSAGES[f"{name}Request"], MESSAGES[f"{name}Response"]
        is_flexible = version >= request.flexible_since
        self._correlation_id += 1
        header = {
            "request_api_key": request.api_key,
            "request_api_version": version,
            "correlation_id": self._correlation_id,
            "client_id": CLIENT_ID,
        }
        data = write(MESSAGES["RequestHeader"], 2 if is_flexible else 1, header)
        data += write(request, version, values)
        self._send(_SIZE.pack(len(data)) + data)
        answer = self._receive()
        # Answers to ApiVersions have the oldest header, so that each client can read them.
        form = 1 if is_flexible and name != "ApiVersions" else 0
        head, at = reader(MESSAGES["ResponseHeader"], form)(answer, 0)
        if head["correlation_id"] != self._correlation_id:
            raise ValueError("the answer belongs to another request")
        return reader(response, version)(answer, at)[0]

    def _left_s(self) -> float:
        left_s = self._deadline_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise ConnectionResetError("the connection is closed")
        return self._socket

    def _send(self, data: bytes) -> None:
        connected = self._open_socket()
        connected.settimeout(self._left_s())
        connected.sendall(data)

    def _receive(self) -> bytes:
        head = self._receive_exactly(_SIZE.size)
        (size,) = _SIZE.unpack(head)
        if head[0] in _TLS_RECORDS and self._access.tls is None:
            raise RefusedError("speaks TLS on this port: give kcm the TLS settings, or correct it")
        if not 0 <= size <= MAX_ANSWER_BYTES:
            raise ValueError(f"an answer of {size} bytes, where {MAX_ANSWER_BYTES} are the most")
        return self._receive_exactly(size)

    def _receive_exactly(self, size: int) -> bytes:
        connected = self._open_socket()
        parts, missing = [], size
        while missing:
            connected.settimeout(self._left_s())
            part = connected.recv(min(missing, _RECEIVE_BYTES))
            if not part:
                raise ConnectionResetError("it closed the connection")
            parts.append(part)
            missing -= len(part)
        return b"".join(parts)

    @contextmanager
    def _one_line(self, *, is_setup: bool = False) -> Generator[None, Any, None]:
        """Turn whatever goes wrong into one line, and close the connection."""
        try:
            yield
        except UsageError:
            self.close()
            raise
        except RefusedError as error:
            self.close()
            raise RefusedError(f"the controller at {self.endpoint} {error}") from None
        except (OSError, *READ_ERRORS) as error:
            advice = self._advice(error, is_setup=is_setup)
            self.close()
            kind: type[UnreachableError] = UnreachableError
            if isinstance(error, TimeoutError):
                kind = LateAnswerError
            elif isinstance(error, ssl.SSLError):
                kind = RefusedError
            raise kind(f"the controller at {self.endpoint}: {advice}") from None
        except BaseException:
            self.close()
            raise

    @property
    def _has_certificate(self) -> bool:
        return self._access.tls is not None and self._access.tls.certificate is not None

    @property
    def _maybe(self) -> str:
        """What may be the cause where a server ends TLS without saying why, or its alert was lost with the connection."""
        about_ours = (
            "not accept our certificate"
            if self._has_certificate
            else "ask for a certificate of ours"
        )
        return f"the port may speak no TLS, or {about_ours}"

    def _advice(self, error: BaseException, *, is_setup: bool) -> str:
        """Return what failed, and what to do where a setting may be the cause."""
        match error:
            case ssl.SSLCertVerificationError():
                text = f"its certificate is not accepted ({error.verify_message}): {_mend(error)}"
            case ssl.SSLError(reason=str(reason)) if "ALERT" in reason and self._has_certificate:
                text = f"it does not accept our certificate ({reason}): see whether it has expired, and who signed it"
            case ssl.SSLError():
                text = f"TLS failed ({error.reason or error}): {self._maybe}"
            case TimeoutError() | ConnectionResetError() | BrokenPipeError():
                is_late = isinstance(error, TimeoutError)
                text = (
                    "no answer in time" if is_late else "it closed the connection without an answer"
                )
                # With TLS 1.3 a server refuses a certificate after the handshake has ended for us.
                if self._access.tls is not None and is_setup and self._correlation_id <= 1:
                    text += f", during TLS: {self._maybe}"
                elif self._access.credentials is None and self._correlation_id > 1 and not is_late:
                    text += ": it stops, or its listener asks for SASL"
            case OSError():
                text = error.strerror or str(error)
            case _:
                text = f"its answer cannot be read ({error}): is this a controller's port?"
        return text


def _mend(error: ssl.SSLCertVerificationError) -> str:
    """Return what to do about a server's certificate."""
    if error.verify_code in {_EXPIRED, _NOT_YET_VALID}:
        return "renew it, or set the clock of this machine"
    if error.verify_code in _OTHER_HOST:
        return "name the server as its certificate does"
    return "name the CA that signed it"
