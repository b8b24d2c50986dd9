"""The watcher's own metrics: one session state, and counts that never fall."""

from __future__ import annotations

from prometheus_client import CollectorRegistry

from controller_model.records.changes import ChangeKind, SessionState
from source_log.lease import LeaseStatus, SoleWatcher
from zk_source.service.metrics import WatcherMetrics


def sample(registry: CollectorRegistry, name: str, **labels: str) -> float | None:
    """Return a sample of the cluster `prod`."""
    return registry.get_sample_value(name, {"cluster": "prod", **labels})


def test_the_session_has_one_state() -> None:
    """The current state has the value 1, each other state 0."""
    registry = CollectorRegistry()
    metrics = WatcherMetrics(registry, "prod", bool)
    for now in SessionState:
        metrics.session(now)
        states = {
            state: sample(registry, "kcm_watcher_session_state", state=state.value)
            for state in SessionState
        }
        assert states == {state: float(state is now) for state in SessionState}


def test_a_watcher_leads_while_its_loop_its_lease_and_itself_say_so() -> None:
    """The lease and the hang are asked at each scrape: a loop that hangs can say nothing."""
    registry, hangs = CollectorRegistry(), False
    metrics = WatcherMetrics(registry, "prod", lambda: hangs)
    assert sample(registry, "kcm_watcher_leader") == 0
    metrics.leads(True)
    assert sample(registry, "kcm_watcher_leader") == 1
    hangs = True
    assert sample(registry, "kcm_watcher_leader") == 0
    hangs, metrics.lease = False, SoleWatcher()
    assert sample(registry, "kcm_watcher_leader") == 1
    for metrics.lease.status in (LeaseStatus.UNPROVEN, LeaseStatus.LOST):
        assert sample(registry, "kcm_watcher_leader") == 0
    metrics.standby(0)
    metrics.lease = SoleWatcher()
    assert sample(registry, "kcm_watcher_leader") == 0


def test_a_counter_continues_after_a_standby() -> None:
    """A watcher that is elected again counts from 0; the counter continues from its last value."""
    registry = CollectorRegistry()
    metrics = WatcherMetrics(registry, "prod", bool)
    assert sample(registry, "kcm_watcher_znodes") is None
    metrics.show({"resyncs": 3, "dropped_changes": 5, "znodes": 7})
    assert sample(registry, "kcm_watcher_znodes") == 7
    metrics.leads(leads=True)
    metrics.standby(5)
    metrics.show({"resyncs": 1, "dropped_changes": 6})
    assert sample(registry, "kcm_watcher_resyncs_total") == 4
    assert sample(registry, "kcm_watcher_dropped_changes_total") == 6
    assert sample(registry, "kcm_watcher_znodes") == 0
    assert sample(registry, "kcm_watcher_leader") == 0
    assert sample(registry, "kcm_watcher_session_state", state="LOST") == 1


def test_a_change_is_counted_and_the_delay_of_news_is_observed() -> None:
    """A delay below 0, measured by a clock that is behind, counts as 0."""
    registry = CollectorRegistry()
    metrics = WatcherMetrics(registry, "prod", bool)
    metrics.published(ChangeKind.SET)
    metrics.sent(-20)
    metrics.sent(2_000)
    kind = ChangeKind.SET.value
    assert sample(registry, "kcm_watcher_changes_total", kind=kind) == 1
    assert sample(registry, "kcm_watcher_change_delay_seconds_count") == 2
    assert sample(registry, "kcm_watcher_change_delay_seconds_sum") == 2.0
