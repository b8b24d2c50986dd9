"""What `kcm look` folded, and the same records folded by the processor that Spark runs."""

from __future__ import annotations

import queue
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from controller_model.kafka.ids import AsOf
from controller_model.records.views import AnyView, Deleted, WatcherBeat, decode_view
from controller_model.state.control_plane import Assumed
from kcm.run.look_topics import LookTopics
from pipeline.topic_records import Record
from streaming.processor import FoldParameters, FoldProcessor

NO_PLACE = AsOf("", 0, 0)


class _NotedQueue(queue.SimpleQueue[tuple[str, bytes, bytes]]):
    """Keeps each message of the log that is put."""

    def __init__(self, noted: NotedTopics) -> None:
        self._noted = noted

    def put(self, item: tuple[str, bytes, bytes], *about: Any) -> None:
        """Put a message of the log, or a beat."""
        topic, _key, value = item
        if topic == self._noted.ensured.names.changes:
            self._noted.messages.append(value)
        super().put(item, *about)


class NotedTopics(LookTopics):
    """Keeps each message of the log, and each record that the exporter gets."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self.messages: list[bytes] = []
        self.records: list[Record] = []
        self.waiting = _NotedQueue(self)

    def feed(self) -> list[Record]:
        """Fold what waits."""
        records = super().feed()
        self.records += records
        return records

    def views(self) -> dict[str, AnyView]:
        """Return the views that the exporter was given."""
        names = self.ensured.names
        given = [each for each in self.records if each.topic == names.views]
        return without_places((str(each.key, "utf-8"), each.value) for each in given if each.key)


def processed(cluster: str, messages: Sequence[bytes], assumed: Assumed) -> dict[str, AnyView]:
    """Fold messages of the log by Spark's processor, all as one batch; return the views."""
    parameters = FoldParameters("spark", "v", "e", 1, assumed)
    tester = TwsTester(FoldProcessor(parameters, clock=lambda: 0))
    rows = [
        Row(cluster=cluster, partition=0, offset=offset, timestamp_ms=0, value=message)
        for offset, message in enumerate(messages)
    ]
    *out, counts = tester.test(cluster, rows)
    assert (counts.unreadable, counts.errors) == (0, 0)
    return without_places((row.key, row.value) for row in out if row.topic == "v")


def without_places(views: Iterable[tuple[str, bytes | None]]) -> dict[str, AnyView]:
    """Return the last view of each key, without where and when its batch ended; beats left out."""
    held: dict[str, AnyView] = {}
    for key, value in views:
        view = decode_view(bytes(value)) if value is not None else None
        if view is None or isinstance(view, Deleted):
            held.pop(key, None)
        elif not isinstance(view, WatcherBeat):
            timed = {"folded_at": 0} if hasattr(view, "folded_at") else {}
            held[key] = replace(view, as_of=NO_PLACE, **timed)
    return held
