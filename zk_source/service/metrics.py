"""Serves the watcher's own metrics.

All have a `cluster` label. Their values come from the counts that the decisions and the publisher
keep: each count is kept in one place.
"""

from collections.abc import Callable, Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from controller_model.records.changes import ChangeKind, SessionState
from source_log.lease import Lease, LeaseStatus, SoleWatcher
from zk_source.ensemble.server_health import ServerMetrics

_DELAY_BUCKETS_S = (
    *(0.001, 0.002, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0),
    *(10.0, 30.0, 60.0, 120.0, 300.0, 600.0, 1800.0),
)
"""Buckets from milliseconds to half an hour: a quantile never exceeds the last finite bucket."""


GAUGES = {
    "znodes": "Znodes that exist according to the log.",
    "denied_paths": "Znodes that ZooKeeper's ACLs do not let the watcher read; normally 0.",
    "queue_length": "Notifications and replies from ZooKeeper that wait to be handled; normally "
    "near 0.",
    "dirty_paths": "Znodes that changed and are not yet read again; normally near 0.",
    "buffer_changes": "Changes that wait for others (linger_ms), or for the pipeline's Kafka to take them; normally "
    "a few.",
    "buffer_bytes": "Bytes of changes that the pipeline's Kafka has not acknowledged yet.",
}
"""HELP of kcm_watcher_<name>."""

TOTALS = {
    "events": "Notifications received from ZooKeeper.",
    "reads": "Reads of znodes answered by ZooKeeper.",
    "resyncs": "Resyncs that began: each publishes every znode again.",
    "reconciliations": "Reconciliations that ended: each compares the whole tree with the log.",
    "reconciliation_differences": "Changes that only a reconciliation found, without a notification; "
    "normally 0.",
    "dropped_notifications": "Notifications dropped because too many waited; a resync follows each "
    "time.",
    "dropped_changes": "Changes dropped because the pipeline's Kafka did not acknowledge them in time; "
    "a resync follows.",
    "omitted_data": "Changes published without their data because they were too large for the log.",
    "published_bytes": "Bytes of changes that the pipeline's Kafka acknowledged.",
}
"""HELP of kcm_watcher_<name>_total."""


class WatcherMetrics:
    """The metrics of one cluster's watcher."""

    def __init__(
        self,
        registry: CollectorRegistry,
        cluster: str,
        hangs: Callable[[], bool],
    ) -> None:
        """Make the instruments. `hangs` returns whether the main loop hangs, which then updates none of them."""
        self._cluster = cluster
        self.lease: Lease = SoleWatcher()
        """The lease of this term."""
        self.zookeeper = ServerMetrics(registry, cluster)
        state = Gauge(
            "kcm_watcher_session_state",
            "1 for the current state of the watcher's ZooKeeper session, 0 for the others; "
            "normally CONNECTED.",
            ["cluster", "state"],
            registry=registry,
        )
        self._states = {name: state.labels(cluster, name.value) for name in SessionState}
        changes = Counter(
            "kcm_watcher_changes",
            "Changes that the watcher appended to the log, by kind.",
            ["cluster", "kind"],
            registry=registry,
        )
        self._changes = {kind: changes.labels(cluster, kind.value) for kind in ChangeKind}
        self._leads = False
        Gauge(
            "kcm_watcher_leader",
            "1 while this watcher may write the log, 0 while it stands by, its lease is unproven or "
            "its main loop hangs; normally, the sum over a cluster's watchers is 1.",
            ["cluster"],
            registry=registry,
        ).labels(cluster).set_function(lambda: self._may_write and not hangs())
        self._delay = Histogram(
            "kcm_watcher_change_delay_seconds",
            "Seconds from a znode's change, by ZooKeeper's clock, until the watcher appends it to the "
            "log, without resyncs.",
            ["cluster"],
            buckets=_DELAY_BUCKETS_S,
            registry=registry,
        ).labels(cluster)
        self._gauges = {
            name: Gauge(f"kcm_watcher_{name}", text, ["cluster"], registry=registry)
            for name, text in GAUGES.items()
        }
        self._totals = {
            name: Counter(f"kcm_watcher_{name}", text, ["cluster"], registry=registry)
            for name, text in TOTALS.items()
        }
        self._shown: dict[str, float] = {}
        """By name, the value shown last in this term."""

    def session(self, state: SessionState) -> None:
        """Show the session's state."""
        for name, gauge in self._states.items():
            gauge.set(name is state)

    def leads(self, leads: bool) -> None:
        """Show whether this watcher may write the log, as far as its main loop knows."""
        self._leads = leads

    @property
    def _may_write(self) -> bool:
        return self._leads and self.lease.status is LeaseStatus.VALID

    def standby(self, dropped: int) -> None:
        """Show a watcher without a session. Its next counts begin at 0, with these dropped changes."""
        self.leads(False)
        self.session(SessionState.LOST)
        self.show({name: 0 for name in GAUGES if name in self._shown})
        self._shown = {"dropped_changes": dropped}

    def published(self, kind: ChangeKind) -> None:
        """Count a published change."""
        self._changes[kind].inc()

    def sent(self, delay_ms: int) -> None:
        """Note the delay of news that is given to the pipeline's Kafka."""
        self._delay.observe(max(0, delay_ms) / 1000)

    def show(self, figures: Mapping[str, float]) -> None:
        """Show the values of `GAUGES` and `TOTALS`; the totals are counts that are kept elsewhere."""
        for name, value in figures.items():
            before = self._shown.get(name, 0.0)
            if name in GAUGES:
                self._gauges[name].labels(self._cluster).set(value)
            elif value > before:
                self._totals[name].labels(self._cluster).inc(value - before)
            self._shown[name] = value
