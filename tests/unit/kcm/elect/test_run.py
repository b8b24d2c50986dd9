"""A run of elections: its chunks, and what its end says."""

from __future__ import annotations

import pytest

from controller_model.kafka.ids import TopicPartition
from kcm.elect.run import ElectionRun
from kcm.elect.watch import ClusterWatch
from tests.support.api_server import Served
from tests.support.elections import Cluster
from tests.support.in_process_api import api_of


@pytest.fixture
def cluster() -> Cluster:
    """Seven partitions of t are led by another than their preferred replica."""
    cluster = Cluster(Served())
    cluster.show()
    return cluster


def run_on(cluster: Cluster, *chunks: list[int]) -> tuple[ElectionRun, list[str]]:
    """Return a run over partitions of t, and where its lines go."""
    said: list[str] = []
    run = ElectionRun(
        [[TopicPartition("t", number) for number in chunk] for chunk in chunks],
        elect=cluster.elect,
        watch=ClusterWatch(api_of(cluster.served), "prod"),
        pause_s=0,
        wait_s=0,
        say=said.append,
    )
    return run, said


def test_each_chunk_is_elected_and_its_effect_is_seen(cluster: Cluster) -> None:
    """In order, with a line each."""
    run, said = run_on(cluster, [0, 1], [2])
    assert run.run() is None
    assert cluster.asked == [[0, 1], [2]]
    assert [line.split(":")[0] for line in said] == ["chunk 1 of 2", "chunk 2 of 2"]
    assert run.summary() == ["done        3 of 3 elected, 0 did not need it"]


def test_the_first_surprise_ends_it_and_the_end_accounts_for_every_partition(
    cluster: Cluster,
) -> None:
    """One is refused, one is not seen, one is not tried."""
    cluster.refuses[1] = "PREFERRED_LEADER_NOT_AVAILABLE"
    cluster.deaf.add(2)
    run, _ = run_on(cluster, [0, 1, 2], [3])
    assert "1 of chunk 1 are not led by their preferred replica 0 s" in str(run.run())
    assert cluster.asked == [[0, 1, 2]]
    assert [line.split("  ")[0] for line in run.summary()] == [
        *("done", "refused", "not seen", "not tried")
    ]


def test_nothing_is_asked_of_a_cluster_that_is_not_well(cluster: Cluster) -> None:
    """It is looked at before the first election."""
    cluster.controller = -1
    cluster.show()
    run, _ = run_on(cluster, [0])
    assert run.run() == "the cluster has no controller"
    assert cluster.asked == []


def test_what_happens_in_the_pause_ends_it_before_the_next_chunk(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cluster is looked at after the pause: a broker that dies in it is not elected past."""

    def broker_dies(_seconds: float) -> None:
        cluster.live.discard(2)
        cluster.show()

    monkeypatch.setattr("kcm.elect.run.time.sleep", broker_dies)
    run, _ = run_on(cluster, [0], [1])
    assert run.run() is not None
    assert cluster.asked == [[0]]
    assert "not tried   1" in run.summary()
