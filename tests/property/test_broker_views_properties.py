"""Views of the brokers that a batch touched equal views computed from scratch."""

from __future__ import annotations

import random

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from controller_model.fold.broker_views import BrokerViews
from controller_model.kafka.ids import AsOf
from controller_model.records.views import AnyView, BrokerView, Deleted
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.control_plane import Assumed, ControlPlane
from tests.property.test_replay_properties import write_random_changes
from tests.support.histories import Fold, repacked, small_cluster

NOWHERE = AsOf("l", 0, 0)
SEEDS = st.integers(0, 2**32)


def all_views(control: ControlPlane) -> tuple[dict[str, AnyView], int]:
    """Return the views of all brokers, computed from the state alone, and their digest."""
    new = BrokerViews()
    made: dict[str, AnyView] = {
        key: view for key, view, _ in new.changed(control, NOWHERE, ZOOKEEPER)
    }
    return made, new.digest


def without_place(view: AnyView) -> AnyView:
    """Return a view without its position in the log."""
    return msgspec.structs.replace(view, as_of=NOWHERE)


def apply_views(held: dict[str, AnyView], fold: Fold) -> None:
    """Apply the views of brokers that a fold publishes."""
    for key, view in fold.views().items():
        if "/broker/" not in key:
            continue
        if isinstance(view, Deleted):
            held.pop(key)
        else:
            held[key] = without_place(view)


@given(SEEDS)
def test_published_broker_views_equal_views_computed_from_scratch(seed: int) -> None:
    """After each batch that touches any of registrations, leaders, ISRs, settings, proofs, denials."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    history, fold = small_cluster(), Fold()
    held: dict[str, AnyView] = {}
    for _ in range(12):
        if draws.random() < 0.9:
            write_random_changes(history, draws, draws.choice((0, 1, 1, 4)))
        else:
            history.resync()
        if draws.random() < 0.1:
            fold.state.control.assumed = Assumed(min_insync_replicas=draws.choice((None, 1, 2)))
        fold.follow(history)
        if draws.random() < 0.2:
            fold.state.control = repacked(fold.state.control)
        apply_views(held, fold)
        expected, digest = all_views(fold.state.control)
        assert held == expected
        assert fold.state.control.published.brokers == digest


@given(SEEDS)
def test_a_batch_that_touches_one_partition_checks_only_its_brokers(seed: int) -> None:
    """Other views are neither computed nor sent: the cost of a batch does not grow with their number."""
    draws = random.Random(seed)  # noqa: S311  # a play, not a secret
    brokers = range(draws.randint(4, 9))
    history = small_cluster(t={0: (0, 1, 2), 1: (2, 3, 0)})
    for broker in brokers:
        if f"/brokers/ids/{broker}" not in history.znodes:
            history.broker(broker)
    fold = Fold()
    fold.follow(history)
    fold.views()
    leader = draws.choice((0, 1, 2))
    history.state("t", 0, leader=leader, isr=draws.sample((0, 1, 2), 3))
    fold.follow(history)
    assert fold.state.control.totals.partitions == 2
    assert fold.state.control.touched <= {0, 1, 2}
    shown = [view.id for view in fold.views().values() if isinstance(view, BrokerView)]
    assert set(shown) <= {0, 1, 2}
