"""The lifecycle of a controller: the race for /controller, the order of its steps, and how it ends."""

from __future__ import annotations

import itertools

import pytest

from controller_model.kafka.errors import ModelError
from controller_model.kafka.ids import NO_CONTROLLER
from controller_simulator.controller.lifecycle import (
    Lifecycle,
    controller_id,
    handle_lifecycle_event,
    register_controller,
)
from controller_simulator.controller.phases import (
    FAILOVER_STEPS,
    TRANSITIONS,
    LifecycleEvent,
    Phase,
)
from controller_simulator.zookeeper.transactions import (
    CreateZnode,
)
from controller_simulator.zookeeper.tree import ZnodeTree
from tests.support.simulated_cluster import cluster_of

SESSIONS = {0: 10, 1: 11}
STEPS = len(FAILOVER_STEPS)


@pytest.fixture
def tree() -> ZnodeTree:
    """Return an ensemble where brokers 0 and 1 have sessions, and nothing was written."""
    made = ZnodeTree(time_ms=17)
    for session in SESSIONS.values():
        made.open_session(session)
    return made


def after(life: Lifecycle, tree: ZnodeTree, *events: LifecycleEvent) -> Lifecycle:
    """Return the broker after these events."""
    for event in events:
        life = handle_lifecycle_event(life, event, tree, session=SESSIONS[life.broker])
    return life


# --- the election ---------------------------------------------------------------------------


@pytest.mark.parametrize("payload", ["", "{", '{"brokerid":"0"}', "null"])
def test_an_unreadable_controller_znode_counts_as_no_controller(
    tree: ZnodeTree, payload: str
) -> None:
    """A candidate finds the existing znode, and continues to watch it."""
    tree.write(CreateZnode("/controller", payload))
    assert controller_id(tree) == NO_CONTROLLER
    life = after(Lifecycle(0), tree, LifecycleEvent.STARTUP)
    assert life == Lifecycle(0, Phase.STANDBY, active_controller_id=NO_CONTROLLER)


# --- the table ------------------------------------------------------------------------------


@pytest.mark.parametrize("holder", [None, 0, 1])
@pytest.mark.parametrize(("phase", "event"), list(itertools.product(Phase, LifecycleEvent)))
def test_every_event_leads_to_a_phase_of_the_transition_table(
    tree: ZnodeTree, phase: Phase, event: LifecycleEvent, holder: int | None
) -> None:
    """With any holder of /controller an event is dropped, or leads to an allowed phase."""
    tree.write(CreateZnode("/controller_epoch", "4"))
    if holder is not None:
        register_controller(tree, holder, session=SESSIONS[holder])
    believed = 0 if phase in {Phase.ACTIVE, Phase.FAILOVER} else 1
    life = Lifecycle(0, phase, believed, epoch=5, epoch_zk_version=1, steps_done=STEPS - 1)
    led = after(life, tree, event)
    allowed = TRANSITIONS[phase][event]
    if allowed:
        assert led.phase in allowed
    else:
        assert led == life


def test_a_transition_outside_the_table_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that leads where the table does not allow is a bug."""
    cluster = cluster_of()
    monkeypatch.setitem(TRANSITIONS[Phase.STANDBY], LifecycleEvent.EXPIRE, (Phase.ACTIVE,))
    run = cluster.brokers[1]
    with pytest.raises(ModelError, match="Expire led from standby to expired"):
        handle_lifecycle_event(run.life, LifecycleEvent.EXPIRE, cluster.tree, session=run.session)
