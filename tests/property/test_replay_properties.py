"""Properties of the fold that hold for every history of a cluster."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from controller_model.fold.replay import replay
from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange
from controller_model.state.packing import pack_control
from tests.support.histories import (
    Fold,
    History,
    controller_payload,
    count_from_scratch,
    replaced,
    small_cluster,
    state_path,
)

BROKERS = range(4)
TOPICS = ("a", "b", "state")
STEPS = st.integers(0, 2**32)


def write_random_changes(
    history: History, draws: random.Random, steps: int, *, all_seen: bool = False
) -> None:
    """Write random changes of Kafka, of tools and of failures to a cluster, some of them unseen."""
    actions: list[Callable[[History, random.Random, bool], None]] = [
        _broker, _broker, _controller, _topic, _state, _state, _state, _config, _deletion,
        _damage, _time,
    ]  # fmt: skip
    for _ in range(steps):
        seen = all_seen or draws.random() < 0.8
        draws.choice(actions)(history, draws, seen)


def _broker(history: History, draws: random.Random, seen: bool) -> None:
    broker = draws.choice(BROKERS)
    if f"/brokers/ids/{broker}" in history.znodes:
        history.broker_gone(broker, seen=seen)
        if draws.random() < 0.3:
            history.broker(broker, seen=seen)
    else:
        history.broker(broker, seen=seen)


def _controller(history: History, draws: random.Random, seen: bool) -> None:
    if history.controller_id is not None:
        history.delete("/controller", seen=seen)
    if draws.random() < 0.8:
        seen_epoch = draws.random() < 0.9
        history.elect(draws.choice(BROKERS), seen=seen, epoch_seen=seen_epoch)


def _topic(history: History, draws: random.Random, seen: bool) -> None:
    name = draws.choice(TOPICS)
    if f"/brokers/topics/{name}" in history.znodes and draws.random() < 0.3:
        history.topic_gone(name, seen=seen)
        if draws.random() < 0.5:
            return
    assignment = {p: draws.sample(BROKERS, 3) for p in range(draws.randint(1, 4))}
    moved = {p: r[:1] for p, r in assignment.items() if draws.random() < 0.2}
    gone = {p: r[1:2] for p, r in assignment.items() if draws.random() < 0.2}
    history.topic(name, assignment, adding=moved, removing=gone, seen=seen)


def _state(history: History, draws: random.Random, seen: bool) -> None:
    name, partition = draws.choice(TOPICS), draws.randint(0, 4)
    if f"/brokers/topics/{name}" not in history.znodes:
        return  # ZooKeeper holds no znode without its parents
    if draws.random() < 0.1 and state_path(name, partition) in history.znodes:
        history.delete(state_path(name, partition), seen=seen)
        return
    history.state(
        name,
        partition,
        leader=draws.choice([-1, *BROKERS, *BROKERS]),
        isr=draws.sample(BROKERS, draws.randint(1, 3)),
        leader_epoch=draws.randint(0, 5),
        controller_epoch=max(0, history.epoch - draws.randint(0, 1)),
        recovery=draws.randint(0, 1),
        seen=seen,
    )


def _config(history: History, draws: random.Random, seen: bool) -> None:
    path = draws.choice(
        ["/config/topics/a", "/config/topics/b", "/config/brokers/1", "/config/brokers/<default>"]
    )
    if path in history.znodes and draws.random() < 0.3:
        history.delete(path, seen=seen)
        return
    config = {"min.insync.replicas": str(draws.randint(1, 3))} if draws.random() < 0.8 else {}
    history.set(path, {"version": 1, "config": config}, seen=seen)


def _deletion(history: History, draws: random.Random, seen: bool) -> None:
    path = f"/admin/delete_topics/{draws.choice(TOPICS)}"
    if path in history.znodes:
        history.delete(path, seen=seen)
    else:
        history.set(path, b"", seen=seen)


def _damage(history: History, draws: random.Random, seen: bool) -> None:
    path = draws.choice(
        ["/controller", "/controller_epoch", "/brokers/ids/3", "/brokers/topics/b", "/cluster/id"]
    )
    history.set(path, draws.choice([b"", b"null", b"{", b"\xff", b"[]"]), seen=seen)
    if path == "/controller":
        history.set(path, controller_payload(draws.choice(BROKERS)), seen=seen)


def _time(history: History, draws: random.Random, seen: bool) -> None:
    if draws.random() < 0.5:
        history.heartbeat(after_ms=draws.randint(10, 10_000))
    elif seen and draws.random() < 0.3:
        history.resync(reason="reconnected")
    elif draws.random() < 0.2:
        history.seq += 1  # a record is lost
    elif history.changes:
        history.changes.append(draws.choice(history.changes[-5:]))


def random_history(seed: int, steps: int = 60) -> History:
    """Return a history from a baseline on."""
    history = small_cluster()
    write_random_changes(history, random.Random(seed), steps)  # noqa: S311  # a play, not a secret
    return history


def batches(history: History, draws: random.Random) -> list[list[ZnodeChange]]:
    """Return the log cut anywhere."""
    rest, result = list(history.changes), []
    while rest:
        size = draws.randint(1, 12)
        result.append(rest[:size])
        rest = rest[size:]
    return result


def whole(fold: Fold) -> Any:
    """Return all that a fold holds: its packed control plane, and its facts."""
    facts = fold.facts()
    control = fold.state.control
    return pack_control(control), control.totals.members, facts


@given(STEPS)
def test_totals_equal_a_count_from_scratch(seed: int) -> None:
    """After any batch the totals are what counting every topic again gives."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    fold = Fold(packed=draws.random() < 0.5)
    for batch in batches(random_history(seed), draws):
        fold.feed(batch)
        assert fold.state.control.totals == count_from_scratch(fold.state)
        topics = [fold.state.topics.get(name) for name in fold.state.topics.names()]
        assert fold.state.control.topics == sum(t is not None and t.exists for t in topics)


@given(STEPS)
def test_the_ends_of_batches_change_nothing(seed: int) -> None:
    """In batches of any size the events, the counters and the figures are the same."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    history = random_history(seed)
    one, many = Fold(), Fold()
    one.feed(history.changes)
    for batch in batches(history, draws):
        many.feed(batch)
    assert many.events == one.events
    assert whole(many)[1] == whole(one)[1]
    assert many.cluster_view() == one.cluster_view()


@given(STEPS)
def test_a_restart_at_any_change_gives_the_same_state(seed: int) -> None:
    """A fold that resumes from its packed state has the same events and the same state."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    history = random_history(seed)
    steady, restarted = Fold(), Fold(packed=True)
    for batch in batches(history, draws):
        steady.feed(batch)
        restarted.feed(batch)
        restarted.restart()
    assert restarted.events == steady.events
    assert whole(restarted)[1] == whole(steady)[1]
    assert restarted.cluster_view() == steady.cluster_view()


@given(STEPS)
def test_redelivery_changes_nothing(seed: int) -> None:
    """Redelivered changes are dropped and counted; nothing else changes."""
    history = random_history(seed)
    fold = Fold()
    fold.feed(history.changes)
    before = whole(fold)[1]
    dropped = fold.state.control.log.view.not_newer
    assert fold.feed(history.changes[-20:]) == []
    assert whole(fold)[1] == before
    assert fold.state.control.log.view.not_newer == dropped + len(history.changes[-20:])


@given(STEPS)
def test_a_history_and_a_resync_of_its_end_agree(seed: int) -> None:
    """A fold that saw everything, or half, holds after a resync what a new one reads from it."""
    history = random_history(seed)
    for path in ("/controller", "/controller_epoch", "/brokers/ids/3"):
        if path in history.znodes:
            history.delete(path, seen=False)  # an unreadable value has no last good one again
    if "/brokers/topics/b" in history.znodes:
        history.topic_gone("b", seen=False)
    history.resync(reason="at the end")
    old = Fold()
    old.feed(history.changes)
    assert old.state.control.log.view.verified_at == history.changes[-1].observed_at
    assert old.state.control.log.view.incomplete_since is None
    later = History(znodes=history.znodes, zxid=history.zxid, now=history.now, generation=2)
    later.resync()
    new = Fold()
    new.feed(later.changes)
    facts = old.facts()
    facts["controller"] = (facts["controller"][0], None)  # the epoch outlives its znode
    assert facts == new.facts()


@given(STEPS)
def test_a_reconciliation_of_a_fully_reported_tree_verifies(seed: int) -> None:
    """While every change is reported, the digest equals the tree's, and reconciliations verify."""
    history = small_cluster()
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    fold = Fold()
    for _ in range(5):
        write_random_reported_changes(history, draws)
        history.reconciled()
        fold.follow(history)
        assert fold.state.control.log.view.verified_at == history.changes[-1].observed_at


def write_random_reported_changes(history: History, draws: random.Random) -> None:
    """Write random changes to a cluster, all of them seen."""
    for _ in range(10):
        draws.choice([_broker, _topic, _state, _config, _deletion, _damage])(history, draws, True)


@given(STEPS)
def test_a_stale_value_never_wins(seed: int) -> None:
    """An older read of any znode, reported late under a new place in the log, changes no fact."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    history = small_cluster()
    write_random_changes(history, draws, 40, all_seen=True)
    history.resync()
    fold = Fold()
    fold.feed(history.changes)
    before = fold.facts()
    newest = {c.path: c.mzxid or 0 for c in history.changes if c.kind is ChangeKind.SET}
    old = [
        c
        for c in history.changes
        if c.kind is ChangeKind.SET
        and ((c.mzxid or 0) < newest[c.path] or c.path not in history.znodes)
        and (c.read_zxid or 0) < fold.state.control.source.deletes_read_zxid
    ]
    late = [
        replaced(
            change,
            seq=history.seq + place,
            generation=history.generation,
            observed_at=history.changes[-1].observed_at,
        )
        for place, change in enumerate(draws.sample(old, min(8, len(old))), start=1)
    ]
    assert fold.feed(late) == []
    assert fold.facts() == before


@given(STEPS)
def test_counters_never_fall(seed: int) -> None:
    """In any history elections, missed elections and the vacancy's sums only grow."""
    fold = Fold()
    last = (0, 0, 0, 0, 0)
    for change in random_history(seed).changes:
        fold.feed([change])
        controller = fold.state.control.controller
        now = (
            controller.view.elections,
            controller.view.missed_elections,
            controller.view.id_changes,
            controller.view.vacancy_total_min_ms,
            controller.view.vacancy_total_max_ms,
        )
        assert all(new >= old for new, old in zip(now, last, strict=True))
        assert controller.view.vacancy_total_min_ms <= controller.view.vacancy_total_max_ms
        last = now


@given(STEPS)
def test_the_number_of_elections_equals_the_growth_of_the_epoch(seed: int) -> None:
    """For any merged or unseen elections the count is exact once both znodes are read.

    If the log ends before that, unseen elections count as missed, and none is lost.
    """
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    history = small_cluster()
    before_2_1 = draws.random() < 0.5
    for _ in range(draws.randint(1, 30)):
        seen = draws.random() < 0.5
        if history.controller_id is not None:
            history.delete("/controller", seen=seen)
        if before_2_1:
            history.set("/controller", controller_payload(draws.choice(BROKERS)), seen=seen)
            history.epoch += 1
            history.set("/controller_epoch", str(history.epoch), seen=draws.random() < 0.5)
        else:
            history.elect(draws.choice(BROKERS), seen=seen, epoch_seen=draws.random() < 0.5)
        if draws.random() < 0.3:
            history.report("/controller_epoch")
            history.report("/controller")
    history.report("/controller")
    history.report("/controller_epoch")
    fold = Fold()
    controller = fold.state.control.controller
    elections = 0
    for change in history.changes:
        fold.feed([change])
        if fold.state.control.log.baseline:
            reported = fold.state.source.elections(fold.state.control)
            assert reported[1] == reported[0] - 1 - fold.state.control.source.elections.seen
            assert reported[0] >= elections
            elections = reported[0]
    history.heartbeat()
    fold.feed(history.changes[-1:])
    assert fold.state.source.elections(fold.state.control) == (
        controller.view.elections,
        controller.view.missed_elections,
    )
    assert controller.view.elections == history.epoch
    assert (
        controller.view.missed_elections
        == history.epoch - 1 - fold.state.control.source.elections.seen
    )


_NUMBERS = st.none() | st.integers(-3, 40) | st.sampled_from([2**63 - 1, -(2**63)])
_VERSIONS = st.none() | st.integers(-3, 40) | st.sampled_from([2**31 - 1, -(2**31)])
_DROPPED = st.none() | st.integers(0, 40) | st.just(2**40)
_PATHS = st.sampled_from(
    [
        "/controller", "/controller_epoch", "/brokers/ids/0", "/brokers/ids/x", "/brokers/topics/t",
        "/brokers/topics/t/partitions/0/state", "/config/topics/t", "/config/brokers/<default>",
        "/admin/delete_topics/t", "/admin/preferred_replica_election", "/cluster/id", "/feature",
        "/isr_change_notification/isr_change_1", "", "/", "//", "/brokers",
    ]
)  # fmt: skip
_DATA = st.sampled_from(
    [
        "", "null", "{}", "[]", "7", "1", "NaN", '{"version":1,"brokerid":0}',
        '{"version":1,"partitions":{"0":[0,1]}}', '{"version":1,"partitions":{"0":[]}}',
        '{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0,0]}',
        '{"controller_epoch":1,"leader":-2,"version":1,"leader_epoch":0,"isr":[]}',
        '{"version":1,"config":{"min.insync.replicas":"2"}}', '{"version":1,"id":"x"}',
        '{"version":1,"host":"h","port":1}', '{"version":5,"endpoints":["PLAINTEXT://h:99999999"]}',
        '{"version":1,"partitions":[{"topic":"t","partition":0}]}',
    ]
) | st.none()  # fmt: skip
_CHANGES = st.builds(
    ZnodeChange,
    v=st.just(1),
    cluster=st.just("prod"),
    generation=st.integers(-1, 3),
    watcher=st.sampled_from(["w1", "w2"]),
    seq=st.integers(-1, 40),
    kind=st.sampled_from(ChangeKind),
    observed_at=st.integers(-5, 10**13),
    path=_PATHS,
    data=_DATA,
    data_base64=st.sampled_from([None, "!", "/w=="]),
    data_omitted=st.booleans(),
    czxid=_NUMBERS,
    mzxid=_NUMBERS,
    version=_VERSIONS,
    ctime=_NUMBERS,
    mtime=_NUMBERS,
    read_zxid=_NUMBERS,
    resync=_NUMBERS,
    answers=_NUMBERS,
    rebase=st.booleans(),
    znodes=_NUMBERS,
    digest=st.sampled_from([None, "", "0" * 16]),
    dropped=_DROPPED,
    session=st.none() | st.sampled_from(SessionState),
    session_since=_NUMBERS,
)


@given(st.lists(_CHANGES, max_size=40), st.booleans())
def test_replay_never_raises(changes: list[ZnodeChange], in_order: bool) -> None:
    """Any records in any order are applied, dropped or reported, packed and shown; nothing raises."""
    fold = Fold(packed=True)
    if in_order:
        changes = [replaced(c, generation=1, seq=i) for i, c in enumerate(changes, start=1)]
    for change in changes:
        replay(fold.state, change)
    fold.cluster_view()
    fold.restart()
    assert fold.state.control.totals == count_from_scratch(fold.state)
