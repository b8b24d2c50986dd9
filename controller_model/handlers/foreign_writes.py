"""Foreign writes: how many stand, and which controller brokers refuse because of one."""

from controller_model.facts.facts import ControllersAreRefused, ForeignWritesAre
from controller_model.records.events import AnyEvent
from controller_model.state.cluster import ClusterState


def apply_foreign_writes(state: ClusterState, fact: ForeignWritesAre) -> list[AnyEvent]:
    """Apply how many foreign writes of each kind stand."""
    state.control.foreign_writes = dict(fact.counts)
    return []


def apply_refusal(state: ClusterState, fact: ControllersAreRefused) -> list[AnyEvent]:
    """Apply below which epoch brokers refuse a controller."""
    state.control.controller.view.refused_below = fact.below
    return []
