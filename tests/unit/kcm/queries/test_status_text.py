"""One cluster, and all clusters, on one screen."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType

from controller_model.records.changes import SessionState
from controller_model.records.pending_writes import ControllerHealth, PendingWrites
from controller_model.records.views import ControllerView, Counts, Pending
from kcm.queries.status import read_status
from kcm.queries.status_text import MAX_EVENTS, MAX_PARTITIONS, event_line, fleet, screen
from tests.support.api_server import Served
from tests.support.in_process_api import api_of
from tests.support.samples import T0, as_of, broker_view, cluster_view, log_view


def text_of(shown: RenderableType) -> str:
    """Return what a wide terminal shows."""
    file = io.StringIO()
    Console(file=file, width=250, markup=False, emoji=False).print(shown)
    return file.getvalue()


def test_a_screen_has_the_head_the_figures_the_brokers_what_is_wrong_and_the_events(
    served: Served,
) -> None:
    """They are in this order; only the newest events are shown."""
    answer = read_status(api_of(served), None)
    text = text_of(screen(answer, answer["abnormal"], T0))
    order = (
        *("prod: figures are live", "broker 0", "1 under replicated", "safe to stop"),
        *("u-0: under-replicated", "ControllerElected"),
    )
    places = [text.index(words) for words in order]
    assert places == sorted(places)
    assert text.count("ControllerElected") == MAX_EVENTS


def test_the_status_says_since_when_and_why_figures_are_not_live(served: Served) -> None:
    """This is printed before all figures."""
    blind = log_view(session=SessionState.SUSPENDED, session_since=T0)
    served.write(cluster_view(at=as_of(31), log=blind))
    answer = read_status(api_of(served), None)
    first, *_ = text_of(screen(answer, [], T0 + 60_000)).splitlines()
    assert first.startswith("cluster     prod: figures are blind for 1 min, by the watcher")


def test_elections_are_counted_within_windows_and_since_counting_began(served: Served) -> None:
    """As the metric counts them; what was not counted yet is not shown as if it had been."""
    recent = ((T0 - 7_200_000, 2), (T0 - 60_000, 3))
    controller = ControllerView(id=0, elections=9, recent_elections=recent)
    served.write(cluster_view(at=as_of(31), controller=controller, counters_since=T0 - 300_000))
    answer = read_status(api_of(served), None)
    assert "elections   3 in 10m, 3 in 1h, 5 in 6h; counted for 5 min\n" in text_of(
        screen(answer, [], T0)
    )
    answer["counters_since"] = 0
    assert "elections   3 in 10m, 3 in 1h, 5 in 6h\n" in text_of(screen(answer, [], T0))
    served.write(cluster_view(at=as_of(32), log=log_view(denied=("/controller",))))
    answer = read_status(api_of(served), None)
    assert "elections   not known\n" in text_of(screen(answer, [], T0))


def test_the_status_shows_what_no_kafka_writes(served: Served) -> None:
    """In words, before the brokers; and a stop that breaks something, also where it is not known how much."""
    certain = broker_view(
        0, at=as_of(31), offline_if_lost=None, breaks_if_lost=True, unclean_if_lost=0
    )
    stranded = broker_view(1, at=as_of(31), stranded_if_lost=2, unclean_if_lost=1)
    served.write(
        certain, stranded, cluster_view(at=as_of(31), foreign_writes={"controller_epoch_above": 3})
    )
    text = text_of(screen(read_status(api_of(served), None), [], T0))
    assert "foreign     Kafka aborts elections: a state's controller epoch is above" in text
    assert "NO: partitions would break" in text
    assert "NO: 2 could not come back, 1 unclean" in text


def test_only_some_of_many_abnormal_partitions_are_listed(served: Served) -> None:
    """The screen says that the others are in the JSON."""
    answer = read_status(api_of(served), None)
    text = text_of(screen(answer, answer["abnormal"] * (MAX_PARTITIONS + 1), T0))
    assert text.count("u-0: ") == MAX_PARTITIONS
    assert "... and more; kcm status --json lists them" in text


def test_what_waits_for_the_controller_is_shown_with_its_number_and_age(served: Served) -> None:
    """Pending writes, partitions without state, deletions and requests; the line is absent if nothing waits."""
    answer = read_status(api_of(served), None)
    assert "waiting" not in text_of(screen(answer, [], T0))
    since = T0 - 90_000
    served.write(
        cluster_view(
            at=as_of(31),
            counts=Counts(partitions=4, without_state=1, deleting_topics=2),
            pending=Pending(
                preferred_election=True,
                preferred_election_at=since,
                reassign_partitions=True,
                reassign_partitions_at=T0 - 7_200_000,
                oldest_deletion_at=T0 - 59_000,
            ),
            pending_writes=PendingWrites(
                counts={"new_leader": 2, "first_state": 1},
                oldest_at=since,
                pending_since=T0 - 80_000,
                health=ControllerHealth.ZOMBIE,
            ),
        )
    )
    (line,) = [
        line
        for line in text_of(screen(read_status(api_of(served), None), [], T0)).splitlines()
        if line.startswith("waiting ")
    ]
    assert line.rstrip() == (
        "waiting     3 pending writes (2 new leader, 1 first state), overdue for 1 min; 1 partition without state; "
        "2 topics to be deleted for 59 s; a request of reassignments for 2 h; a request of preferred elections for 1 min"
    )


def test_a_single_write_that_is_pending_for_a_moment_is_due(served: Served) -> None:
    """It is not overdue, and its age is left out if it is not known."""
    writes = PendingWrites(counts={"isr_removal": 1}, health=ControllerHealth.WORKING)
    served.write(cluster_view(at=as_of(31), pending_writes=writes))
    text = text_of(screen(read_status(api_of(served), None), [], T0))
    assert "waiting     1 pending write (1 isr removal), due\n" in text


def test_the_worst_cluster_of_a_fleet_comes_first(served: Served) -> None:
    """Names do not matter."""
    served.write(broker_view(0, cluster="z"), cluster_view("z", counts=Counts(offline=7)))
    clusters = read_status(api_of(served), None)["clusters"]
    _, *rows = text_of(fleet(clusters)).splitlines()
    assert [row.split()[0] for row in rows] == ["z", "prod"]


def test_an_event_names_its_first_partitions() -> None:
    """It names three, and says that there are more."""
    named = [{"topic": "t", "partition": number} for number in range(4)]
    event = {"kind": "IsrShrunk", "at": 0, "partitions": named, "partition_count": 4}
    assert event_line(event) == (
        "1970-01-01T00:00:00.000Z  IsrShrunk, 4 partitions: t-0, t-1, t-2, ..."
    )
