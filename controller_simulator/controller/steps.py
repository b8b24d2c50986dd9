"""What a broker does to become the controller and to cease to be it, step by step in Kafka's order.

The rule: the order is the promise. Watches stand before anything is read, so that no change is
missed; the context is complete before a machine starts; replicas start before partitions, so that
dead ones are out of the ISRs when leaders are elected. Sources (Kafka 3.9): kafka.controller
.KafkaController.onControllerFailover, initializeControllerContext, onControllerResignation.
"""

from __future__ import annotations

import enum

REBALANCE_DELAY_S = 5
"""From the end of a failover to the first look at the leaders' balance."""


class Step(enum.StrEnum):
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
    Step.SET_UP_FEATURES,
    Step.WATCH_BROKERS,
    Step.WATCH_TOPICS,
    Step.WATCH_TOPIC_DELETIONS,
    Step.WATCH_LOG_DIR_EVENTS,
    Step.WATCH_ISR_CHANGES,
    Step.WATCH_PREFERRED_ELECTION,
    Step.WATCH_REASSIGNMENT,
    Step.DELETE_LOG_DIR_EVENTS,
    Step.DELETE_ISR_CHANGES,
    Step.READ_BROKERS,
    Step.READ_TOPICS,
    Step.WATCH_EACH_TOPIC,
    Step.READ_ASSIGNMENTS,
    Step.WATCH_EACH_BROKER,
    Step.READ_LEADERSHIP,
    Step.START_CHANNELS,
    Step.READ_TOPIC_DELETIONS,
    Step.START_TOPIC_DELETION,
    Step.SEND_METADATA,
    Step.START_REPLICA_MACHINE,
    Step.START_PARTITION_MACHINE,
    Step.RESUME_REASSIGNMENTS,
    Step.TRY_TOPIC_DELETION,
    Step.RESUME_PREFERRED_ELECTION,
    Step.START_SCHEDULER,
    Step.SCHEDULE_REBALANCE,
)
"""What a broker that has won does, in Kafka's order (KafkaController.onControllerFailover)."""

RESIGNATION_STEPS = (
    Step.UNWATCH_ISR_CHANGES,
    Step.UNWATCH_REASSIGNMENT,
    Step.UNWATCH_PREFERRED_ELECTION,
    Step.UNWATCH_LOG_DIR_EVENTS,
    Step.UNWATCH_EACH_BROKER,
    Step.STOP_SCHEDULER,
    Step.UNWATCH_REASSIGNED_STATES,
    Step.STOP_PARTITION_MACHINE,
    Step.UNWATCH_TOPICS,
    Step.UNWATCH_EACH_TOPIC,
    Step.UNWATCH_TOPIC_DELETIONS,
    Step.STOP_REPLICA_MACHINE,
    Step.UNWATCH_BROKERS,
    Step.STOP_CHANNELS,
    Step.FORGET,
)
"""What one that ceases does (KafkaController.onControllerResignation); /controller stays watched."""
