"""The tree in memory follows ZooKeeper's rules of transactions, versions, sessions and refusals."""

from __future__ import annotations

import pytest

from controller_simulator.zookeeper.transactions import (
    NO_SESSION,
    Changed,
    CheckZnode,
    Commit,
    CreateZnode,
    DeleteZnode,
    Multi,
    Removed,
    SetZnode,
    ZnodeWrite,
    ZooKeeperCode,
    ZooKeeperError,
)
from controller_simulator.zookeeper.tree import ZnodeTree
from tests.support.znode_log import paths_of

SESSION = 7


@pytest.fixture
def tree() -> ZnodeTree:
    """Return a tree with an open session, /a with one child, and an ephemeral /e."""
    made = ZnodeTree(zxid=100, time_ms=5)
    made.open_session(SESSION)
    for write in (CreateZnode("/a", "x"), CreateZnode("/a/b"), CreateZnode("/e", "", SESSION)):
        made.write(write, session=SESSION)
    return made


def test_a_znode_remembers_its_transactions(tree: ZnodeTree) -> None:
    """Setting keeps czxid and ctime, moves mzxid, mtime and version; a child moves neither."""
    tree.time_ms = 9
    commit = tree.write(SetZnode("/a", "y", 0), session=SESSION)
    assert commit.writes == (Changed("/a", "y", 1),)
    znode = tree.at("/a")
    assert (znode.data, znode.version) == ("y", 1)
    assert (znode.czxid, znode.mzxid) == (102, 105)
    assert (znode.ctime_ms, znode.mtime_ms) == (5, 9)
    assert znode.owner == NO_SESSION
    tree.write(DeleteZnode("/a/b"))
    assert (znode.mzxid, znode.children) == (105, {})


def test_reads_of_a_missing_znode(tree: ZnodeTree) -> None:
    """A missing znode is None for find, has no children, and is an error for other reads."""
    assert tree.find("/x") is None
    assert tree.children("/x") == ()
    assert tree.children("/a") == ("b",)
    with pytest.raises(ZooKeeperError, match="NONODE for /x"):
        tree.data("/x")
    assert list(paths_of(tree)) == ["/a", "/a/b", "/e"]


REFUSED: list[tuple[ZnodeWrite, ZooKeeperCode]] = [
    (CreateZnode("/a"), ZooKeeperCode.NODE_EXISTS),
    (CreateZnode("/x/y"), ZooKeeperCode.NO_NODE),
    (CreateZnode("/e/y"), ZooKeeperCode.NO_CHILDREN_FOR_EPHEMERALS),
    (CreateZnode("/y", "", 8), ZooKeeperCode.SESSION_EXPIRED),
    (SetZnode("/x"), ZooKeeperCode.NO_NODE),
    (SetZnode("/a", "y", 1), ZooKeeperCode.BAD_VERSION),
    (DeleteZnode("/x"), ZooKeeperCode.NO_NODE),
    (DeleteZnode("/e", 1), ZooKeeperCode.BAD_VERSION),
    (DeleteZnode("/a"), ZooKeeperCode.NOT_EMPTY),
    (Multi((CheckZnode("/a", 1), DeleteZnode("/e"))), ZooKeeperCode.BAD_VERSION),
    (Multi((SetZnode("/a", "y"), CheckZnode("/a", 0))), ZooKeeperCode.BAD_VERSION),
    (Multi((DeleteZnode("/e"), SetZnode("/e"))), ZooKeeperCode.NO_NODE),
    (Multi((CreateZnode("/c"), CreateZnode("/c"))), ZooKeeperCode.NODE_EXISTS),
    (Multi((CreateZnode("/c"), CreateZnode("/c/d"), DeleteZnode("/c"))), ZooKeeperCode.NOT_EMPTY),
    (Multi((CreateZnode("/f", "", SESSION), CreateZnode("/f/g"))),
     ZooKeeperCode.NO_CHILDREN_FOR_EPHEMERALS),
]  # fmt: skip


@pytest.mark.parametrize(("write", "code"), REFUSED)
def test_a_refused_transaction_changes_nothing(
    tree: ZnodeTree, write: ZnodeWrite, code: ZooKeeperCode
) -> None:
    """It is refused as a whole with ZooKeeper's code; as an attempt it only takes a zxid."""
    before = {path: str(tree.at(path)) for path in paths_of(tree)}
    with pytest.raises(ZooKeeperError) as caught:
        tree.write(write)
    assert caught.value.code is code
    assert tree.zxid == 104
    assert tree.attempt(write) is code
    assert tree.zxid == 105
    assert {path: str(tree.at(path)) for path in paths_of(tree)} == before
    assert len(tree.commits) == 4


ALLOWED: list[tuple[ZnodeWrite, tuple[str, ...]]] = [
    (Multi((CheckZnode("/a", 0), SetZnode("/a", "y", 0), SetZnode("/a", "z", 1))), ("/a", "/a")),
    (Multi((DeleteZnode("/a/b"), DeleteZnode("/a"))), ("/a/b", "/a")),
    (Multi((DeleteZnode("/e"), CreateZnode("/e"))), ("/e", "/e")),
    (Multi((CreateZnode("/c"), SetZnode("/c", "y", 0))), ("/c", "/c")),
    (Multi((CheckZnode("/a"),)), ()),
]


@pytest.mark.parametrize(("write", "paths"), ALLOWED)
def test_later_parts_see_the_earlier_ones(
    tree: ZnodeTree, write: ZnodeWrite, paths: tuple[str, ...]
) -> None:
    """The parts of a transaction are checked in order and share one zxid; checks leave no trace."""
    answer = tree.attempt(write, session=SESSION)
    assert isinstance(answer, Commit)
    assert answer.zxid == 105
    assert tuple(done.path for done in answer.writes) == paths


def test_the_end_of_a_session_deletes_its_ephemeral_znodes(tree: ZnodeTree) -> None:
    """In one transaction, in order of creation; znodes that were deleted before are not listed."""
    tree.write(CreateZnode("/f", "", SESSION), session=SESSION)
    tree.write(CreateZnode("/g", "", SESSION), session=SESSION)
    tree.write(DeleteZnode("/f"))
    tree.time_ms = 11
    assert tree.close_session(SESSION) == Commit(
        108, SESSION, 11, (Removed("/e"), Removed("/g")), closes=True
    )
    assert list(paths_of(tree)) == ["/a", "/a/b"]
    with pytest.raises(ZooKeeperError, match="SESSIONEXPIRED for session 0x7"):
        tree.close_session(SESSION)
