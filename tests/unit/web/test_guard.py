"""Access over HTTP: by host name, by password, and the access log."""

from __future__ import annotations

import itertools
import socket
import threading
import time
from pathlib import Path

import pytest

from tests.support.waiting import DEADLINE_S, wait_until
from tests.support.web import (
    PASSWORD,
    basic,
    connected,
    exchange,
    hashed,
    page,
    request,
    serving,
    status,
    write_config,
)
from web import guard, passwords
from web.server import WebOptions, WebServer

LONG = 73 * "x"
"""One byte more than bcrypt accepts."""


def test_a_request_with_a_foreign_host_name_is_refused() -> None:
    """A foreign name that resolves to this server is refused (DNS rebinding); own names are not."""
    options = WebOptions(allowed_hosts=("kcm.example.com", "*.svc"))
    ours = ("localhost", "LOCALHOST:9640", "127.0.0.1", "127.0.0.1:9640", "[::1]:9640", "10.0.0.7")
    named = (f"{socket.gethostname()}:1", "kcm.example.com", "kcm.example.com.", "a.b.svc:80")
    foreign = ("evil.com", "evil.com:9640", "localhost.evil.com", "svc", "127.0.0.1.evil.com", "")
    with serving(options) as server:
        for host in ours + named:
            assert status(exchange(server, request(f"Host: {host}"))) == 200, host
        for host in foreign:
            assert status(exchange(server, request(f"Host: {host}"))) == 421, host
        assert status(exchange(server, b"GET / HTTP/1.0\r\n\r\n")) == 200, "no browser asks so"


def test_a_star_alone_allows_every_host_name() -> None:
    """With a proxy in front that checks names, the check can be left to the proxy."""
    with serving(WebOptions(allowed_hosts=("*",))) as server:
        assert status(exchange(server, request("Host: whatever.example"))) == 200


def _secured(tmp_path: Path) -> WebOptions:
    config = f"""
        http_server_config:
          http2: true
          headers: {{X-Frame-Options: sameorigin, X-Content-Type-Options: nosniff}}
        basic_auth_users: {{alice: "{hashed()}", bob: "{hashed("other")}"}}
    """
    return WebOptions(write_config(tmp_path, config))


def test_requests_without_a_valid_password_are_refused(tmp_path: Path) -> None:
    """Only a user of the file with their own password gets an answer, the second time as well."""
    refused = (
        (),
        (basic("alice", "wrong"),),
        (basic("bob"),),
        (basic("nobody"),),
        (basic("", ""),),
        (basic("alice", LONG),),
        ("Authorization: Basic ????",),
        ("Authorization: Basic /w==",),
        ("Authorization: Basic /zo=",),
        (basic().replace("Basic", "Bearer"),),
        ("Authorization: \xff",),
    )
    with serving(_secured(tmp_path)) as server:
        for _ in range(2):
            for headers in refused:
                answer = exchange(server, request(*headers))
                assert status(answer) == 401, headers
                assert b'www-authenticate: Basic realm="kcm"' in answer
            assert status(exchange(server, request(basic()))) == 200
            assert status(exchange(server, request(basic("bob", "other")))) == 200


def test_headers_of_the_file_are_added_unless_the_page_sets_them(tmp_path: Path) -> None:
    """A refusal has them as well. The file may ask for HTTP/2, which has no effect."""
    with serving(_secured(tmp_path)) as server:
        refused, answered = exchange(server, request()), exchange(server, request(basic()))
    assert b"x-frame-options: sameorigin" in refused
    assert b"x-content-type-options: nosniff" in answered
    assert b"x-frame-options: deny" in answered
    assert b"sameorigin" not in answered


def test_a_probe_without_a_password_gets_the_status_only(tmp_path: Path) -> None:
    """The kubelet has no password; the content of the answer is for users who do."""
    with serving(_secured(tmp_path)) as server:
        probed = exchange(server, request(path="/healthz"))
        known = exchange(server, request(basic(), path="/healthz"))
    assert status(probed) == status(known) == 200
    assert probed.endswith(b"\r\n\r\n")
    assert known.endswith(b"what nobody else is to know")


def test_a_probe_keeps_its_connection(tmp_path: Path) -> None:
    """The answer without content is a whole one: the next probe needs no new connection."""
    with serving(_secured(tmp_path)) as server, connected(server) as client:
        for _ in range(2):
            client.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
            answer = b""
            while not answer.endswith(b"\r\n\r\n"):
                piece = client.recv(65536)
                assert piece, "the server has closed the connection"
                answer += piece
            assert status(answer) == 200


def test_a_password_is_hashed_once_and_again_after_a_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scrape each second costs no bcrypt, but a user who was let in is checked again after a change."""
    compared: list[bytes] = []
    compare = passwords.is_password

    def counting(password: bytes, *hashes: str) -> bool:
        compared.append(password)
        return compare(password, *hashes)

    monkeypatch.setattr(passwords, "is_password", counting)
    monkeypatch.setattr("web.server._CHECK_FILES_INTERVAL_S", 0)
    options = _secured(tmp_path)
    with serving(options) as server:
        for _ in range(3):
            assert status(exchange(server, request(basic()))) == 200
        assert compared == [PASSWORD.encode()]
        write_config(tmp_path, f'basic_auth_users: {{alice: "{hashed("new password")}"}}')
        _until(server, 401)
        assert status(exchange(server, request(basic("alice", "new password")))) == 200


def _until(server: WebServer, wanted: int) -> None:
    wait_until(lambda: status(exchange(server, request(basic()))) == wanted)


@pytest.mark.parametrize("of", ["127.0.0.1", "127.0.0.2"])
def test_who_guesses_does_not_lock_out_the_right_password(of: str, tmp_path: Path) -> None:
    """Twelve connections guess without a pause, from the same address or from another one."""
    over = threading.Event()

    def guess(number: int) -> None:
        for attempt in itertools.count():
            if over.is_set():
                return
            exchange(server, request(basic("alice", f"{number} {attempt}")), of=of)

    with serving(_secured(tmp_path)) as server:
        threads = [threading.Thread(target=guess, args=(number,)) for number in range(12)]
        for thread in threads:
            thread.start()
        try:
            for user, password in (("alice", PASSWORD), ("bob", "other")):
                answered = status(exchange(server, request(basic(user, password))))
                assert answered == 200
        finally:
            over.set()
            for thread in threads:
                thread.join()


def test_a_password_that_is_not_compared_in_time_keeps_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is 503 with Retry-After, and who asks again has lost nothing; a probe gets its status."""
    go = threading.Event()
    compare = passwords.is_password

    def waiting(*given: str) -> bool:
        go.wait(20)
        return compare(*given)  # type: ignore[arg-type]  # passed on

    monkeypatch.setattr(passwords, "is_password", waiting)
    monkeypatch.setattr(passwords, "COMPARED_TIMEOUT_S", 0.05)
    with serving(_secured(tmp_path)) as server:
        answer = exchange(server, request(basic()))
        assert (status(answer), b"retry-after: 5" in answer) == (503, True)
        assert status(exchange(server, request(basic(), path="/healthz"))) == 200
        go.set()
        wait_until(lambda: status(exchange(server, request(basic()))) == 200)


def test_a_client_that_leaves_does_not_wait_for_its_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its request ends with the connection: who guesses and leaves at once holds no place that another needs."""
    go, refused = threading.Event(), list[int]()
    monkeypatch.setattr(passwords, "is_password", lambda *_given: go.wait(2 * DEADLINE_S))
    monkeypatch.setattr(passwords, "COMPARED_TIMEOUT_S", 2 * DEADLINE_S)
    options = _secured(tmp_path)
    with WebServer(page(), "127.0.0.1", 0, options, refused=refused.append) as server:
        try:
            with connected(server) as client:
                client.sendall(request(basic("alice", "guess")))
            wait_until(lambda: refused, lambda seen: seen == [503])
        finally:
            go.set()


def test_a_client_that_does_not_read_its_answer_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not read in time is dropped, and its connection ends."""
    big = 64 * 1024 * 1024
    with serving(app=page(bytes(big))) as server:
        assert len(exchange(server, request(path="/big"))) > big, "who reads gets everything"
        monkeypatch.setattr(guard, "TAKEN_TIMEOUT_S", 0.2)
        with connected(server) as client:
            client.sendall(request(path="/big"))
            _until_slow_is_dropped(client)


def _until_slow_is_dropped(client: socket.socket) -> None:
    """Read nothing for a second, then everything that is left."""
    client.settimeout(20)
    time.sleep(1)
    received = 0
    try:
        while piece := client.recv(1024 * 1024):
            received += len(piece)
    except ConnectionResetError:
        pass
    assert received < 32 * 1024 * 1024


def test_the_access_log_has_one_line_for_each_answer(capsys: pytest.CaptureFixture[str]) -> None:
    """With one line each, also for refusals, and without secrets."""
    with serving(WebOptions(access_log=True)) as server:
        exchange(server, request(basic()))
        exchange(server, request("Host: evil.com"))
    with serving() as server:
        exchange(server, request(path="/quiet"))
    logged = capsys.readouterr()
    lines = [line for line in (logged.out + logged.err).splitlines() if "access" in line]
    assert ["200" in lines[0], "421" in lines[1], len(lines)] == [True, True, 2]
    assert "Basic" not in "".join(lines)


def test_the_access_log_names_authenticated_users_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user with a right password, but not a name with a wrong one, which may itself be a password."""
    options = _secured(tmp_path)._replace(access_log=True)
    with serving(options) as server:
        exchange(server, request(basic()))
        exchange(server, request(basic("alice", "wrong-password")))
        exchange(server, request(basic("typed-in-the-wrong-field", "")))
        exchange(server, request(path="/healthz"))
    logged = capsys.readouterr()
    lines = [line for line in (logged.out + logged.err).splitlines() if "access" in line]
    assert ["alice" in line for line in lines] == [True, False, False, False]
    for secret in (PASSWORD, "wrong-password", "typed-in", "Basic", basic().split()[-1], "$2"):
        assert secret not in "".join(lines)
