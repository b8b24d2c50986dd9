"""Select the warnings from the parts' logs, for the one console of `kcm up`.

A log is complete in its file, and the console gets what a user must see. The same warning
is shown once in a while: a server that is down for an hour must not scroll everything away.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from controller_model.records.decoding import DECODING_ERRORS

REPEAT_AFTER_S = 60.0
"""How soon the same warning of the same part is shown again."""
MAX_READ_BYTES = 1 << 20
"""How much of a log is read at once: more than a part writes between two readings."""
_IMPORTANT = {"warning", "error", "critical"}
_NOT_SHOWN = {"event", "level", "timestamp", "part", "exception", "stack"}


class LogFollower:
    """The important lines of one part's log, from its current end on."""

    def __init__(
        self, part: str, path: Path, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._part = part
        self._path = path
        self._clock = clock
        self._position = path.stat().st_size if path.exists() else 0
        self._rest = b""
        self._shown: dict[str, float] = {}

    def news(self) -> Iterator[str]:
        """Yield the important lines that were written since the last call."""
        for line in self._lines():
            entry = _entry(line)
            if entry is None or entry.get("level") not in _IMPORTANT:
                continue
            event = str(entry.get("event", ""))
            now = self._clock()
            if now - self._shown.get(event, -REPEAT_AFTER_S) >= REPEAT_AFTER_S:
                self._shown[event] = now
                named = (f"{key}={value}" for key, value in entry.items() if key not in _NOT_SHOWN)
                details = ", ".join(named)
                yield f"{self._part}: {event}{f' ({details})' if details else ''}"

    def _lines(self) -> list[bytes]:
        try:
            with self._path.open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                if size < self._position:  # it grew too long and was moved aside
                    self._position = 0
                    self._rest = b""
                log.seek(self._position)
                new = log.read(MAX_READ_BYTES)
        except OSError:
            return []
        self._position += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        return lines


def _entry(line: bytes) -> dict[str, Any] | None:
    """Return a log line of kcm's parts; None for a line of another program."""
    if not line.startswith(b"{"):
        return None
    try:
        entry: dict[str, Any] = json.loads(line)
    except DECODING_ERRORS:
        return None
    return entry
