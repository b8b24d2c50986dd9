"""After any events of the cluster, the connection and the pipeline the log equals the tree.

The reader of the log follows the fold's rules in their plainest form and checks, on the way, that
seqs have no hole, that a generation begins with a resync, and every digest.
"""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from controller_model.records.changes import ChangeKind, SessionState
from controller_model.sources.zookeeper.znode_kinds import WATCHED_SUBTREES, is_published
from tests.support.ensemble_in_memory import Play
from zk_source.watcher.subscriptions import Watches
from zk_source.watcher.watcher import Intervals

PATHS = (
    "/controller",
    "/brokers/ids/0",
    "/brokers/topics/t",
    "/brokers/topics/t/partitions/0/state",
    "/config/topics/t",
)
ABOVE = (
    "/brokers/topics",
    "/brokers/topics/t/partitions",
    "/brokers/topics/t/partitions/0",
    "/brokers/topics/t/partitions/1",
    "/config/topics",
)
"""Containers: published paths come and go with them."""

ON_PATHS = ("put", "put", "change while it is read", "reconnect while it is read", "delete")
ALONE = ("execute", "answer", "deliver", "rest", "rest")
OUTAGES = ("disconnect", "expire", "reconnect", "overflow", "drop", "back")

ON_A_PATH = st.tuples(st.sampled_from(ON_PATHS), st.sampled_from((*PATHS, *ABOVE)))
STEP = st.one_of(
    ON_A_PATH,
    ON_A_PATH,
    st.tuples(st.sampled_from(ALONE), st.just("")),
    st.tuples(st.sampled_from(OUTAGES), st.just(""))
    | st.tuples(st.just("time"), st.sampled_from(("1", "1000", "60000"))),
)
STORY = st.lists(STEP, min_size=10, max_size=40)
"""Short stories heal what they break too seldom to show it; long ones heal it again."""

CALM_DEEDS = ("put", "put", "put", "change while it is read", "delete", "delete")
CALM_STEP = st.one_of(
    st.tuples(st.sampled_from(CALM_DEEDS), st.sampled_from((*PATHS, *ABOVE))),
    st.tuples(st.sampled_from((*ALONE, "rest")), st.just("")),
    st.tuples(st.just("time"), st.just("30000")),
)
CALM = st.lists(CALM_STEP, min_size=10, max_size=40)
"""Stories without outages, full of reconciliations."""

WATCHES = st.sampled_from([Watches.RECURSIVE, Watches.ONE_SHOT])


def drop_notifications(play: Play) -> None:
    """Lose the notifications under way, and notify the watcher that some were lost."""
    replies = [item for item in play.zk.to_client if len(item) != 2]
    play.zk.to_client.clear()
    play.zk.to_client.extend(replies)
    play.watcher.on_overflow(1, play.now_ms)


def reconnect(play: Play) -> None:
    """End the connection and begin another."""
    play.disconnect()
    play.connect()


def rest(play: Play) -> None:
    """Let everything under way come to its end, if there is a connection."""
    if play.zk.connected:
        play.deliver_all()


def change_while_read(play: Play, path: str) -> None:
    """Change a znode, and change it again between its read's execution and the reply."""
    rest(play)
    play.zk.put(path)
    play.deliver_one()
    play.zk.execute_one()
    play.zk.put(path)
    play.deliver_one()


def reconnect_while_read(play: Play, path: str) -> None:
    """Lose the connection between a read's sending and its reply."""
    rest(play)
    play.zk.put(path)
    play.deliver_one()
    reconnect(play)
    rest(play)


ACTIONS: dict[str, Callable[[Play, str], object]] = {
    "put": lambda play, path: play.zk.put(path),
    "delete": lambda play, path: play.zk.delete(path),
    "answer": lambda play, _: play.zk.answer_one(),
    "execute": lambda play, _: play.zk.execute_one(),
    "rest": lambda play, _: rest(play),
    "change while it is read": change_while_read,
    "reconnect while it is read": reconnect_while_read,
    "deliver": lambda play, _: play.deliver_one(),
    "time": lambda play, ms: play.pass_time(int(ms)),
    "disconnect": lambda play, _: play.disconnect(),
    "expire": lambda play, _: play.disconnect(SessionState.LOST),
    "reconnect": lambda play, _: reconnect(play),
    "overflow": lambda play, _: drop_notifications(play),
    "drop": lambda play, _: play.watcher.on_dropped(1, "Kafka was away", play.now_ms),
    "back": lambda play, _: play.watcher.on_pipeline_back(play.now_ms),
}


def played(steps: list[tuple[str, str]], watches: Watches) -> Play:
    """Run the steps of a story, then let everything settle on a live connection."""
    play = Play(Intervals(reconciliation_ms=30_000, resync_ms=10**12), watches=watches)
    play.zk.put("/brokers/ids")
    play.connect()
    for action, detail in steps:
        ACTIONS[action](play, detail)
        play.carry_out()
    play.watcher.on_pipeline_back(play.now_ms)
    if not play.zk.connected:
        play.connect()
    for _ in range(2):
        play.pass_time(2_000)
        play.deliver_all()
    return play


@given(STORY, WATCHES)
@settings(max_examples=150, deadline=None)
def test_the_log_ends_equal_to_the_tree(steps: list[tuple[str, str]], watches: Watches) -> None:
    """After any story, once connected and quiet, a reader holds exactly the published znodes."""
    play = played(steps, watches)
    roots = [f"{root}/" for root in WATCHED_SUBTREES]
    expected = {
        path: node.mzxid
        for path, node in play.zk.nodes.items()
        if is_published(path) and any(f"{path}/".startswith(root) for root in roots)
    }
    assert play.reader.mzxids == expected


@given(STORY, WATCHES)
@settings(max_examples=60, deadline=None)
def test_a_reconciliation_at_the_end_confirms_the_log(
    steps: list[tuple[str, str]], watches: Watches
) -> None:
    """A reconciliation after any story ends with the reader's own digest, and finds nothing missed."""
    play = played(steps, watches)
    play.pass_time(40_000)
    play.deliver_all()
    assert play.reader.last[ChangeKind.RECONCILED].znodes == len(play.reader.mzxids)
    assert play.watcher.reader.reconciliation_differences == 0


@given(CALM, WATCHES)
@settings(max_examples=150, deadline=None)
def test_on_a_live_connection_events_alone_report_everything(
    steps: list[tuple[str, str]], watches: Watches
) -> None:
    """Without an outage no reconciliation finds a change that events do not report."""
    play = played(steps, watches)
    assert play.watcher.resyncs == 1
    play.pass_time(40_000)
    play.deliver_all()
    assert play.watcher.reader.reconciliation_differences == 0
