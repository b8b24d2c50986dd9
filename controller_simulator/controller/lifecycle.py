"""Runs the lifecycle of a controller: who wins /controller, what it does first, and how it resigns.

Every broker runs this machine; at most one of them is the controller. It knows nothing but
ZooKeeper. The first broker to create the ephemeral /controller wins. Since Kafka 2.1 the same
transaction raises /controller_epoch, so that there is no election without an epoch. The winner does
the steps of the failover. Every write that it makes from then on checks the version of
/controller_epoch, so a controller that was replaced meets ControllerMovedException at its next
write, at whatever step, and resigns. Where each event may lead is the table of `phases`.

Two rules are unexpected, but Kafka's own. The context forgets the epoch on resignation, but the
znode keeps it, so that it never decreases. And a broker that sees /controller *change* only reads
who holds it; it tries to take it when it is gone.

Sources (Kafka 3.9): kafka.controller.KafkaController (elect, maybeResign, triggerControllerMove,
process*), kafka.zk.KafkaZkClient.registerControllerAndIncrementControllerEpoch.
"""

import msgspec
from msgspec.structs import replace

from controller_model.kafka.errors import ModelError, UnreadableZnodeError
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.sources.zookeeper.payloads import decode_controller, decode_controller_epoch
from controller_simulator.controller.context import INITIAL_CONTROLLER_EPOCH
from controller_simulator.controller.phases import (
    FAILOVER_STEPS,
    TRANSITIONS,
    ElectionStep,
    LifecycleEvent,
    Phase,
)
from controller_simulator.zookeeper.payload_writers import (
    MIGRATION_OFF,
    encode_controller,
    encode_controller_epoch,
)
from controller_simulator.zookeeper.transactions import (
    CONTROLLER_EPOCH_PATH,
    ControllerMovedError,
    CreateZnode,
    DeleteZnode,
    Multi,
    SetZnode,
    ZooKeeperCode,
    fenced,
)
from controller_simulator.zookeeper.tree import ZnodeTree

CONTROLLER_PATH = "/controller"
"""The ephemeral znode that names the controller (kafka.zk.ControllerZNode)."""


class Lifecycle(msgspec.Struct, frozen=True):
    """One broker's controller: what KafkaController and ControllerContext remember about it."""

    broker: int
    phase: Phase = Phase.NOT_STARTED
    active_controller_id: int = NO_CONTROLLER
    """The broker that held /controller when it was last read; this may no longer be true."""
    epoch: int = 0
    """The epoch that it won; 0 when it is not the controller."""
    epoch_zk_version: int = 0
    """The version of /controller_epoch that its writes expect."""
    steps_done: int = 0
    """How many of FAILOVER_STEPS are done; a controller whose failover was aborted never does the others."""
    kraft_controller_epoch: bool = True
    """Whether it writes a KRaft controller's epoch into /controller (Kafka 3.4 and later)."""

    @property
    def is_active(self) -> bool:
        """Return whether it believes that it is the controller (KafkaController.isActive)."""
        return self.active_controller_id == self.broker

    @property
    def next_step(self) -> ElectionStep | None:
        """The next step of its failover; None when there is none."""
        return FAILOVER_STEPS[self.steps_done] if self.phase is Phase.FAILOVER else None


def handle_lifecycle_event(
    life: Lifecycle, event: LifecycleEvent, tree: ZnodeTree, *, session: int
) -> Lifecycle:
    """Return the lifecycle after an event, given what ZooKeeper holds; an election is written there.

    The caller does the steps: `next_step` until there is none, reporting each by STEP_DONE, and
    keeps other events until then. A controller that resigns has no epoch afterwards.
    """
    targets = TRANSITIONS[life.phase][event]
    if not targets:
        return life
    led = _process(life, event, tree, session)
    if led.phase not in targets:
        raise ModelError(f"{event} led from {life.phase} to {led.phase}")
    return led


def register_controller(
    tree: ZnodeTree,
    broker: int,
    *,
    session: int,
    kraft_controller_epoch: int | None = MIGRATION_OFF,
) -> tuple[int, int]:
    """Take /controller and raise the epoch in one transaction; return the epoch and its version.

    Raise ControllerMovedError when another broker was faster. Source:
    KafkaZkClient.registerControllerAndIncrementControllerEpoch.
    """
    if tree.find(CONTROLLER_EPOCH_PATH) is None:
        initial = encode_controller_epoch(INITIAL_CONTROLLER_EPOCH).decode()
        tree.attempt(CreateZnode(CONTROLLER_EPOCH_PATH, initial), session=session)
    found = tree.at(CONTROLLER_EPOCH_PATH)
    version = found.version
    epoch = decode_controller_epoch(found.data.encode()) + 1
    payload = encode_controller(
        broker, timestamp=tree.time_ms, kraft_controller_epoch=kraft_controller_epoch
    ).decode()
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
    """Return the broker that holds /controller; NO_CONTROLLER when none does (KafkaZkClient.getControllerId)."""
    found = tree.find(CONTROLLER_PATH)
    if found is None:
        return NO_CONTROLLER
    try:
        return decode_controller(found.data.encode()).brokerid
    except UnreadableZnodeError:
        return NO_CONTROLLER


# --- the events -----------------------------------------------------------------------------


def _process(life: Lifecycle, event: LifecycleEvent, tree: ZnodeTree, session: int) -> Lifecycle:
    """Return what an event that is handled now leads to (KafkaController.process)."""
    match event:
        case LifecycleEvent.STARTUP:
            led = _elect(life, tree, session)
        case LifecycleEvent.CONTROLLER_CHANGE | LifecycleEvent.CONTROLLER_MOVED:
            led = _maybe_resign(life, tree)
        case LifecycleEvent.REELECT | LifecycleEvent.NEW_SESSION:
            led = _elect(_maybe_resign(life, tree), tree, session)
        case LifecycleEvent.STEP_DONE:
            # After the last step of the failover the broker is the controller.
            led = replace(life, steps_done=life.steps_done + 1)
            if led.steps_done == len(FAILOVER_STEPS):
                led = replace(led, phase=Phase.ACTIVE)
        case LifecycleEvent.FAILED:
            led = _move_controller(life, tree, session)
        case LifecycleEvent.EXPIRE:
            led = replace(_resigned(life), phase=Phase.EXPIRED, active_controller_id=NO_CONTROLLER)
        case _:  # LifecycleEvent.SHUTDOWN; the znode is deleted with the session
            led = replace(_resigned(life), phase=Phase.CLOSED)
    return led


def _maybe_resign(life: Lifecycle, tree: ZnodeTree) -> Lifecycle:
    """Read who holds /controller, and resign if this broker held it (KafkaController.maybeResign).

    A failover that was fenced while no other broker holds /controller remains half done, as in
    Kafka.
    """
    seen = replace(life, active_controller_id=controller_id(tree))
    return _resigned(seen) if life.is_active and not seen.is_active else _with_phase(seen)


def _elect(life: Lifecycle, tree: ZnodeTree, session: int) -> Lifecycle:
    """Take /controller unless a broker holds it (KafkaController.elect)."""
    seen = replace(life, active_controller_id=controller_id(tree))
    if seen.active_controller_id != NO_CONTROLLER:
        return _with_phase(seen)
    try:
        epoch, version = register_controller(
            tree,
            life.broker,
            session=session,
            kraft_controller_epoch=MIGRATION_OFF if life.kraft_controller_epoch else None,
        )
    except ControllerMovedError:
        return _maybe_resign(seen, tree)
    return replace(
        seen,
        phase=Phase.FAILOVER,
        active_controller_id=life.broker,
        epoch=epoch,
        epoch_zk_version=version,
        steps_done=0,
    )


def _move_controller(life: Lifecycle, tree: ZnodeTree, session: int) -> Lifecycle:
    """Give up /controller, so that another broker takes it (KafkaController.triggerControllerMove)."""
    seen = replace(life, active_controller_id=controller_id(tree))
    if not seen.is_active:
        # Kafka only warns: the machines of the failed controller are not shut down.
        return replace(seen, phase=Phase.STANDBY)
    deletion = fenced(DeleteZnode(CONTROLLER_PATH), epoch_zk_version=life.epoch_zk_version)
    tree.attempt(deletion, session=session)
    return replace(_resigned(seen), active_controller_id=NO_CONTROLLER)


def _with_phase(life: Lifecycle) -> Lifecycle:
    """Return the lifecycle in the phase that follows from who holds /controller."""
    return replace(life, phase=Phase.ACTIVE if life.is_active else Phase.STANDBY)


def _resigned(life: Lifecycle) -> Lifecycle:
    """Return the lifecycle without everything that only a controller knows (ControllerContext.resetContext)."""
    return replace(life, phase=Phase.STANDBY, epoch=0, epoch_zk_version=0, steps_done=0)
