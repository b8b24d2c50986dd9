"""What the controller owes, as it is held."""

import msgspec


class PredictionState(msgspec.Struct, array_like=True):
    """What the controller owes, as of the last heartbeat."""

    at: int | None = None
    """The last heartbeat; after a longer gap than usual nobody knows what was not seen in it."""
    known_since: int | None = None
    owed_since: int | None = None
    last_write_at: int | None = None
    holder: int | None = None
    """czxid of the /controller that the account is about: another controller, another account."""
    written: bool = False
    """A state was written under the current epoch since the last heartbeat."""
    leaderless_zxid: int = 0
    """The largest mzxid of a state that was written without a leader."""
    reassignments: int = 0
    """Reassignments that can go on to their end."""
    counts: dict[str, int] = {}
    ghost_reported: bool = False
    """That this controller is a zombie."""
