"""The figures of brokers out of the totals."""

from __future__ import annotations

from tests.support.histories import begun


def test_losing_a_broker_is_foretold() -> None:
    """Partitions that it alone keeps in sync, and those that would be under their min ISR."""
    history, fold = begun()
    history.state("t", 0, leader=0, isr=[0])
    history.state("t", 1, leader=1, isr=[1, 0])
    history.set("/config/topics/t", {"version": 1, "config": {"min.insync.replicas": "2"}})
    fold.follow(history)
    view = fold.broker_view(0)
    assert (view.in_isr, view.offline_if_lost, view.under_min_isr_if_lost) == (2, 1, 1)
