"""Measure the end-to-end delay: from a write to ZooKeeper to its value in a scrape.

The scenario has a cluster of znodes on a real ZooKeeper, the whole pipeline with its shipped
settings, a plain client that changes one partition after another, and a scraper that polls
/metrics. First leaders move, which the watcher sends at once; then replicas leave ISRs, which may wait for others
(`linger_ms`). A change is shown when the broker that gains leaders leads so many partitions, or so many are
under-replicated: the count is that high only when this change and all before it are folded.
"""

from __future__ import annotations

import argparse
import re
import threading
import time
import urllib.request
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from bench import machine
from bench.figures import judged
from bench.rest import cost, used
from bench.shown import SCRAPE_PAUSE_S, Reached, Scraper, TopicReader, leaders_of, value_of
from bench.watched import CLUSTER, lingering, watched_cluster
from bench.znodes import Size, Written, ZnodeCluster
from controller_model.records.changes import ChangeKind, decode_message
from controller_model.records.views import AnyView, BrokerView, ClusterView, decode_view
from kcm.run.pipeline_processes import Pipeline

SUMMARY = "a znode is written, its value is scraped: p50 and p99, by stage (about 5 minutes)"

CHANGES = 1_000
RATE_PER_S = 10.0
WARM_UP_S = 30.0  # about 100 micro-batches until the JVM has compiled the hot paths
PARTITIONS = 10
_WARM_UP = int(WARM_UP_S * RATE_PER_S)
SIZE = Size((_WARM_UP + CHANGES) // PARTITIONS, PARTITIONS)
"""Each change of a leader has its own partition, and so has each change of an ISR."""
STRAGGLERS_S = 15.0
NEW_LEADER = 2
"""A broker that leads nothing at first."""
_WHOLE, _STATE = "kcm_fold_batch_seconds_sum", "kcm_fold_state_commit_seconds_total"
_BATCHES = re.compile(
    r'^(kcm_fold_(?:batch_seconds_(?:sum|count)|(?:stage|state_commit)_seconds_total))(?:\{stage="(\w+)"\})? (\S+)$',
    re.MULTILINE,
)


class Kind(NamedTuple):
    """A kind of change, and by which count it is seen that so many of them are shown."""

    write: Callable[[ZnodeCluster, int], Written]
    """Changes the partition of a number."""
    scraped: Callable[[str], int | None]
    """The count in a scrape; None where it has none."""
    viewed: Callable[[AnyView], int | None]
    """The same in a view."""
    warm_up: int
    """The first changes, which are not measured."""


LEADERS = Kind(
    ZnodeCluster.move,
    leaders_of(NEW_LEADER, CLUSTER),
    lambda view: view.leaders if isinstance(view, BrokerView) and view.id == NEW_LEADER else None,
    _WARM_UP,
)
ISRS = Kind(
    ZnodeCluster.shrink,
    value_of("kafka_cluster_under_replicated_partitions", cluster=CLUSTER),
    lambda view: view.counts.under_replicated if isinstance(view, ClusterView) else None,
    0,
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this scenario."""
    parser.add_argument(
        "--linger-ms", type=int, help="how long what may wait does so, where not as shipped"
    )


def measure(*, linger_ms: int | None) -> dict[str, Any]:
    """Start everything, warm up, write the changes, and return the delays in milliseconds."""
    with watched_cluster(SIZE, options=lingering(linger_ms)) as (cluster, pipeline):
        (leaders,) = follow(cluster, [Follower(pipeline)])
        (isrs,) = follow(cluster, [Follower(pipeline, ISRS)])
    figures = judged(
        delay_p50=leaders["p50_ms"],
        delay_p99=leaders["p99_ms"],
        delay_isr_p50=isrs["p50_ms"],
        delay_isr_p99=isrs["p99_ms"],
    )
    return (
        {"scenario": "delay", "figures": figures}
        | leaders
        | {"isr": isrs}
        | described(pipeline="as shipped" if linger_ms is None else f"linger_ms={linger_ms}")
    )


def described(pipeline: str = "as shipped") -> dict[str, Any]:
    """Return how it is measured, of which pipeline, and on what machine."""
    return {
        "settings": {
            "changes": CHANGES,
            "rate_per_s": RATE_PER_S,
            "warm_up_s": WARM_UP_S,
            "partitions": SIZE.partitions,
            "scrape_pause_ms": SCRAPE_PAUSE_S * 1000,
            "pipeline": pipeline,
        },
        "machine": machine.describe(),
    }


class Follower:
    """Notes when the changes of a kind reach each stage of one pipeline, and what its batches take."""

    def __init__(self, pipeline: Pipeline, kind: Kind = LEADERS) -> None:
        self.pipeline, self.kind = pipeline, kind
        self._stop = threading.Event()
        self._changes, self._views = _Changes(), _Views(kind.viewed)
        self._scraped = Scraper(pipeline.exporter_url, kind.scraped, self._stop)
        servers = pipeline.bootstrap_servers
        self._log = TopicReader(servers, "kcm.changes", self._changes.apply_record, self._stop)
        self._sent = TopicReader(servers, "kcm.views", self._views.apply_record, self._stop)
        self._before: dict[str, float] = {}
        self._cpu_before: dict[str, machine.Usage] = {}

    def start(self) -> None:
        """Read the pipeline's topics and scrape its exporter from now on."""
        self._scraped.start()
        for reader in (self._log, self._sent):
            reader.start()
            reader.ready.wait()

    def begin(self) -> None:
        """Count batches and processor time from now on."""
        self._before = batch_totals(self.pipeline)
        self._cpu_before = used(self.pipeline)

    def shows(self, count: int) -> bool:
        """Return whether a scrape has shown so many changes."""
        return self._scraped.reached >= count

    def finish(self, written: list[tuple[str, float]]) -> dict[str, Any]:
        """Stop reading; return the delays of all but the first changes, and the costs since `begin`."""
        batch = _batch(self._before, batch_totals(self.pipeline))
        cpu = cost(self._cpu_before, used(self.pipeline), CHANGES / RATE_PER_S)
        self._stop.set()
        for thread in (self._scraped, self._log, self._sent):
            thread.join()
        warm_up = self.kind.warm_up
        result = _result(written[warm_up:], warm_up, self._scraped, self._changes, self._views)
        return result | {
            "batch": batch,
            "cpu_percent": {name: costs["cpu_percent"] for name, costs in cpu.items()},
            "offsets_moved": {"kcm.changes": self._log.moved, "kcm.views": self._sent.moved},
        }


def follow(cluster: ZnodeCluster, followers: Sequence[Follower]) -> list[dict[str, Any]]:
    """Warm up, and write the changes of a kind; return what each of the pipelines made of them."""
    for follower in followers:
        follower.start()
    kind = followers[0].kind
    warm_up = kind.warm_up
    written = _write(cluster, kind, range(warm_up))
    for follower in followers:
        follower.begin()
    written += _write(cluster, kind, range(warm_up, warm_up + CHANGES))
    deadline = time.monotonic() + STRAGGLERS_S
    while time.monotonic() < deadline and not all(f.shows(warm_up + CHANGES) for f in followers):
        time.sleep(0.05)
    return [follower.finish(written) for follower in followers]


def batch_totals(pipeline: Pipeline) -> dict[str, float]:
    """Return the fold's totals over all its batches: their number, and their time by stage."""
    address = "http://{}:{}/metrics".format(*pipeline.listens_at["stream"])
    with urllib.request.urlopen(address, timeout=10) as answer:  # noqa: S310  # an address of our own
        found = _BATCHES.findall(answer.read().decode())
    return {stage or name: float(value) for name, stage, value in found}


def _batch(before: dict[str, float], after: dict[str, float]) -> dict[str, Any]:
    """Return the average times of a batch in between, by Spark's stages."""
    took = {name: value - before.get(name, 0.0) for name, value in after.items()}
    count = took.pop("kcm_fold_batch_seconds_count")
    mean_ms = {name: round(1000 * seconds / count, 1) for name, seconds in took.items()}
    whole, state = (mean_ms.pop(name) for name in (_WHOLE, _STATE))
    return {
        "batches": int(count),
        "ms": whole,
        "stages_ms": mean_ms | {"of addBatch: the state's commit": state},
    }


def _write(cluster: ZnodeCluster, kind: Kind, numbers: range) -> list[tuple[str, float]]:
    """Change partitions one after another; return (path, wall time before it)."""
    written = []
    began = time.monotonic()
    for number in numbers:
        due = began + (number - numbers.start) / RATE_PER_S
        time.sleep(max(0.0, due - time.monotonic()))
        written.append((cluster.path(number), time.time()))
        kind.write(cluster, number)
    return written


def _result(
    written: list[tuple[str, float]],
    warm_up: int,
    scraped: Scraper,
    changes: _Changes,
    views: _Views,
) -> dict[str, Any]:
    stages: dict[str, list[float]] = {"watch": [], "produce": [], "fold": [], "serve": []}
    total = []
    for index, (path, wrote) in enumerate(written):
        number = warm_up + index + 1
        observed, produced = changes.seen[path]
        folded = views.when_reached(number)
        shown = scraped.when_reached(number)
        if folded is None or shown is None:
            continue
        stages["watch"].append(observed - wrote)
        stages["produce"].append(produced - observed)
        stages["fold"].append(folded - produced)
        stages["serve"].append(shown - folded)
        total.append(shown - wrote)
    return {
        "p50_ms": _ms(total, 50),
        "p99_ms": _ms(total, 99),
        "samples": len(total),
        "lost": len(written) - len(total),
        "stages": {
            name: {"p50_ms": _ms(values, 50), "p99_ms": _ms(values, 99)}
            for name, values in stages.items()
        },
    }


def _ms(seconds: list[float], percent: float) -> float | None:
    return round(machine.percentile(seconds, percent) * 1000, 1) if seconds else None


class _Views(Reached):
    """The count of what is shown, in the topic of views."""

    def __init__(self, count: Callable[[AnyView], int | None]) -> None:
        super().__init__()
        self._count = count

    def apply_record(self, value: bytes, now: float) -> None:
        """Read a view."""
        self.note(self._count(decode_view(value)) or 0, now)


class _Changes:
    """When each path was in the log last: it is changed once."""

    def __init__(self) -> None:
        self.seen: dict[str, tuple[float, float]] = {}
        """When it was observed, and when a reader got it."""

    def apply_record(self, value: bytes, now: float) -> None:
        """Read a message of the log."""
        for change in decode_message(value).changes:
            if change.kind is ChangeKind.SET and change.path is not None:
                self.seen[change.path] = (change.observed_at / 1000, now)
