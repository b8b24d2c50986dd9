"""Passwords: whose turn it is, what is kept, and that the time of an answer names no user."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.web import basic, bcrypt, hashed
from web import passwords
from web.passwords import BusyError, Passwords

USERS = {"alice": hashed("right"), "bob": hashed("right").replace("$04$", "$07$")}


class Stage:
    """Passwords whose comparisons end one by one, when the test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.compared: list[str] = []
        self._turns = threading.Semaphore(0)
        self.passwords = Passwords()
        monkeypatch.setattr(passwords, "is_password", self._compare)

    def _compare(self, password: bytes, *_hashes: str) -> bool:
        self._turns.acquire()
        self.compared.append(password.decode())
        return password == b"right"

    def ask(
        self, client: str, password: str, left: asyncio.Future[None] | None = None
    ) -> asyncio.Task[str | None]:
        """Let a client ask with a password."""
        header = basic("alice", password).partition(": ")[2]
        return asyncio.create_task(self.passwords.match(USERS, header, client, left))

    async def asked(self, client: str, password: str) -> asyncio.Task[str | None]:
        """Let a client ask, and return when its password waits."""
        task = self.ask(client, password)
        await asyncio.sleep(0)
        return task

    def go(self, turns: int) -> None:
        """Let so many comparisons end."""
        for _ in range(turns):
            self._turns.release()


def play(story: Coroutine[Any, Any, None]) -> None:
    """Run a story within a time that no machine needs."""
    asyncio.run(asyncio.wait_for(story, 20))


def test_clients_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asked much waits behind what it asked; a client that comes later has the next turn."""

    async def story() -> None:
        stage = Stage(monkeypatch)
        tasks = [await stage.asked("guesser", f"guess {number}") for number in range(4)]
        tasks += [await stage.asked(client, f"of {client}") for client in ("a", "b")]
        stage.go(6)
        await asyncio.gather(*tasks)
        assert stage.compared == ["guess 0", "of a", "of b", "guess 1", "guess 2", "guess 3"]

    play(story())


def test_a_client_gets_no_turns_for_when_it_did_not_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who comes with many guesses does not catch up with a client that has long been served."""

    async def story() -> None:
        stage = Stage(monkeypatch)
        tasks = [await stage.asked("a", f"a {number}") for number in range(4)]
        stage.go(2)
        await asyncio.gather(*tasks[:2])
        tasks += [await stage.asked("late", f"late {number}") for number in range(3)]
        stage.go(5)
        await asyncio.gather(*tasks)
        assert stage.compared[2:] == ["a 2", "late 0", "a 3", "late 1", "late 2"]

    play(story())


def test_one_password_of_a_client_is_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many of its requests have it."""

    async def story() -> None:
        stage = Stage(monkeypatch)
        tasks = [await stage.asked("a", "right") for _ in range(5)]
        stage.go(1)
        assert await asyncio.gather(*tasks) == ["alice"] * 5
        assert await stage.ask("b", "right") == "alice", "it is known now"
        assert stage.compared == ["right"]

    play(story())


def test_a_client_that_has_left_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it asked is compared all the same: it may come back."""

    async def story() -> None:
        stage = Stage(monkeypatch)
        left = asyncio.get_running_loop().create_future()
        task = stage.ask("a", "right", left)
        left.set_result(None)
        with pytest.raises(BusyError):
            await task
        stage.go(1)
        assert await stage.ask("a", "right") == "alice"

    play(story())


def test_a_kept_place_is_not_taken_by_later_guesses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where too many wait, the newest that nobody asks for goes; where all are asked for, the new one goes."""

    async def story() -> None:
        stage = Stage(monkeypatch)
        monkeypatch.setattr(passwords, "MAX_CONNECTIONS", 4)
        monkeypatch.setattr(passwords, "COMPARED_TIMEOUT_S", 0.01)
        for password in ("guess 0", "right", *(f"guess {number}" for number in range(1, 50))):
            with pytest.raises(BusyError):
                await stage.ask("a", password)
        monkeypatch.setattr(passwords, "COMPARED_TIMEOUT_S", 20)
        tasks = [await stage.asked("a", "right")]
        stage.go(2)
        assert await asyncio.gather(*tasks) == ["alice"]
        assert stage.compared[:2] == ["guess 0", "right"]
        asked = [await stage.asked("b", f"asked {number}") for number in range(4)]
        with pytest.raises(BusyError):
            await stage.ask("c", "one too many")
        stage.go(10)
        await asyncio.gather(*asked)

    play(story())


COSTS = st.integers(4, 31)


@given(st.dictionaries(st.sampled_from("abcdef"), COSTS, min_size=1), st.sampled_from("abcdefz"))
@settings(deadline=None)
def test_a_wrong_password_costs_the_same_for_every_name(costs: dict[str, int], user: str) -> None:
    """The work of the highest cost in the file, 2 ** cost rounds, whether the user is in the file or not."""
    users = {name: f"$2y${cost:02}${passwords._NOBODY}" for name, cost in costs.items()}
    made = passwords._hashes(users, user)
    assert sum(2 ** int(each.split("$")[2]) for each in made) == 2 ** max(costs.values())
    assert made[0] == users.get(user, made[0])


def test_every_hash_of_a_wrong_password_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """And none but the own one of a right password; a password that bcrypt does not take is wrong."""
    compared: list[str] = []
    compare = bcrypt.checkpw

    def noting(password: bytes, hashed: bytes) -> bool:
        compared.append(hashed.decode())
        return bool(compare(password, hashed))

    monkeypatch.setattr(bcrypt, "checkpw", noting)
    hashes = passwords._hashes(USERS, "alice")
    assert passwords.is_password(b"right", *hashes)
    assert compared == hashes[:1]
    assert passwords.is_password(b"wrong", *hashes) is False
    assert compared[1:] == hashes
    assert not passwords.is_password(b"x" * 73, *passwords._hashes(USERS, "nobody"))
