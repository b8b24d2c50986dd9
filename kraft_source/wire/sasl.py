"""The client's side of SASL: what is sent for each mechanism, and the check of what the server answers.

PLAIN (RFC 4616), SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802), OAUTHBEARER with a token from a file (RFC 7628). No
I/O but that file. GSSAPI would need a Kerberos library and is not offered.
"""

import base64
import hashlib
import hmac
import secrets
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

from kraft_source.wire.errors import RefusedError
from pipeline.runtime import UsageError

MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_MAX_ITERATIONS = 1_000_000
"""A server that asks for more would keep us computing; Kafka's default is 4,096."""
_MIN_ITERATIONS = 4_096
"""The least that Kafka accepts (ScramMechanism): fewer make the password easy to guess from what is sent."""
_NONCE_BYTES = 18

Dialogue = Generator[bytes, bytes, None]
"""Yields what to send, and is sent what the server answered. It ends when both sides are content."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """How this client logs in; the secrets are not in its `repr`."""

    mechanism: str
    username: str = ""
    password: str = ""
    token_file: Path | None = None
    """OAUTHBEARER: a file with the token, read at each login, so that another program can renew it."""

    def __post_init__(self) -> None:
        if self.mechanism not in MECHANISMS:
            raise UsageError(
                f"SASL mechanism {self.mechanism} is not supported on controllers' listeners: "
                f"choose one of {', '.join(MECHANISMS)}"
            )
        if self.mechanism == "OAUTHBEARER":
            if self.token_file is None:
                raise UsageError("SASL OAUTHBEARER needs a file with the token")
        elif not (self.username and self.password):
            raise UsageError(f"SASL {self.mechanism} needs a user name and a password")

    def __repr__(self) -> str:
        return f"Credentials({self.mechanism}, {self.username})"

    def dialogue(self, *, nonce: Callable[[], str] | None = None) -> Dialogue:
        """Return the dialogue of the mechanism; `nonce` stands for randomness in tests."""
        if self.mechanism == "PLAIN":
            return _plain(self)
        if self.mechanism == "OAUTHBEARER":
            return _bearer(self)
        made = nonce or (lambda: secrets.token_urlsafe(_NONCE_BYTES))
        return _scram(self, self.mechanism.removeprefix("SCRAM-").replace("-", "").lower(), made())


def _plain(credentials: Credentials) -> Dialogue:
    yield b"\0" + credentials.username.encode() + b"\0" + credentials.password.encode()


def _bearer(credentials: Credentials) -> Dialogue:
    path = credentials.token_file
    assert path is not None  # noqa: S101  # __post_init__ has checked it
    try:
        token = path.read_text(encoding="ascii").strip()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read the SASL token in {path}: {error}") from None
    if not token or not token.isprintable() or " " in token:
        raise UsageError(f"{path} holds no token: write one line with the token alone")
    answer = yield b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"
    if answer:
        # The server explains in JSON, and fails the login after this (OAuthBearerSaslServer).
        yield b"\x01"
        raise RefusedError(f"does not accept the SASL token in {path}: renew it")


def _scram(credentials: Credentials, algorithm: str, nonce: str) -> Dialogue:
    """Log in without sending the password, and make sure that the server knows it as well."""
    name = credentials.username.replace("=", "=3D").replace(",", "=2C")
    first = f"n={name},r={nonce}"
    challenge = (yield f"n,,{first}".encode()).decode(errors="replace")
    fields = _fields(challenge)
    try:
        salt, iterations = base64.b64decode(fields["s"], validate=True), int(fields["i"])
        joined = fields["r"]
    except (KeyError, ValueError):
        raise RefusedError("answers SCRAM's first message with something else") from None
    if not joined.startswith(nonce) or joined == nonce:
        raise RefusedError("does not continue SCRAM's nonce: something between us alters messages")
    if not _MIN_ITERATIONS <= iterations <= _MAX_ITERATIONS:
        raise RefusedError(f"asks for {iterations} iterations of SCRAM, which is not safe")
    salted = hashlib.pbkdf2_hmac(algorithm, credentials.password.encode(), salt, iterations)
    client_key = hmac.digest(salted, b"Client Key", algorithm)
    last = f"c=biws,r={joined}"
    signed = f"{first},{challenge},{last}".encode()
    stored_key = hashlib.new(algorithm, client_key).digest()
    signature = hmac.digest(stored_key, signed, algorithm)
    proof = bytes(ours ^ theirs for ours, theirs in zip(client_key, signature, strict=True))
    answer = yield f"{last},p={base64.b64encode(proof).decode()}".encode()
    server_key = hmac.digest(salted, b"Server Key", algorithm)
    expected = base64.b64encode(hmac.digest(server_key, signed, algorithm))
    given = _fields(answer.decode(errors="replace")).get("v", "")
    if not hmac.compare_digest(given.encode(), expected):
        raise RefusedError(
            "does not prove that it knows our SCRAM credentials: it may be an impostor"
        )


def _fields(message: str) -> dict[str, str]:
    """Return the attributes of one of SCRAM's messages.

    >>> _fields("r=abc,s=QQ==,i=4096")
    {'r': 'abc', 's': 'QQ==', 'i': '4096'}
    """
    return {key: value for key, _, value in (part.partition("=") for part in message.split(","))}
