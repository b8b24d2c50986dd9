"""The figures of a broker as samples."""

from __future__ import annotations

from tests.support.metric_samples import of_broker
from tests.support.samples import broker_view


def test_a_broker_is_safe_to_stop_when_nothing_breaks_without_it() -> None:
    """Partitions offline and partitions under min ISR each forbid it; for a dead broker there is no answer."""
    name = "kafka_broker_safe_to_stop"
    assert of_broker(name, broker_view(0)) == [((), 1)]
    assert of_broker(name, broker_view(0, offline_if_lost=1)) == [((), 0)]
    assert of_broker(name, broker_view(0, under_min_isr_if_lost=1)) == [((), 0)]
    assert of_broker(name, broker_view(0, live=False)) == []
    assert of_broker(name, broker_view(0, more_if_lost=True)) == []
    assert of_broker(name, broker_view(0, more_if_lost=True, offline_if_lost=1)) == [((), 0)]


def test_a_broker_has_an_address_once_it_has_registered() -> None:
    """Host, port and rack; an absent one is empty, and without a host there is no sample."""
    name = "kafka_broker_info"
    registered = broker_view(0, host="b0", port=9092, rack="r1")
    assert of_broker(name, registered) == [(("0", "b0:9092", "b0", "9092", "r1"), 1)]
    portless = broker_view(0, host="b0", port=None, rack=None)
    assert of_broker(name, portless) == [(("0", "b0", "b0", "", ""), 1)]
    assert of_broker(name, broker_view(0, host=None)) == []
