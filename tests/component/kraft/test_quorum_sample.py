"""What is said of a real quorum's replicas and snapshots, compared with what is done to them and with the files."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import pytest

from controller_model.insight.quorum import commits_have_stopped, lags, spare_voters
from controller_model.records.metadata_log import CAUGHT_UP_MS, QuorumSample
from controller_model.records.quorum import QuorumView
from controller_model.records.views import ClusterView, ControllerView
from kcm.servers.kraft_cluster import KraftCluster
from kcm.servers.ports import HOST
from kcm.servers.quorum import METADATA_FOLDER, Leader
from kcm.servers.supervisor import Supervisor
from kraft_source.service.quorum_sampler import QuorumSampler
from kraft_source.wire.connection import Access, ControllerConnection
from kraft_source.wire.messages import ControllerEndpoint, EpochLeader
from pipeline.runtime import UnreachableError
from tests.component.kraft.watched_quorum import batches_on_disk
from tests.support.release_jars import nodes_jars
from tests.support.releases import KAFKA_3_9, KAFKA_4_4, Release
from tests.support.samples import cluster_view
from tests.support.waiting import wait_until


def asked(cluster: KraftCluster, leader: Leader) -> QuorumSampler:
    """Return a sampler that has asked the leader once; on a busy machine it may answer too late."""
    sampler = QuorumSampler(time.monotonic)
    endpoint = ControllerEndpoint(HOST, cluster.quorum.ports[leader.id])
    with suppress(UnreachableError):
        connection = ControllerConnection(endpoint, Access())
        sampler.ask(connection, EpochLeader(leader.id, leader.epoch))
        connection.close()
    return sampler


def seen(cluster: KraftCluster, *, after: int = 0, led_ms: int = 3_600_000) -> ClusterView:
    """Return a view with what the leader of an epoch later than `after` says now; it was elected `led_ms` before that.

    A leader that is not followed in time loses the lead to another one, or to itself in a later epoch.
    """

    def look() -> tuple[Leader, QuorumSample | None]:
        leader = cluster.await_leader(lambda found: found.epoch > after)
        return leader, asked(cluster, leader).sample

    leader, sample = wait_until(
        look, lambda pair: pair[1] is not None and pair[1].epoch == pair[0].epoch
    )
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
        name=f"sample-{release.version}",
    )
    cluster.start()
    well = wait_until(lambda: seen(cluster), lambda view: spare_voters(view) == 1)
    assert max(behind(well).values()) < CAUGHT_UP_MS
    assert [each.node for each in lags(well).brokers] == [1]
    assert well.quorum is not None
    assert commits_have_stopped(well.quorum) is False
    leader, snapshot = wait_until(
        lambda: (leader := cluster.await_leader(), asked(cluster, leader).snapshot),
        lambda pair: pair[1] is not None,
    )
    end, at = snapshot or (0, 0)
    log_dir = cluster.controllers[leader.id].log_dir
    assert [*(log_dir / METADATA_FOLDER).glob(f"{end:020d}-*.checkpoint")]
    assert [each.at for each in batches_on_disk(log_dir) if each.last_offset + 1 == end] == [at]
    killed, other = (voter for voter in cluster.controllers if voter != leader.id)
    cluster.controllers[killed].kill()
    lost = wait_until(lambda: seen(cluster), lambda view: spare_voters(view) == 0)
    assert behind(lost)[killed] > CAUGHT_UP_MS
    assert max(behind(lost)[each] for each in (leader.id, other)) < CAUGHT_UP_MS
    last = cluster.await_leader()
    cluster.controllers[last.id].stop()
    cluster.controllers[last.id].start()
    never = wait_until(
        lambda: seen(cluster, after=last.epoch, led_ms=7_000),
        lambda view: sum(each < CAUGHT_UP_MS for each in behind(view).values()) > 1,
    )
    cluster.kill()
    # It has not fetched since this election.
    assert behind(never)[killed] == 7_000
    assert spare_voters(never) == 0
