"""The table of phases and the lists of steps, written out by hand."""

from __future__ import annotations

import itertools
import re

import pytest

from controller_simulator.controller.phases import (
    FAILOVER_STEPS,
    RESIGNATION_STEPS,
    TRANSITIONS,
    ElectionStep,
    LifecycleEvent,
    Phase,
)

FAILOVER_BY_HAND = """
    maybeSetupFeatureVersioning
    watch /brokers/ids | watch /brokers/topics | watch /admin/delete_topics
    watch /log_dir_event_notification | watch /isr_change_notification
    watch /admin/preferred_replica_election | watch /admin/reassign_partitions
    deleteLogDirEventNotifications | deleteIsrChangeNotifications
    initializeControllerContext: live brokers | initializeControllerContext: topics
    registerPartitionModificationsHandlers | initializeControllerContext: assignments
    registerBrokerModificationsHandler | updateLeaderAndIsrCache | controllerChannelManager.startup
    fetchTopicDeletionsInProgress | topicDeletionManager.init | sendUpdateMetadataRequest
    replicaStateMachine.startup | partitionStateMachine.startup
    initializePartitionReassignments | topicDeletionManager.tryTopicDeletion | onReplicaElection
    kafkaScheduler.startup | scheduleAutoLeaderRebalanceTask
"""


RESIGNATION_BY_HAND = """
    unwatch /isr_change_notification | unwatch /admin/reassign_partitions
    unwatch /admin/preferred_replica_election | unwatch /log_dir_event_notification
    unregisterBrokerModificationsHandler | kafkaScheduler.shutdown
    unregisterPartitionReassignmentIsrChangeHandlers | partitionStateMachine.shutdown
    unwatch /brokers/topics | unregisterPartitionModificationsHandlers
    unwatch /admin/delete_topics | replicaStateMachine.shutdown | unwatch /brokers/ids
    controllerChannelManager.shutdown | controllerContext.resetContext
"""


@pytest.mark.parametrize(
    ("steps", "by_hand"),
    [(FAILOVER_STEPS, FAILOVER_BY_HAND), (RESIGNATION_STEPS, RESIGNATION_BY_HAND)],
)
def test_the_steps_are_kafkas(steps: tuple[ElectionStep, ...], by_hand: str) -> None:
    """They are those of onControllerFailover and onControllerResignation, in their order."""
    assert [step.value for step in steps] == re.split(r" \| |\n\s*", by_hand.strip())


def test_every_step_is_used_once() -> None:
    """No step stands in both lists, and none in neither."""
    assert sorted(FAILOVER_STEPS + RESIGNATION_STEPS) == sorted(ElectionStep)


BY_HAND = """
    not started | Startup                  | standby failover active
    not started | shutdown                 | closed
    standby     | ControllerChange         | standby active
    standby     | Reelect                  | standby failover active
    standby     | ControllerMovedException | standby active
    standby     | error                    | standby
    standby     | Expire                   | expired
    standby     | shutdown                 | closed
    failover    | ControllerChange         | failover
    failover    | Reelect                  | failover
    failover    | step done                | failover standby failover active expired closed
    failover    | ControllerMovedException | standby failover active expired closed
    failover    | error                    | standby failover active expired closed
    failover    | Expire                   | failover
    failover    | shutdown                 | failover
    active      | ControllerChange         | standby active
    active      | Reelect                  | standby failover active
    active      | ControllerMovedException | standby active
    active      | error                    | standby
    active      | Expire                   | expired
    active      | shutdown                 | closed
    expired     | RegisterBrokerAndReelect | standby failover active
    expired     | shutdown                 | closed
"""


def test_the_table_is_what_is_written_here() -> None:
    """Every phase meets every event; what is not in the list leads nowhere."""
    by_hand: dict[tuple[str, str], list[str]] = {}
    for line in BY_HAND.strip().splitlines():
        phase, event, targets = (part.strip() for part in line.split("|"))
        by_hand[phase, event] = targets.split()
    for phase, event in itertools.product(Phase, LifecycleEvent):
        expected = by_hand.pop((phase.value, event.value), [])
        assert [target.value for target in TRANSITIONS[phase][event]] == expected, (phase, event)
    assert by_hand == {}
