"""The release of kazoo whose insides `zk_source/wire` uses, and the form of what it uses."""

from __future__ import annotations

import hashlib
import inspect

import kazoo
import pytest
from kazoo.client import KazooClient
from kazoo.protocol.connection import ConnectionHandler

MEASURED = "2.11"
"""The release with which `python -m bench wire` was run; pyproject.toml pins it."""

AGAIN = (
    "compare it with zk_source/wire, run `python -m bench wire`, then correct the figures in "
    "zk_source/wire/connection.py, the pin in pyproject.toml, and what is expected here"
)

SOURCES = {
    "_authenticate_with_sasl": "6c596432a4e7a227",
    "_connect": "c67473628f3e06d2",
    "_expand_client_hosts": "93236073c679c511",
    "_read": "3dee3dc17d268141",
    "_read_header": "0b4a8174004ca5e4",
    "_read_response": "a0725364d26d1b5d",
    "_read_socket": "ead9cff6c0a8e749",
    "_read_watch_event": "32623f9b94060ebb",
    "_send_request": "fb268341cf598ce8",
    "_socket_error_handling": "f34a606aee748be8",
    "_write": "4a75e1cd9d637b6f",
}
"""kazoo's methods that ours replace, extend or call, with the beginning of the hash of their source."""

ATTRIBUTES = {
    KazooClient: ("_call", "_conn_retry", "_connection", "_pending", "_queue"),
    ConnectionHandler: ("_read_sock", "_socket", "_xid"),
}
"""kazoo's private attributes that ours read or set."""


def test_kazoo_is_the_measured_release() -> None:
    """Another one may have changed what is replaced, and what that saves."""
    assert kazoo.__version__.rpartition(".")[0] == MEASURED, (
        f"zk_source/wire was measured with kazoo {MEASURED}; found {kazoo.__version__}: {AGAIN}"
    )


@pytest.mark.parametrize("name", SOURCES)
def test_a_method_of_kazoo_that_ours_builds_on_is_unchanged(name: str) -> None:
    """To the letter: what it calls, and in which order, is what ours relies on."""
    source = inspect.getsource(getattr(ConnectionHandler, name))
    found = hashlib.sha256(source.encode()).hexdigest()[:16]
    assert found == SOURCES[name], f"kazoo's {name} has changed (now {found}): {AGAIN}"


def test_each_private_attribute_of_kazoo_exists() -> None:
    """Another name would only fail at a connection."""
    client = KazooClient()
    missing = [
        name
        for owner, names in ATTRIBUTES.items()
        for name in names
        if not hasattr(client if owner is KazooClient else client._connection, name)
    ]
    assert not missing, f"kazoo has no {', '.join(missing)}: {AGAIN}"
