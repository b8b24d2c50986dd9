"""Read what the monitor shows: its exporter's /metrics, many times a second as Prometheus would.

Only what is served is read, never the pipeline's internals.
"""

import time
from collections.abc import Mapping
from typing import Any

import httpx

from kcm.demo.figures import Counts, Observations, TrueFigures
from kcm.run.exporter_client import (
    ANSWER_DEADLINE_S,
    CONTROLLER,
    EPOCH,
    STATUS,
    Scrape,
    label_of,
    parse_scrape,
    whole,
)
from pipeline.supervised_thread import SupervisedThread

POLL_S = 0.015  # the resolution of the delays that are shown, at a tenth of one processor
EVENTS_POLL_S = 1.0  # events are for display only
EVENTS_SHOWN = 6
STOP_DEADLINE_S = 5.0
ELECTIONS = "kafka_controller_elections_total"
CLUSTER_METRICS = {
    "controller": CONTROLLER,
    "topics": "kafka_cluster_topics",
    "partitions": "kafka_cluster_partitions",
    "offline": "kafka_cluster_offline_partitions",
    "under_replicated": "kafka_cluster_under_replicated_partitions",
    "imbalance": "kafka_cluster_preferred_replica_imbalance",
}
KRAFT_METRICS = {
    "elr": "kafka_cluster_elr_partitions",
    "empty_isr": "kafka_cluster_empty_isr_partitions",
    "under_min_isr": "kafka_cluster_under_min_isr_partitions",
    "voters": "kafka_quorum_voters",
}
FENCED = "kafka_broker_fenced"
UNCLEAN = "kafka_controller_unclean_leader_elections_total"
CANDIDACIES = "kafka_quorum_candidacies_total"
CONTROLLER_LAG = "kafka_quorum_replica_lag_records"
BROKER_LAG = "kafka_broker_metadata_lag_records"
REPLICA_LAGS = (CONTROLLER_LAG, BROKER_LAG)
"""Of each replica of the metadata log that DescribeQuorum lists."""
BROKER_METRICS = {
    "live": "kafka_broker_live",
    "leaders": "kafka_broker_leaders",
    "not_led": "kafka_broker_preferred_not_led",
}
LAST_VACANCY = "kafka_controller_last_vacancy_at_most_seconds"
"""Shown on the screen, but not compared: its bounds depend on what was seen of the vacancy."""

NAMES = {
    STATUS,
    EPOCH,
    ELECTIONS,
    LAST_VACANCY,
    FENCED,
    UNCLEAN,
    CANDIDACIES,
    *REPLICA_LAGS,
    *CLUSTER_METRICS.values(),
    *BROKER_METRICS.values(),
    *KRAFT_METRICS.values(),
}


def figures_of_scrape(scrape: Scrape, *, base: Scrape | None = None) -> TrueFigures | None:
    """Return the served figures; None while the cluster is not served at all.

    `base` is the scrape from before the first step, from which elections are counted; None before
    that. A missing sample is -1, which the truth never is; only the epoch may be unknown.
    """
    if (CONTROLLER, "") not in scrape:
        return None

    def counted(name: str) -> int | None:
        if base is None:
            return None
        return int(scrape.get((name, ""), -1)) - int(base.get((name, ""), -1))

    metrics = CLUSTER_METRICS
    kraft: dict[str, Any] = {}
    if (CANDIDACIES, "") in scrape:
        metrics = metrics | KRAFT_METRICS
        kraft = {
            "fenced": tuple(sorted(int(b) for (n, b), v in scrape.items() if n == FENCED and v)),
            "unclean": counted(UNCLEAN),
            "candidacies": counted(CANDIDACIES),
        }
    cluster: dict[str, Any] = {
        field: int(scrape.get((name, ""), -1)) for field, name in metrics.items()
    }
    brokers: dict[str, Counts] = {
        field: tuple(
            sorted((int(broker), int(v)) for (n, broker), v in scrape.items() if n == name and v)
        )
        for field, name in BROKER_METRICS.items()
    }
    return TrueFigures(
        **cluster,
        epoch=whole(scrape, EPOCH),
        elections=counted(ELECTIONS),
        brokers=tuple(broker for broker, _ in brokers["live"]),
        leaders=brokers["leaders"],
        not_led=brokers["not_led"],
        **kraft,
    )


class Monitor:
    """The exporter's figures of one cluster, polled on one connection in a separate thread."""

    def __init__(self, url: str, cluster: str) -> None:
        self.observations = Observations()
        self.scrape: Scrape = {}
        self.events: list[Mapping[str, Any]] = []
        """The newest first."""
        self._client = httpx.Client(
            base_url=url,
            headers={"Accept-Encoding": "identity"},
            timeout=ANSWER_DEADLINE_S,
            trust_env=False,
        )
        self._events_due = 0.0
        self._cluster = cluster
        self._problem = "not polled yet"
        """Why the last poll failed; empty when it did not."""
        self._base: Scrape | None = None
        self._thread = SupervisedThread("monitor", self._poll, every_s=POLL_S)

    @property
    def status(self) -> str:
        """The monitor's own status of its figures now: `live` is good, empty is unknown.

        Raises the exception that ended the polling, if one did.
        """
        self._thread.check()
        return self._problem or label_of(self.scrape, STATUS) or ""

    def start(self) -> None:
        """Start to poll; the exporter need not be up yet."""
        self._thread.start()

    def close(self) -> None:
        """Stop polling."""
        self._thread.close(STOP_DEADLINE_S)
        self._client.close()

    def begin(self) -> None:
        """Count elections from the counters' current values."""
        self._base = self.scrape

    def _poll(self) -> None:
        try:
            answer = self._client.get("/metrics").raise_for_status()
            now = time.monotonic()
            self.scrape = parse_scrape(answer.text, self._cluster, NAMES)
            figures = figures_of_scrape(self.scrape, base=self._base)
            self._problem = f"cluster {self._cluster} is not shown yet" if figures is None else ""
            if figures is None:
                return
            self.observations.add(now, figures)
            if now >= self._events_due:
                self._events_due = now + EVENTS_POLL_S
                shown = self._client.get(f"/api/v1/clusters/{self._cluster}").raise_for_status()
                self.events = shown.json()["events"][:EVENTS_SHOWN]
        except httpx.HTTPError as error:
            self._problem = str(error)
