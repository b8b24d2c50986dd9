"""The watched ensemble: whose session counts, and what is reported when there is no Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kcm.servers.ports import free_port
from pipeline.runtime import UnreachableError, UsageError, get_logger
from pipeline.settings import load
from tests.support.waiting import DEADLINE_S, wait_until
from tests.support.zookeeper_socket import HOST, zookeeper_socket
from zk_source.config import WatchSettings
from zk_source.ensemble.watched_ensemble import WatchedEnsemble
from zk_source.wire.inbox import Inbox, Reply, SessionChanged
from zk_source.wire.jute import decode
from zk_source.wire.operations import Children, Err, Op, Request, SingleRead, Sync

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


TREE = {"/": ("zookeeper", "kafka"), "/kafka": ("b", "a")}


def ensemble(inbox: Inbox | None = None, **settings: Any) -> WatchedEnsemble:
    """Return an ensemble without a client."""
    loaded = load(WatchSettings, **{"zookeeper": "zk1:2181/kafka"} | settings)
    return WatchedEnsemble(loaded, Inbox() if inbox is None else inbox, get_logger("test"))


@contextmanager
def connected(chroot: str, **settings: Any) -> Iterator[tuple[WatchedEnsemble, Inbox]]:
    """Return an ensemble with a session on a server that holds `TREE`."""
    inbox = Inbox()
    with zookeeper_socket(TREE) as server:
        watched = ensemble(inbox, zookeeper=f"{server.address}{chroot}", **settings)
        watched.connect()
        try:
            changed = inbox.pop(DEADLINE_S)
            assert changed == SessionChanged(1, "CONNECTED", server.address)
            yield watched, inbox
        finally:
            watched.close()


def test_the_session_of_a_replaced_client_is_ignored() -> None:
    """Clients are numbered; only the newest one's session is ours."""
    watched = ensemble()
    assert watched.is_own(SessionChanged(0, "CONNECTED", "zk1:2181"))
    assert not watched.is_own(SessionChanged(1, "CONNECTED", "zk1:2181"))


def test_a_missing_kafka_names_the_chroot_to_correct() -> None:
    """With fail_fast it ends the watcher."""
    with pytest.raises(UsageError, match="no /brokers under the chroot /kafka"):
        ensemble(fail_fast=True).report_no_brokers()


def test_a_missing_kafka_is_logged_once_while_it_is_waited_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The chroot may be right, and the cluster not started yet."""
    watched = ensemble(fail_fast=False)
    for _ in range(3):
        watched.report_no_brokers()
    assert capsys.readouterr().out.count("waiting for it to appear") == 1


@pytest.mark.parametrize(
    ("chroot", "told"),
    [
        ("/kafka", "no /brokers under the chroot /kafka (/kafka holds a, b)"),
        ("/kafka/prod", "(there is no /kafka/prod; /kafka holds a, b)"),
        ("/other/prod", "(there is no /other/prod; / holds kafka, zookeeper)"),
        ("", "no /brokers under the chroot / (/ holds kafka, zookeeper)"),
    ],
)
def test_a_missing_kafka_is_described_by_what_is_there(chroot: str, told: str) -> None:
    """By the nearest path that exists: an operator sees which name is wrong."""
    with connected(chroot, fail_fast=True) as (watched, _), pytest.raises(UsageError) as raised:
        watched.report_no_brokers()
    assert told in str(raised.value)


def test_requests_are_answered_in_their_order() -> None:
    """Single reads, which go together, and others; the paths are below the chroot."""
    requests = [SingleRead(Op.GET_CHILDREN, path) for path in ("/", "/none", "/")]
    sent: list[Request] = [*requests, Sync("/"), *requests]
    with connected("/kafka") as (watched, inbox):
        for token, request in enumerate(sent):
            watched.send(token, request)
        for token, request in enumerate(sent):
            reply = inbox.pop(DEADLINE_S)
            assert isinstance(reply, Reply)
            assert (reply.token, reply.zxid) == (token, 1)
            if request == requests[0]:
                assert decode(request, reply.body, reply.offset) == (Children(("b", "a")),)
            assert reply.err == (Err.NO_NODE if request == requests[1] else Err.OK)


def test_a_watcher_that_fails_fast_ends_when_no_host_answers() -> None:
    """Not before each was tried once, and not after a resync. A client that ended by itself is replaced."""
    hosts = [f"{HOST}:{free_port()}" for _ in range(2)]
    watched = ensemble(zookeeper=",".join(hosts), fail_fast=True)
    watched.check(resynced=False)
    watched.connect()

    def error() -> str:
        try:
            watched.check(resynced=False)
        except UnreachableError as raised:
            return str(raised)
        return ""

    try:
        assert f"{hosts[0]},{hosts[1]} does not answer" in wait_until(error)
        watched.check(resynced=True)
        watched.close()
        connection = watched._connection
        assert connection is not None
        connection.failures = 1
        assert error() == ""
        assert watched._connection is not connection
        assert watched.is_own(SessionChanged(2, "LOST", ""))
    finally:
        watched.close()
