"""What the fold's state holds of the writes that are due from the controller."""

import msgspec


class PredictionState(msgspec.Struct, array_like=True):
    """What is due from the controller, as of the last heartbeat."""

    at: int | None = None
    """The last heartbeat; after a longer gap than usual it is not known what happened in the gap."""
    known_since: int | None = None
    owed_since: int | None = None
    last_write_at: int | None = None
    holder: int | None = None
    """czxid of the /controller to which these values apply; a new controller starts new ones."""
    written: bool = False
    """A state was written under the current epoch since the last heartbeat."""
    leaderless_zxid: int = 0
    """The largest mzxid of a state that was written without a leader."""
    reassignments: int = 0
    """Reassignments that the controller can complete."""
    counts: dict[str, int] = {}
    ghost_reported: bool = False
    """It has been reported that this controller is a zombie."""
