"""Differences between two snapshots: each one once, with its path and both values."""

from __future__ import annotations

import json
from typing import Any

from controller_model.history.log_replay import END, LogReplay, Point
from controller_model.history.snapshot_diff import diff, encode_diff
from controller_model.kafka.ids import Position
from controller_model.records.loose_log import decode_line
from tests.support.histories import History, encode_changes, small_cluster


def reported(history: History, seq: int) -> dict[str, Any]:
    """Return what changed from a seq of generation 1 to the end, as its readers see it."""
    point = Point(until=Position(1, seq))
    replay = LogReplay(points=(point, END))
    replay.apply_changes(decode_line(encode_changes(history.changes)).changes)
    replay.finish()
    before, after = replay.snapshots[point], replay.snapshots[END]
    assert before is not None
    assert after is not None
    decoded: dict[str, Any] = json.loads(encode_diff(diff(before, after)))
    return decoded


def changed(history: History, seq: int) -> dict[str, tuple[Any, Any]]:
    """Return the differences by their paths."""
    return {
        "/".join(entry["path"]): (entry["before"], entry["after"])
        for entry in reported(history, seq)["differences"]
    }


def test_nothing_differs_where_nothing_changed() -> None:
    """Another position and another time in the log are not a difference."""
    history = small_cluster()
    seq = history.seq
    history.heartbeat()
    assert reported(history, seq) == {
        "cluster": "prod",
        "before": {"as_of": {"generation": 1, "seq": seq}, "at": history.changes[-2].observed_at},
        "after": {"as_of": {"generation": 1, "seq": seq + 1}, "at": history.now + 1},
        "differences": [],
    }


def test_a_field_that_changed_is_one_difference() -> None:
    """The path leads to the field; a list of replicas is one value."""
    history = small_cluster()
    seq = history.seq
    history.state("t", 1, leader=2, isr=[2, 0], leader_epoch=1)
    assert changed(history, seq) == {
        "brokers/1/leaders": (1, 0),
        "brokers/1/imbalance_ratio": (0.0, 1.0),
        "brokers/2/leaders": (0, 1),
        "topics/t/partitions/1/leader": (1, 2),
        "topics/t/partitions/1/isr": ([1, 2, 0], [2, 0]),
        "topics/t/partitions/1/leader_epoch": (0, 1),
        "topics/t/partitions/1/partition_epoch": (0, 1),
        "counts/under_replicated": (0, 1),
        "counts/preferred_imbalance": (0, 1),
    }


def test_a_topic_or_broker_on_one_side_only_is_one_difference() -> None:
    """A new topic and a deleted one are each one difference, whatever they contain."""
    history = small_cluster()
    seq = history.seq
    history.topic_gone("t")
    history.topic("n", {0: (1,)})
    history.broker(3)
    differences = changed(history, seq)
    gone, none = differences["topics/t"]
    nothing, new = differences["topics/n"]
    assert none is nothing is None
    assert sorted(gone["partitions"]) == ["0", "1"]
    assert new["partitions"]["0"]["state"] == "NewPartition"
    assert differences["brokers/3"][1]["live"] is True
    assert not [path for path in differences if path.startswith("topics/t/")]


def test_a_value_that_comes_or_goes_is_null_on_one_side() -> None:
    """In a vacancy the controller's id is null; a partition gets an ISR with its state."""
    history = small_cluster()
    history.topic("n", {0: (1,)})
    seq = history.seq
    history.delete("/controller")
    history.state("n", 0, leader=1, isr=[1])
    differences = changed(history, seq)
    assert differences["controller/id"] == (0, None)
    assert differences["topics/n/partitions/0/isr"] == (None, [1])


def test_differences_come_in_the_order_of_the_snapshot() -> None:
    """The controller first, then brokers, topics, counts, requests."""
    history = small_cluster()
    seq = history.seq
    history.broker_gone(0)
    history.set("/admin/reassign_partitions", {"version": 1, "partitions": []})
    first = [entry["path"][0] for entry in reported(history, seq)["differences"]]
    assert list(dict.fromkeys(first)) == ["controller", "brokers", "topics", "counts", "pending"]
