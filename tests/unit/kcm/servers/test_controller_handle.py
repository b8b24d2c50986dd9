"""/controller is deleted only once every live broker watches it, and a broker takes it again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from kcm.servers import controller_handle
from kcm.servers.controller_handle import ControllerHandle, Holder, watchers
from tests.support.kazoo_in_memory import KazooInMemory
from tests.support.waiting import wait_until

SESSIONS = {1: 0x10, 2: 0x11}
PORT = 2181
SOON_S = 0.05
LONG_S = 20.0


def holds(broker: int) -> bytes:
    """Return the payload of /controller."""
    return b'{"version":2,"brokerid":%d,"timestamp":"1"}' % broker


class Ensemble(KazooInMemory):
    """Two brokers with their sessions, and the answer of `wchp` about their watches on /controller."""

    def __init__(self) -> None:
        super().__init__()
        for broker, session in SESSIONS.items():
            self.put(f"/brokers/ids/{broker}", owner=session)
        self.put("/controller", holds(1), owner=SESSIONS[1])
        self.watching = set(SESSIONS.values())
        self.asked: list[tuple[str, int, str]] = []
        self.deleted: Callable[[], None] = lambda: None

    def four_letter_word(self, host: str, port: int, word: str) -> str:
        """Answer `wchp`: for each path, the sessions that watch it."""
        self.asked.append((host, port, word))
        rows = "".join(f"\t{session:#x}\n" for session in self.watching)
        return f"/controller_epoch\n\t0x99\n/controller\n{rows}/brokers/ids\n\t0x99\n"

    def delete(self, path: str) -> None:
        """Delete a znode; then do what the test wants."""
        super().delete(path)
        self.deleted()


@pytest.fixture
def ensemble(monkeypatch: pytest.MonkeyPatch) -> Ensemble:
    """Two live brokers that both watch /controller, which broker 1 holds."""
    made = Ensemble()
    monkeypatch.setattr(controller_handle, "four_letter_word", made.four_letter_word)
    return made


@pytest.fixture
def handle(ensemble: Ensemble) -> ControllerHandle:
    """A handle of the ensemble's /controller."""
    return ControllerHandle(ensemble, PORT, poll_s=0.001)


def test_the_holder_has_its_broker_id_and_the_czxid_of_its_znode(
    handle: ControllerHandle, ensemble: Ensemble
) -> None:
    """There is no holder while /controller does not exist."""
    stat = ensemble.znodes["/controller"][1]
    assert handle.holder() == Holder(1, stat.czxid, stat.ctime)
    ensemble.remove("/controller")
    assert handle.holder() is None


def test_watched_by_all_needs_a_watch_of_every_live_broker(
    handle: ControllerHandle, ensemble: Ensemble
) -> None:
    """Other sessions may watch it, too; watches on other paths do not count."""
    assert handle.watched_by_all()
    assert ensemble.asked == [("127.0.0.1", PORT, "wchp")]
    ensemble.watching.add(0x77)
    assert handle.watched_by_all()
    ensemble.watching.discard(SESSIONS[2])
    assert not handle.watched_by_all()
    ensemble.remove("/brokers/ids/2")
    assert handle.watched_by_all()


@pytest.mark.parametrize("gone", ["/controller", "/brokers/ids/2"])
def test_a_znode_deleted_between_two_reads_counts_as_not_watched(
    gone: str, handle: ControllerHandle, ensemble: Ensemble
) -> None:
    """No request for the server's watches is sent."""

    def go(path: str) -> None:
        if path == gone:
            ensemble.before_exists = lambda _path: None
            ensemble.remove(gone)

    ensemble.before_exists = go
    assert not handle.watched_by_all()
    assert ensemble.asked == []


def test_depose_deletes_the_znode_and_returns_the_new_holder(
    handle: ControllerHandle, ensemble: Ensemble
) -> None:
    """This also holds where the same broker takes it again, in another transaction."""
    for broker in (2, 2):
        ensemble.deleted = lambda broker=broker: ensemble.put("/controller", holds(broker))  # type: ignore[misc]  # bound now
        before = handle.holder()
        assert before is not None
        taken = handle.depose(LONG_S)
        assert taken.broker == broker
        assert taken.czxid > before.czxid
    assert ensemble.did == ["delete /controller"] * 2


def test_depose_waits_until_all_brokers_watch_the_znode(
    handle: ControllerHandle, ensemble: Ensemble
) -> None:
    """Kafka would stay without a controller; the deadline's error says what is missing."""
    ensemble.watching.clear()
    with pytest.raises(TimeoutError, match=r"the brokers do not watch /controller, for 0\.05 s"):
        handle.depose(SOON_S)
    assert ensemble.did == []
    ensemble.deleted = lambda: ensemble.put("/controller", holds(2))
    later = threading.Timer(SOON_S, lambda: ensemble.watching.update(SESSIONS.values()))
    later.start()
    assert handle.depose(LONG_S).broker == 2
    later.join()


def test_depose_times_out_when_no_broker_takes_the_znode(
    handle: ControllerHandle, ensemble: Ensemble
) -> None:
    """The deadline's error says that it was deleted and is still missing."""
    with pytest.raises(TimeoutError, match=r"nobody takes /controller, for 0\.05 s"):
        handle.depose(SOON_S)
    assert ensemble.did == ["delete /controller"]


def test_depose_accepts_a_znode_that_is_already_deleted(
    handle: ControllerHandle, ensemble: Ensemble
) -> None:
    """It may disappear before it is deleted; a new holder is waited for all the same."""
    plain = ensemble.get

    def gone(path: str, watch: object = None) -> tuple[bytes, object]:
        found = plain(path)
        assert watch is None
        ensemble.get = plain  # type: ignore[method-assign]  # once
        ensemble.remove(path)
        return found

    ensemble.get = gone  # type: ignore[method-assign]  # once
    later = threading.Timer(SOON_S, lambda: ensemble.put("/controller", holds(2)))
    later.start()
    assert handle.depose(LONG_S).broker == 2
    later.join()
    assert ensemble.did == []


def test_await_holder_passes_over_other_holders(
    handle: ControllerHandle, ensemble: Ensemble
) -> None:
    """It waits for one that is wanted."""
    later = threading.Timer(SOON_S, lambda: ensemble.put("/controller", holds(2)))
    later.start()
    assert handle.await_holder(lambda holder: holder.broker == 2, LONG_S).broker == 2
    later.join()
    wait_until(lambda: not later.is_alive())
    with pytest.raises(TimeoutError, match="nobody takes /controller"):
        handle.await_holder(lambda holder: holder.broker == 3, SOON_S)


def test_watches_are_read_by_their_path() -> None:
    """An answer that is empty, or does not have the path, names no session."""
    assert watchers("", "/controller") == set()
    assert watchers("\t0x10\n", "/controller") == set()
    assert watchers("/controller\n/b\n\t0x10\n", "/controller") == set()
    answer = "/controller\n\t0x100000abc0001\n\n/controller\n\t0x2\n"
    assert watchers(answer, "/controller") == {0x100000ABC0001, 2}
