"""The handler of each kind of fact."""

from collections.abc import Callable
from typing import Any

from controller_model.facts import facts
from controller_model.handlers import (
    brokers,
    configs,
    controller,
    foreign_writes,
    partitions,
    quorum,
    requests,
    topics,
)
from controller_model.records.events import AnyEvent
from controller_model.state.cluster import ClusterState

HANDLERS: dict[type[facts.Fact], Callable[[ClusterState, Any], list[AnyEvent]]] = {
    facts.CountingStarts: controller.start_counting,
    facts.ControllerIs: controller.apply_controller,
    facts.ControllerGone: controller.apply_vacancy,
    facts.ControllerConfirmed: controller.confirm_controller,
    facts.ControllerEpochIs: controller.apply_epoch,
    facts.ElectionsAre: controller.apply_elections,
    facts.ElectionConfirmed: controller.report_election,
    facts.ElectionCauseIs: controller.apply_cause,
    facts.FailoverIs: controller.apply_failover,
    facts.ControllerHealthIs: controller.apply_health,
    facts.ControllersAreRefused: foreign_writes.apply_refusal,
    facts.ForeignWritesAre: foreign_writes.apply_foreign_writes,
    facts.KraftMigrationIs: controller.apply_migration,
    facts.KraftControllerIs: configs.apply_kraft_controller,
    facts.ClusterIdIs: configs.apply_cluster_id,
    facts.BrokerIdsAre: configs.apply_broker_ids,
    facts.BrokerConfigIs: configs.apply_broker_config,
    facts.TopicConfigIs: configs.apply_topic_config,
    facts.BrokerIs: brokers.apply_broker,
    facts.BrokerGone: brokers.apply_broker_end,
    facts.BrokerUnfenced: brokers.apply_unfencing,
    facts.BrokerShutsDown: brokers.apply_shutdown,
    facts.RegistrationGone: brokers.apply_registration_end,
    facts.LogDirIsOffline: brokers.apply_log_dir,
    facts.TopicIs: topics.apply_topic,
    facts.AssignmentsAre: topics.apply_assignments,
    facts.TopicGone: topics.apply_topic_end,
    facts.TopicDeletionIs: topics.apply_deletion,
    facts.TopicDeletionGone: topics.apply_deletion_end,
    facts.PartitionIs: partitions.apply_partition,
    facts.PartitionGone: partitions.apply_partition_end,
    facts.RequestIs: requests.apply_request,
    facts.RequestGone: requests.apply_request_end,
    facts.FeatureIs: quorum.apply_feature,
    facts.VotersAre: quorum.apply_voters,
    facts.RegisteredControllerIs: quorum.apply_registration,
    facts.MigrationStateIs: quorum.apply_migration_state,
    facts.CandidaciesAre: quorum.apply_candidacies,
    facts.QuorumIs: quorum.apply_quorum,
}


def apply_fact(state: ClusterState, fact: facts.Fact) -> list[AnyEvent]:
    """Apply a fact to the state, and return the events that it makes."""
    return HANDLERS[type(fact)](state, fact)
