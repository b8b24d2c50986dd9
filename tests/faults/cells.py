"""The cells: each part of the pipeline and of the watched cluster, with the faults that it can have.

The rule: a part defines how to find its processes, connections and disk; a fault defines what is
done to them. Servers that kcm does not restart (ZooKeeper, the watched brokers) are restarted by
the runner, as their operator would.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from http.client import HTTPException
from typing import NamedTuple

from kcm.run.exporter_client import Scrape
from tests.faults.clocks import HOUR_S
from tests.faults.world import MEMBERS, World
from tests.support.hanging import HANG, NOBODY_READS
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import wait_until

DOWN_S = 6.0
"""How long a server is down that the runner restarts; it need not outlast the watcher's and the brokers' sessions."""
LAG_S = 3.5
"""How late a lagging follower gets each change: its leader allows 10 s for the round trip."""
LAGS_FOR_S = 20.0
HANGS_FOR_S = 120.0
"""How long a part may hang: a minute until it says so or is known to, and some seconds until it is killed for that."""
STEPPED_FOR_S = 30.0
"""How long a clock is wrong: several heartbeats."""
MAX_OFF_S = 1.0
"""How far times may be off once all clocks are right again."""
AGREES_IN_S = 60.0
CUT_FOR_S = 60.0
"""How long a leader is cut off, and how long the other watcher has to take its lead."""
ENDS_IN_S = 30.0
"""How long a part may take to end, most of it for Spark."""


class Part(NamedTuple):
    """What can fail. It is looked up for each cell, since its process may be another one each time."""

    name: str
    processes: Callable[[World], list[int]]
    wires: Callable[[World], list[TcpProxy]] | None = None
    """The connections to cut; None: the part has none that a proxy can cut."""
    lose_disk: Callable[[World], None] | None = None
    """Stops it, deletes its data, and lets it start again; None: it keeps no data."""
    pause_s: float = 20.0
    """A time longer than each time limit of those who wait for this part."""
    clock: str = ""
    """What `World.give_clock` calls it; empty: its clock is not stepped."""


Fault = Callable[[World, Part], None]


class Cell(NamedTuple):
    """A part and a fault."""

    part: Part
    fault: str

    @property
    def name(self) -> str:
        """The name for the command line."""
        return f"{self.part.name}: {self.fault}"

    def prepare(self, world: World) -> None:
        """Bring the environment into the state in which the fault can happen."""
        world.elect_watchers(several=self.part is TWO_WATCHERS)
        world.give_clock(self.part.clock if self.fault in CLOCK_FAULTS else "")

    def assert_after(self, world: World) -> None:
        """Assert what must be true when the monitor has recovered, besides all figures."""
        if self.fault in CLOCK_FAULTS:
            _assert_times(world)

    def act(self, world: World) -> None:
        """Run the fault to its end."""
        FAULTS[self.fault](world, self.part)


def _zookeeper(world: World) -> list[int]:
    return [server.pid or 0 for server in world.ensemble.members.values()]


def _zookeeper_leader(world: World) -> list[int]:
    return [world.ensemble.members[world.ensemble.leader()].pid or 0]


def _zookeeper_majority(world: World) -> list[int]:
    leader = world.ensemble.leader()
    other = next(member for member in MEMBERS if member != leader)
    return [world.ensemble.members[member].pid or 0 for member in (leader, other)]


def _wipe_zookeeper_leader(world: World) -> None:
    leader = world.ensemble.leader()
    world.ensemble.members[leader].kill()
    world.ensemble.wipe(leader)


def _other_broker(world: World) -> int:
    controller = world.controller()
    return next(broker_id for broker_id in world.brokers if broker_id != controller)


def _lose_broker_disk(world: World, broker_id: int) -> None:
    broker = world.brokers[broker_id]
    broker.kill()
    shutil.rmtree(broker.data_dir / "logs")


def _lose_kafka_disk(world: World) -> None:
    with world.hands_off():
        world.pipeline_kafka.kill()
        shutil.rmtree(world.pipeline_kafka.data_dir / "logs")


def _lose_checkpoint(world: World) -> None:
    with world.hands_off():
        world.pipeline.processes["stream"].kill()
        shutil.rmtree(world.pipeline.data_dir / "checkpoint")


def _kafka_wires(*parts: str) -> Callable[[World], list[TcpProxy]]:
    return lambda world: [world.pipeline_kafka.wires[part] for part in parts]


def _broker_process(of: Callable[[World], int]) -> Callable[[World], list[int]]:
    return lambda world: [world.brokers[of(world)].pid or 0]


def _broker_wires(of: Callable[[World], int]) -> Callable[[World], list[TcpProxy]]:
    return lambda world: list(world.zookeeper_wires[str(of(world))].values())


def _watcher_to_zookeeper(world: World) -> list[TcpProxy]:
    return list(world.zookeeper_wires["watcher"].values())


def _part(name: str) -> Callable[[World], list[int]]:
    return lambda world: world.pids(name)


PARTS = (
    Part("ZooKeeper", _zookeeper, _watcher_to_zookeeper, _wipe_zookeeper_leader, clock="ZooKeeper"),
    Part(
        "watched broker",
        _broker_process(_other_broker),
        _broker_wires(_other_broker),
        lambda world: _lose_broker_disk(world, _other_broker(world)),
    ),
    Part(
        "watched controller",
        _broker_process(World.controller),
        _broker_wires(World.controller),
        lambda world: _lose_broker_disk(world, world.controller()),
    ),
    Part(
        "pipeline's Kafka",
        _part("kafka"),
        _kafka_wires("watcher", "stream", "exporter"),
        _lose_kafka_disk,
        pause_s=30.0,
        clock="kafka",
    ),
    Part("watcher", _part("watcher"), _kafka_wires("watcher"), clock="watcher"),
    Part("Spark JVM", _part("jvm"), _kafka_wires("stream"), pause_s=60.0),
    Part("Python worker", _part("worker"), pause_s=60.0),
    Part("driver", _part("driver"), None, _lose_checkpoint, pause_s=30.0, clock="stream"),
    Part("exporter", _part("exporter"), _kafka_wires("exporter"), pause_s=10.0, clock="exporter"),
)
TWO_WATCHERS = Part("two watchers", lambda world: world.pids("watcher"))


def _signal(number: int) -> Fault:
    def fault(world: World, part: Part) -> None:
        for pid in part.processes(world):
            os.kill(pid, number)
        time.sleep(DOWN_S)

    return fault


def _pause(world: World, part: Part) -> None:
    paused = part.processes(world)
    _signal_all(paused, signal.SIGSTOP)
    time.sleep(part.pause_s)
    _signal_all(paused, signal.SIGCONT)


def _hang(world: World, part: Part) -> None:
    """Let the main loop hang, until the part is killed for that."""
    hung = part.processes(world)
    _signal_all(hung, HANG)
    wait_until(lambda: part.processes(world), lambda pids: pids != hung, deadline_s=HANGS_FOR_S)


def _block_log(world: World, part: Part) -> None:
    """Let nobody read the log; then end the part, which the blocked log must not delay."""
    blocked = part.processes(world)
    _signal_all(blocked, NOBODY_READS)
    time.sleep(DOWN_S)
    _signal_all(blocked, signal.SIGTERM)
    wait_until(lambda: part.processes(world), lambda pids: pids != blocked, deadline_s=ENDS_IN_S)


def _pause_until_restarted(world: World, part: Part) -> None:
    """Stop a part that no one continues, until it is killed for that."""
    stopped = part.processes(world)
    _signal_all(stopped, signal.SIGSTOP)
    wait_until(lambda: part.processes(world), lambda pids: pids != stopped, deadline_s=HANGS_FOR_S)


def _step_clock(ahead_s: int) -> Fault:
    def fault(world: World, part: Part) -> None:
        for to_s in (ahead_s, 0):
            with world.changes.held():
                world.clock.step(to_s)
                if part.clock == "ZooKeeper":
                    world.truth.note_step(to_s)
            time.sleep(STEPPED_FOR_S if to_s else 0.0)

    return fault


def _assert_times(world: World) -> None:
    """Assert that no clock is said to be wrong, and that an election is shown when it happened and as short as it was."""
    skew, elected, vacant = (
        "kcm_clock_skew_seconds",
        "kafka_controller_elected_timestamp_seconds",
        "kafka_controller_last_vacancy_at_most_seconds",
    )

    def shown(*names: str) -> Scrape | None:
        with suppress(OSError, HTTPException, ValueError):  # it answers later
            return world.sampler.metrics(*names)
        return None

    def is_right(now: Scrape | None) -> bool:
        return now is not None and all(abs(value) <= MAX_OFF_S for value in now.values())

    wait_until(partial(shown, skew), is_right, deadline_s=AGREES_IN_S)
    began = time.time()
    world.truth.client.delete("/controller")
    world.changes.go_on()
    world.followed(began)
    world.truth.settled()
    at = world.truth.known()["/controller"][-1].at
    times = wait_until(partial(shown, elected, vacant)) or {}
    assert at >= began, "nobody was elected"
    assert abs(times[elected, ""] - at) <= MAX_OFF_S, f"elected at {at}, shown {times}"
    took_s = times[vacant, ""]
    assert took_s <= time.time() - began, f"the controller was away for less than {took_s} s"


def _cut_leader(to: str) -> Fault:
    def fault(world: World, _part: Part) -> None:
        leader = world.leading_watcher()
        wires = world.wires_of_watcher(leader, to=to)
        until = time.monotonic() + CUT_FOR_S
        try:
            for wire in wires:
                wire.cut()
            wait_until(
                world.leading_watcher, lambda now: now not in {leader, ""}, deadline_s=CUT_FOR_S
            )
            world.followed(time.time())
            time.sleep(max(0.0, until - time.monotonic()))
        finally:
            for wire in wires:
                wire.accept()
        assert world.leading_watcher() not in {leader, ""}, "the other watcher lost its lead"

    return fault


def _half_open(world: World, part: Part) -> None:
    assert part.wires is not None
    silenced = sum(wire.silence() for wire in part.wires(world))
    assert silenced, f"{part.name} has no connection that could be cut"
    time.sleep(DOWN_S)


def _lost_disk(world: World, part: Part) -> None:
    assert part.lose_disk is not None
    part.lose_disk(world)
    time.sleep(DOWN_S)


def _signal_all(pids: Iterable[int], number: int) -> None:
    for pid in pids:
        with suppress(ProcessLookupError):  # a watchdog may have killed it
            os.kill(pid, number)


def _lag(world: World, _part: Part) -> None:
    """Connect the watcher to a member that gets each change late."""
    with_watcher = _steer_watcher(world)
    links = _links_of(world, with_watcher)
    try:
        for link in links:
            link.delay_s = LAG_S
        time.sleep(LAGS_FOR_S)
    finally:
        for link in links:
            link.delay_s = 0.0
        _release_wires(world)


def _cut_off(world: World, _part: Part) -> None:
    """Cut the watcher's member off from the other members."""
    with_watcher = _steer_watcher(world)
    try:
        for link in _links_of(world, with_watcher):
            link.silence()
        time.sleep(LAGS_FOR_S)
    finally:
        _release_wires(world)


def _links_of(world: World, member: int) -> list[TcpProxy]:
    return [link for ends, link in world.ensemble.links.items() if member in ends]


def _steer_watcher(world: World) -> int:
    """Move the watcher to a follower and the test's own clients to other members; return the follower."""
    leader = world.ensemble.leader()
    follower = next(member for member in MEMBERS if member != leader)
    for member in MEMBERS:
        if member != follower:
            world.zookeeper_wires["watcher"][member].refuse()
    world.zookeeper_wires["truth"][follower].refuse()
    world.followed(time.time())
    for member in MEMBERS:
        world.zookeeper_wires["watcher"][member].accept()
    return follower


def _release_wires(world: World) -> None:
    for wires in world.zookeeper_wires.values():
        for wire in wires.values():
            wire.accept()


KILL, TERM, STOP, HANGS, BLOCKED_LOG, HALF_OPEN, LOST_DISK = (
    "kill -9",
    "SIGTERM",
    "SIGSTOP",
    "main loop hangs",
    "log that nobody reads",
    "half-open connection",
    "lost disk",
)
LAGGING, CUT_OFF = (
    "the watcher's follower lags",
    "the watcher's follower cut off",
)
FOR_GOOD, FROM_KAFKA, FROM_ZOOKEEPER, AHEAD, BEHIND = (
    "SIGSTOP until restarted",
    "leader cut off from the pipeline's Kafka",
    "leader cut off from ZooKeeper",
    "clock an hour ahead",
    "clock an hour behind",
)
CLOCK_FAULTS = {AHEAD, BEHIND}

FAULTS: dict[str, Fault] = {
    KILL: _signal(signal.SIGKILL),
    TERM: _signal(signal.SIGTERM),
    STOP: _pause,
    HANGS: _hang,
    BLOCKED_LOG: _block_log,
    HALF_OPEN: _half_open,
    LOST_DISK: _lost_disk,
    LAGGING: _lag,
    CUT_OFF: _cut_off,
    FOR_GOOD: _pause_until_restarted,
    FROM_KAFKA: _cut_leader("kafka"),
    FROM_ZOOKEEPER: _cut_leader("zookeeper"),
    AHEAD: _step_clock(HOUR_S),
    BEHIND: _step_clock(-HOUR_S),
}

_LEADER = Part("ZooKeeper's leader", _zookeeper_leader)
_MAJORITY = Part("ZooKeeper's majority", _zookeeper_majority)


_OURS = {"watcher", "driver", "exporter"}
"""The parts with a main loop and a log of kcm's."""


def _matrix() -> list[Cell]:
    found = []
    for fault in (KILL, TERM, STOP, HANGS, BLOCKED_LOG, HALF_OPEN, LOST_DISK):
        for part in PARTS:
            if fault in {HANGS, BLOCKED_LOG} and part.name not in _OURS:
                continue
            if fault == HALF_OPEN and part.wires is None:
                continue
            if fault == LOST_DISK and part.lose_disk is None:
                continue
            found.append(Cell(part, fault))
    return found


CELLS = (
    *_matrix(),
    Cell(_LEADER, KILL),
    Cell(_MAJORITY, KILL),
    Cell(PARTS[0], LAGGING),
    Cell(PARTS[0], CUT_OFF),
    *(Cell(part, FOR_GOOD) for part in PARTS if part.name == "pipeline's Kafka"),
    Cell(TWO_WATCHERS, FROM_KAFKA),
    Cell(TWO_WATCHERS, FROM_ZOOKEEPER),
    *(Cell(part, fault) for part in PARTS if part.clock for fault in (AHEAD, BEHIND)),
)
"""Return all cells in the order in which they are played: those that lose data come last."""
