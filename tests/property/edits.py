"""Random writes to a cluster's znodes, as by hand and by Kafka, some of them unseen or damaged."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.support.histories import History, controller_payload, state_path

BROKERS = range(4)
TOPICS = ("a", "state", "__consumer_offsets")
DAMAGE = (b"", b"null", b"{", b"\xff", b"[]")


def write_random_changes(history: History, draws: random.Random, steps: int) -> None:
    """Write random changes of Kafka, of tools and of failures to a cluster, some of them unseen."""
    for _ in range(steps):
        draws.choice([*EDITS, *EDITS, _time])(history, draws, draws.random() < 0.8)


def _broker(history: History, draws: random.Random, seen: bool) -> None:
    broker = draws.choice(BROKERS)
    gone = f"/brokers/ids/{broker}" in history.znodes
    if gone:
        history.broker_gone(broker, seen=seen)
    if not gone or draws.random() < 0.3:
        history.broker(broker, seen=seen)


def _controller(history: History, draws: random.Random, seen: bool) -> None:
    if history.controller_id is not None:
        history.delete("/controller", seen=seen)
    if draws.random() < 0.8:
        history.elect(draws.choice(BROKERS), seen=seen, epoch_seen=draws.random() < 0.9)


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
        controller_epoch=max(0, history.epoch + draws.choice([-1, 0, 0, 1])),
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
        ["/controller", "/controller_epoch", "/brokers/ids/3", "/brokers/topics/a", "/cluster/id"]
    )
    history.set(path, draws.choice(DAMAGE), seen=seen)
    if path == "/controller":
        history.set(path, controller_payload(draws.choice(BROKERS)), seen=seen)


EDITS: list[Callable[[History, random.Random, bool], None]] = [
    _broker, _controller, _topic, _state, _state, _state, _config, _deletion, _damage,
]  # fmt: skip


def _time(history: History, draws: random.Random, seen: bool) -> None:
    if draws.random() < 0.5:
        history.heartbeat(after_ms=draws.randint(10, 10_000))
    elif seen and draws.random() < 0.3:
        history.resync(reason="reconnected")
    elif draws.random() < 0.2:
        history.seq += 1  # a record is lost
    elif history.changes:
        history.changes.append(draws.choice(history.changes[-5:]))
