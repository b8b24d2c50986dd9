"""What the live page shows of flapping ISRs, with the broker to blame, and of the pending writes."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import IsrShrunk
from controller_model.records.pending_writes import ControllerHealth, PendingWrites
from controller_model.records.views import Counts, Pending
from tests.component.page.live_desk import Desk, texts
from tests.support.api_server import Served
from tests.support.samples import T0, as_of, broker_view, cluster_view, log_view, topic_view


def shrunk(seq: int, *partitions: int, who: int = 1, leader: int = 0) -> EventRecord:
    """Return the event that a broker left the ISR of partitions of topic t under a leader."""
    fact = IsrShrunk(
        at=T0 + seq,
        position=Position(1, seq),
        who=(who,),
        leader=leader,
        by_controller=False,
        partitions=tuple(TopicPartition("t", partition) for partition in partitions),
    )
    return EventRecord(v=1, cluster="prod", id=EventId("L1", 1, seq, 0), event=fact)


def test_isrs_that_flap_are_listed_with_the_replica_to_blame(desk: Desk) -> None:
    """By the events that are held, and the page says since when they are."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic_view("t"), cluster_view(at=as_of(9)))
    served.publish(shrunk(1, 0, 1), shrunk(2, 0), shrunk(3, 0))
    served.now = T0 + 1000
    page = desk.page(desk.serve(served).url).open()
    expect(page.locator("#flapping-lead")).to_have_text(
        "1 ISR shrank 3 times or more since 08:45:08, from when on events are held."
    )
    brokers = page.locator("#flapping-brokers tbody tr")
    assert texts(brokers.locator("th, td")) == ["broker 1", "1", "3 times", "\N{EN DASH}"]
    rows = page.locator("#flapping-table tbody tr")
    expect(rows).not_to_be_visible()
    page.locator("#flapping-partitions summary").click()
    assert texts(rows.locator("th, td")) == ["t-0", "3 times", "broker 1 (left 3 times)"]
    served.publish(*(shrunk(seq, 1) for seq in (4, 5)))
    changed = topic_view("t", as_of(10), isr=((0,), (1, 0)))
    served.write(changed, cluster_view(at=as_of(10), log=log_view(digest="2")))
    expect(page.locator("#flapping-lead")).to_contain_text("2 ISRs shrank")
    assert texts(brokers.locator("th, td")) == ["broker 1", "2", "6 times", "\N{EN DASH}"]
    expect(rows).to_have_count(2)


def test_leaves_that_nobody_is_to_blame_for_are_one_row(desk: Desk) -> None:
    """However many partitions there are, they do not fill the page."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic_view("t"), cluster_view(at=as_of(99)))
    pairs = [(who, leader) for who in range(3) for leader in range(3) if who != leader]
    served.publish(
        *(
            shrunk(seq, *range(24), who=who, leader=leader)
            for seq, (who, leader) in enumerate(pairs * 4, start=1)
        )
    )
    served.now = T0 + 1000
    page = desk.page(desk.serve(served).url).open()
    expect(page.locator("#flapping-summary")).to_have_text("24 partitions, the 20 worst")
    rows = page.locator("#flapping-brokers tbody tr")
    assert texts(rows.locator("th, td")) == ["not known", "24", "576 times", "\N{EN DASH}"]


def test_a_quiet_cluster_says_that_no_isr_flaps(desk: Desk) -> None:
    """And shows no empty table; of the time before events are held it says nothing."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic_view("t"), cluster_view())
    server = desk.serve(served)
    page = desk.page(server.url).open()
    lead = page.locator("#flapping-lead")
    expect(lead).to_have_text("Not known: no events are held yet.")
    served.publish(shrunk(1, 0))
    served.now += 10_000
    page = desk.page(server.url).open()
    lead = page.locator("#flapping-lead")
    expect(lead).to_have_text(re.compile("^No ISR shrank 3 times or more since 08:45:08, from"))
    served.now += 3_700_000
    page = desk.page(server.url).open()
    lead = page.locator("#flapping-lead")
    expect(lead).to_have_text("No ISR shrank 3 times or more in the last 1 h.")
    expect(page.locator("#flapping-brokers")).to_be_hidden()
    expect(page.locator("#flapping-partitions")).to_be_hidden()


def test_what_waits_for_the_controller_is_listed_while_there_is_any(desk: Desk) -> None:
    """Requests, topics to be deleted, partitions without a state, notifications: how many, and since when."""
    served = Served()
    pending = Pending(
        preferred_election=True,
        reassign_partitions=True,
        notifications=3,
        oldest_reassignment_at=T0 - 120_000,
        oldest_deletion_at=T0 - 60_000,
    )
    counts = Counts(partitions=9, reassigning=2, deleting_topics=1, without_state=4)
    served.write(broker_view(0), cluster_view(pending=pending, counts=counts))
    page = desk.page(desk.serve(served).url).open()
    listed = texts(page.locator("#controller #waits-list li"))
    assert listed[:2] == [
        "A request for preferred elections (/admin/preferred_replica_election).",
        "A request for reassignments (/admin/reassign_partitions).",
    ]
    assert listed[2].startswith("2 partitions being reassigned; the oldest has waited for 2 min")
    assert listed[3].startswith("1 topic to be deleted; the oldest has waited for 1 min")
    assert listed[4:] == [
        "4 partitions without a state, and so without a leader.",
        "3 notifications of brokers.",
    ]
    served.write(cluster_view(at=as_of(2), log=log_view(denied=("/admin",))))
    expect(page.locator("#waits-list li").first).to_contain_text("is not known")
    served.write(cluster_view(at=as_of(3)))
    expect(page.locator("#waits")).to_be_hidden()


def test_pending_writes_are_listed_in_the_controllers_section_while_there_are_any(
    desk: Desk,
) -> None:
    """Each partition with what the controller would write; nothing is shown when none is due."""
    served = Served()
    due = PendingWrites(
        counts={"new_leader": 2}, pending_since=T0 - 500, health=ControllerHealth.WORKING
    )
    served.write(
        broker_view(0),
        broker_view(1),
        broker_view(2, live=False, since=T0 - 700),
        topic_view("t", replicas=((2, 0), (2, 1)), isr=((2, 0), (2, 1)), leader=(2, 2)),
        cluster_view(brokers_live=(0, 1), brokers_known=(0, 1, 2), pending_writes=due),
    )
    page = desk.page(desk.serve(served).url).open()
    section = page.locator("#controller #pending")
    expect(section).to_contain_text("By kind: 2 new leader; the oldest has been pending for")
    rows = section.locator("tbody tr")
    expect(rows).to_have_count(2)
    first = texts(rows.first.locator("th, td"))
    assert first[:3] == ["t-0", "new leader", "leader 0, ISR 0"]
    assert first[3].startswith("for ")
    well = PendingWrites(health=ControllerHealth.NOT_NEEDED)
    served.write(
        topic_view("t", as_of(2)),
        cluster_view(at=as_of(2), pending_writes=well, log=log_view(digest="2")),
    )
    expect(section).to_be_hidden()
