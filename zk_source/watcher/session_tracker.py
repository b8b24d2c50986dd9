"""Tracks the session's state as heartbeats report it: whether the log follows the cluster now.

For readers a session is CONNECTED from the start of a resync on it, not from the moment
kazoo has a socket. Before that, and after watches were lost on a live connection, the reported
state remains the last one in which no event was handled.
"""

from controller_model.records.changes import SessionState


class SessionTracker:
    """The connection's state, and the reported session state with its time."""

    def __init__(self, now_ms: int) -> None:
        self.connected = False
        self.server = ""
        self.state = SessionState.LOST
        self.since_ms = now_ms
        """Since when the session is CONNECTED, or is not."""
        self._down_since_ms = now_ms

    @property
    def watching(self) -> bool:
        """Whether events are being read and published."""
        return self.state is SessionState.CONNECTED

    def connection_up(self, server: str) -> None:
        """Note a connection; no event is handled yet."""
        self.connected = True
        self.server = server

    def connection_down(self, state: SessionState, now_ms: int, *, silent_ms: int = 0) -> None:
        """Note that the connection (SUSPENDED) or the session (LOST) is gone, after a silence of so long."""
        if self.connected:
            self._down_since_ms = now_ms
        self.connected = False
        self.report(state, now_ms - silent_ms)

    def watches_lost(self, now_ms: int) -> None:
        """Note that events were missed on a live connection."""
        if self.watching:
            self.report(SessionState.SUSPENDED, now_ms)

    def down_ms(self, now_ms: int) -> int:
        """Return for how many ms there has been no connection, while there is none."""
        return now_ms - self._down_since_ms

    def down_again(self, now_ms: int) -> None:
        """Count again from now: a new client tries to connect."""
        self._down_since_ms = now_ms

    def report(self, state: SessionState, since_ms: int) -> None:
        """Report this state from now on: CONNECTED when a resync begins.

        A session that is suspended and then lost has followed the cluster until it was suspended.
        """
        if (state is SessionState.CONNECTED) is not self.watching:
            self.since_ms = since_ms
        self.state = state
