"""Ports of this machine: each is returned once, and one that is in use is reported."""

from __future__ import annotations

import socket
import subprocess

import pytest

from kcm.servers import ports
from kcm.servers.ports import HOST, free_port, is_free, require_free
from pipeline.runtime import ConflictError, EnvironmentProblemError
from tests.support.processes import python


def test_ports_are_given_once() -> None:
    """No two calls give the same port, and each can be listened on."""
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == len(ports)
    assert all(is_free(port) for port in ports)


def test_ports_of_another_process_are_not_given() -> None:
    """A port that another process has reserved is not returned while that process runs."""
    code = "from kcm.servers.ports import *; from kcm.servers import ports; import sys\nports.FIRST_PORT, ports.LAST_PORT = 16990, 16991\n"
    hold = code + "print(free_port(), flush=True); sys.stdin.read()"
    ask = code + "print(free_port())"
    with subprocess.Popen(python(hold), stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        held = int(holder.stdout.readline())
        other = subprocess.run(python(ask), capture_output=True, check=True)
        assert {held, int(other.stdout)} == {16990, 16991}
        holder.kill()


def test_a_port_in_use_is_named() -> None:
    """The error names who wanted the port, and the port."""
    with socket.create_server((HOST, free_port())) as listener:
        port = listener.getsockname()[1]
        assert not is_free(port)
        with pytest.raises(ConflictError, match=f"kafka-1 cannot listen on {HOST}:{port}"):
            require_free("kafka-1", port)


def test_ports_that_are_all_in_use_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the range that was searched; it does not wait."""
    with socket.create_server((HOST, free_port())) as listener:
        port = listener.getsockname()[1]
        monkeypatch.setattr(ports, "FIRST_PORT", port)
        monkeypatch.setattr(ports, "LAST_PORT", port)
        monkeypatch.setattr(ports, "_reserved", set[int]())
        with pytest.raises(EnvironmentProblemError, match=f"between {port} and {port} on {HOST}"):
            free_port()


def test_ports_are_below_those_of_outgoing_connections() -> None:
    """A client that keeps connecting to a dead server must not connect to itself."""
    assert all(ports.FIRST_PORT <= free_port() <= ports.LAST_PORT < 32_768 for _ in range(20))


def test_a_free_port_is_no_problem() -> None:
    """This also holds for another address, on which the port is then checked."""
    with socket.create_server((HOST, free_port())) as listener:
        port = listener.getsockname()[1]
        require_free("other", port, "127.0.0.2")
        assert is_free(port, "127.0.0.2")
        assert not is_free(port, HOST)
    require_free("same", port)
