"""An upgrade from the first release: its watcher, fold and exporter beside ours, replaced one after the other.

The old parts are the release's wheel (`tests.support.released`), all of them processes on a real
ZooKeeper and a real Kafka. While a part is down the cluster goes on, and after each replacement the
figures are those of ZooKeeper and of all that has happened since the beginning.

A fold whose checkpoint has another format begins a lineage and folds the log again; with the same
format it goes on in the lineage of the old one. The figures are the same either way.
"""

from __future__ import annotations

import json
import urllib.request
import uuid
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient

from kcm.run.pipeline_processes import Pipeline
from kcm.servers.jars import Jars
from kcm.servers.kafka import KraftBroker
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from streaming.lineage import FORMAT
from tests.component.fold.folding import FOLD_DEADLINE_S
from tests.support.histories import small_cluster
from tests.support.released import Release, release_or_skip
from tests.support.waiting import DEADLINE_S, wait_until

pytestmark = [pytest.mark.full, pytest.mark.timeout(600)]

CLUSTER = "upgraded"
ADVISED = ("exporter", "stream", "watcher")
"""The order of docs/storage.md."""
ORDERS = [(*ADVISED[first:], *ADVISED[:first]) for first in range(len(ADVISED))]
"""Each mix of old and new parts comes about in one of them."""
OURS = {"PYTHONPATH": "", "PYTHONSAFEPATH": "1"}
"""The variables with which a process runs this code, not that of a release."""
MAX_EVENTS = 1000
"""More than a test leads to; the API returns no more at once."""


class Figures(NamedTuple):
    """What must be shown of a cluster, and is."""

    status: str
    controller: int
    elections: int
    brokers_live: list[int]
    partitions: int
    under_replicated: int
    isr_shrinks: int
    isr_expands: int
    counters_since: int
    holes: int


class Cluster:
    """A Kafka cluster's znodes on a real ZooKeeper, and what must be counted of their changes."""

    def __init__(self, client: KazooClient, connect: str) -> None:
        self.connect = connect
        self._client = client
        self._history = small_cluster()
        self._written: dict[str, bytes] = {}
        self.isr_shrinks = self.isr_expands = 0
        for path, held in self._history.znodes.items():
            is_ephemeral = bool(held.ephemeral_owner)
            client.create(path, held.data, ephemeral=is_ephemeral, makepath=True)
            self._written[path] = held.data

    def elect(self) -> None:
        """Elect another controller; a follower falls out of the ISR or returns to it, in the same transaction."""
        history = self._history
        history.elect(history.epoch % 3, seen=False)
        shrinks = self.isr_shrinks == self.isr_expands
        self.isr_shrinks += shrinks
        self.isr_expands += not shrinks
        history.state("t", 1, leader=1, isr=[1, 2] if shrinks else [1, 2, 0], seen=False)
        transaction = self._client.transaction()
        for path, held in history.znodes.items():
            if self._written[path] != held.data:
                transaction.set_data(path, held.data)
                self._written[path] = held.data
        results = transaction.commit()
        assert not any(isinstance(result, Exception) for result in results), results

    def figures(self, counters_since: int) -> Figures:
        """Return what a monitor must show that counts since then."""
        return Figures(
            status="live",
            controller=self._history.controller_id or 0,
            elections=self._history.epoch,
            brokers_live=[0, 1, 2],
            partitions=2,
            under_replicated=self.isr_shrinks - self.isr_expands,
            isr_shrinks=self.isr_shrinks,
            isr_expands=self.isr_expands,
            counters_since=counters_since,
            holes=0,
        )


class Upgraded:
    """A pipeline whose parts can be exchanged, and what its exporter has shown."""

    def __init__(self, pipeline: Pipeline, cluster: Cluster) -> None:
        self._pipeline = pipeline
        self._cluster = cluster
        self._url = f"{pipeline.exporter_url}/api/v1/clusters/{CLUSTER}"
        self._directly = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        self._before: Figures | None = None
        self.counters_since = 0

    def lineage(self) -> tuple[str, str]:
        """Return the name and the format of the lineage in the checkpoint folder."""
        path = self._pipeline.data_dir / "checkpoint" / "lineage.json"
        held = json.loads(path.read_bytes())
        return held["name"], held["format"]

    def replace(self, part: str, environment: dict[str, str]) -> None:
        """Stop a part and start the one of another release, while the cluster goes on."""
        process = self._pipeline.processes[part]
        process.stop_deadline_s = FOLD_DEADLINE_S  # on busy cores Spark's last batch takes its time
        assert process.stop() == 0, process.log_tail()
        self._cluster.elect()
        process.env |= environment
        process.start()
        self.check(f"{part} replaced")
        self._cluster.elect()
        self.check(f"a change after {part} was replaced")

    def check(self, when: str) -> None:
        """Wait until the figures are live and right, and the events tell of all that happened, once each."""
        expected = self._cluster.figures(self.counters_since)
        seen = wait_until(self._ask, lambda seen: seen == expected, deadline_s=FOLD_DEADLINE_S)
        assert seen == expected, when
        happened = {
            "ControllerElected": expected.elections - 1,  # the first one was before the beginning
            "IsrShrunk": expected.isr_shrinks,
            "IsrExpanded": expected.isr_expands,
        }
        assert wait_until(lambda: self._reported(happened), lambda seen: seen == happened), when

    def begin(self) -> None:
        """Wait until the first parts show the cluster, and take their beginning as that of the counters."""
        wait_until(self._ask, lambda seen: seen is not None, deadline_s=FOLD_DEADLINE_S)
        self.counters_since = int(self._get("")["counters_since"])
        self.check("the beginning")

    def _ask(self) -> Figures | None:
        """Return what is shown now, which is never less than before; None while the exporter has nothing."""
        for process in self._pipeline.processes.values():
            process.check()
        try:
            body = self._get("")
        except OSError:
            return None
        seen = Figures(
            status=body["completeness"]["status"],
            controller=body["controller"]["id"],
            elections=body["controller"]["elections"],
            brokers_live=body["brokers_live"],
            partitions=body["counts"]["partitions"],
            under_replicated=body["counts"]["under_replicated"],
            isr_shrinks=body["isr_shrinks"],
            isr_expands=body["isr_expands"],
            counters_since=body["counters_since"],
            holes=body["log"]["holes"],
        )
        if self._before is not None:
            assert seen.elections >= self._before.elections, (self._before, seen)
            assert seen.isr_shrinks >= self._before.isr_shrinks, (self._before, seen)
        self._before = seen
        return seen

    def _reported(self, kinds: Collection[str]) -> dict[str, int]:
        """Return how often the events tell of each kind; ids rise, whichever lineages they are of.

        What happens to several partitions in a batch is one event, and so to one partition several times.
        """
        asked = "&".join(f"kind={kind}" for kind in kinds)
        events = self._get(f"/events?limit={MAX_EVENTS}&{asked}")["events"]
        places = [tuple(map(int, event["id"].split("/")[-3:])) for event in events]
        assert places == sorted(set(places), reverse=True)
        counts = dict.fromkeys(kinds, 0)
        for event in events:
            counts[event["kind"]] += event.get("partition_count", 1)
        return counts

    def _get(self, path: str) -> Any:
        with self._directly.open(self._url + path, timeout=DEADLINE_S) as answer:
            return json.load(answer)


@pytest.fixture(scope="module")
def release() -> Release:
    """The first release."""
    return release_or_skip()


@pytest.fixture
def cluster(zookeeper: ZooKeeper, zk_chroot: str) -> Iterator[Cluster]:
    """A cluster below a chroot of its own."""
    connect = zookeeper.connect_string + zk_chroot
    client = KazooClient(hosts=connect)
    client.start(timeout=10)
    yield Cluster(client, connect)
    client.stop()
    client.close()


@pytest.fixture
def upgraded(
    cluster: Cluster, pipeline_broker: KraftBroker, jars: Jars, release: Release, tmp_path: Path
) -> Iterator[Upgraded]:
    """A pipeline of three old parts that shows a cluster."""
    with Supervisor(tmp_path / "stack", kill_on_exit=True) as supervisor:
        pipeline = Pipeline(
            supervisor=supervisor,
            jars=jars,
            data_dir=tmp_path / "data",
            cluster=CLUSTER,
            zookeeper=cluster.connect,
            bootstrap_servers=pipeline_broker.bootstrap_servers,
            options={"topic_prefix": f"t{uuid.uuid4().hex[:8]}", "driver_memory": "512m"},
        )
        for process in pipeline.processes.values():
            process.env |= release.environment
        pipeline.start()
        upgraded = Upgraded(pipeline, cluster)
        upgraded.begin()
        yield upgraded


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
def test_the_parts_are_replaced_one_after_the_other(
    upgraded: Upgraded, release: Release, order: tuple[str, ...]
) -> None:
    """After each step the figures are right, whichever parts are old; then the exporter goes back."""
    old, old_format = upgraded.lineage()
    for part in order:
        upgraded.replace(part, OURS)
    new, new_format = upgraded.lineage()
    assert new_format == FORMAT
    assert (new == old) == (new_format == old_format)
    upgraded.replace("exporter", release.environment)
