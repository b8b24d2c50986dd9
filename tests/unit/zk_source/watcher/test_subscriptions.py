"""The two ways of watching: what they ask for, and how one replaces the other."""

from __future__ import annotations

import pytest

from controller_model.sources.zookeeper.znode_kinds import WATCHED_SUBTREES, is_published
from tests.support.ensemble_in_memory import Play
from zk_source.watcher.subscriptions import OneShotWatches, RecursiveWatches, Watches
from zk_source.watcher.watcher import Intervals
from zk_source.wire.operations import Children, Err, EventType, Op, Refused, ZnodeData

LEAF = ZnodeData(b"", 1, 1, 1, 1, 0, 0, 0)
ABSENT = Refused(Err.NO_NODE)
TOPIC = "/brokers/topics/t"
PARTITIONS = f"{TOPIC}/partitions"
STATE = f"{PARTITIONS}/0/state"


def data(path: str) -> tuple[Op, str]:
    """Return a read of a znode's data."""
    return (Op.GET_DATA, path)


def names(path: str) -> tuple[Op, str]:
    """Return a read of a znode's children."""
    return (Op.GET_CHILDREN, path)


def one_shot() -> Play:
    """Return a simulation of a small cluster, watched by one-shot watches, after its resync."""
    play = Play(Intervals(reconciliation_ms=30_000, resync_ms=10**12), watches=Watches.ONE_SHOT)
    for path in ("/brokers/ids/0", "/brokers/topics/t", STATE, "/controller"):
        play.zk.put(path)
    play.connect()
    play.deliver_all()
    return play


def test_a_recursive_walk_lists_a_published_znode_only_if_it_has_children() -> None:
    """A znode's own Stat shows whether there is anything below it."""
    watches = RecursiveWatches()
    first = [data(root) if is_published(root) else names(root) for root in WATCHED_SUBTREES]
    assert watches.start_walk(resync=True) == first
    topic = data("/brokers/topics/t")
    assert watches.reads_after_walk(topic, LEAF, resync=True) == ()
    grown = LEAF._replace(num_children=1)
    assert watches.reads_after_walk(topic, grown, resync=True) == (names(topic[1]),)
    assert watches.reads_after_walk(names(topic[1]), ABSENT, resync=True) == ()


def test_a_partitions_state_is_read_without_listing_its_directory() -> None:
    """The directory's only child is known, with either way of watching."""
    found = Children(("0", "10"))
    reads = [data(STATE), data(f"{PARTITIONS}/10/state")]
    for watches in (RecursiveWatches(), OneShotWatches()):
        assert watches.reads_after_walk(names(PARTITIONS), found, resync=True) == reads


def test_one_shot_watches_are_set_where_a_znode_may_be_created() -> None:
    """A topic's children are watched before it has any; nothing is listed below a leaf."""
    watches = OneShotWatches()
    assert watches.reads_after_walk(names("/brokers/topics"), Children(("t",)), resync=True) == [
        data("/brokers/topics/t"),
        names("/brokers/topics/t"),
    ]
    assert watches.reads_after_walk(names("/brokers/ids"), Children(("0",)), resync=True) == [
        data("/brokers/ids/0")
    ]
    assert watches.reads_after_walk(data("/controller"), ABSENT, resync=True) == (
        (Op.EXISTS, "/controller"),
    )
    assert watches.reads_after_walk(data(STATE), ABSENT, resync=True) == (names(f"{PARTITIONS}/0"),)


def test_a_list_of_children_leads_to_reads_of_the_new_ones_only() -> None:
    """One topic more among many is two reads, not two for each of them."""
    watches = OneShotWatches()
    topics = names("/brokers/topics")
    watches.reads_after_walk(topics, Children(("a", "b")), resync=True)
    new = [data("/brokers/topics/c"), names("/brokers/topics/c")]
    assert watches.reads_after_change(topics, Children(("a", "b", "c"))) == new
    assert watches.reads_after_change(topics, Children(("a", "b", "c"))) == []


@pytest.mark.parametrize(
    ("type_", "path", "reads"),
    [
        (EventType.DATA_CHANGED, TOPIC, (data(TOPIC),)),
        (EventType.CHILDREN_CHANGED, TOPIC, (names(TOPIC),)),
        (EventType.CREATED, TOPIC, (data(TOPIC), names(TOPIC))),
        (EventType.DELETED, TOPIC, (data(TOPIC), names(TOPIC))),
        (EventType.DATA_CHANGED, PARTITIONS, ()),
        (EventType.CHILDREN_CHANGED, STATE, ()),
    ],
)
def test_a_one_shot_event_leads_to_the_reads_whose_watch_it_removed(
    type_: EventType, path: str, reads: tuple[tuple[Op, str], ...]
) -> None:
    """A topic's new assignment lists no partitions, and a new partition reads no assignment."""
    assert OneShotWatches().to_read(type_, path) == reads


def test_a_quiet_one_shot_cluster_has_a_watch_for_each_read() -> None:
    """Published znodes have a data watch, those that may have children a child watch, nothing else."""
    play = one_shot()
    missing = {"/controller_epoch", "/feature", "/migration"}
    assert play.zk.data_watches >= {"/brokers/ids/0", "/brokers/topics/t", STATE} | missing
    assert play.zk.child_watches >= {"/brokers", "/brokers/topics", "/brokers/topics/t"}
    assert f"{PARTITIONS}/0" not in play.zk.child_watches


def test_no_watch_is_left_of_a_topic_that_was_created_and_deleted() -> None:
    """Watches on deleted znodes would accumulate on the server."""
    play = one_shot()
    before = play.zk.data_watches | play.zk.child_watches
    for path in ("/brokers/topics/u", "/brokers/topics/u/partitions/0/state"):
        play.zk.put(path)
        play.deliver_all()
    assert play.reader.mzxids.keys() >= {
        "/brokers/topics/u",
        "/brokers/topics/u/partitions/0/state",
    }
    play.zk.delete("/brokers/topics/u")
    play.deliver_all()
    assert play.zk.data_watches | play.zk.child_watches == before
    assert not [path for path in play.reader.mzxids if path.startswith("/brokers/topics/u")]
