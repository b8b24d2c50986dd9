"""Which views of brokers a batch publishes: those of touched brokers, or all if all may have changed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from controller_model.fold.broker_views import BrokerViews
from controller_model.kafka.ids import AsOf
from controller_model.records.views import (
    BrokerView,
    Capability,
    Deleted,
    broker_key,
    encode_view,
)
from controller_model.sources.zookeeper.source import ZOOKEEPER
from controller_model.state.control_plane import Assumed, ControlPlane
from tests.support.histories import begun, repacked

PLACE = AsOf("l", 1, 1)
LATER = AsOf("l", 1, 2)


class Published:
    """The views of a cluster's brokers, batch by batch."""

    def __init__(self, control: ControlPlane) -> None:
        self.control = control
        self.views = BrokerViews()
        self.held: dict[str, bytes] = {}

    def batch(self, as_of: AsOf = PLACE) -> list[int | str]:
        """Return the brokers whose views are sent, and the keys of those that are deleted."""
        sent: list[int | str] = []
        for key, view, value in self.views.changed(self.control, as_of, ZOOKEEPER):
            if isinstance(view, Deleted):
                sent.append(key)
                del self.held[key]
            else:
                sent.append(view.id)
                self.held[key] = value
        self.control.touched.clear()
        return sent

    def view(self, broker: int) -> BrokerView:
        """Return a broker's view, computed from the state alone."""
        made = {
            view.id: view
            for _, view, _ in BrokerViews().changed(self.control, PLACE, ZOOKEEPER)
            if isinstance(view, BrokerView)
        }
        found = made[broker]
        assert isinstance(found, BrokerView)
        return found


def changed(control: ControlPlane, broker: int, isr_leaves: int) -> None:
    """Change a figure of a broker, and mark it as the handlers do."""
    held = control.brokers[broker]
    held.record.isr_leaves = isr_leaves
    control.put_broker(broker, held)


@pytest.fixture
def published() -> Published:
    """Brokers 0, 1, 2 of a small cluster, whose views were published once."""
    _, fold = begun(t={0: (0, 1), 1: (1, 2)})
    published = Published(fold.state.control)
    assert published.batch() == [0, 1, 2]
    return published


def test_a_quiet_batch_sends_nothing(published: Published) -> None:
    """A batch that touches a broker without a change of its view sends nothing, too."""
    assert published.batch(LATER) == []
    published.control.touched.add(1)
    assert published.batch(LATER) == []


def test_a_batch_checks_only_the_touched_brokers(published: Published) -> None:
    """A change that does not mark its broker as touched is not checked, which saves work."""
    changed(published.control, 0, 5)
    changed(published.control, 2, 5)
    published.control.touched.discard(0)
    assert published.batch() == [2]


def deny(control: ControlPlane) -> None:
    """Deny the watcher a path below which more may be held."""
    control.log.view.hidden = (Capability.TOPICS,)


def make_pending_writes(control: ControlPlane) -> None:
    """Let a broker with leaders die, so that leader writes are due from the controller."""
    control.brokers[0].record.live = False
    control.put_broker(0, control.brokers[0])
    control.touched.clear()


def assume(control: ControlPlane) -> None:
    """Assume another min.insync.replicas."""
    control.assumed = Assumed(min_insync_replicas=2)


def configure(control: ControlPlane) -> None:
    """Set min.insync.replicas for all brokers."""
    control.config.broker_min_isr["<default>"] = 2


@pytest.mark.parametrize("change", [deny, make_pending_writes, assume, configure])
def test_a_change_of_shared_settings_checks_all_brokers(
    change: Callable[[ControlPlane], None], published: Published
) -> None:
    """No broker is marked: every view that differs is sent, and no other."""
    before = dict(published.held)
    change(published.control)
    sent = published.batch()
    expected = [
        broker
        for broker in (0, 1, 2)
        if encode_view(published.view(broker)) != before[broker_key("prod", broker)]
    ]
    assert sent == expected
    assert len(sent) > 1


def test_a_new_verification_sends_all_broker_views_again(published: Published) -> None:
    """No view differs: but readers may hold views of a later fold, with a later as_of."""
    assert published.control.log.view.verified_at is not None
    published.control.log.view.verified_at += 1
    assert published.batch(LATER) == [0, 1, 2]
    assert published.batch(LATER) == []


def test_a_reloaded_cluster_state_checks_all_brokers(published: Published) -> None:
    """It is not known which brokers were touched in it; only views that differ are sent."""
    published.control = repacked(published.control)
    assert published.batch() == []
    published.control = repacked(published.control)
    changed(published.control, 2, 5)
    published.control.touched.clear()
    assert published.batch() == [2]


def test_an_interrupted_batch_checks_all_brokers_again(
    published: Published,
) -> None:
    """The basis of a proof is stored after the last view of a batch, not after its first."""
    assert published.control.log.view.verified_at is not None
    published.control.log.view.verified_at += 1
    _, first, _ = next(published.views.changed(published.control, PLACE, ZOOKEEPER))
    assert isinstance(first, BrokerView)
    assert published.batch() == [0, 1, 2]


def test_more_if_lost_is_set_where_read_is_denied(published: Published) -> None:
    """For every broker, also one without replicas; settings replace what Kafka's own ACLs deny."""
    published.control.log.view.hidden = (Capability.BROKER_CONFIGS,)
    assert not published.view(0).more_if_lost
    deny(published.control)
    assert [published.view(broker).more_if_lost for broker in (0, 1, 2)] == [True] * 3


def test_a_broker_that_leads_what_it_is_no_replica_of_is_shown_with_it() -> None:
    """Somebody else than Kafka may write such a leader; it is counted, so its view is sent."""
    history, fold = begun(t={0: (0, 1), 1: (0, 1)})
    for partition in (0, 1):
        history.state("t", partition, leader=2, isr=[0, 1])
        fold.follow(history)
        view = fold.views()["prod/broker/2"]
        assert isinstance(view, BrokerView)
        assert view.leaders == partition + 1


def test_a_broker_that_left_an_isr_is_shown_although_no_assignment_is_known() -> None:
    """The state of a partition may be held without its topic's znode: it counts in no figure of brokers but this."""
    history, fold = begun(t={0: (0, 1)})
    history.state("u", 0, leader=0, isr=[0, 2])
    fold.follow(history)
    fold.views()
    history.state("u", 0, leader=0, isr=[0])
    fold.follow(history)
    view = fold.views()["prod/broker/2"]
    assert isinstance(view, BrokerView)
    assert view.record.isr_leaves == 1
