"""A cluster that leaves ZooKeeper, as a real one did: what is shown in each phase, by a watcher of any age."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from controller_model.insight.thresholds import THRESHOLDS
from controller_model.insight.unseen import left_text
from controller_model.kafka.ids import NO_CONTROLLER
from controller_model.records.changes import ZnodeChange
from controller_model.records.completeness import ReaderProgress, Status, assess
from controller_model.records.events import (
    ControllerElected,
    ElectionCause,
    IncidentClosed,
    LeadersElected,
    StaleControllerWrite,
)
from controller_model.records.views import ClusterView
from exporter.api.problems import problems_of
from exporter.core.records import ClusterSnapshot
from exporter.scrape.collector import Collector
from rehearsal.rehearse import CannotRehearseError, rehearse
from rehearsal.steps import read_step
from tests.property.brute_force import Seen, seen
from tests.support.histories import Fold
from tests.support.migration import Migration

MIGRATION = Migration()
IN_TIME = ReaderProgress(read_ms=0, watcher_ms=0)


class Shown(NamedTuple):
    """What is right in a phase."""

    status: Status
    live: tuple[int, ...] | None
    controller: int | None
    elections: int | None
    offline: int | None


LIVE, KRAFT = Status.LIVE, Status.KRAFT
BOTH = (1, 2)
RIGHT = {
    "0 ZooKeeper mode": Shown(LIVE, BOTH, 1, 1, 0),
    "1 controller started": Shown(LIVE, BOTH, 1, 1, 0),
    "2a one broker migrating": Shown(LIVE, BOTH, 2, 2, 0),
    # A broker was elected once more before KRaft took over.
    "2b dual write": Shown(LIVE, BOTH, 3001, 4, 0),
    "2b topic created": Shown(LIVE, BOTH, 3001, 4, 0),
    # It held the only replica of a partition: KRaft wrote that it has no leader. It may have left, or be dead.
    "2b broker killed": Shown(KRAFT, None, 3001, 4, 1),
    "2b broker back": Shown(KRAFT, None, 3001, 4, 1),
    "2b controller stopped": Shown(LIVE, BOTH, 3001, 4, 1),
    "2b controller back": Shown(LIVE, BOTH, 3001, 5, 0),
    "R rollback: znodes deleted": Shown(LIVE, BOTH, 1, 6, 0),
    "R rolled back": Shown(LIVE, BOTH, 1, 8, 0),
    "again 1 controller started": Shown(LIVE, BOTH, 1, 8, 0),
    "again 2a one broker migrating": Shown(LIVE, BOTH, 2, 9, 0),
    "again 2b dual write": Shown(LIVE, BOTH, 3001, 11, 0),
    # Broker 1 has yet to catch up: no ISR holds it, and its only partition has no leader.
    "3a one broker KRaft": Shown(KRAFT, None, 3001, 11, 1),
    "3b all brokers KRaft": Shown(KRAFT, None, 3001, 11, 0),
    "3b topic created": Shown(KRAFT, None, 3001, 11, 0),
    "3b idle": Shown(KRAFT, None, 3001, 11, 0),
    "3b broker killed": Shown(KRAFT, None, 3001, 11, 1),
    "3b broker back": Shown(KRAFT, None, 3001, 11, 0),
    "4 finalised": Shown(KRAFT, None, None, None, None),
    "4 topic created": Shown(KRAFT, None, None, None, None),
}
"""The phases in their order."""


def shown(view: ClusterView, at: int) -> Shown:
    """Return what a view shows."""
    controller = view.controller
    return Shown(
        assess(view, IN_TIME, at).status,
        view.brokers_live,
        None if controller is None else controller.id,
        None if controller is None else controller.elections,
        view.counts.offline,
    )


def alerts(held: Seen, at: int) -> set[str | None]:
    """Return the alerts on what the page shows."""
    snapshot = ClusterSnapshot(name="prod", partition=0, view=held.cluster, brokers=held.brokers)
    moment = Collector(lambda _: IN_TIME).moment(snapshot, at)
    return {problem.alert for problem in problems_of(snapshot, moment, at, THRESHOLDS)}


def test_each_phase_of_a_real_migration_is_shown_as_it_is() -> None:
    """Also after the rollback, from which elections count on."""
    assert MIGRATION.phases() == list(RIGHT)
    fold = Fold()
    found = {}
    for changes, phase, at in MIGRATION.followed():
        fold.feed(changes)
        if phase is not None:
            found[phase] = shown(seen(fold).cluster, at)
    assert found == RIGHT
    elected = [event for event in fold.events if isinstance(event, ControllerElected)]
    took_over = {ElectionCause.MIGRATION: [4, 11], ElectionCause.ROLLBACK: [6]}
    for cause, epochs in took_over.items():
        assert [each.epoch for each in elected if each.cause is cause] == epochs


@pytest.mark.parametrize("start", RIGHT)
def test_a_watcher_that_begins_in_any_phase_shows_the_phases_after_it(start: str) -> None:
    """All except how many elections there were before it watched."""
    fold = Fold()
    for changes, phase, at in MIGRATION.followed(start=start):
        fold.feed(changes)
        if phase is not None:
            right = RIGHT[phase]._replace(elections=None)
            assert shown(seen(fold).cluster, at)._replace(elections=None) == right, phase


def test_no_alert_of_a_healthy_migration_is_about_the_cluster() -> None:
    """At each change: never vacant, zombie, stale or offline by a registration, and never all brokers gone."""
    fold = Fold()
    for changes, _, at in MIGRATION.followed():
        fold.feed(changes)
        held = seen(fold)
        view = held.cluster
        if view.log.kraft_since is None:
            continue
        leaderless = sum(p.leader == -1 for p in held.partitions)
        assert view.counts.offline in {None, leaderless}
        assert view.pending_writes.counts is None
        found = alerts(held, at)
        assert "KafkaBrokerGone" not in found
        assert "KafkaMigratingToKraft" in found
        # In the rollback, operators delete /controller.
        is_deleted = view.controller is not None and view.controller.id == NO_CONTROLLER
        assert found.isdisjoint({"KafkaControllerZombie"})
        assert is_deleted or "KafkaControllerMissing" not in found
        with pytest.raises(CannotRehearseError, match="KRaft"):
            rehearse(held.facts, held.partitions, [read_step("kill-broker:1")])
    assert not [event for event in fold.events if isinstance(event, StaleControllerWrite)]
    closed = [event.incident for event in fold.accounts if isinstance(event, IncidentClosed)]
    assert not any(each.stale_writes or each.zombie for each in closed)


def test_a_time_without_a_kraft_controller_is_not_known() -> None:
    """What it wrote to /controller stays when it stops: 10 s without one are no vacancy of some ms."""
    fold = Fold()
    for changes, phase, _ in MIGRATION.followed():
        fold.feed(changes)
        if phase == "2b controller back":
            break
    elected = [event for event in fold.events if isinstance(event, ControllerElected)]
    assert (elected[-1].epoch, elected[-1].vacancy_max_ms, elected[-1].vacancy_ms) == (
        5,
        None,
        None,
    )


def test_the_end_says_since_when_and_up_to_where_zookeeper_is_a_copy() -> None:
    """The offset that /migration held when it was last written."""
    fold, texts = Fold(), {}
    for changes, phase, _ in MIGRATION.followed():
        fold.feed(changes)
        texts[phase] = left_text(seen(fold).cluster)
    assert texts["3b idle"] == (
        "A KRaft controller runs the cluster since 2026-11-27T19:07:41Z: ZooKeeper is a copy up to offset 203, and "
        "not all brokers are registered in it"
    )
    assert texts["4 topic created"] == (
        "A KRaft controller runs the cluster since 2026-11-27T19:07:41Z: ZooKeeper is a copy up to offset 314, last "
        "written 2026-11-27T19:09:10Z"
    )


def test_elections_of_leaders_are_unknown_once_brokers_have_left() -> None:
    """Nothing shows then whether the former leader lived; before that they have their kinds."""
    fold = Fold()
    kinds: dict[str | None, set[str]] = {}
    phase: str | None = None
    for changes, reached, _ in MIGRATION.followed():
        phase = reached or phase
        events = fold.feed(changes)
        kinds.setdefault(phase, set()).update(
            str(event.election) for event in events if isinstance(event, LeadersElected)
        )
    assert kinds["3b idle"] == {"unknown"}
    assert "controlled_shutdown" in kinds["0 ZooKeeper mode"] | kinds["1 controller started"]


def test_changes_are_those_of_a_watcher() -> None:
    """The recording is one that the product could have read: every record decodes."""
    changes: list[ZnodeChange] = [c for moment in MIGRATION.followed() for c in moment.changes]
    assert sum(change.path == "/migration" for change in changes) > 300
