"""Insights and pending_writes, compared with what real Kafka 3.9 clusters then did."""

from __future__ import annotations

from collections import Counter

import pytest

from controller_model.insight.loss import lose
from controller_model.insight.pending_writes import health_of, list_pending_writes
from controller_model.records.completeness import Status
from controller_model.records.events import ControllerZombie
from controller_model.records.pending_writes import ControllerHealth
from controller_simulator.cluster.operations import KillBroker, StopBroker
from tests.support.histories import Fold
from tests.support.recordings import RECORDED, load_recording
from tests.support.scripted_operations import FailLogDir
from tests.support.watched import facts
from tests.support.znode_log import ZnodeLog

RECORDINGS = sorted(path.name.removesuffix(".jsonl.gz") for path in RECORDED.glob("*.jsonl.gz"))
HEARTBEAT_MS = 10_000
QUIET_HEARTBEATS = 12
"""Two minutes: longer than the write timeout of a cluster of this size."""


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_real_controller_is_never_called_a_zombie(name: str) -> None:
    """During two minutes at every quiet point, nothing is due, and no prediction ever fails."""
    log, fold = ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    checked = 0
    for operation, commits in load_recording(name).segments():
        reported = fold.feed(log.follow(commits))
        for _ in range(QUIET_HEARTBEATS):
            reported += fold.feed([log.heartbeat(fold.state.control.now + HEARTBEAT_MS)])
        assert not [event for event in reported if isinstance(event, ControllerZombie)], operation
        view = fold.cluster_view()
        if health_of(view, Status.LIVE) is not ControllerHealth.UNKNOWN:
            assert view.pending_writes.counts == {}, operation
            partitions, cluster = facts(fold)
            assert [w for w in list_pending_writes(partitions, cluster) if w.sure] == [], operation
            checked += 1
    assert checked > 5


@pytest.mark.parametrize("name", RECORDINGS)
def test_a_lost_broker_of_a_real_cluster_left_the_predicted_leaders(name: str) -> None:
    """Killed or stopped: leaders and offline partitions are those of the insight before.

    Failed log directories are not visible, and a reassignment continues meanwhile: those are left out.
    """
    log, fold = ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    failed = False
    for operation, commits in load_recording(name).segments():
        before, brokers = facts(fold)
        fold.feed(log.follow(commits))
        failed = failed or isinstance(operation, FailLogDir)
        if failed or not isinstance(operation, KillBroker | StopBroker):
            continue
        after, left = facts(fold)
        if any(partition.reassigning for partition in (*before, *after)):
            continue
        loss = lose(before, brokers, {operation.broker})
        was_offline = {partition.id for partition in before if brokers.is_offline(partition)}
        now_offline = {partition.id for partition in after if left.is_offline(partition)}
        assert now_offline == was_offline | set(loss.offline), operation
        led = Counter(p.leader for p in after if p.counts and p.leader in left.live)
        assert led == Counter(loss.leaders_after), operation
