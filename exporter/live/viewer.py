"""Keep for one open page which message of each kind was sent, and which is to be sent next.

The rule: a viewer has one slot for each kind of message, and a newer message replaces one that was not sent
yet. So a slow viewer skips states and never builds up a queue.
"""

import asyncio


class Viewer:
    """One open page; used by the server's event loop only."""

    def __init__(
        self, cluster: str | None, client: str | None = None, *, is_packed: bool = False
    ) -> None:
        self.cluster = cluster
        """The cluster that it asks for; None: the only one there is, or none."""
        self.client = client
        """The network address that its connection is counted by; None: not known."""
        self.is_packed = is_packed
        """The client accepts gzip."""
        self.ended = False
        self.news = asyncio.Event()
        """Set when there is something to send, or the stream is to end."""
        self.is_new = True
        """Whether no message was offered yet."""
        self._offered: dict[str, bytes] = {}
        self._next: dict[str, bytes] = {}

    def offer(self, kind: str, message: bytes) -> None:
        """Put a message in the slot of its kind, unless it was offered already."""
        self.is_new = False
        if self._offered.get(kind) is not message:
            self._offered[kind] = message
            self._next[kind] = message
            self.news.set()

    def take(self) -> bytes:
        """Return the messages to send now, and empty the slots."""
        taken = b"".join(self._next.values())
        self._next.clear()
        self.news.clear()
        return taken

    def end(self) -> None:
        """Ask the stream to end."""
        self.ended = True
        self.news.set()
