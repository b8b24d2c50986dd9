"""What is said of a real quorum's replicas and snapshots, compared with what is done to them and with the files."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from controller_model.insight.quorum import commits_have_stopped, lags, spare_voters
from controller_model.records.metadata_log import CAUGHT_UP_MS
from controller_model.records.quorum import QuorumView
from controller_model.records.views import ClusterView, ControllerView
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST
from kcm.servers.quorum import METADATA_FOLDER, Leader
from kcm.servers.supervisor import Supervisor
from kraft_source.service.quorum_sampler import QuorumSampler
from kraft_source.wire.connection import Access, ControllerConnection
from kraft_source.wire.messages import ControllerEndpoint, EpochLeader
from tests.component.kraft.watched_quorum import batches_on_disk
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_3_9, KAFKA_4_4, Release
from tests.support.samples import cluster_view
from tests.support.waiting import DEADLINE_S, SESSION_MS, wait_until


def asked(cluster: KraftCluster) -> tuple[QuorumSampler, Leader]:
    """Return a sampler that has asked the leader once, and who that is: on busy cores another one may lead each time."""
    leader = cluster.await_leader()
    sampler = QuorumSampler(time.monotonic)
    endpoint = ControllerEndpoint(HOST, cluster.quorum.ports[leader.id])
    connection = ControllerConnection(endpoint, Access(), timeout_s=DEADLINE_S)
    sampler.ask(connection, EpochLeader(leader.id, leader.epoch))
    connection.close()
    return sampler, leader


def seen(cluster: KraftCluster, *, led_ms: int = 3_600_000) -> ClusterView:
    """Return a view with what the leader says now; it was elected `led_ms` before that.

    A leader whose machine is busy may answer too late, as `ask` allows: it is asked again.
    """
    sampler, leader = wait_until(lambda: asked(cluster), lambda both: both[0].sample is not None)
    sample = sampler.sample
    assert sample is not None
    return cluster_view(
        quorum=QuorumView(
            leader=leader.id,
            leader_epoch=leader.epoch,
            high_watermark=sample.high_watermark,
            high_watermark_since=sample.at,
            sample=sample,
            is_sampled=True,
        ),
        controller=ControllerView(id=leader.id, elected_at=sample.at - led_ms),
        brokers_live=(1,),
        brokers_known=(1,),
    )


def behind(view: ClusterView) -> dict[int, int]:
    """Return how long each voter has been behind, in ms."""
    return {each.node: each.ms or 0 for each in lags(view).voters}


def late_in(view: ClusterView) -> set[int]:
    """Return the voters that are not caught up."""
    return {voter for voter, ms in behind(view).items() if ms > CAUGHT_UP_MS}


@pytest.mark.parametrize(
    "release",
    [pytest.param(KAFKA_3_9, marks=pytest.mark.full), KAFKA_4_4],
    ids=lambda release: release.version,
)
def test_a_killed_voter_is_behind_under_this_leader_and_the_next(
    supervisor: Supervisor, tmp_path: Path, release: Release
) -> None:
    """All follow at first; a voter that is killed takes the margin, and a leader that never heard of it knows that.

    The newest snapshot is a file of the leader, and as old as the last record that it includes.
    """
    cluster = KraftCluster(
        supervisor,
        nodes_jars(release),
        tmp_path,
        brokers=(1,),
        properties={"metadata.log.max.record.bytes.between.snapshots": 2_000},
        session_timeout_ms=SESSION_MS,
        name=f"sample-{release.version}",
    )
    cluster.start()
    well = wait_until(
        lambda: seen(cluster),
        lambda view: late_in(view) == set() and [each.node for each in lags(view).brokers] == [1],
    )
    assert spare_voters(well) == 1
    assert well.quorum is not None
    assert commits_have_stopped(well.quorum) is False
    offering, leader = wait_until(lambda: asked(cluster), lambda both: both[0].snapshot is not None)
    end, at = offering.snapshot or (0, 0)
    log_dir = cluster.controllers[leader.id].log_dir
    assert [*(log_dir / METADATA_FOLDER).glob(f"{end:020d}-*.checkpoint")]
    assert [each.at for each in batches_on_disk(log_dir) if each.last_offset + 1 == end] == [at]
    killed = next(voter for voter in cluster.controllers if voter != leader.id)
    cluster.controllers[killed].kill()
    lost = wait_until(lambda: seen(cluster), lambda view: late_in(view) == {killed})
    assert spare_voters(lost) == 0
    leader = cluster.await_leader()
    cluster.controllers[leader.id].stop()
    cluster.controllers[leader.id].start()
    cluster.await_leader(lambda found: found.epoch > leader.epoch)
    never = wait_until(lambda: seen(cluster, led_ms=7_000), lambda view: late_in(view) == {killed})
    cluster.kill()
    # It has not fetched since this election.
    assert behind(never)[killed] == 7_000
    assert spare_voters(never) == 0
