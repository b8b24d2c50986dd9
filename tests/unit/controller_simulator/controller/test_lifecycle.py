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
    ControllerMovedError,
    CreateZnode,
    DeleteZnode,
    SetZnode,
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


def elected(tree: ZnodeTree, broker: int = 0) -> Lifecycle:
    """Return a broker that has just won."""
    return after(Lifecycle(broker), tree, LifecycleEvent.STARTUP)


def active(tree: ZnodeTree, broker: int = 0) -> Lifecycle:
    """Return a broker that is the controller and has done all its steps."""
    return after(elected(tree, broker), tree, *[LifecycleEvent.STEP_DONE] * STEPS)


def replaced_by(tree: ZnodeTree, broker: int) -> None:
    """Delete /controller, and let a broker take it."""
    tree.write(DeleteZnode("/controller"))
    register_controller(tree, broker, session=SESSIONS[broker])


# --- the election ---------------------------------------------------------------------------


def test_the_first_controller_makes_the_epoch(tree: ZnodeTree) -> None:
    """It finds no epoch, creates it as 0, and raises it to 1 together with /controller, in one zxid."""
    life = elected(tree)
    assert life == Lifecycle(0, Phase.FAILOVER, active_controller_id=0, epoch=1, epoch_zk_version=1)
    assert tree.data("/controller_epoch") == "1"
    controller, epoch = tree.at("/controller"), tree.at("/controller_epoch")
    assert controller.data == (
        '{"version":2,"brokerid":0,"timestamp":"17","kraftControllerEpoch":-1}'
    )
    assert controller.owner == SESSIONS[0]
    assert controller.czxid == epoch.mzxid == 4
    assert (epoch.czxid, epoch.version) == (3, 1)


def test_a_broker_that_finds_a_controller_goes_to_standby(tree: ZnodeTree) -> None:
    """It sees who holds /controller and writes nothing."""
    elected(tree)
    written = len(tree.commits)
    life = after(Lifecycle(1), tree, LifecycleEvent.STARTUP)
    assert life == Lifecycle(1, Phase.STANDBY, active_controller_id=0)
    assert len(tree.commits) == written


def test_a_broker_that_loses_the_race_changes_neither_znode(tree: ZnodeTree) -> None:
    """Its transaction changes neither /controller nor the epoch, and takes a zxid."""
    elected(tree)
    with pytest.raises(ControllerMovedError, match="broker 1 did not get /controller: NODEEXISTS"):
        register_controller(tree, 1, session=SESSIONS[1])
    assert (tree.data("/controller_epoch"), controller_id(tree)) == ("1", 0)
    assert tree.zxid == 5


def test_each_election_raises_the_epoch_by_one(tree: ZnodeTree) -> None:
    """It never decreases, whoever wins, and its version fences the writes of the controller before."""
    life = active(tree)
    replaced_by(tree, 1)
    assert tree.data("/controller_epoch") == "2"
    assert tree.at("/controller_epoch").version == life.epoch_zk_version + 1
    replaced_by(tree, 0)
    assert tree.data("/controller_epoch") == "3"


@pytest.mark.parametrize("payload", ["", "{", '{"brokerid":"0"}', "null"])
def test_an_unreadable_controller_znode_counts_as_no_controller(
    tree: ZnodeTree, payload: str
) -> None:
    """A candidate finds the existing znode, and continues to watch it."""
    tree.write(CreateZnode("/controller", payload))
    assert controller_id(tree) == NO_CONTROLLER
    life = after(Lifecycle(0), tree, LifecycleEvent.STARTUP)
    assert life == Lifecycle(0, Phase.STANDBY, active_controller_id=NO_CONTROLLER)


# --- becoming the controller ----------------------------------------------------------------


def test_failover_steps_are_done_one_by_one(tree: ZnodeTree) -> None:
    """The broker is active when the last one is done, and not before."""
    life = elected(tree)
    seen = []
    while (step := life.next_step) is not None:
        assert life.phase is Phase.FAILOVER
        assert life.is_active
        seen.append(step)
        life = after(life, tree, LifecycleEvent.STEP_DONE)
    assert tuple(seen) == FAILOVER_STEPS
    assert (life.phase, life.steps_done, life.epoch) == (Phase.ACTIVE, STEPS, 1)


# --- ceasing to be it -----------------------------------------------------------------------


def test_a_controller_change_makes_a_broker_read_controller_again(tree: ZnodeTree) -> None:
    """It continues if it still holds /controller; otherwise it resigns and forgets its epoch."""
    life = active(tree)
    same = handle_lifecycle_event(life, LifecycleEvent.CONTROLLER_CHANGE, tree, session=SESSIONS[0])
    assert same == life
    replaced_by(tree, 1)
    gone = handle_lifecycle_event(life, LifecycleEvent.CONTROLLER_CHANGE, tree, session=SESSIONS[0])
    assert gone == Lifecycle(0, Phase.STANDBY, active_controller_id=1)


def test_a_deletion_starts_an_election(tree: ZnodeTree) -> None:
    """It resigns, and wins again if no other broker is faster: a full failover under the next epoch."""
    life = active(tree)
    tree.write(DeleteZnode("/controller"))
    outcome = handle_lifecycle_event(life, LifecycleEvent.REELECT, tree, session=SESSIONS[0])
    assert outcome == Lifecycle(0, Phase.FAILOVER, 0, epoch=2, epoch_zk_version=2)


def test_a_controller_resigns_on_expiry_and_is_elected_with_a_new_session(
    tree: ZnodeTree,
) -> None:
    """On expiry it resigns without reading; with the new session it is a candidate again."""
    life = active(tree)
    expired = handle_lifecycle_event(life, LifecycleEvent.EXPIRE, tree, session=SESSIONS[0])
    assert expired == Lifecycle(0, Phase.EXPIRED)
    tree.close_session(SESSIONS[0])
    tree.open_session(SESSIONS[0])
    back = after(expired, tree, LifecycleEvent.NEW_SESSION)
    assert (back.phase, back.epoch) == (Phase.FAILOVER, 2)


def test_while_expired_all_other_events_are_ignored(tree: ZnodeTree) -> None:
    """A change or a deletion of /controller does not make it a candidate."""
    expired = after(active(tree), tree, LifecycleEvent.EXPIRE)
    tree.write(DeleteZnode("/controller"))
    assert after(expired, tree, LifecycleEvent.REELECT, LifecycleEvent.CONTROLLER_CHANGE) == expired


def test_a_shutdown_leaves_the_znode_to_the_session(tree: ZnodeTree) -> None:
    """It resigns; /controller is kept until the session is closed; after that it handles no event."""
    outcome = handle_lifecycle_event(
        active(tree), LifecycleEvent.SHUTDOWN, tree, session=SESSIONS[0]
    )
    assert (outcome.phase, outcome.epoch) == (Phase.CLOSED, 0)
    assert controller_id(tree) == 0
    assert all(after(outcome, tree, event) == outcome for event in LifecycleEvent)


# --- stale and newer epochs -----------------------------------------------------------------


@pytest.mark.parametrize("done", range(STEPS))
def test_a_newer_epoch_ends_a_failover_at_any_step(tree: ZnodeTree, done: int) -> None:
    """At any step, the broker reads who the controller is now, resigns, and forgets its epoch."""
    life = after(elected(tree), tree, *[LifecycleEvent.STEP_DONE] * done)
    replaced_by(tree, 1)
    outcome = handle_lifecycle_event(
        life, LifecycleEvent.CONTROLLER_MOVED, tree, session=SESSIONS[0]
    )
    assert outcome == Lifecycle(0, Phase.STANDBY, active_controller_id=1)


def test_an_epoch_raised_by_hand_stops_a_failover_half_done(tree: ZnodeTree) -> None:
    """No other broker holds /controller, so it takes itself for the controller but does no more steps."""
    life = after(elected(tree), tree, LifecycleEvent.STEP_DONE)
    tree.write(SetZnode("/controller_epoch", "9"))
    moved = handle_lifecycle_event(life, LifecycleEvent.CONTROLLER_MOVED, tree, session=SESSIONS[0])
    assert (moved.phase, moved.epoch, moved.steps_done) == (Phase.ACTIVE, 1, 1)
    assert moved.next_step is None


def test_an_active_controller_that_is_fenced_resigns(tree: ZnodeTree) -> None:
    """ControllerMovedException in any event is enough."""
    life = active(tree)
    replaced_by(tree, 1)
    assert after(life, tree, LifecycleEvent.CONTROLLER_MOVED).phase is Phase.STANDBY


@pytest.mark.parametrize("done", [0, 5, STEPS])
def test_a_controller_resigns_on_an_error_and_deletes_its_znode(tree: ZnodeTree, done: int) -> None:
    """It resigns and deletes /controller, fenced by its epoch, so that another one is elected."""
    life = after(elected(tree), tree, *[LifecycleEvent.STEP_DONE] * done)
    outcome = handle_lifecycle_event(life, LifecycleEvent.FAILED, tree, session=SESSIONS[0])
    assert outcome == Lifecycle(0, Phase.STANDBY)
    assert tree.find("/controller") is None


def test_an_error_of_a_former_controller_does_not_delete_controller(tree: ZnodeTree) -> None:
    """Another broker holds /controller: it is not deleted, and Kafka's machines are not shut down."""
    life = active(tree)
    replaced_by(tree, 1)
    outcome = handle_lifecycle_event(life, LifecycleEvent.FAILED, tree, session=SESSIONS[0])
    assert (outcome.phase, outcome.active_controller_id, outcome.epoch) == (Phase.STANDBY, 1, 1)
    assert controller_id(tree) == 1


def test_an_error_under_a_raised_epoch_does_not_delete(tree: ZnodeTree) -> None:
    """The deletion is fenced: with a newer epoch /controller is kept."""
    life = active(tree)
    tree.write(SetZnode("/controller_epoch", "9"))
    assert after(life, tree, LifecycleEvent.FAILED).phase is Phase.STANDBY
    assert controller_id(tree) == 0


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
