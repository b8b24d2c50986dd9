"""Compares passwords: clients take turns, and a user who does not exist takes as long as one who does.

bcrypt intentionally takes as long as its cost says. So one thread compares one password after the
other, and what was right is remembered. Of clients that wait, the one that was served least has the next turn:
who guesses waits behind its own guesses, and delays another client by one comparison.
"""

import asyncio
import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from contextlib import suppress

from web.connections import MAX_CONNECTIONS

COMPARED_TIMEOUT_S = 10.0
"""How long a request waits for its password to be compared; after that, its client is to ask again."""
_NOBODY = "DUbBkQhRBGwxddf2IJdym.YCvPvhXbnuIpY1MGUHF.8d/TK9.gX1m"
"""Salt and hash for comparisons that are made only because they take time."""


class BusyError(Exception):
    """A password could not be compared in time."""


class _Comparison:
    """A password that waits for its turn."""

    def __init__(self, client: str, turn: int, hashes: list[str], password: bytes) -> None:
        self.client, self.turn, self.hashes, self.password = client, turn, hashes, password
        self.asking = 0
        """How many requests wait for it."""
        self.right: asyncio.Future[bool] = asyncio.get_running_loop().create_future()


class Passwords:
    """The passwords of requests, compared and remembered.

    A comparison stays when its request was told to ask again, and the next request finds its result. So
    a right password is let in, at the latest, when what its client had asked before is compared.
    """

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._known: set[bytes] = set()
        self._waiting: dict[tuple[str, bytes], _Comparison] = {}
        """In the order of their arrival; with the one that is being compared."""
        self._turn = 0
        self._worker: asyncio.Task[None] | None = None

    async def match(
        self,
        users: Mapping[str, str],
        header: str | None,
        client: str,
        left: asyncio.Future[None] | None,
    ) -> str | None:
        """Return the user whose password an Authorization header holds; None if it does not.

        Raise BusyError if that is not known in time, or when the client has `left`. `client` is the key by which
        clients take turns.
        """
        scheme, _, coded = (header or "").partition(" ")
        try:
            name, colon, password = base64.b64decode(coded, validate=True).partition(b":")
            user = name.decode()
        except (binascii.Error, ValueError):
            return None
        if scheme.lower() != "basic" or not colon:
            return None
        hashes = _hashes(users, user)
        seal = hmac.digest(
            self._key, b"\0".join((name, hashes[0].encode(), password)), hashlib.sha256
        )
        if seal in self._known:
            return user
        comparison = self._waiting.get((client, seal)) or self._add(client, seal, hashes, password)
        comparison.asking += 1
        try:
            ends = (comparison.right, left) if left is not None else (comparison.right,)
            await asyncio.wait(
                ends, timeout=COMPARED_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            comparison.asking -= 1
        if not comparison.right.done():
            raise BusyError
        return user if comparison.right.result() and user in users else None

    def _add(self, client: str, seal: bytes, hashes: list[str], password: bytes) -> _Comparison:
        """Add a comparison; where there are too many, the newest that nobody asks for goes."""
        if len(self._waiting) >= MAX_CONNECTIONS:
            newest_first = reversed(self._waiting.items())
            unasked = next((key for key, each in newest_first if not each.asking), None)
            if unasked is None:
                raise BusyError
            del self._waiting[unasked]
        turns = (each.turn + 1 for each in self._waiting.values() if each.client == client)
        comparison = _Comparison(client, max(turns, default=self._turn), hashes, password)
        self._waiting[client, seal] = comparison
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._compare())
        return comparison

    async def _compare(self) -> None:
        """Compare one password after the other until none waits."""
        while self._waiting:
            key, comparison = min(self._waiting.items(), key=lambda item: item[1].turn)
            self._turn = comparison.turn
            try:
                right = await asyncio.to_thread(
                    is_password, comparison.password, *comparison.hashes
                )
            finally:
                self._waiting.pop(key, None)
            if right:
                self._known.add(key[1])
            comparison.right.set_result(right)


def _hashes(users: Mapping[str, str], user: str) -> list[str]:
    """Return a user's hash, and those that make a wrong password take as long as the highest cost of the file.

    A comparison of cost N takes twice as long as one of cost N - 1: so one of N, and one each of N, N + 1,
    ..., M - 1 take together as long as one of M.
    """
    costs = {name: int(hashed.split("$")[2]) for name, hashed in users.items()}
    highest = max(costs.values())
    cost = costs.get(user, highest)
    own = users.get(user, f"$2b${highest:02}${_NOBODY}")
    return [own, *(f"$2b${each:02}${_NOBODY}" for each in range(cost, highest))]


def is_password(password: bytes, hashed: str, *others: str) -> bool:
    """Return whether a password has a hash; a wrong one is compared with the others as well."""
    import bcrypt  # noqa: PLC0415  # only where passwords are required

    with suppress(ValueError):  # too long for bcrypt
        if bcrypt.checkpw(password, hashed.encode()):
            return True
        for other in others:
            bcrypt.checkpw(password, other.encode())
    return False
