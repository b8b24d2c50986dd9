"""Properties of snapshots for every history, by a count that does not use the fold."""

from __future__ import annotations

import json
import random
from collections import Counter
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controller_model.history.log_replay import END, LogReplay, Point
from controller_model.history.snapshot import Snapshot, encode_snapshot, snapshot
from controller_model.history.snapshot_diff import diff
from controller_model.kafka.ids import Position
from controller_model.records.changes import encode_change
from controller_model.records.loose_log import decode_line
from controller_model.state.control_plane import Assumed
from tests.property import test_replay_properties as plays
from tests.support.histories import Fold, History, encode_changes, small_cluster

SEEDS = st.integers(0, 2**32)
MIN_ISR = 1


def undamaged(seed: int, *, all_seen: bool = False, steps: int = 40) -> History:
    """Return a history in which every payload can be read."""
    history = small_cluster()
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    actions = [
        plays._broker, plays._broker, plays._controller, plays._topic, plays._state, plays._state,
        plays._config, plays._deletion,
    ]  # fmt: skip
    for _ in range(steps):
        draws.choice(actions)(history, draws, all_seen or draws.random() < 0.8)
    return history


def recorded(history: History, *points: Point) -> list[Snapshot]:
    """Return the snapshots that a recording of the history gives."""
    replay = LogReplay(points=points or (END,), assumed=lambda _: Assumed(min_insync_replicas=1))
    for start in range(0, len(history.changes), 7):
        line = encode_changes(history.changes[start : start + 7])
        replay.apply_changes(decode_line(line).changes)
    replay.finish()
    taken = [replay.snapshots[point] for point in points or (END,)]
    return [reported for reported in taken if reported is not None]


def plain(reported: Snapshot) -> dict[str, Any]:
    """Return a snapshot as its readers see it."""
    decoded: dict[str, Any] = json.loads(encode_snapshot(reported))
    return decoded


class Truth:
    """ZooKeeper's znodes, read by Kafka's definitions, without the model."""

    def __init__(self, history: History) -> None:
        self.znodes = history.znodes
        self.live = {int(name): held for name, held in self.under("/brokers/ids/").items()}
        self.deleting = set(self.under("/admin/delete_topics/"))
        self.topics = {
            name: json.loads(held.data) for name, held in self.under("/brokers/topics/").items()
        }
        self.partitions = [
            (name, int(partition), replicas, self.state(name, partition))
            for name, topic in self.topics.items()
            for partition, replicas in topic["partitions"].items()
        ]

    def under(self, folder: str) -> dict[str, Any]:
        """Return the children of a path."""
        return {
            path.removeprefix(folder): held
            for path, held in self.znodes.items()
            if path.startswith(folder) and "/" not in path.removeprefix(folder)
        }

    def state(self, topic: str, partition: str) -> dict[str, Any] | None:
        """Return a partition's state, and its version under `epoch`."""
        held = self.znodes.get(f"/brokers/topics/{topic}/partitions/{partition}/state")
        if held is None:
            return None
        return {**json.loads(held.data), "epoch": held.version}

    def moving(self, topic: str, partition: int, which: str) -> list[int]:
        """Return the adding or removing replicas of a partition."""
        replicas: list[int] = self.topics[topic][which].get(str(partition), [])
        return replicas

    def min_isr(self, topic: str, leader: int) -> int:
        """Return min.insync.replicas: the topic's, the leader's, the default or the assumed one."""
        for path in (f"topics/{topic}", f"brokers/{leader}", "brokers/<default>"):
            held = self.znodes.get(f"/config/{path}")
            config = {} if held is None else json.loads(held.data)["config"]
            if "min.insync.replicas" in config:
                return int(config["min.insync.replicas"])
        return MIN_ISR

    def counts(self) -> dict[str, int]:
        """Return the cluster's figures."""
        found: Counter[str] = Counter()
        for name, partition, replicas, state in self.partitions:
            adding = self.moving(name, partition, "adding_replicas")
            found["partitions"] += 1
            found["reassigning"] += bool(
                adding or self.moving(name, partition, "removing_replicas")
            )
            if state is None or name in self.deleting:
                continue
            leader, isr = state["leader"], state["isr"]
            online = leader in self.live
            least = min(self.min_isr(name, leader), len(replicas))
            found["offline"] += not online
            found["under_replicated"] += len(set(replicas) - set(adding)) > len(isr)
            found["under_min_isr"] += online and len(isr) < least
            found["at_min_isr"] += online and len(isr) == least
            exempt = replicas[0] in adding
            balanced = replicas[0] not in isr if exempt else leader == replicas[0]
            found["preferred_imbalance"] += not balanced
        found["topics"], found["deleting_topics"] = len(self.topics), len(self.deleting)
        return found

    def broker(self, broker: int) -> dict[str, Any]:
        """Return what is true of a broker now."""
        mine = [
            (name, state, replicas)
            for name, _, replicas, state in self.partitions
            if replicas[0] == broker and name not in self.deleting
        ]
        lost = [state for _, state, _ in mine if state is not None and state["leader"] != broker]
        return {
            "live": broker in self.live,
            "leaders": sum(s is not None and s["leader"] == broker for *_, s in self.partitions),
            "replicas": sum(broker in replicas for _, _, replicas, _ in self.partitions),
            "preferred": len(mine),
            "imbalance_ratio": len(lost) / len(mine) if mine else 0.0,
        }

    def partition(
        self, topic: str, partition: int, replicas: list[int], state: dict[str, Any] | None
    ) -> dict[str, Any]:
        """Return a partition as a snapshot has it."""
        name = "NewPartition"
        if state is not None:
            name = "OnlinePartition" if state["leader"] in self.live else "OfflinePartition"
        state = state or {}
        return {
            "replicas": replicas,
            "adding": self.moving(topic, partition, "adding_replicas"),
            "removing": self.moving(topic, partition, "removing_replicas"),
            "leader": state.get("leader"),
            "isr": state.get("isr"),
            "leader_epoch": state.get("leader_epoch"),
            "controller_epoch": state.get("controller_epoch"),
            "partition_epoch": state.get("epoch"),
            "leader_recovery_state": state.get("leader_recovery_state"),
            "state": name,
        }


@given(seed=SEEDS)
def test_after_a_resync_a_snapshot_equals_the_znode_tree(seed: int) -> None:
    """Every fact and every figure agrees, although changes before it were unseen."""
    history = undamaged(seed)
    history.resync()
    truth = Truth(history)
    reported = plain(recorded(history)[0])
    assert reported["complete"] is True
    held = history.znodes.get("/controller")
    assert reported["controller"]["id"] == (
        None if held is None else json.loads(held.data)["brokerid"]
    )
    assert reported["controller"]["epoch"] == history.epoch
    partitions: dict[str, dict[str, Any]] = {name: {} for name in truth.topics}
    for name, partition, replicas, state in truth.partitions:
        partitions[name][str(partition)] = truth.partition(name, partition, replicas, state)
    assert {name: topic["partitions"] for name, topic in reported["topics"].items()} == partitions
    assert {n for n, topic in reported["topics"].items() if topic["deleting"]} == (
        truth.deleting & set(truth.topics)
    )
    for broker, facts in reported["brokers"].items():
        epoch, registrations = facts.pop("epoch"), facts.pop("registrations")
        assert facts == truth.broker(int(broker))
        if facts["live"]:
            assert epoch == truth.live[int(broker)].czxid
        assert (registrations > 0) is (epoch is not None)
    assigned = {broker for _, _, replicas, _ in truth.partitions for broker in replicas}
    assert {int(broker) for broker in reported["brokers"]} >= assigned | set(truth.live)
    figures = truth.counts()
    for name in ("missed_updates", "unreadable", "stale"):
        reported["counts"].pop(name)
    assert reported["counts"] == {name: figures[name] for name in reported["counts"]}


@given(seed=SEEDS)
def test_a_snapshot_counts_all_controller_elections(seed: int) -> None:
    """Each raises the epoch by one, so none is lost, seen or not; the baseline counts as one."""
    history = undamaged(seed)
    history.resync()
    controller = plain(recorded(history)[0])["controller"]
    assert controller["elections"] == history.epoch
    assert controller["changes"] == history.epoch - 1
    assert controller["id_changes"] <= controller["changes"]
    assert controller["missed_elections"] <= controller["changes"]


@given(seed=SEEDS)
def test_a_replayed_log_gives_the_snapshot_of_the_fold(seed: int) -> None:
    """Damage, holes, duplicates and resyncs included."""
    history = plays.random_history(seed)
    fold = Fold()
    fold.follow(history)
    assert encode_snapshot(recorded(history)[0]) == encode_snapshot(snapshot(fold.state))


@given(seed=SEEDS, at=st.integers(1, 60))
def test_a_snapshot_at_a_position_equals_that_of_a_log_that_ends_there(seed: int, at: int) -> None:
    """Later changes do not affect it, and it does not affect the snapshot at the end."""
    history = undamaged(seed)
    place = Point(until=Position(1, at))
    both = recorded(history, place, END)
    assert len(both) == 2
    shorter = History(changes=[change for change in history.changes if change.seq <= at])
    assert encode_snapshot(both[0]) == encode_snapshot(recorded(shorter)[0])
    assert encode_snapshot(both[1]) == encode_snapshot(recorded(history)[0])


@given(seed=SEEDS, at=st.integers(1, 60))
def test_differences_applied_to_one_snapshot_give_the_other(seed: int, at: int) -> None:
    """Applied to the first snapshot they give the second, in both directions."""
    history = undamaged(seed)
    first, second = recorded(history, Point(until=Position(1, at)), END)
    for before, after in ((first, second), (second, first)):
        patched = plain(before)
        for difference in diff(before, after).differences:
            *outer, last = difference.path
            where = patched
            for name in outer:
                where = where[name]
            if (
                difference.after is None
                and len(outer) in {1, 3}
                and outer[0] in {"brokers", "topics"}
            ):
                del where[last]
            else:
                where[last] = json.loads(msgspec.json.encode(difference.after))
        expected = plain(after)
        for name in ("as_of", "at"):
            patched.pop(name), expected.pop(name)
        assert patched == expected


@given(seed=SEEDS)
def test_facts_need_no_positions(seed: int) -> None:
    """A log without generations, seqs, watchers, times and names holds the same facts."""
    history = undamaged(seed, all_seen=True)
    full = plain(recorded(history)[0])
    replay = LogReplay(assumed=lambda _: Assumed(min_insync_replicas=1))
    for change in history.changes:
        record = json.loads(encode_change(change))
        for name in ("v", "cluster", "generation", "watcher", "seq", "observed_at"):
            del record[name]
        replay.apply_changes(decode_line(json.dumps(record).encode()).changes)
    replay.finish()
    reported = replay.snapshots[END]
    assert reported is not None
    bare = plain(reported)
    for name in ("topics", "brokers", "controller", "counts", "pending", "complete"):
        assert bare[name] == full[name]


@given(line=st.binary(max_size=80) | st.text(max_size=80).map(str.encode))
def test_no_line_of_a_log_raises_an_exception(line: bytes) -> None:
    """It holds changes, or unreadable records, or (an empty array) nothing."""
    replay = LogReplay(assumed=lambda _: Assumed(min_insync_replicas=1))
    loose = decode_line(line)
    assert loose.changes or loose.unreadable or json.loads(line) == []
    replay.apply_changes(loose.changes)
    replay.finish()
