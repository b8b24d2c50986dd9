"""Which path is which znode, and what of its payload leaves the watcher."""

from __future__ import annotations

import json

import pytest

from controller_model.kafka.ids import TopicPartition
from controller_model.sources.zookeeper import znode_kinds
from controller_model.sources.zookeeper.znode_kinds import (
    Znode,
    ZnodeKind,
    classify,
    published_data,
)


@pytest.mark.parametrize(
    ("path", "znode"),
    [
        ("/controller", Znode(ZnodeKind.CONTROLLER)),
        ("/controller_epoch", Znode(ZnodeKind.CONTROLLER_EPOCH)),
        ("/brokers/ids/0", Znode(ZnodeKind.BROKER, "0")),
        ("/brokers/seqid", Znode(ZnodeKind.BROKER_SEQUENCE)),
        ("/brokers/topics/t", Znode(ZnodeKind.TOPIC, "t")),
        ("/brokers/topics/state", Znode(ZnodeKind.TOPIC, "state")),
        (
            "/brokers/topics/state/partitions/7/state",
            Znode(ZnodeKind.PARTITION_STATE, "state", 7, (TopicPartition("state", 7),)),
        ),
        ("/admin/reassign_partitions", Znode(ZnodeKind.REASSIGN_PARTITIONS)),
        ("/admin/preferred_replica_election", Znode(ZnodeKind.PREFERRED_ELECTION)),
        ("/admin/delete_topics/t", Znode(ZnodeKind.DELETE_TOPIC, "t")),
        ("/isr_change_notification/isr_change_1", Znode(ZnodeKind.ISR_CHANGE, "isr_change_1")),
        ("/log_dir_event_notification/log_dir_event_1",
         Znode(ZnodeKind.LOG_DIR_EVENT, "log_dir_event_1")),
        ("/config/topics/t", Znode(ZnodeKind.TOPIC_CONFIG, "t")),
        ("/config/brokers/<default>", Znode(ZnodeKind.BROKER_CONFIG, "<default>")),
        ("/config/changes/config_change_1", Znode(ZnodeKind.CONFIG_CHANGE, "config_change_1")),
        ("/cluster/id", Znode(ZnodeKind.CLUSTER_ID)),
        ("/feature", Znode(ZnodeKind.FEATURE)),
        ("/migration", Znode(ZnodeKind.MIGRATION)),
    ],
)  # fmt: skip
def test_every_kind_of_znode_is_known_by_its_path(path: str, znode: Znode) -> None:
    """Each path that Kafka writes has its kind, also for a topic that is named "state"."""
    assert classify(path) == znode


@pytest.mark.parametrize(
    "path",
    [
        "", "/", "/brokers", "/brokers/ids", "/brokers/ids/", "/brokers/ids/-1", "/brokers/ids/01",
        "/brokers/ids/x", "/brokers/ids/" + "9" * 5000, "/brokers/topics", "/brokers/topics/t/partitions",
        "/brokers/topics/t/partitions/0", "/brokers/topics/t/partitions/x/state",
        "/brokers/topics//partitions/0/state", "/brokers/topics/t/x/0/state", "/config/users/alice",
        "/config/clients/c", "/config/topics", "/admin", "/cluster", "/controller/x",
    ],
)  # fmt: skip
def test_containers_and_strange_paths_are_not_published(path: str) -> None:
    """Containers, znodes with credentials, and paths that are not Kafka's stay in the watcher."""
    assert not znode_kinds.is_published(path)


def test_secrets_stay_in_the_watcher() -> None:
    """Of a configuration only the keys that the model needs leave; damage leaves as an empty object."""
    config = {"version": 1, "config": {"ssl.key.password": "s3cret", "min.insync.replicas": "2"}}
    reported = published_data("/config/brokers/1", json.dumps(config).encode())
    assert json.loads(reported) == {"version": 1, "config": {"min.insync.replicas": "2"}}
    assert published_data("/config/topics/t", b"s3cret {") == b"{}"
    assert published_data("/controller", b"7") == b"7"
