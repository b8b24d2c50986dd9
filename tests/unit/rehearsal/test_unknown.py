"""What a rehearsal may depend on and ZooKeeper does not hold is listed with it."""

from __future__ import annotations

from controller_model.kafka.cluster_facts import PartitionFacts
from tests.support.partition_facts import part
from tests.support.rehearsing import rehearsed


def test_settings_that_are_not_in_zookeeper_are_listed_as_unknown() -> None:
    """Settings in the brokers' files, if an answer depends on them, and no others."""
    plain = {
        each.what for each in rehearsed("kill-broker:1", partitions=[part(unclean=False)]).unknown
    }
    assert plain == {"auto.leader.rebalance.enable", "log directories"}
    result = rehearsed(
        "stop-broker:1",
        "delete-topic:t",
        partitions=[part(adding=(3,)), PartitionFacts(topic="u", partition=0, replicas=(1,))],
        min_isr_assumed=None,
    )
    assert {each.what for each in result.unknown} - plain == {
        "min.insync.replicas",
        "unclean.leader.election.enable",
        "reassignments under way",
        "controlled.shutdown.enable",
        "delete.topic.enable",
    }


def test_pending_znode_requests_are_listed_and_not_simulated() -> None:
    """Those that exist, by their paths: the elections and moves that they request are not in the answer."""
    asked = ("/admin/preferred_replica_election", "/admin/reassign_partitions")
    result = rehearsed("kill-broker:3", partitions=[part()], requests=asked)
    assert [each.what for each in result.unknown if each.what.startswith("/admin")] == list(asked)
    assert rehearsed("kill-broker:3", partitions=[part()]).steps == result.steps
