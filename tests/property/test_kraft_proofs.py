"""Whatever happens in a quorum, what is proven of any copy of any replica is never replaced."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kraft_source.folder import NAME, MetadataFolder
from kraft_source.proof import CommitProof
from kraft_source.wire.batches import RecordBatch
from tests.support.metadata_log import Written, uuid_of
from tests.support.quorum_in_memory import Controller, Quorum

VOTERS = st.integers(0, 2)
OPERATIONS = st.one_of(
    st.tuples(st.sampled_from(["elect", "kill", "start"]), VOTERS),
    st.tuples(st.sampled_from(["write", "replicate", "write", "replicate"]), VOTERS),
    st.tuples(st.just("cut_off"), VOTERS),
    st.tuples(st.just("join"), VOTERS),
    st.tuples(st.sampled_from(["snapshot", "trim"]), VOTERS),
    st.tuples(st.just("copy"), VOTERS),
)
Operation = tuple[str, int]


def write(quorum: Quorum, controller: Controller, number: int) -> None:
    """Let a controller write if it is active: it has been given its own LeaderChange as committed."""
    is_active = any(
        each.epoch == controller.epoch and each.last_offset < controller.high_watermark
        for each in controller.log
    )
    if controller.leads and controller.is_alive and is_active:
        values = {"name": f"t{number}", "topic_id": uuid_of(number)}
        quorum.append(controller, [Written("TopicRecord", values)])


def operate(quorum: Quorum, operations: Iterable[Operation]) -> list[list[RecordBatch]]:
    """Do what is told, and return what was proven of each copy."""
    proven = []
    for number, (name, voter) in enumerate(operations):
        quorum.tick(10)
        controller = quorum.controllers[voter]
        if name == "elect":
            quorum.elect(controller)
        elif name == "write":
            write(quorum, controller, number)
        elif name == "replicate":
            quorum.replicate(controller)
        elif name in {"kill", "start"}:
            controller.is_alive = name == "start"
            controller.leader = -1 if name == "start" else controller.leader
        elif name in {"cut_off", "join"}:
            controller.island = voter + 1 if name == "cut_off" else 0
        elif name in {"snapshot", "trim"} and controller.is_alive:
            quorum.take_snapshot(controller, trims=name == "trim")
        elif name == "copy":
            proven += [proven_of(each) for each in quorum.controllers]
    return proven


def proven_of(controller: Controller) -> list[RecordBatch]:
    """Copy a replica's folder, and return the batches in it that are proven committed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / NAME
        folder.mkdir()
        proof = _proof_of(controller, folder)
    return [each for each in controller.log if each.last_offset < proof.end]


def _proof_of(controller: Controller, folder: Path) -> CommitProof:
    base = controller.log[0].offset if controller.log else 0
    data = b"".join(each.data for each in controller.log)
    (folder / f"{base:020d}.log").write_bytes(data)
    for (end, epoch), snapshot in controller.snapshots.items():
        (folder / f"{end:020d}-{epoch:010d}.checkpoint").write_bytes(snapshot)
    state: dict[str, Any] = {
        "leaderId": controller.leader,
        "leaderEpoch": controller.epoch,
        "currentVoters": [{"voterId": voter} for voter in (3001, 3002, 3003)],
    }
    (folder / "quorum-state").write_bytes(msgspec.json.encode(state))
    (folder.parent / "meta.properties").write_text(f"node.id={controller.id}\n")
    return MetadataFolder(folder).prove()


@given(st.lists(OPERATIONS, min_size=10, max_size=60))
def test_what_is_proven_is_never_replaced(operations: Sequence[Operation]) -> None:
    """Not by controllers that were cut off, killed, elected again, or that got a snapshot instead of the log."""
    quorum = Quorum(Random(1))  # noqa: S311 - nothing is drawn
    quorum.elect(quorum.controllers[0])
    proven = operate(quorum, [*operations, ("copy", 0)])
    quorum.heal()
    final = {each.offset: each for each in quorum.committed}
    for batches in proven:
        for each in batches:
            assert final.get(each.offset) == each


def test_a_follower_proves_more_than_its_leader() -> None:
    """Two of three have the last record, and only the follower's folder shows it."""
    quorum = Quorum(Random(1))  # noqa: S311 - nothing is drawn
    leader, follower, _ = quorum.controllers
    operate(quorum, [("elect", 0), ("replicate", 1), ("write", 0), ("replicate", 1)])
    assert len(leader.log) == 2
    assert len(proven_of(follower)) == 2
    assert len(proven_of(leader)) == 1
