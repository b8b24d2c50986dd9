"""What the live page shows of flapping ISRs, with the broker to blame, and of the pending writes."""

from __future__ import annotations

from playwright.sync_api import expect

from controller_model.kafka.ids import Position, TopicPartition
from controller_model.records.event_records import EventId, EventRecord
from controller_model.records.events import IsrShrunk
from controller_model.records.pending_writes import ControllerHealth, PendingWrites
from tests.component.page.live_desk import Desk, texts
from tests.support.api_server import Served
from tests.support.samples import T0, as_of, broker_view, cluster_view, log_view, topic_view


def shrunk(seq: int, *partitions: int) -> EventRecord:
    """Return the event that broker 1 left the ISR of partitions of topic t under broker 0."""
    fact = IsrShrunk(
        at=T0 + seq,
        position=Position(1, seq),
        who=(1,),
        leader=0,
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
        "1 ISR shrank 3 times or more in the last 1 h."
    )
    rows = page.locator("#flapping-table tbody tr")
    assert texts(rows.locator("th, td")) == ["t-0", "3 times", "broker 1 (left 3 times)"]
    expect(page.locator("#flapping-notes")).to_contain_text(
        "At fault, over all partitions: broker 1"
    )
    expect(page.locator("#flapping-notes")).to_contain_text("Events are held since")
    served.publish(*(shrunk(seq, 1) for seq in (4, 5)))
    changed = topic_view("t", as_of(10), isr=((0,), (1, 0)))
    served.write(changed, cluster_view(at=as_of(10), log=log_view(digest="2")))
    expect(page.locator("#flapping-lead")).to_contain_text("2 ISRs shrank")


def test_a_quiet_cluster_says_that_no_isr_flaps(desk: Desk) -> None:
    """And shows no empty table."""
    served = Served()
    served.write(broker_view(0), broker_view(1), topic_view("t"), cluster_view())
    page = desk.page(desk.serve(served).url).open()
    expect(page.locator("#flapping-lead")).to_have_text(
        "No ISR shrank 3 times or more in the last 1 h."
    )
    expect(page.locator("#flapping-notes")).to_have_text("No events are held yet.")
    expect(page.locator("#flapping-table")).to_be_hidden()


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
