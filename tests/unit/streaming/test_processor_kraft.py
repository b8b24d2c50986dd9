"""The processor with a KRaft cluster: its records, its names of topics in the state, and clusters that share a name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from controller_model.records.changes import join_changes
from controller_model.records.metadata_log import AnyMetadataRecord, encode_metadata
from controller_model.records.views import ClusterView, TopicView, decode_view
from controller_model.state.control_plane import Assumed
from streaming import processor as processor_module
from streaming.processor import FoldParameters, FoldProcessor
from tests.support.histories import encode_changes, small_cluster
from tests.support.kraft_cluster import KraftCluster, KraftFold, Watcher


class Bench:
    """A processor of one cluster, and the views that it wrote."""

    def __init__(self) -> None:
        self.parameters = FoldParameters(
            "0000000000001-abc", "v", "e", 1, Assumed(min_insync_replicas=1)
        )
        self.tester = TwsTester(FoldProcessor(self.parameters, clock=lambda: 7))
        self.offset = 0
        self.views: dict[str, Any] = {}
        self.counts: Any = None

    def send(self, *messages: bytes | None) -> None:
        """Fold messages as one batch, in a worker that remembers nothing."""
        processor_module._remembered.clear()
        self.tester.processor = FoldProcessor(self.parameters, clock=lambda: 7)
        self.tester.processor.init(self.tester.handle)
        rows = []
        for message in messages:
            rows.append(
                Row(
                    cluster="prod", partition=0, offset=self.offset,
                    timestamp_ms=5_000 + self.offset, value=message,
                )
            )  # fmt: skip
            self.offset += 1
        *out, self.counts = self.tester.test("prod", rows)
        for row in out:
            if row.topic == "v" and row.value is None:
                self.views.pop(row.key, None)
            elif row.topic == "v":
                self.views[row.key] = decode_view(bytes(row.value))

    def write(self, records: Iterable[AnyMetadataRecord]) -> None:
        """Fold each record as a batch."""
        for record in records:
            self.send(join_changes([encode_metadata(record)]))

    @property
    def cluster(self) -> ClusterView:
        """The cluster's view."""
        view = self.views["prod/cluster"]
        assert isinstance(view, ClusterView)
        return view


@pytest.fixture
def bench() -> Bench:
    """A processor that has folded nothing."""
    return Bench()


def a_cluster() -> KraftCluster:
    """Return a cluster with a topic that was changed and one that was deleted."""
    cluster = KraftCluster()
    for broker in (1, 2):
        cluster.register(broker)
        cluster.unfence(broker)
    cluster.create("a", 2, 2)
    cluster.create("b", 1, 1)
    cluster.tick(600)
    cluster.fence(1)
    cluster.delete("b")
    return cluster


def test_each_batch_goes_on_from_the_state(bench: Bench) -> None:
    """A new worker for each record shows what a fold in memory shows: names of topics are in the state."""
    cluster = a_cluster()
    slices = Watcher(cluster).slices(range(1, cluster.end))
    bench.write(slices)
    assert bench.counts.errors == 0
    expected = KraftFold().feed(slices).views()
    shown = bench.views["prod/topic/a/0"]
    assert isinstance(shown, TopicView)
    assert (shown.leader, shown.isr, shown.partition_epoch) == (
        expected["prod/topic/a/0"].leader,
        expected["prod/topic/a/0"].isr,
        expected["prod/topic/a/0"].partition_epoch,
    )
    assert "prod/topic/b/0" not in {
        key for key, view in bench.views.items() if isinstance(view, TopicView)
    }
    assert bench.cluster.counts == expected["prod/cluster"].counts
    assert bench.cluster.quorum == expected["prod/cluster"].quorum


def test_a_kraft_cluster_is_forgotten_like_any_other(bench: Bench) -> None:
    """A null deletes its views and its state."""
    bench.write(Watcher(a_cluster()).slices())
    bench.send(None)
    assert "prod/cluster" not in bench.views
    assert not any(bench.tester.handle.map_states["cluster"].state.values())


@pytest.mark.parametrize("is_kraft", [True, False])
def test_records_of_the_other_kind_under_one_name_are_counted(
    bench: Bench, *, is_kraft: bool
) -> None:
    """The first record decides what the cluster is; what the other watcher writes is unreadable, and said to be."""
    slices = [join_changes([encode_metadata(each)]) for each in Watcher(a_cluster()).slices()]
    changes = [encode_changes(small_cluster().changes)]
    first, second = (slices, changes) if is_kraft else (changes, slices)
    bench.send(*first)
    bench.send(*second)
    assert (bench.cluster.quorum is not None) is is_kraft
    assert bench.counts.unreadable > 0
    assert bench.cluster.log.unreadable == bench.counts.unreadable
    assert bench.counts.errors == 0
