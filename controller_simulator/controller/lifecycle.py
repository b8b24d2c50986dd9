"""The life of a controller: who wins /controller, what it does first, and how it gives up.

Every broker runs this machine; at most one of them is the controller. It knows nothing but
ZooKeeper: the first broker to create the ephemeral /controller wins, and since Kafka 2.1 the same
transaction raises /controller_epoch, so that an election without an epoch cannot be. The winner
does the `FAILOVER_STEPS`; every write that it makes from then on checks the version of
/controller_epoch, so one that was replaced meets ControllerMovedException at its next write, at
whatever step, and resigns by `RESIGNATION_STEPS`. Where each event may lead is the table of
`phases`.

Two rules are ugly and Kafka's own. The context forgets the epoch on resignation, but the znode
keeps it, so that it never falls. And a broker that sees /controller *change* only reads who holds
it; it tries to take it when it is gone.

Sources (Kafka 3.9): kafka.controller.KafkaController (elect, maybeResign, triggerControllerMove,
process*), kafka.zk.KafkaZkClient.registerControllerAndIncrementControllerEpoch.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from controller_model.kafka.errors import ModelError, UnreadableZnodeError
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.znodes.znode_kinds import decode_controller, decode_controller_epoch
from controller_simulator.controller.context import INITIAL_CONTROLLER_EPOCH
from controller_simulator.controller.phases import (
    FAILOVER_STEPS,
    RESIGNATION_STEPS,
    TRANSITIONS,
    WAITS,
    ElectionStep,
    LifecycleEvent,
    Phase,
)
from controller_simulator.zookeeper.payload_writers import (
    encode_controller,
    encode_controller_epoch,
)
from controller_simulator.zookeeper.transactions import (
    ANY_VERSION,
    CONTROLLER_EPOCH_PATH,
    CheckZnode,
    ControllerMovedError,
    CreateZnode,
    DeleteZnode,
    Multi,
    SetZnode,
    ZooKeeperCode,
)
from controller_simulator.zookeeper.tree import ZnodeTree

CONTROLLER_PATH = "/controller"
"""The ephemeral znode of who is the controller (kafka.zk.ControllerZNode)."""


class Lifecycle(msgspec.Struct, frozen=True):
    """One broker's controller: what KafkaController and ControllerContext remember of it."""

    broker: int
    phase: Phase = Phase.NOT_STARTED
    active_controller_id: int = NO_CONTROLLER
    """Who holds /controller, as it last read; not necessarily still true."""
    epoch: int = 0
    """The epoch that it won; 0 when it is not the controller."""
    epoch_zk_version: int = 0
    """The version of /controller_epoch that its writes expect."""
    steps_done: int = 0
    """How many of FAILOVER_STEPS are done; a controller that met an error may lack some for good."""
    waiting: tuple[LifecycleEvent, ...] = ()
    """Events that came during the failover."""

    @property
    def is_active(self) -> bool:
        """Return whether it believes that it is the controller (KafkaController.isActive)."""
        return self.active_controller_id == self.broker

    @property
    def next_step(self) -> ElectionStep | None:
        """The step of its failover that is due; None when there is none."""
        return FAILOVER_STEPS[self.steps_done] if self.phase is Phase.FAILOVER else None


class TransitionOutcome(msgspec.Struct, frozen=True):
    """What an event led to: the broker's new state, and the steps of a resignation, if it resigned."""

    life: Lifecycle
    steps: tuple[ElectionStep, ...] = ()


def handle(
    life: Lifecycle, event: LifecycleEvent, tree: ZnodeTree, *, session: int
) -> TransitionOutcome:
    """Return what an event leads to, given what ZooKeeper holds; an election is written there.

    The caller does the steps: `life.next_step` until there is none, reporting each by STEP_DONE.
    """
    targets = TRANSITIONS[life.phase][event]
    if not targets:
        return TransitionOutcome(life)
    if targets == WAITS:
        return TransitionOutcome(_with(life, waiting=_queued(life.waiting, event)))
    outcome = _HANDLERS[event](life, tree, session)
    if outcome.life.phase not in targets:
        raise ModelError(f"{event} led from {life.phase} to {outcome.life.phase}")
    return outcome


def _queued(
    waiting: tuple[LifecycleEvent, ...], event: LifecycleEvent
) -> tuple[LifecycleEvent, ...]:
    """Return the queue with an event more; the end of a session, or ours, clears it first.

    Source: ControllerEventManager.clearAndPut.
    """
    return (
        (event,) if event in {LifecycleEvent.EXPIRE, LifecycleEvent.SHUTDOWN} else (*waiting, event)
    )


def register_controller(tree: ZnodeTree, broker: int, *, session: int) -> tuple[int, int]:
    """Take /controller and raise the epoch in one transaction; return epoch and its version.

    Raises ControllerMovedError when another broker was faster. Source:
    KafkaZkClient.registerControllerAndIncrementControllerEpoch.
    """
    if tree.find(CONTROLLER_EPOCH_PATH) is None:
        initial = encode_controller_epoch(INITIAL_CONTROLLER_EPOCH).decode()
        tree.attempt(CreateZnode(CONTROLLER_EPOCH_PATH, initial), session=session)
    found = tree.at(CONTROLLER_EPOCH_PATH)
    version = found.version
    epoch = decode_controller_epoch(found.data.encode()) + 1
    payload = encode_controller(broker, timestamp=tree.time_ms).decode()
    answer = tree.attempt(
        Multi(
            (
                CreateZnode(CONTROLLER_PATH, payload, session),
                SetZnode(CONTROLLER_EPOCH_PATH, encode_controller_epoch(epoch).decode(), version),
            )
        ),
        session=session,
    )
    if isinstance(answer, ZooKeeperCode):
        raise ControllerMovedError(f"broker {broker} did not get {CONTROLLER_PATH}: {answer}")
    return epoch, version + 1


def controller_id(tree: ZnodeTree) -> int:
    """Return who holds /controller; NO_CONTROLLER when no broker does (KafkaZkClient.getControllerId)."""
    found = tree.find(CONTROLLER_PATH)
    if found is None:
        return NO_CONTROLLER
    try:
        return decode_controller(found.data.encode()).brokerid
    except UnreadableZnodeError:
        return NO_CONTROLLER


# --- the events -----------------------------------------------------------------------------


def _read_controller(life: Lifecycle, tree: ZnodeTree) -> TransitionOutcome:
    """Read who holds /controller, and resign if it was ours (KafkaController.maybeResign)."""
    seen = _with(life, active_controller_id=controller_id(tree))
    if life.is_active and not seen.is_active:
        return TransitionOutcome(_resigned(seen), RESIGNATION_STEPS)
    return TransitionOutcome(_settled(seen))


def _elect(life: Lifecycle, tree: ZnodeTree, session: int) -> TransitionOutcome:
    """Take /controller unless a broker holds it (KafkaController.elect)."""
    seen = _with(life, active_controller_id=controller_id(tree))
    if seen.active_controller_id != NO_CONTROLLER:
        return TransitionOutcome(_settled(seen))
    try:
        epoch, version = register_controller(tree, life.broker, session=session)
    except ControllerMovedError:
        return _read_controller(seen, tree)
    return TransitionOutcome(
        _with(
            seen,
            phase=Phase.FAILOVER,
            active_controller_id=life.broker,
            epoch=epoch,
            epoch_zk_version=version,
            steps_done=0,
        )
    )


def _on_startup(life: Lifecycle, tree: ZnodeTree, session: int) -> TransitionOutcome:
    return _elect(life, tree, session)


def _on_controller_change(life: Lifecycle, tree: ZnodeTree, _session: int) -> TransitionOutcome:
    return _read_controller(life, tree)


def _on_reelect(life: Lifecycle, tree: ZnodeTree, session: int) -> TransitionOutcome:
    seen = _read_controller(life, tree)
    elected = _elect(seen.life, tree, session)
    return TransitionOutcome(elected.life, seen.steps + elected.steps)


def _on_step_done(life: Lifecycle, tree: ZnodeTree, session: int) -> TransitionOutcome:
    done = _with(life, steps_done=life.steps_done + 1)
    if done.steps_done < len(FAILOVER_STEPS):
        return TransitionOutcome(done)
    return _handle_waiting(TransitionOutcome(_with(done, phase=Phase.ACTIVE)), tree, session)


def _on_controller_moved(life: Lifecycle, tree: ZnodeTree, session: int) -> TransitionOutcome:
    """Read who it is now; if no other broker is, a half-done failover stays half done, as in Kafka."""
    return _handle_waiting(_read_controller(life, tree), tree, session)


def _on_failed(life: Lifecycle, tree: ZnodeTree, session: int) -> TransitionOutcome:
    """Give /controller away (KafkaController.triggerControllerMove), for another to take it."""
    seen = _with(life, active_controller_id=controller_id(tree))
    if not seen.is_active:
        # Kafka only warns: the machines of the failed controller are not shut down.
        return _handle_waiting(TransitionOutcome(_with(seen, phase=Phase.STANDBY)), tree, session)
    fence = CheckZnode(CONTROLLER_EPOCH_PATH, life.epoch_zk_version)
    tree.attempt(Multi((fence, DeleteZnode(CONTROLLER_PATH, ANY_VERSION))), session=session)
    gone = _resigned(_with(seen, active_controller_id=NO_CONTROLLER))
    return _handle_waiting(TransitionOutcome(gone, RESIGNATION_STEPS), tree, session)


def _on_expire(life: Lifecycle, _tree: ZnodeTree, _session: int) -> TransitionOutcome:
    """Resign, controller or not (KafkaController.processExpire)."""
    lost = _resigned(_with(life, active_controller_id=NO_CONTROLLER))
    return TransitionOutcome(_with(lost, phase=Phase.EXPIRED), RESIGNATION_STEPS)


def _on_shutdown(life: Lifecycle, _tree: ZnodeTree, _session: int) -> TransitionOutcome:
    """Resign, controller or not; the znode goes with the session (KafkaController.shutdown)."""
    return TransitionOutcome(_with(_resigned(life), phase=Phase.CLOSED), RESIGNATION_STEPS)


def _handle_waiting(outcome: TransitionOutcome, tree: ZnodeTree, session: int) -> TransitionOutcome:
    """Handle what has waited for the end of the failover."""
    steps = outcome.steps
    life = outcome.life
    while life.waiting:
        event, *rest = life.waiting
        taken = handle(_with(life, waiting=()), event, tree, session=session)
        life = _with(taken.life, waiting=(*taken.life.waiting, *rest))
        steps += taken.steps
        if life.phase is Phase.FAILOVER:
            break
    return TransitionOutcome(life, steps)


def _settled(life: Lifecycle) -> Lifecycle:
    """Return it in the phase that who holds /controller makes it."""
    return _with(life, phase=Phase.ACTIVE if life.is_active else Phase.STANDBY)


def _resigned(life: Lifecycle) -> Lifecycle:
    """Return it without all that a controller knows (ControllerContext.resetContext)."""
    return _with(life, phase=Phase.STANDBY, epoch=0, epoch_zk_version=0, steps_done=0)


def _with(life: Lifecycle, **fields: object) -> Lifecycle:
    return msgspec.structs.replace(life, **fields)


_HANDLERS: dict[LifecycleEvent, Callable[[Lifecycle, ZnodeTree, int], TransitionOutcome]] = {
    LifecycleEvent.STARTUP: _on_startup,
    LifecycleEvent.CONTROLLER_CHANGE: _on_controller_change,
    LifecycleEvent.REELECT: _on_reelect,
    LifecycleEvent.STEP_DONE: _on_step_done,
    LifecycleEvent.CONTROLLER_MOVED: _on_controller_moved,
    LifecycleEvent.FAILED: _on_failed,
    LifecycleEvent.EXPIRE: _on_expire,
    LifecycleEvent.NEW_SESSION: _on_reelect,
    LifecycleEvent.SHUTDOWN: _on_shutdown,
}
