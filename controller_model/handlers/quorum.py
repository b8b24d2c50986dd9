"""The quorum of a KRaft cluster, and what its metadata log states of the cluster as a whole."""

from controller_model.facts.facts import (
    CandidaciesAre,
    FeatureIs,
    MigrationStateIs,
    QuorumIs,
    RegisteredControllerIs,
    VotersAre,
)
from controller_model.records.events import AnyEvent
from controller_model.records.quorum import QuorumView
from controller_model.state.cluster import ClusterState


def _quorum(state: ClusterState) -> QuorumView:
    control = state.control
    if control.quorum is None:
        control.quorum = QuorumView()
    return control.quorum


def apply_feature(state: ClusterState, fact: FeatureIs) -> list[AnyEvent]:
    """Apply the level of a feature."""
    features = _quorum(state).features
    if fact.level is None:
        features.pop(fact.name, None)
    else:
        features[fact.name] = fact.level
    return []


def apply_voters(state: ClusterState, fact: VotersAre) -> list[AnyEvent]:
    """Apply who votes."""
    _quorum(state).voters = fact.voters
    return []


def apply_registration(state: ClusterState, fact: RegisteredControllerIs) -> list[AnyEvent]:
    """Apply the registration of a controller, or that it has none."""
    controllers = _quorum(state).controllers
    if fact.registration is None:
        controllers.pop(fact.controller, None)
    else:
        controllers[fact.controller] = fact.registration
    return []


def apply_migration_state(state: ClusterState, fact: MigrationStateIs) -> list[AnyEvent]:
    """Apply how far a migration from ZooKeeper is."""
    _quorum(state).zk_migration_state = fact.state
    return []


def apply_candidacies(state: ClusterState, fact: CandidaciesAre) -> list[AnyEvent]:
    """Apply how many candidates were not elected."""
    _quorum(state).candidacies = fact.candidacies
    return []


def apply_quorum(state: ClusterState, fact: QuorumIs) -> list[AnyEvent]:
    """Apply what the controllers answered; what nobody answered keeps its last value."""
    quorum = _quorum(state)
    if fact.leader is not None:
        quorum.leader, quorum.leader_epoch = fact.leader, fact.leader_epoch
    if fact.high_watermark is not None and fact.high_watermark > (quorum.high_watermark or -1):
        quorum.high_watermark, quorum.high_watermark_since = fact.high_watermark, fact.stamp.at
    quorum.sample, quorum.is_sampled = fact.sample or quorum.sample, fact.sample is not None
    if fact.snapshot_end is not None:
        quorum.snapshot_end, quorum.snapshot_at = fact.snapshot_end, fact.snapshot_at
    quorum.unreachable_since = fact.unreachable_since
    quorum.leader_silent_since = fact.leader_silent_since
    return []
