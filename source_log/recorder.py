"""Numbers and dates the records of one watcher, and keeps what its heartbeats say of the log.

A record gets its seq when it is made, and is published in that order. No clock: the caller
passes times.
"""

from typing import Any

from controller_model.records.changes import VERSION
from source_log.generation_fencing import Generations


class LogRecorder:
    """Makes the headers of one watcher's records, in order. A source's recorder adds what it has read."""

    def __init__(self, cluster: str, generations: Generations) -> None:
        self.cluster = cluster
        self.generations = generations
        self.dropped = 0
        """Changes dropped since the watcher started, because they could not be buffered."""
        self.clock_ahead_ms = 0
        """How far this machine's clock was set forward since the watcher started, in ms. Decisions
        run on the steady clock, the log carries the machine's."""

    def next_header(self, now_ms: int) -> dict[str, Any]:
        """Return the fields that every record carries, whatever its source is, for the next one."""
        ours = self.generations
        ours.seq += 1
        return {
            "v": VERSION,
            "cluster": self.cluster,
            "generation": ours.generation,
            "watcher": ours.name,
            "seq": ours.seq,
            "observed_at": now_ms + self.clock_ahead_ms,
        }
