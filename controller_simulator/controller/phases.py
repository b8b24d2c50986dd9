"""The phases of a broker's controller, the events that change them, and the steps of an election.

The rule: the table of transitions is total, and `lifecycle` leads nowhere that it does not allow. The
order of the steps is Kafka's and has its reasons: watches are set before anything is read, so that
no change is missed; the context is complete before a machine starts; replicas start before
partitions, so that dead ones are out of the ISRs when leaders are elected. Sources (Kafka 3.9):
kafka.controller.KafkaController (process, onControllerFailover, initializeControllerContext,
onControllerResignation) and ControllerEventManager.
"""

from __future__ import annotations

import enum


class Phase(enum.StrEnum):
    """The state of a broker's controller between two events."""

    NOT_STARTED = "not started"
    STANDBY = "standby"
    """It watches /controller, which another broker holds, or none at the moment."""
    FAILOVER = "failover"
    """It has won and works through FAILOVER_STEPS."""
    ACTIVE = "active"
    """It is the controller and has done all that."""
    EXPIRED = "expired"
    """Its session is lost; nothing is done until there is a new one."""
    CLOSED = "closed"
    """The broker is shutting down."""


class LifecycleEvent(enum.StrEnum):
    """What happens to it (kafka.controller.ControllerEvent, and what ends an election)."""

    STARTUP = "Startup"
    CONTROLLER_CHANGE = "ControllerChange"
    """/controller was created or its data changed: read who it is."""
    REELECT = "Reelect"
    """/controller was deleted: read it, then try to take it."""
    STEP_DONE = "step done"
    """The next of FAILOVER_STEPS has been done."""
    CONTROLLER_MOVED = "ControllerMovedException"
    """A write was refused because /controller_epoch has another version."""
    FAILED = "error"
    """Any other error during the failover, or an illegal state at any time: give it away."""
    EXPIRE = "Expire"
    """The session is lost (beforeInitializingSession)."""
    NEW_SESSION = "RegisterBrokerAndReelect"
    """There is a new one (afterInitializingSession)."""
    SHUTDOWN = "shutdown"


_LOOKING = (Phase.STANDBY, Phase.FAILOVER, Phase.ACTIVE)
_HOLDING = (Phase.STANDBY, Phase.ACTIVE)
WAITS = (Phase.FAILOVER,)
"""Where an event leads that has to wait for the end of a failover."""

_READY: dict[LifecycleEvent, tuple[Phase, ...]] = {
    LifecycleEvent.STARTUP: (),
    LifecycleEvent.CONTROLLER_CHANGE: _HOLDING,
    LifecycleEvent.REELECT: _LOOKING,
    LifecycleEvent.STEP_DONE: (),
    LifecycleEvent.CONTROLLER_MOVED: _HOLDING,
    LifecycleEvent.FAILED: (Phase.STANDBY,),
    LifecycleEvent.EXPIRE: (Phase.EXPIRED,),
    LifecycleEvent.NEW_SESSION: (),
    LifecycleEvent.SHUTDOWN: (Phase.CLOSED,),
}
"""Where events lead a broker that holds /controller, or stands by while another one does."""

TRANSITIONS: dict[Phase, dict[LifecycleEvent, tuple[Phase, ...]]] = {
    Phase.NOT_STARTED: {
        LifecycleEvent.STARTUP: _LOOKING,
        LifecycleEvent.CONTROLLER_CHANGE: (),
        LifecycleEvent.REELECT: (),
        LifecycleEvent.STEP_DONE: (),
        LifecycleEvent.CONTROLLER_MOVED: (),
        LifecycleEvent.FAILED: (),
        LifecycleEvent.EXPIRE: (),
        LifecycleEvent.NEW_SESSION: (),
        LifecycleEvent.SHUTDOWN: (Phase.CLOSED,),
    },
    Phase.STANDBY: _READY,
    Phase.FAILOVER: {
        LifecycleEvent.STARTUP: (),
        LifecycleEvent.CONTROLLER_CHANGE: WAITS,
        LifecycleEvent.REELECT: WAITS,
        LifecycleEvent.STEP_DONE: (Phase.FAILOVER, *_LOOKING, Phase.EXPIRED, Phase.CLOSED),
        LifecycleEvent.CONTROLLER_MOVED: (*_LOOKING, Phase.EXPIRED, Phase.CLOSED),
        LifecycleEvent.FAILED: (*_LOOKING, Phase.EXPIRED, Phase.CLOSED),
        LifecycleEvent.EXPIRE: WAITS,
        LifecycleEvent.NEW_SESSION: (),
        LifecycleEvent.SHUTDOWN: WAITS,
    },
    Phase.ACTIVE: _READY,
    Phase.EXPIRED: {
        LifecycleEvent.STARTUP: (),
        LifecycleEvent.CONTROLLER_CHANGE: (),
        LifecycleEvent.REELECT: (),
        LifecycleEvent.STEP_DONE: (),
        LifecycleEvent.CONTROLLER_MOVED: (),
        LifecycleEvent.FAILED: (),
        LifecycleEvent.EXPIRE: (),
        LifecycleEvent.NEW_SESSION: _LOOKING,
        LifecycleEvent.SHUTDOWN: (Phase.CLOSED,),
    },
    Phase.CLOSED: dict.fromkeys(LifecycleEvent, ()),
}
"""Where each event may lead; nowhere: it cannot come there, or is ignored.

While a failover is under way only its own end is taken in: Kafka's event thread is busy, and what
comes meanwhile waits (Lifecycle.waiting). Then it decides, hence the many ways out.
"""


class ElectionStep(enum.StrEnum):
    """One step of becoming the controller or of ceasing to be it."""

    SET_UP_FEATURES = "maybeSetupFeatureVersioning"
    WATCH_BROKERS = "watch /brokers/ids"
    WATCH_TOPICS = "watch /brokers/topics"
    WATCH_TOPIC_DELETIONS = "watch /admin/delete_topics"
    WATCH_LOG_DIR_EVENTS = "watch /log_dir_event_notification"
    WATCH_ISR_CHANGES = "watch /isr_change_notification"
    WATCH_PREFERRED_ELECTION = "watch /admin/preferred_replica_election"
    WATCH_REASSIGNMENT = "watch /admin/reassign_partitions"
    DELETE_LOG_DIR_EVENTS = "deleteLogDirEventNotifications"
    DELETE_ISR_CHANGES = "deleteIsrChangeNotifications"
    READ_BROKERS = "initializeControllerContext: live brokers"
    READ_TOPICS = "initializeControllerContext: topics"
    WATCH_EACH_TOPIC = "registerPartitionModificationsHandlers"
    READ_ASSIGNMENTS = "initializeControllerContext: assignments"
    WATCH_EACH_BROKER = "registerBrokerModificationsHandler"
    READ_LEADERSHIP = "updateLeaderAndIsrCache"
    START_CHANNELS = "controllerChannelManager.startup"
    READ_TOPIC_DELETIONS = "fetchTopicDeletionsInProgress"
    START_TOPIC_DELETION = "topicDeletionManager.init"
    SEND_METADATA = "sendUpdateMetadataRequest"
    START_REPLICA_MACHINE = "replicaStateMachine.startup"
    START_PARTITION_MACHINE = "partitionStateMachine.startup"
    RESUME_REASSIGNMENTS = "initializePartitionReassignments"
    TRY_TOPIC_DELETION = "topicDeletionManager.tryTopicDeletion"
    RESUME_PREFERRED_ELECTION = "onReplicaElection"
    START_SCHEDULER = "kafkaScheduler.startup"
    SCHEDULE_REBALANCE = "scheduleAutoLeaderRebalanceTask"
    UNWATCH_ISR_CHANGES = "unwatch /isr_change_notification"
    UNWATCH_REASSIGNMENT = "unwatch /admin/reassign_partitions"
    UNWATCH_PREFERRED_ELECTION = "unwatch /admin/preferred_replica_election"
    UNWATCH_LOG_DIR_EVENTS = "unwatch /log_dir_event_notification"
    UNWATCH_EACH_BROKER = "unregisterBrokerModificationsHandler"
    STOP_SCHEDULER = "kafkaScheduler.shutdown"
    UNWATCH_REASSIGNED_STATES = "unregisterPartitionReassignmentIsrChangeHandlers"
    STOP_PARTITION_MACHINE = "partitionStateMachine.shutdown"
    UNWATCH_TOPICS = "unwatch /brokers/topics"
    UNWATCH_EACH_TOPIC = "unregisterPartitionModificationsHandlers"
    UNWATCH_TOPIC_DELETIONS = "unwatch /admin/delete_topics"
    STOP_REPLICA_MACHINE = "replicaStateMachine.shutdown"
    UNWATCH_BROKERS = "unwatch /brokers/ids"
    STOP_CHANNELS = "controllerChannelManager.shutdown"
    FORGET = "controllerContext.resetContext"


FAILOVER_STEPS = (
    ElectionStep.SET_UP_FEATURES,
    ElectionStep.WATCH_BROKERS,
    ElectionStep.WATCH_TOPICS,
    ElectionStep.WATCH_TOPIC_DELETIONS,
    ElectionStep.WATCH_LOG_DIR_EVENTS,
    ElectionStep.WATCH_ISR_CHANGES,
    ElectionStep.WATCH_PREFERRED_ELECTION,
    ElectionStep.WATCH_REASSIGNMENT,
    ElectionStep.DELETE_LOG_DIR_EVENTS,
    ElectionStep.DELETE_ISR_CHANGES,
    ElectionStep.READ_BROKERS,
    ElectionStep.READ_TOPICS,
    ElectionStep.WATCH_EACH_TOPIC,
    ElectionStep.READ_ASSIGNMENTS,
    ElectionStep.WATCH_EACH_BROKER,
    ElectionStep.READ_LEADERSHIP,
    ElectionStep.START_CHANNELS,
    ElectionStep.READ_TOPIC_DELETIONS,
    ElectionStep.START_TOPIC_DELETION,
    ElectionStep.SEND_METADATA,
    ElectionStep.START_REPLICA_MACHINE,
    ElectionStep.START_PARTITION_MACHINE,
    ElectionStep.RESUME_REASSIGNMENTS,
    ElectionStep.TRY_TOPIC_DELETION,
    ElectionStep.RESUME_PREFERRED_ELECTION,
    ElectionStep.START_SCHEDULER,
    ElectionStep.SCHEDULE_REBALANCE,
)
"""What a broker that has won does, in Kafka's order (KafkaController.onControllerFailover)."""

RESIGNATION_STEPS = (
    ElectionStep.UNWATCH_ISR_CHANGES,
    ElectionStep.UNWATCH_REASSIGNMENT,
    ElectionStep.UNWATCH_PREFERRED_ELECTION,
    ElectionStep.UNWATCH_LOG_DIR_EVENTS,
    ElectionStep.UNWATCH_EACH_BROKER,
    ElectionStep.STOP_SCHEDULER,
    ElectionStep.UNWATCH_REASSIGNED_STATES,
    ElectionStep.STOP_PARTITION_MACHINE,
    ElectionStep.UNWATCH_TOPICS,
    ElectionStep.UNWATCH_EACH_TOPIC,
    ElectionStep.UNWATCH_TOPIC_DELETIONS,
    ElectionStep.STOP_REPLICA_MACHINE,
    ElectionStep.UNWATCH_BROKERS,
    ElectionStep.STOP_CHANNELS,
    ElectionStep.FORGET,
)
"""What one that ceases does (KafkaController.onControllerResignation); /controller stays watched."""
