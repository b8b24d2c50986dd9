"""Tests of SASL's dialogues: what is sent, and that a server has to prove itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kraft_source.wire.errors import RefusedError
from kraft_source.wire.sasl import Credentials
from pipeline.runtime import KcmError, UsageError

SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_LAST = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram(user: str = "user") -> Credentials:
    """Return the credentials of RFC 7677's example."""
    return Credentials("SCRAM-SHA-256", user, "pencil")


def test_plain_sends_user_and_password() -> None:
    """PLAIN is one message, and any answer without an error is enough."""
    dialogue = Credentials("PLAIN", "kcm", "s3cret").dialogue()
    assert next(dialogue) == b"\0kcm\0s3cret"
    with pytest.raises(StopIteration):
        dialogue.send(b"")


def test_scram_is_that_of_the_rfc() -> None:
    """The messages are those of the example in RFC 7677, section 3."""
    dialogue = scram().dialogue(nonce=lambda: "rOprNGfwEbeRWgbNEkqO")
    assert next(dialogue) == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert dialogue.send(SERVER_FIRST) == CLIENT_LAST
    with pytest.raises(StopIteration):
        dialogue.send(SERVER_LAST)


@pytest.mark.parametrize(
    ("server_first", "server_last", "says"),
    [
        (b"hello", b"", "something else"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=!,i=4096", b"", "something else"),
        (b"r=other,s=QQ==,i=4096", b"", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=QQ==,i=4096", b"", "nonce"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=QQ==,i=1", b"", "1 iterations"),
        (b"r=rOprNGfwEbeRWgbNEkqO1,s=QQ==,i=999999999", b"", "999999999 iterations"),
        (SERVER_FIRST, b"v=AAAA", "impostor"),
        (SERVER_FIRST, "v=ä".encode(), "impostor"),
        (SERVER_FIRST, b"e=other-error", "impostor"),
    ],
)
def test_scram_refuses_a_server_that_proves_nothing(
    server_first: bytes, server_last: bytes, says: str
) -> None:
    """Each deviation of a server ends the login with a line that names it."""
    dialogue = scram().dialogue(nonce=lambda: "rOprNGfwEbeRWgbNEkqO")
    next(dialogue)
    with pytest.raises(RefusedError, match=says):  # noqa: PT012  # either answer may be the one
        dialogue.send(server_first)
        dialogue.send(server_last)


def test_scram_escapes_names_and_never_repeats_a_nonce() -> None:
    """A comma or an equals sign in a name cannot end it; two logins differ."""
    first = [next(scram("a,b=c").dialogue()) for _ in range(2)]
    assert first[0].startswith(b"n,,n=a=2Cb=3Dc,r=")
    assert first[0] != first[1]


def test_oauthbearer_sends_the_token_of_its_file(tmp_path: Path) -> None:
    """The token is read at each login; a server's explanation fails it."""
    token = tmp_path / "token"
    credentials = Credentials("OAUTHBEARER", token_file=token)
    token.write_text("one\n")
    assert next(credentials.dialogue()) == b"n,,\x01auth=Bearer one\x01\x01"
    token.write_text("two\n")
    dialogue = credentials.dialogue()
    assert next(dialogue) == b"n,,\x01auth=Bearer two\x01\x01"
    assert dialogue.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(RefusedError, match="does not accept the SASL token"):
        dialogue.send(b"")


@pytest.mark.parametrize("content", [None, "", "two words", "ümlaut"])
def test_a_token_file_that_holds_none_is_one_line(tmp_path: Path, content: str | None) -> None:
    """A missing, empty or odd file is named, and its content is not shown."""
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content, encoding="utf-8")
    with pytest.raises(UsageError, match=str(token)) as raised:
        next(Credentials("OAUTHBEARER", token_file=token).dialogue())
    assert not content or content not in str(raised.value)


@pytest.mark.parametrize(
    ("mechanism", "options", "says"),
    [
        ("GSSAPI", {}, "GSSAPI is not supported on controllers' listeners: choose one of PLAIN"),
        ("PLAIN", {"username": "kcm"}, "needs a user name and a password"),
        ("SCRAM-SHA-512", {"password": "x"}, "needs a user name and a password"),
        ("OAUTHBEARER", {}, "needs a file with the token"),
    ],
)
def test_credentials_that_cannot_work_are_refused_at_once(
    mechanism: str, options: dict[str, Any], says: str
) -> None:
    """What is missing is told before anything connects."""
    with pytest.raises(KcmError, match=says):
        Credentials(mechanism, **options)


def test_secrets_are_not_shown() -> None:
    """The password is not in what Python prints of credentials."""
    assert "s3cret" not in repr(Credentials("PLAIN", "kcm", "s3cret"))
