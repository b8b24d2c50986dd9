"""Each figure of a view has an entry that says what it depends on, and is not known while that is hidden."""

from __future__ import annotations

import msgspec
import pytest

from controller_model.fold.projection import SentViews
from controller_model.records import visibility
from controller_model.records.incidents import STANDING_MS, IncidentEnd
from controller_model.records.views import (
    BrokerView,
    Capability,
    ClusterView,
    Counts,
    IncidentsView,
    Pending,
)
from controller_model.sources.zookeeper.denied_paths import is_below
from tests.support.histories import Fold, History, begun
from tests.support.samples import broker_view, cluster_view, log_view

NEVER_HIDDEN = {
    *("v", "cluster", "as_of", "counters_since", "folded_at", "log", "min_isr_assumed", "quorum"),
    *("resync_wanted", "views_from", "unreadable", "unreadable_count", "unreadable_controller"),
    *("views_digest", "brokers_known", "controllers_safe_to_stop"),
}
"""Of a cluster: what is about the log and the settings, ids that a reader needs to drop brokers that are left over, and the
quorum, of which the metadata log hides nothing."""
OF_THEIR_OWN = {"counts", "pending", "pending_writes", "config"}
"""Parts of which single fields are hidden, or all at once in their own way."""
OF_BROKERS = {"v", "cluster", "as_of", "id", "record"}
JUDGED = {"breaks_if_lost", "min_isr_unknown_if_lost", "more_if_lost", "quorum_keeps_majority"}
"""Of a broker: what says that more may break, which is so while something is hidden."""


def test_the_tables_are_total() -> None:
    """A new figure needs an entry, or a reason here."""
    assert set(visibility.COUNTS) == set(Counts.__struct_fields__)
    assert set(visibility.PENDING) == set(Pending.__struct_fields__)
    whole = set(ClusterView.__struct_fields__) - NEVER_HIDDEN - OF_THEIR_OWN
    assert set(visibility.CLUSTER) == whole
    assert set(visibility.BROKER) == set(BrokerView.__struct_fields__) - OF_BROKERS - JUDGED


@pytest.mark.parametrize("hidden", Capability)
def test_what_depends_on_something_hidden_is_none_and_the_rest_stays(hidden: Capability) -> None:
    """In a cluster's view and in a broker's; a broker is neither safe to stop nor unsafe."""
    seen, view = cluster_view(), cluster_view(log=log_view(hidden=(hidden,)))
    for name, needs in visibility.COUNTS.items():
        right = None if hidden in needs else getattr(seen.counts, name)
        assert getattr(view.counts, name) == right, name
    for name, needs in visibility.CLUSTER.items():
        right = None if hidden in needs else getattr(seen, name)
        if name == "controller" and right is not None:
            of_controller = visibility.OF_CONTROLLER.items()
            unknown = {field: None for field, needed in of_controller if hidden in needed}
            right = msgspec.structs.replace(right, **unknown)
        assert getattr(view, name) == right, name
    assert (view.pending_writes.counts is None) == (hidden in visibility.WRITES)
    broker = visibility.visible_broker(broker_view(0), frozenset({hidden}))
    assert (broker.record.live is None) == (hidden is Capability.BROKERS)
    assert broker.safe_to_stop is (None if hidden in visibility.LOSSES else True)


def test_of_kraft_states_say_whether_leaders_live() -> None:
    """Partitions that KRaft wrote as leaderless count as offline although no broker is registered."""
    counts = Counts(offline=2, leaderless=2, preferred_electable=1)
    known = visibility.visible_counts(counts, frozenset({Capability.BROKERS}), is_kraft=True)
    assert (known.offline, known.preferred_electable) == (2, None)
    hidden = frozenset({Capability.BROKERS, Capability.TOPICS})
    assert visibility.visible_counts(counts, hidden, is_kraft=True).offline is None


def open_incident() -> tuple[History, Fold]:
    """Return a cluster that has lost a broker, of which the registrations may be read no longer."""
    history, fold = begun()
    history.broker_gone(2)
    history.heartbeat()
    fold.follow(history)
    assert fold.cluster_view().incidents.open == 1
    for path in [path for path in history.published if is_below(path, ("/brokers/ids",))]:
        del history.published[path]
    history.heartbeat(denied=("/brokers/ids",), denied_more=0)
    fold.follow(history)
    return history, fold


def test_an_incident_says_that_it_does_not_know_what_is_still_abnormal() -> None:
    """The broker may be back; whether the incident is open is not known either."""
    _, fold = open_incident()
    assert fold.cluster_view().incidents is None
    fold.sent = SentViews()
    view = fold.views()["prod/incidents"]
    assert isinstance(view, IncidentsView)
    shown = view.incidents[0]
    assert (shown.closed_at, shown.still) == (None, ())
    assert shown.unsure_since is not None


def test_an_incident_of_which_nothing_is_known_ends_after_an_hour() -> None:
    """As one does in which nothing happens: it recovers only if that can be seen."""
    history, fold = open_incident()
    for _ in range(STANDING_MS // 20_000 + 10):
        history.heartbeat(after_ms=20_000, denied=("/brokers/ids",), denied_more=0)
    fold.follow(history)
    (closed,) = (event.incident for event in fold.accounts if hasattr(event, "incident"))
    assert (closed.end, closed.complete, closed.still) == (IncidentEnd.STANDING, False, ())
