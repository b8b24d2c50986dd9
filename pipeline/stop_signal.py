"""The request to stop a part, and with it when the part's main loop turned last.

The rule: whatever the main loop does, it asks in every turn whether it is to stop, also while it waits for a server.
So a main loop that has not asked for long hangs. Other threads ask only for the age of the last turn.
"""

import threading
import time


class StopSignal(threading.Event):
    """Set when the part is to stop; asked by its main loop, and by no other thread."""

    def __init__(self) -> None:
        super().__init__()
        self.turned()

    def turned(self) -> None:
        """Note that the main loop turns, where it does something long that is watched otherwise."""
        self._turned_at = time.monotonic()

    @property
    def age_s(self) -> float:
        """Seconds since the main loop's last turn, without the time in which the machine slept."""
        return time.monotonic() - self._turned_at

    def is_set(self) -> bool:
        """Return whether to stop."""
        self.turned()
        return super().is_set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait for the request to stop, up to `timeout` seconds; return whether to stop."""
        self.turned()
        is_set = super().wait(timeout)
        self.turned()
        return is_set
