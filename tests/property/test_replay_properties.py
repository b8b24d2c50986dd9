"""The fold counts every election, and takes records of any content."""

from __future__ import annotations

import json
import random

from hypothesis import given
from hypothesis import strategies as st

from controller_model.fold.replay import replay
from controller_model.history.log_replay import LogReplay
from controller_model.records.changes import ChangeKind, SessionState, ZnodeChange
from controller_model.records.loose_log import decode_line
from controller_model.state.control_plane import Assumed
from tests.support.histories import (
    Fold,
    controller_payload,
    count_from_scratch,
    replaced,
    small_cluster,
)

BROKERS = range(4)


@given(st.randoms(use_true_random=False))
def test_the_number_of_elections_equals_the_growth_of_the_epoch(draws: random.Random) -> None:
    """For any merged or unseen elections the count is exact once both znodes are read.

    If the log ends before that, unseen elections count as missed, and none is lost.
    """
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


@given(line=st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_no_line_of_a_log_raises_an_exception(line: bytes) -> None:
    """It holds changes, or unreadable records, or (an empty array) nothing."""
    replay = LogReplay(assumed=lambda _: Assumed(min_insync_replicas=1))
    loose = decode_line(line)
    assert loose.changes or loose.unreadable or json.loads(line) == []
    replay.apply_changes(loose.changes)
    replay.finish()
