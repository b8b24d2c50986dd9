"""A replayed cluster gives the same facts as its views."""

from __future__ import annotations

import msgspec

from controller_model.history.log_facts import facts_of, partitions_of
from tests.support.histories import Fold, History
from tests.support.recordings import load_recording
from tests.support.watched import facts
from tests.support.znode_log import ZnodeLog


def test_facts_are_those_of_the_views() -> None:
    """At every quiet point of a real cluster's history: brokers, partitions, topics being deleted."""
    log, fold = ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    deleting = 0
    for operation, commits in load_recording("real_kafka_3_9").segments():
        fold.feed(log.follow(commits))
        partitions, cluster = facts(fold)
        mine = facts_of(fold.state)
        assert list(partitions_of(fold.state)) == sorted(partitions, key=lambda p: p.id), operation
        # When a broker was last seen does not matter to a prediction of what comes next.
        assert mine == msgspec.structs.replace(cluster, gone_since={}, racks=mine.racks), operation
        deleting += any(partition.deleting for partition in partitions)
    assert deleting


def test_pending_request_znodes_are_facts() -> None:
    """While a znode of an older tool exists, and no longer."""
    history, fold = History(), Fold()
    history.resync()
    seen = []
    for path in ("/admin/reassign_partitions", "/admin/preferred_replica_election"):
        history.set(path, '{"version":1,"partitions":[]}')
        fold.follow(history)
        seen.append(facts_of(fold.state).requests)
        assert facts(fold)[1].requests == seen[-1]
    assert [len(requests) for requests in seen] == [1, 2]
    history.delete("/admin/reassign_partitions")
    fold.follow(history)
    assert facts_of(fold.state).requests == ("/admin/preferred_replica_election",)
    assert facts(fold)[1].requests == ("/admin/preferred_replica_election",)
