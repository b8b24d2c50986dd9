"""Measure when a change is shown: in a scrape, and in the topic of views, read without the monitor's own readers."""

from __future__ import annotations

import http.client
import re
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from confluent_kafka import Consumer, TopicPartition

from bench import machine
from bench.znodes import Written
from controller_model.kafka import ids
from controller_model.records.views import ClusterView, TopicView, decode_view
from kcm.run.pipeline_processes import Pipeline

SCRAPE_PAUSE_S = 0.025
"""Seconds between scrapes of one change: adds half of itself to each figure."""
STORM_SCRAPE_PAUSE_S = 0.1
"""Seconds between scrapes of a storm. At 25 ms, and with fetches that wait 5 ms, measuring took half a second of the processor time of a kill."""
FETCH_WAIT_MS = 100
"""How long Kafka may delay a fetch without records; one with records it answers at once. Shorter waits keep it busy."""
ANSWER_DEADLINE_S = 10.0
POLL_S = 0.05
AFTER_S = 0.5  # for the reader of views, which may lag behind the exporter

T = TypeVar("T")


class Reached:
    """Records when a rising count first reached each value."""

    def __init__(self) -> None:
        self.reached = 0
        self._times: list[float] = []

    def note(self, count: int, now: float) -> None:
        """Record a newer value of the count."""
        if count > self.reached:
            self._times += [now] * (count - self.reached)
            self.reached = count

    def when_reached(self, count: int) -> float | None:
        """Return when the count first was at least this value; None if it never was."""
        return self._times[count - 1] if count <= len(self._times) else None


class Scraper(threading.Thread, Reached):
    """Polls /metrics on one connection; `count` returns the count in a body, None where it has none."""

    def __init__(
        self,
        url: str,
        count: Callable[[str], int | None],
        stop: threading.Event,
        *,
        pause_s: float = SCRAPE_PAUSE_S,
    ) -> None:
        threading.Thread.__init__(self, daemon=True)
        Reached.__init__(self)
        self._address = url.removeprefix("http://")
        self._count = count
        self._stop_polling = stop
        self._pause_s = pause_s

    def run(self) -> None:
        """Scrape until asked to stop."""
        connection = http.client.HTTPConnection(self._address, timeout=ANSWER_DEADLINE_S)
        while not self._stop_polling.is_set():
            try:
                connection.request("GET", "/metrics")
                body = connection.getresponse().read().decode()
            except (OSError, http.client.HTTPException):  # it may be starting
                connection.close()
                body = ""
            count = self._count(body)
            if count is not None:
                self.note(count, time.time())
            time.sleep(self._pause_s)
        connection.close()


class TopicReader(threading.Thread):
    """Reads a topic's first partition from its end on, and passes on each value with its time."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic: str,
        take: Callable[[bytes, float], None],
        stop: threading.Event,
    ) -> None:
        super().__init__(daemon=True)
        self.ready = threading.Event()
        self.moved = 0
        """How far the topic's end has moved."""
        self._topic = topic
        self._take = take
        self._stop_reading = stop
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "bench",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": FETCH_WAIT_MS,
            }
        )

    def run(self) -> None:
        """Read until asked to stop."""
        partition = TopicPartition(self._topic, 0)
        end = self._consumer.get_watermark_offsets(partition, timeout=ANSWER_DEADLINE_S)[1]
        self._consumer.assign([TopicPartition(self._topic, 0, end)])
        self.ready.set()
        while not self._stop_reading.is_set():
            message = self._consumer.poll(0.2)
            if message is None or message.error():
                continue
            now, value = time.time(), message.value()
            self.moved = (message.offset() or 0) + 1 - end
            if value is not None:
                self._take(value, now)
        self._consumer.close()


def observed(
    pipeline: Pipeline,
    count: Callable[[str], int | None],
    least: int,
    begin: Callable[[], T],
    *,
    deadline_s: float,
) -> tuple[T, list[tuple[float, bytes]], Scraper]:
    """Begin a storm; return what `begin` did, the views, and the scrapes, until the count reached `least`."""
    stop = threading.Event()
    views: list[tuple[float, bytes]] = []
    scraped = Scraper(pipeline.exporter_url, count, stop, pause_s=STORM_SCRAPE_PAUSE_S)
    reader = TopicReader(
        pipeline.bootstrap_servers, "kcm.views", lambda value, now: views.append((now, value)), stop
    )
    scraped.start()
    reader.start()
    reader.ready.wait()
    done = begin()
    deadline = time.monotonic() + deadline_s
    while scraped.reached < least and time.monotonic() < deadline:
        time.sleep(POLL_S)
    time.sleep(AFTER_S)
    stop.set()
    scraped.join()
    reader.join()
    return done, views, scraped


def value_of(metric: str, **labels: str) -> Callable[[str], int | None]:
    """Return a function that finds a metric's value in a scrape; None where it has none."""
    named = ",".join(f'{name}="{value}"' for name, value in labels.items())
    pattern = re.compile(rf"^{metric}{{{named}}} (\S+)$", re.MULTILINE)

    def count(body: str) -> int | None:
        found = pattern.search(body)
        return int(float(found.group(1))) if found else None

    return count


def leaders_of(broker: int, cluster: str) -> Callable[[str], int | None]:
    """Return a function that finds in a scrape how many partitions the broker leads."""
    return value_of("kafka_broker_leaders", cluster=cluster, broker=str(broker))


def when_shown(
    views: Iterable[tuple[float, bytes]], written: Mapping[ids.TopicPartition, Written]
) -> dict[ids.TopicPartition, float]:
    """Return when readers had each partition as written, or newer; a partition that never came is absent.

    Readers switch to a batch when its last view, the cluster's, has arrived.
    """
    shown: dict[ids.TopicPartition, float] = {}
    arrived: set[ids.TopicPartition] = set()
    for now, value in views:
        view = decode_view(value)
        if isinstance(view, TopicView):
            for number, version in zip(view.partitions, view.partition_epoch, strict=True):
                partition = ids.TopicPartition(view.name, number)
                write = written.get(partition)
                if write is not None and version is not None and version >= write.version:
                    arrived.add(partition)
        elif isinstance(view, ClusterView):
            for partition in arrived:
                shown.setdefault(partition, now)
            arrived.clear()
    return shown


def storm_result(
    written: Mapping[ids.TopicPartition, Written],
    shown: Mapping[ids.TopicPartition, float],
    scraped: Reached,
) -> dict[str, Any]:
    """Return the result of a storm: counts by scrapes, and times for each partition by the views."""
    times = sorted(write.at for write in written.values())
    half = max(1, len(times) // 2)
    delays = [
        shown[partition] - write.at for partition, write in written.items() if partition in shown
    ]
    return {
        "written_per_s": round(len(times) / max(times[-1] - times[0], 0.001)),
        "tail_s": _after(scraped.when_reached(len(times)), times[-1]),
        "half_s": _after(scraped.when_reached(half), times[half - 1]),
        "partition_p50_s": _percentile(delays, 50),
        "partition_p99_s": _percentile(delays, 99),
        "partition_max_s": _percentile(delays, 100),
        "never_shown": len(written) - len(delays),
    }


def medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Return the median of each figure over the runs; None where a run lacks it."""
    columns = {name: [run[name] for run in runs] for name in (runs[0] if runs else ())}
    return {
        name: None if None in values else machine.percentile(values, 50)
        for name, values in columns.items()
    }


def _after(shown: float | None, wrote: float) -> float | None:
    return None if shown is None else round(shown - wrote, 3)


def _percentile(values: list[float], percent: float) -> float | None:
    return round(machine.percentile(values, percent), 3) if values else None
