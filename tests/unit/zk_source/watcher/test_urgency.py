"""Each kind of change is urgent or may wait; a partition's state is urgent if its leader is another one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller_model.records.changes import VERSION, ChangeKind, ZnodeChange, data_fields
from controller_model.sources.zookeeper.znode_kinds import ZnodeKind
from zk_source.watcher.urgency import Urgency

STATE = "/brokers/topics/t/partitions/0/state"
OTHER_STATE = "/brokers/topics/t/partitions/1/state"

AT_ONCE = {ZnodeKind.CONTROLLER, ZnodeKind.CONTROLLER_EPOCH, ZnodeKind.BROKER}
MAY_WAIT = {
    ZnodeKind.BROKER_SEQUENCE,
    ZnodeKind.TOPIC,
    ZnodeKind.REASSIGN_PARTITIONS,
    ZnodeKind.PREFERRED_ELECTION,
    ZnodeKind.DELETE_TOPIC,
    ZnodeKind.ISR_CHANGE,
    ZnodeKind.LOG_DIR_EVENT,
    ZnodeKind.TOPIC_CONFIG,
    ZnodeKind.BROKER_CONFIG,
    ZnodeKind.CONFIG_CHANGE,
    ZnodeKind.CLUSTER_ID,
    ZnodeKind.FEATURE,
    ZnodeKind.MIGRATION,
}
"""Written out by hand: a new kind of znode needs a decision."""


def change(kind: ChangeKind, path: str = "", data: bytes = b"{}", **fields: Any) -> ZnodeChange:
    """Return a change of the log."""
    about: dict[str, Any] = {**(data_fields(data) if kind is ChangeKind.SET else {}), **fields}
    return ZnodeChange(
        v=VERSION,
        cluster="prod",
        generation=1,
        watcher="w",
        seq=1,
        kind=kind,
        observed_at=1,
        path=path,
        **about,
    )


def state(leader: int, *isr: int, path: str = STATE) -> ZnodeChange:
    """Return a change of a partition's state."""
    payload = {
        "controller_epoch": 1,
        "leader": leader,
        "version": 1,
        "leader_epoch": 1,
        "isr": list(isr),
    }
    return change(ChangeKind.SET, path, json.dumps(payload).encode())


@pytest.mark.parametrize(
    "kind",
    [each for each in ZnodeKind if each not in {ZnodeKind.OTHER, ZnodeKind.PARTITION_STATE}],
)
@pytest.mark.parametrize("done", [ChangeKind.SET, ChangeKind.DELETED])
def test_each_kind_of_znode_is_urgent_or_may_wait(kind: ZnodeKind, done: ChangeKind) -> None:
    """Whether it is set or deleted. Others are not published; of a partition's state it depends on the leader."""
    path = kind.value.replace("<broker>", "1").replace("<topic>", "t").replace("<sequence>", "x_1")
    assert (kind in AT_ONCE) is not (kind in MAY_WAIT)
    assert Urgency().may_wait(change(done, path)) is (kind in MAY_WAIT)


@pytest.mark.parametrize("kind", sorted({*ChangeKind} - {ChangeKind.SET, ChangeKind.DELETED}))
def test_what_readers_judge_the_log_by_is_urgent(kind: ChangeKind) -> None:
    """Resyncs, reconciliations and heartbeats."""
    assert not Urgency().may_wait(change(kind))


def test_a_partition_whose_leader_is_the_same_may_wait() -> None:
    """Its ISR shrinks and expands. Each partition has its own leader, and none is a leader like others here."""
    urgency = Urgency()
    steps = [
        (state(1, 1, 2), False),  # it is new here
        (state(1, 1), True),
        (state(1, 1, 2), True),
        (state(2, 2), False),
        (state(2, 2, 1), True),
        (state(1, 1, path=OTHER_STATE), False),
        (state(2, 2), True),
        (state(-1, 2), False),
        (state(-1, 2, 1), True),
        (state(2, 2), False),
        (change(ChangeKind.DELETED, STATE), False),
        (state(2, 2), False),
        (state(1, 1, path=OTHER_STATE), True),
    ]
    assert [urgency.may_wait(each) for each, _ in steps] == [wanted for _, wanted in steps]


@pytest.mark.parametrize(
    "fields",
    [{"data": b"{"}, {"data": b"{}"}, {"data_omitted": True}],
    ids=["cut", "empty", "large"],
)
def test_a_state_that_cannot_be_read_is_urgent_and_so_is_the_next_one(
    fields: dict[str, Any],
) -> None:
    """What is not known is not held back, however often it is seen."""
    urgency, unreadable = Urgency(), change(ChangeKind.SET, STATE, **fields)
    assert [
        urgency.may_wait(each)
        for each in (unreadable, state(1, 1), unreadable, unreadable, state(1, 1), state(1, 1))
    ] == [False, False, False, False, False, True]


def test_a_resync_forgets_the_leaders() -> None:
    """It reads all of them again, and those that are gone must not stay."""
    urgency = Urgency()
    urgency.may_wait(state(1, 1))
    urgency.may_wait(change(ChangeKind.RESYNC_STARTED))
    assert not urgency.may_wait(state(1, 1))
    assert urgency.may_wait(state(1, 1))
