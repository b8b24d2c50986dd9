"""The log of a tree: every write with the resulting Stat, limited to what may leave the watcher."""

from __future__ import annotations

import pytest

from controller_model.records.changes import ChangeKind, digest_text, znode_digest
from controller_simulator.zookeeper.transactions import CreateZnode, DeleteZnode, Multi, SetZnode
from controller_simulator.zookeeper.tree import ZnodeTree
from tests.support.histories import Fold
from tests.support.znode_log import ZnodeLog, paths_of, take_over


def written() -> ZnodeTree:
    """Return a tree in which a controller was elected and resigned, and a topic was configured."""
    tree = ZnodeTree(zxid=10, time_ms=1000)
    tree.open_session(1)
    for path in ("/controller_epoch", "/config", "/config/topics"):
        tree.write(CreateZnode(path, "0" if path == "/controller_epoch" else ""))
    tree.time_ms = 2000
    election = (CreateZnode("/controller", '{"brokerid":3}', 1), SetZnode("/controller_epoch", "1"))
    tree.write(Multi(election), session=1)
    config = '{"version":1,"config":{"secret":"s","min.insync.replicas":"2"}}'
    tree.write(CreateZnode("/config/topics/t", config))
    tree.write(DeleteZnode("/controller"))
    return tree


def test_every_write_is_a_record() -> None:
    """Each has the znode's Stat after the write and its zxid; containers are left out."""
    log = ZnodeLog("prod", watcher="w", generation=4)
    changes = log.follow(written().commits)
    assert [(c.kind.value, c.path, c.seq) for c in changes] == [
        ("set", "/controller_epoch", 1),
        ("set", "/controller", 2),
        ("set", "/controller_epoch", 3),
        ("set", "/config/topics/t", 4),
        ("deleted", "/controller", 5),
    ]
    controller, epoch = changes[1], changes[2]
    assert (controller.czxid, controller.mzxid, controller.read_zxid) == (15, 15, 15)
    assert (controller.ephemeral_owner, controller.version) == (1, 0)
    assert (epoch.czxid, epoch.mzxid, epoch.version, epoch.ctime, epoch.mtime) == (
        12, 15, 1, 1000, 2000,
    )  # fmt: skip
    assert epoch.data == "1"
    assert (epoch.cluster, epoch.watcher, epoch.generation) == ("prod", "w", 4)
    assert epoch.observed_at == 2000
    assert changes[4].read_zxid == 17


def test_the_log_has_only_the_configuration_keys_of_the_model() -> None:
    """The log has only those configuration keys that the model needs."""
    config = ZnodeLog("prod").follow(written().commits)[3]
    assert config.data == '{"config":{"min.insync.replicas":"2"},"version":1}'


def test_a_resync_has_its_number_of_znodes_and_digest() -> None:
    """It has every published znode between its marks, with their number and digest."""
    log = ZnodeLog("prod")
    log.follow(written().commits)
    first, second = log.resync(), log.resync()
    assert [c.kind for c in first] == [
        ChangeKind.RESYNC_STARTED, ChangeKind.SET, ChangeKind.SET, ChangeKind.RESYNC_FINISHED,
    ]  # fmt: skip
    assert [c.path for c in first[1:3]] == ["/controller_epoch", "/config/topics/t"]
    digest = znode_digest("/controller_epoch", 15) ^ znode_digest("/config/topics/t", 16)
    assert (first[-1].znodes, first[-1].digest) == (2, digest_text(digest))
    assert (first[0].resync, second[0].resync, second[-1].resync) == (1, 2, 2)
    assert second[0].seq == 10


def test_a_heartbeat_moves_the_clock() -> None:
    """It advances the log's clock, and shows that the watcher is connected."""
    log, fold = ZnodeLog("prod"), Fold()
    fold.feed(log.resync())
    beat = log.heartbeat(77_000)
    fold.feed([beat])
    assert (beat.observed_at, beat.kind, beat.session) == (77_000, "heartbeat", "CONNECTED")
    assert fold.state.control.now == 77_000


def test_commits_of_another_tree_can_be_taken_over() -> None:
    """Taking over all commits gives the same tree, with the zxids, times and sessions of the log."""
    tree, follower = written(), ZnodeTree()
    tree.write(CreateZnode("/e", "", 1), session=1)
    tree.time_ms = 3000
    tree.close_session(1)
    for commit in tree.commits:
        take_over(follower, commit)
    assert follower.commits == tree.commits
    assert follower.zxid == tree.zxid
    assert {p: str(follower.at(p)) for p in paths_of(follower)} == {
        p: str(tree.at(p)) for p in paths_of(tree)
    }
    with pytest.raises(AssertionError, match="zxid 0x13 is not after 0x13"):
        take_over(follower, tree.commits[-1])
