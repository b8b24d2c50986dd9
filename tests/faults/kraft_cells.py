"""The cells of a KRaft cluster: its controllers, its watchers and the pipeline's Kafka, with the faults that they can have.

The rule: as in `cells`, a cell is data. Controllers that end are started again by the runner, as their operator would.
"""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from tests.faults.cells import DOWN_S, HANGS, HANGS_FOR_S, KILL, LOST_DISK, STOP, TERM
from tests.faults.changes import BROKERS
from tests.faults.kraft_world import VOTERS, KraftWorld
from tests.faults.world import STANDBY
from tests.support.hanging import HANG
from tests.support.waiting import wait_until

PAUSE_S = 10.0
"""Longer than the quorum's timeouts (2 s), and than a broker's session (3 s)."""
CUT_S = 10.0
STORM_TOPICS = 3
STORM_PARTITIONS = 300
"""Partitions of each topic of a storm: their records are several snapshots, and all are shown on one page."""
HEARS_NOBODY, STORM = "hears nobody", "killed in a storm of changes and snapshots"
FROM_CONTROLLERS = "cut off from the controllers"


class KraftPart(NamedTuple):
    """What can fail; it is looked up for each cell."""

    name: str
    pids: Callable[[KraftWorld], Sequence[int]]
    two_watchers: bool = False


class KraftCell(NamedTuple):
    """A part and a fault."""

    part: KraftPart
    fault: str

    @property
    def name(self) -> str:
        """The name for the command line."""
        return f"{self.part.name}: {self.fault}"

    def prepare(self, world: KraftWorld) -> None:
        """Bring the environment into the state in which the fault can happen."""
        world.watchers(two=self.part.two_watchers)

    def act(self, world: KraftWorld) -> None:
        """Run the fault to its end."""
        FAULTS[self.fault](world, self.part)

    def assert_after(self, world: KraftWorld) -> None:
        """Assert that commits go on: what was shown meanwhile is judged by the runner."""
        world.changes.go_on()


def _leader(world: KraftWorld) -> list[int]:
    return world.pids_of(world.leader().id)


def _follower(world: KraftWorld) -> list[int]:
    leader = world.leader().id
    return world.pids_of(next(voter for voter in reversed(VOTERS) if voter != leader))


def _majority(world: KraftWorld) -> list[int]:
    leader = world.leader().id
    return world.pids_of(leader, next(voter for voter in VOTERS if voter != leader))


def _all(world: KraftWorld) -> list[int]:
    return world.pids_of(*VOTERS)


def _writing_watcher(world: KraftWorld) -> list[int]:
    return world.pids_of_watcher(wait_until(world.leading_watcher))


def _other_watcher(world: KraftWorld) -> list[int]:
    writing = wait_until(world.leading_watcher)
    return world.pids_of_watcher("watcher" if writing == STANDBY else STANDBY)


CONTROLLERS = (
    KraftPart("active controller", _leader),
    KraftPart("following controller", _follower),
    KraftPart("two of three controllers", _majority),
    KraftPart("all controllers", _all),
)
OTHERS = (
    KraftPart("watcher of controllers", lambda world: world.pids("watcher")),
    KraftPart("the writing one of two watchers", _writing_watcher, two_watchers=True),
    KraftPart("the waiting one of two watchers", _other_watcher, two_watchers=True),
    KraftPart("pipeline's Kafka, of a KRaft cluster", lambda world: world.pids("kafka")),
)


def _signal(number: int) -> Callable[[KraftWorld, KraftPart], None]:
    def fault(world: KraftWorld, part: KraftPart) -> None:
        for pid in part.pids(world):
            os.kill(pid, number)
        time.sleep(DOWN_S)

    return fault


def _pause(world: KraftWorld, part: KraftPart) -> None:
    paused = part.pids(world)
    for pid in paused:
        os.kill(pid, signal.SIGSTOP)
    time.sleep(PAUSE_S)
    for pid in paused:
        os.kill(pid, signal.SIGCONT)


def _cut(world: KraftWorld, _part: KraftPart) -> None:
    """Let nothing reach the active controller: it hears no fetch, and another one is elected."""
    led = world.leader()
    wire = world.voter_wires[led.id]
    wire.cut()
    try:
        world.cluster.await_leader(lambda leader: leader.epoch > led.epoch)
        time.sleep(CUT_S)
    finally:
        wire.accept()


def _cut_watcher(world: KraftWorld, part: KraftPart) -> None:
    """Let no controller answer one watcher, while they reach each other: another watcher takes over, or it is told as blind."""
    name = wait_until(world.leading_watcher) if part.two_watchers else "watcher"
    world.shun_watcher(name)
    try:
        if part.two_watchers:
            wait_until(world.leading_watcher, lambda now: now not in {name, ""})
            world.followed(time.time())
        else:
            wait_until(world.status, lambda status: status == "blind")
        time.sleep(CUT_S)
    finally:
        world.reach_watcher()


def _hang(world: KraftWorld, part: KraftPart) -> None:
    """Let the main loop hang, until the part is killed for that."""
    hung = part.pids(world)
    for pid in hung:
        os.kill(pid, HANG)
    wait_until(lambda: part.pids(world), lambda pids: pids != hung, deadline_s=HANGS_FOR_S)


def _lose_disk(world: KraftWorld, part: KraftPart) -> None:
    """Kill a controller and delete its folder: it is formatted again, and fetches a snapshot."""
    (pid,) = part.pids(world)
    node = next(node for node in world.cluster.controllers.values() if node.pid == pid)
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not node.running)
    shutil.rmtree(node.log_dir)
    time.sleep(DOWN_S)


def _storm(world: KraftWorld, part: KraftPart) -> None:
    """Fence a broker of thousands of partitions while snapshots are made, and kill the controller meanwhile."""
    brokers = world.changes.brokers
    with world.changes.held():
        for number in range(STORM_TOPICS):
            turned = [BROKERS[n:] + BROKERS[:n] for n in range(len(BROKERS))]
            assignment = [turned[n % len(turned)] for n in range(STORM_PARTITIONS)]
            brokers.create_topic(f"storm-{world.leader().epoch}-{number}", assignment)
        brokers.brokers[BROKERS[0]].is_alive = False
        wait_until(lambda: BROKERS[0] not in world.truth.figures().brokers)
        for pid in part.pids(world):
            os.kill(pid, signal.SIGKILL)
        world.cluster.await_leader(lambda leader: leader.id not in world.dead())
        brokers.brokers[BROKERS[0]].is_alive = True
        wait_until(lambda: BROKERS[0] in world.truth.figures().brokers)


FAULTS: dict[str, Callable[[KraftWorld, KraftPart], None]] = {
    KILL: _signal(signal.SIGKILL),
    TERM: _signal(signal.SIGTERM),
    STOP: _pause,
    HANGS: _hang,
    HEARS_NOBODY: _cut,
    FROM_CONTROLLERS: _cut_watcher,
    LOST_DISK: _lose_disk,
    STORM: _storm,
}

KRAFT_CELLS = (
    *(KraftCell(part, fault) for fault in (KILL, TERM, STOP) for part in CONTROLLERS),
    KraftCell(CONTROLLERS[0], HEARS_NOBODY),
    *(KraftCell(part, fault) for fault in (KILL, TERM, STOP) for part in OTHERS),
    KraftCell(OTHERS[0], HANGS),
    KraftCell(OTHERS[0], FROM_CONTROLLERS),
    KraftCell(OTHERS[1], FROM_CONTROLLERS),
    KraftCell(CONTROLLERS[0], STORM),
    KraftCell(CONTROLLERS[1], LOST_DISK),
)
