"""Writes text in a thread of its own: a pipe that nobody reads, or a disk that hangs, delays nobody who writes.

The rule: `write` never waits. What does not fit into the bounded queue is lost and counted, and so is what the
file refuses, as on a full disk. A line that says how many were lost precedes the next text that finds room.
"""

import io
import threading
from collections import deque
from collections.abc import Callable
from typing import TextIO

MAX_WAITING = 4 << 20
"""How many characters may wait: some 10,000 lines, minutes of a part whose servers are all away."""


class QueuedFile(io.TextIOBase):
    """A text file that takes what is written at once, and passes it to `file` in order."""

    def __init__(
        self, file: TextIO, lost: Callable[[int], str], *, max_waiting: int = MAX_WAITING
    ) -> None:
        """Start the thread. `lost` returns the line that says how many lines were lost."""
        super().__init__()
        self.file = file
        self.lost_lines = 0
        """How many lines were lost since the start."""
        self._lost = lost
        self._max_waiting = max_waiting
        self._texts: deque[tuple[int, str]] = deque()
        """What waits, each text with how many lines before it found no room."""
        self._had_no_room = 0
        self._waiting = 0
        """Characters that are not in the file yet: those in the queue, and those that are being written."""
        self._is_ending = False
        # Its lock lets a finalizer write in the midst of a write.
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def write(self, text: str) -> int:
        """Add text to what is to be written; lose it if too much waits already."""
        if not isinstance(text, str):
            raise TypeError(f"a text is needed, not {type(text).__name__}")
        with self._changed:
            if self._waiting and self._waiting + len(text) > self._max_waiting:
                self._had_no_room += text.count("\n")
                self.lost_lines += text.count("\n")
            else:
                self._put(text)
        return len(text)

    def finish(self, limit_s: float) -> bool:
        """Wait up to this many seconds until all is written, and end the thread; return whether all was."""
        with self._changed:
            self._put("")
            self._is_ending = True
        self._thread.join(limit_s)
        return not self._thread.is_alive()

    def isatty(self) -> bool:
        """Return whether a person reads it."""
        return self.file.isatty()

    def fileno(self) -> int:
        """Return the file's number, for what writes to it directly."""
        return self.file.fileno()

    def _put(self, text: str) -> None:
        self._texts.append((self._had_no_room, text))
        self._had_no_room = 0
        self._waiting += len(text)
        self._changed.notify()

    def _run(self) -> None:
        unsaid = 0
        while True:
            with self._changed:
                while not self._texts:
                    if self._is_ending:
                        return
                    self._changed.wait()
                lost, text = self._texts.popleft()
            unsaid += lost
            failed = 0
            try:
                self.file.write((self._lost(unsaid) if unsaid else "") + text)
                self.file.flush()
                unsaid = 0
            except (OSError, ValueError):  # the disk is full, or the file is closed
                failed = text.count("\n")
                unsaid += failed
            with self._changed:
                self._waiting -= len(text)
                self.lost_lines += failed
