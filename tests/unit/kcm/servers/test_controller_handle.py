"""Which sessions watch /controller; that it is deleted and taken again is run by tests/system and the demo."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest
from kazoo.exceptions import ConnectionLoss, SessionExpiredError

from kcm.servers import controller_handle
from kcm.servers.controller_handle import ControllerHandle, watchers


def test_watches_are_read_by_their_path() -> None:
    """An answer that is empty, or does not have the path, names no session."""
    assert watchers("", "/controller") == set()
    assert watchers("\t0x10\n", "/controller") == set()
    assert watchers("/controller\n/b\n\t0x10\n", "/controller") == set()
    answer = "/controller\n\t0x100000abc0001\n\n/controller\n\t0x2\n"
    assert watchers(answer, "/controller") == {0x100000ABC0001, 2}


def test_a_busy_zookeeper_is_asked_again_who_watches(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is late says of nobody that it watches, and ends no wait."""
    client: Any = SimpleNamespace(
        get_children=lambda _path: ["1"], exists=lambda _path: SimpleNamespace(ephemeralOwner=0x10)
    )
    answered = mock.Mock(side_effect=[TimeoutError("late"), "/controller\n\t0x10\n"])
    monkeypatch.setattr(controller_handle, "four_letter_word", answered)
    handle = ControllerHandle(client, 2181)
    assert [handle.watched_by_all(), handle.watched_by_all()] == [False, True]


@pytest.mark.parametrize("lost", [SessionExpiredError, ConnectionLoss])
def test_a_zookeeper_that_was_restarted_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, lost: type[Exception]
) -> None:
    """The client's first question may end with the session from before."""
    holder = (b'{"brokerid": 7}', SimpleNamespace(czxid=9, ctime=1))
    client: Any = mock.Mock()
    client.get_children.side_effect = [lost, []]
    client.exists.return_value = SimpleNamespace(ephemeralOwner=0x10)
    client.get.side_effect = [lost, holder]
    monkeypatch.setattr(controller_handle, "four_letter_word", lambda *_: "")
    handle = ControllerHandle(client, 2181, poll_s=0)
    assert [handle.watched_by_all(), handle.watched_by_all()] == [False, True]
    assert handle.await_holder(lambda _: True, 20).broker == 7
