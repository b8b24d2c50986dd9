"""Run one seed: rounds of changes and faults, each followed by the end of all faults and the checks.

The rule: every seed has at least `LEAST_CHANGES` changes and `LEAST_FAULTS` faults.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from tests.simulation import budget, quiet
from tests.simulation.faults import FAULTS, main_loop_hangs, views_lose_their_head
from tests.simulation.oracle import BrokenError
from tests.simulation.stage import Stage, played
from tests.simulation.world import World

LEAST_CHANGES = 200
LEAST_FAULTS = 3
ROUNDS = 2
_OVERDUE_MS = 150_000
"""How long after the end of all faults everything may take to be quiet."""

_STEP_MS = 500
_SETTLE_MS = 15_000
"""A fault that was planned before the end of all faults may begin and end within this time."""

_LATE_OUTPUT = 0.5
"""How likely an old batch's output is repeated after the end of all other faults: no resync hides it."""

_HEAD_LOST = 0.02
"""The share of acts after which the views lose their beginning, in a run in which they do."""

_HANGS = 0.01
"""The share of acts before which the main loop of a watcher begins to hang, in a run in which they do."""

_PAUSES_MS = (0, 0, 1, 1, 5, 10, 100, 600, 1_500)
"""Between two acts of the cluster: bursts and calm periods."""


class Outcome(NamedTuple):
    """The outcome of a seed's run."""

    seed: int
    hits: Counter[str]
    changes: int
    batches: int
    virtual_ms: int
    broken: str | None
    """The invariant that broke and the detail; None when all held."""


def play(seed: int, trace: Callable[[str], None] | None = None) -> Outcome:
    """Run a seed to its end, or to the first broken invariant."""
    with played(seed) as stage:
        return _play(seed, stage, trace)


def _play(seed: int, stage: Stage, trace: Callable[[str], None] | None) -> Outcome:
    world = World(seed, stage, trace)
    began = world.clock.now
    broken = None
    faults = 0
    try:
        world.clock.run_for(world.rng.choice((50, 3_000)))
        for number in range(ROUNDS):
            faults += _chaos(world, LEAST_CHANGES * (number + 1) // ROUNDS)
            _come_to_rest(world, is_last=number + 1 == ROUNDS)
    except BrokenError as error:
        broken = str(error)
        world.trace(f"BROKEN {broken}")
    except Exception as error:  # noqa: BLE001  # any exception that ends a part is a finding
        broken = f"no part ends by itself: {error!r}"
        world.trace(f"BROKEN {broken}")
    try:
        world.end()
    except BrokenError as error:  # the same error may be raised once more
        broken = broken or str(error)
    if broken is None and (world.zk.changes < LEAST_CHANGES or faults < LEAST_FAULTS):
        broken = f"too little happened: {world.zk.changes} changes, {faults} faults"
    virtual = world.clock.now - began
    return Outcome(seed, world.hits, world.zk.changes, world.oracle.checks, virtual, broken)


def _chaos(world: World, until_changes: int) -> int:
    """Let the cluster change and faults occur; return how many faults there were."""
    rng = world.rng
    left = rng.randint(2, 6)
    faults = 0
    began = world.zk.changes
    target = max(until_changes, world.zk.changes + LEAST_CHANGES // ROUNDS)
    due = sorted(rng.uniform(began, target) for _ in range(left))
    while world.zk.changes < target or due:
        if due and world.zk.changes >= due[0]:
            due.pop(0)
            faults += _break_something(world)
        if rng.random() < 0.02:
            world.back_up()
        if world.loses_heads and world.heads.random() < _HEAD_LOST:
            views_lose_their_head(world)
            world.hit("head of the views lost")
        if world.has_hangs and world.hangs.random() < _HANGS and main_loop_hangs(world):
            world.hit("watcher's main loop hangs")
        world.act()
        world.clock.run_for(rng.choice(_PAUSES_MS))
        world.supervise()
    while faults < 2:
        faults += _break_something(world)
        world.clock.run_for(1_000)
    world.clock.run_for(rng.choice((0, 2_000, 10_000)))
    return faults


def _break_something(world: World) -> int:
    names = list(FAULTS)
    weights = [weight for weight, _ in FAULTS.values()]
    name = world.rng.choices(names, weights)[0]
    if not FAULTS[name][1](world):
        return 0
    world.hit(name)
    return 1


def _wait_for_quiet(world: World) -> None:
    since, reported = world.clock.now, quiet.last_reported(world)
    unrest: str | None = "nothing has happened"
    while unrest is not None:
        if world.clock.now - since > _OVERDUE_MS:
            raise BrokenError("it comes to rest", unrest)
        world.pass_at_rest(_STEP_MS)
        unrest = quiet.unrest(world, since, reported)
    world.trace("QUIET")


def _come_to_rest(world: World, *, is_last: bool) -> None:
    """End all faults, wait until everything is quiet, and compare with the truth."""
    world.trace("HEAL")
    world.heal()
    if world.rng.random() < _LATE_OUTPUT and world.fold.repeat_output():
        world.hit("old output written late")
    _wait_for_quiet(world)
    quiet.check(world)
    if is_last:
        world.has_faults = False
        for _ in range(0, _SETTLE_MS, _STEP_MS):
            world.pass_at_rest(_STEP_MS)
        _wait_for_quiet(world)
        budget.check(world)
        return
    world.viewers.go_on()
    if world.retention is not None:
        world.retention.go_on()
    if world.electing is not None:
        world.electing.go_on()
    for neighbour in world.neighbours:
        neighbour.go_on()
