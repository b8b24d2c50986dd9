"""Defines the phases of a broker's controller, the events that change them, and the steps of an election.

The table of transitions is total, and `lifecycle` allows only what is in it. The order of
the steps is Kafka's, for these reasons: the context is complete before a machine starts, and
replicas start before partitions, so that dead ones are out of the ISRs when leaders are elected.
Sources (Kafka 3.9): kafka.controller.KafkaController (process, onControllerFailover,
initializeControllerContext) and ControllerEventManager.
"""

import enum


class Phase(enum.StrEnum):
    """The state of a broker's controller between two events."""

    NOT_STARTED = "not started"
    STANDBY = "standby"
    """The broker watches /controller, which another broker, or none, holds."""
    FAILOVER = "failover"
    """The broker has won and works through FAILOVER_STEPS."""
    ACTIVE = "active"
    """The broker is the controller and has done all steps."""
    EXPIRED = "expired"
    """The broker's session is lost; nothing is done until there is a new one."""
    CLOSED = "closed"
    """The broker is shutting down."""


class LifecycleEvent(enum.StrEnum):
    """What happens to a broker's controller (kafka.controller.ControllerEvent, and what ends an election)."""

    STARTUP = "Startup"
    CONTROLLER_CHANGE = "ControllerChange"
    """/controller was created or its data changed: read who is the controller."""
    REELECT = "Reelect"
    """/controller was deleted: read it, then try to take it."""
    STEP_DONE = "step done"
    """The next of FAILOVER_STEPS has been done."""
    CONTROLLER_MOVED = "ControllerMovedException"
    """A write was refused because /controller_epoch has another version."""
    FAILED = "error"
    """Any other error during the failover, or an illegal state at any time: give up /controller."""
    EXPIRE = "Expire"
    """The session is lost (beforeInitializingSession)."""
    NEW_SESSION = "RegisterBrokerAndReelect"
    """There is a new session (afterInitializingSession)."""
    SHUTDOWN = "shutdown"


_LOOKING = (Phase.STANDBY, Phase.FAILOVER, Phase.ACTIVE)
_HOLDING = (Phase.STANDBY, Phase.ACTIVE)

_IGNORED: dict[LifecycleEvent, tuple[Phase, ...]] = dict.fromkeys(LifecycleEvent, ())

_READY: dict[LifecycleEvent, tuple[Phase, ...]] = {
    **_IGNORED,
    LifecycleEvent.CONTROLLER_CHANGE: _HOLDING,
    LifecycleEvent.REELECT: _LOOKING,
    LifecycleEvent.CONTROLLER_MOVED: _HOLDING,
    LifecycleEvent.FAILED: (Phase.STANDBY,),
    LifecycleEvent.EXPIRE: (Phase.EXPIRED,),
    LifecycleEvent.SHUTDOWN: (Phase.CLOSED,),
}
"""The targets of events for a broker that holds /controller, or is on standby while another one does."""

TRANSITIONS: dict[Phase, dict[LifecycleEvent, tuple[Phase, ...]]] = {
    Phase.NOT_STARTED: {
        **_IGNORED,
        LifecycleEvent.STARTUP: _LOOKING,
        LifecycleEvent.SHUTDOWN: (Phase.CLOSED,),
    },
    Phase.STANDBY: _READY,
    Phase.FAILOVER: {
        **_IGNORED,
        LifecycleEvent.STEP_DONE: (Phase.FAILOVER, Phase.ACTIVE),
        LifecycleEvent.CONTROLLER_MOVED: _HOLDING,
        LifecycleEvent.FAILED: (Phase.STANDBY,),
    },
    Phase.ACTIVE: _READY,
    Phase.EXPIRED: {
        **_IGNORED,
        LifecycleEvent.NEW_SESSION: _LOOKING,
        LifecycleEvent.SHUTDOWN: (Phase.CLOSED,),
    },
    Phase.CLOSED: _IGNORED,
}
"""Where each event may lead; no target: it cannot occur there, or is ignored.  During a failover
only its own steps are handled: Kafka's event thread is busy, and other events wait in its queue."""


class ElectionStep(enum.StrEnum):
    """What a broker that has won does, in Kafka's order (KafkaController.onControllerFailover).

    Watches, channels and threads need no step here.
    """

    SET_UP_FEATURES = "maybeSetupFeatureVersioning"
    DELETE_LOG_DIR_EVENTS = "deleteLogDirEventNotifications"
    DELETE_ISR_CHANGES = "deleteIsrChangeNotifications"
    READ_BROKERS = "initializeControllerContext: live brokers"
    READ_TOPICS = "initializeControllerContext: topics"
    READ_ASSIGNMENTS = "initializeControllerContext: assignments"
    READ_LEADERSHIP = "updateLeaderAndIsrCache"
    START_TOPIC_DELETION = "topicDeletionManager.init"
    SEND_METADATA = "sendUpdateMetadataRequest"
    START_REPLICA_MACHINE = "replicaStateMachine.startup"
    START_PARTITION_MACHINE = "partitionStateMachine.startup"
    RESUME_REASSIGNMENTS = "initializePartitionReassignments"
    TRY_TOPIC_DELETION = "topicDeletionManager.tryTopicDeletion"
    RESUME_PREFERRED_ELECTION = "onReplicaElection"


FAILOVER_STEPS = tuple(ElectionStep)
