"""A cluster without its topics: totals, live brokers, min.insync.replicas."""

from __future__ import annotations

from controller_model.records.views import BrokerRecord
from controller_model.state.control_plane import Assumed, ControlPlane
from controller_model.state.held_broker import HeldBroker


def control_plane() -> ControlPlane:
    """Return a cluster of which nothing is known yet."""
    return ControlPlane("prod", assumed=Assumed(min_insync_replicas=2), counters_since=0)


def test_a_broker_is_live_while_it_is_registered() -> None:
    """A broker that was registered before is known, and not live."""
    control = control_plane()
    control.brokers = {
        0: HeldBroker(BrokerRecord(live=True)),
        1: HeldBroker(BrokerRecord(live=False)),
    }
    assert control.live_brokers == {0}


def test_min_isr_is_the_topics_then_the_leaders_then_the_assumed_one() -> None:
    """As in Kafka's dynamic configuration; a broker's own file is not in ZooKeeper."""
    control = control_plane()
    assert control.min_isr_of(None, 0) == 2
    control.config.broker_min_isr = {"<default>": 4, "0": 3}
    assert [control.min_isr_of(None, leader) for leader in (0, 1)] == [3, 4]
    assert control.min_isr_of(1, 0) == 1
