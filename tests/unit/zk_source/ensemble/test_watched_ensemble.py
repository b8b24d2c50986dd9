"""The watched ensemble: whose session counts, and what is reported when there is no Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.protocol.states import KeeperState

from kcm.servers.ports import free_port
from pipeline.runtime import EnvironmentProblemError, UnreachableError, UsageError, get_logger
from pipeline.settings import load
from tests.support.waiting import DEADLINE_S, wait_until
from tests.support.zookeeper_socket import HOST, zookeeper_socket
from zk_source.config import WatchSettings
from zk_source.ensemble import watched_ensemble
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


def test_a_new_client_replaces_the_one_before() -> None:
    """The session of the one before ends: its threads would go on, with their watches on the server."""
    with connected("/kafka") as (watched, inbox):
        watched.connect()
        changes = [inbox.pop(DEADLINE_S), inbox.pop(DEADLINE_S)]
        assert {change[:2] for change in changes if isinstance(change, SessionChanged)} == {
            (1, "LOST"),
            (2, "CONNECTED"),
        }


def test_an_outage_begins_with_the_last_change_of_the_session(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """However long there was a session until then; it is logged after two seconds, then ever more rarely."""
    now_s = [100.0]
    monkeypatch.setattr(watched_ensemble, "time", SimpleNamespace(monotonic=lambda: now_s[0]))
    address = f"{HOST}:{free_port()}"
    watched = ensemble(zookeeper=address, fail_fast=False)
    watched.connect()
    connection = watched._connection
    assert connection is not None
    try:
        wait_until(lambda: connection.last_error)
        now_s[0] += 3_600
        assert watched.is_own(SessionChanged(1, "SUSPENDED", address))
        for _ in range(30):
            now_s[0] += 0.25
            watched.check(resynced=True)
    finally:
        watched.close()
    logged = [line for line in capsys.readouterr().out.splitlines() if "does not answer" in line]
    assert len(logged) == 2
    assert f"ZooKeeper at {address} does not answer (for 2 s)" in logged[0]
    assert "(for 4 s)" in logged[1]


def test_credentials_that_were_refused_end_the_watcher() -> None:
    """Only a user can correct them, with or without fail_fast; kazoo tries no more."""
    with connected("/kafka", fail_fast=False) as (watched, _):
        watched.check(resynced=False)
        assert watched._connection is not None
        watched._connection.client._session_callback(KeeperState.AUTH_FAILED)
        with pytest.raises(
            EnvironmentProblemError,
            match=rf"{HOST}:\d+ refused the credentials in zk_auth: correct",
        ):
            watched.check(resynced=True)


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


def test_a_missing_kafka_is_described_only_by_what_was_answered() -> None:
    """Where ZooKeeper answers no more, or the watcher may not list a path, nobody knows what is there."""
    with connected("/kafka", fail_fast=True) as (watched, _):
        watched.close()
        with pytest.raises(UsageError) as raised:
            watched.report_no_brokers()
    assert str(raised.value).endswith(
        "no /brokers under the chroot /kafka; correct the chroot in the setting zookeeper"
    )


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
