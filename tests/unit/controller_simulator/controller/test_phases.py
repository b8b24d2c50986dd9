"""The table of phases and the list of steps, written out by hand."""

from __future__ import annotations

import itertools
import re

from controller_simulator.controller.phases import (
    FAILOVER_STEPS,
    TRANSITIONS,
    LifecycleEvent,
    Phase,
)

FAILOVER_BY_HAND = """
    maybeSetupFeatureVersioning | deleteLogDirEventNotifications | deleteIsrChangeNotifications
    initializeControllerContext: live brokers | initializeControllerContext: topics
    initializeControllerContext: assignments | updateLeaderAndIsrCache | topicDeletionManager.init
    sendUpdateMetadataRequest | replicaStateMachine.startup | partitionStateMachine.startup
    initializePartitionReassignments | topicDeletionManager.tryTopicDeletion | onReplicaElection
"""


def test_the_steps_are_kafkas() -> None:
    """The steps of onControllerFailover that read, write or send something, in its order."""
    assert list(FAILOVER_STEPS) == re.split(r" \| |\n\s*", FAILOVER_BY_HAND.strip())


BY_HAND = """
    not started | Startup                  | standby failover active
    not started | shutdown                 | closed
    standby     | ControllerChange         | standby active
    standby     | Reelect                  | standby failover active
    standby     | ControllerMovedException | standby active
    standby     | error                    | standby
    standby     | Expire                   | expired
    standby     | shutdown                 | closed
    failover    | step done                | failover active
    failover    | ControllerMovedException | standby active
    failover    | error                    | standby
    active      | ControllerChange         | standby active
    active      | Reelect                  | standby failover active
    active      | ControllerMovedException | standby active
    active      | error                    | standby
    active      | Expire                   | expired
    active      | shutdown                 | closed
    expired     | RegisterBrokerAndReelect | standby failover active
    expired     | shutdown                 | closed
"""


def test_the_transition_table_equals_the_one_written_by_hand() -> None:
    """Every phase meets every event; a pair that is not in the list has no target."""
    by_hand: dict[tuple[str, str], list[str]] = {}
    for line in BY_HAND.strip().splitlines():
        phase, event, targets = (part.strip() for part in line.split("|"))
        by_hand[phase, event] = targets.split()
    for phase, event in itertools.product(Phase, LifecycleEvent):
        expected = by_hand.pop((phase.value, event.value), [])
        assert [target.value for target in TRANSITIONS[phase][event]] == expected, (phase, event)
    assert by_hand == {}
