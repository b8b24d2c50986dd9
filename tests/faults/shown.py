"""Sample what the exporter shows, four times a second: the partitions, the cluster, and the status.

The rule: only what is served is read, each answer with its own status; it is judged later.
"""

from __future__ import annotations

import http.client
import json
import threading
import time
from typing import Any, NamedTuple

from kcm.demo.figures import TrueFigures
from kcm.demo.monitor import NAMES, figures_of_scrape
from kcm.run.exporter_client import Scrape, parse_scrape

EVERY_S = 0.25
ANSWER_DEADLINE_S = 2.0
PAGE = 1000
HTTP_OK = 200
STOP_DEADLINE_S = 5.0
LIVE = "live"


TopicAndNumber = tuple[str, int]


class Shown(NamedTuple):
    """One partition as shown."""

    version: int | None
    leader: int | None
    isr: tuple[int, ...] | None


class Sample(NamedTuple):
    """What was shown at one moment; `partitions` and `cluster` are None without an answer."""

    at: float
    """When it was requested, in seconds since 1970."""
    until: float
    """When the next sample was due."""
    status: str
    """The best status of the sample's answers: a figure is stale under `live` if any answer had that status."""
    partitions: dict[TopicAndNumber, Shown] | None = None
    controller: int | None = None
    epoch: int | None = None
    brokers: tuple[int, ...] = ()

    @property
    def live(self) -> bool:
        """Whether the status was `live`."""
        return self.status == LIVE


class Sampler:
    """Queries the exporter repeatedly in a separate thread."""

    def __init__(self, url: str, cluster: str) -> None:
        """Describe the reader; `url` is the exporter's address."""
        self.samples: list[Sample] = []
        self._address = url.removeprefix("http://")
        self._cluster = cluster
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sampler", daemon=True)

    def start(self) -> None:
        """Start; the exporter need not be up yet."""
        self._thread.start()

    def close(self) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join(STOP_DEADLINE_S)

    def since(self, at: float) -> list[Sample]:
        """Return the samples from a time on."""
        return [sample for sample in list(self.samples) if sample.at >= at]

    def forget(self, before: float) -> None:
        """Drop the samples before a time."""
        self.samples = self.since(before)

    def sample(self) -> Sample:
        """Take one sample now."""
        began = time.time()
        try:
            cluster = self._get(f"/api/v1/clusters/{self._cluster}")
            page = self._get(f"/api/v1/clusters/{self._cluster}/partitions?limit={PAGE}")
        except (OSError, http.client.HTTPException, ValueError) as error:
            return Sample(began, began + EVERY_S, f"no answer ({type(error).__name__})")
        statuses = [str(each["completeness"]["status"]) for each in (cluster, page)]
        if page["next"] is not None:
            raise AssertionError(f"more than {PAGE} partitions")
        return Sample(
            began,
            began + EVERY_S,
            LIVE if LIVE in statuses else statuses[0],
            {(each["topic"], each["partition"]): _shown(each) for each in page["partitions"]},
            cluster["controller"]["id"],
            cluster["controller"]["epoch"],
            tuple(cluster["brokers_live"]),
        )

    def figures(self) -> TrueFigures | None:
        """Return the counts of /metrics; None while nothing is shown."""
        try:
            scrape = self.metrics(*NAMES)
        except (OSError, http.client.HTTPException, ValueError):
            return None
        return figures_of_scrape(scrape)

    def metrics(self, *names: str) -> Scrape:
        """Return samples of /metrics."""
        return parse_scrape(self._text("/metrics"), self._cluster, names)

    def _run(self) -> None:
        while not self._stop.is_set():
            sample = self.sample()
            self._stop.wait(max(0.0, sample.until - time.time()))
            self.samples.append(sample._replace(until=time.time()))

    def _get(self, path: str) -> Any:
        return json.loads(self._text(path))

    def _text(self, path: str) -> str:
        connection = http.client.HTTPConnection(self._address, timeout=ANSWER_DEADLINE_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read().decode()
        finally:
            connection.close()
        if answer.status != HTTP_OK:
            raise ValueError(f"{path}: {answer.status} {body[:200]}")
        return body


def _shown(partition: Any) -> Shown:
    isr = partition["isr"]
    return Shown(
        partition["partition_epoch"], partition["leader"], None if isr is None else tuple(isr)
    )
