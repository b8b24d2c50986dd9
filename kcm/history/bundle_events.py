"""Collect the events of an incident from <prefix>.events, and report what is missing.

They are the pipeline's own events, as published at the time; a replay of the bundle's log
may group some of them differently. An event that a batch published twice is taken once.
"""

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.records.event_records import EventId, decode_event, encode_event
from kcm.cli.text import time_text


class IncidentEvents:
    """Takes the topic's messages in order, and keeps the events of the incident."""

    def __init__(self, cluster: str, *, from_ms: int, to_ms: int) -> None:
        self.kept: list[bytes] = []
        self._cluster = cluster
        self._from_ms = from_ms
        self._to_ms = to_ms
        self._highest: EventId | None = None
        self._earliest: int | None = None
        self._lineages: set[str] = set()
        self._unreadable = 0

    def add_message(self, message: bytes) -> None:
        """Take one message."""
        try:
            record = decode_event(message)
        except UnreadableRecordError:
            self._unreadable += 1
            return
        is_again = self._highest is not None and record.id <= self._highest
        if record.cluster != self._cluster or is_again:
            return
        self._highest = record.id
        at = record.event.at
        self._earliest = at if self._earliest is None else min(at, self._earliest)
        if self._from_ms <= at <= self._to_ms:
            self._lineages.add(record.id.lineage)
            self.kept.append(encode_event(record))

    def missing(self, topic: str, *, is_cut: bool) -> list[str]:
        """Return what is missing; `is_cut`: retention has deleted records from the topic."""
        missing = []
        if self._earliest is None:
            missing.append(f"{topic} has no event of the cluster: the fold has published none")
        elif is_cut and self._earliest > self._from_ms:
            earliest = time_text(self._earliest)
            missing.append(f"events before {earliest} are gone: the topic's retention took them")
        if self._unreadable:
            missing.append(f"{self._unreadable} events cannot be read")
        if len(self._lineages) > 1:
            missing.append(
                f"the events are of {len(self._lineages)} lineages: a later one publishes again what "
                "an earlier one published"
            )
        return missing
