"""What the live page shows, in a real headless Chromium, over the exporter's real server."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Page, expect

from controller_model.records.changes import SessionState
from controller_model.records.event_records import coalesce, number
from controller_model.records.views import Capability, ClusterConfig, Counts, KraftMigration
from controller_model.records.visibility import visible_broker
from tests.component.page.live_desk import Desk, row_of, texts
from tests.support.api_server import Served
from tests.support.histories import Fold, History
from tests.support.live_story import QUIET_HOUR, LiveStory, served
from tests.support.samples import (
    T0,
    broker_view,
    cluster_view,
    log_view,
    topic_view,
)
from tests.support.waiting import wait_until

WELL = re.compile("nothing is wrong", re.IGNORECASE)
MARKUP = "<img src=x onerror=alert(1)>"


def test_a_bad_hour_is_reported_worst_first(desk: Desk, bad: Served) -> None:
    """What is wrong, who is the controller, which brokers and partitions, and what to run."""
    server = desk.serve(bad)
    page = desk.page(server.url).open()
    assert texts(page.locator("#problems li")) == [
        "✖ Critical: 2 partitions are offline: no writes, no reads KafkaPartitionsOffline",
        (
            "▲ Warning: 57 partitions are at min ISR: no further replica may be lost "
            "KafkaPartitionsAtMinIsr"
        ),
        "▲ Warning: 57 partitions are under-replicated KafkaPartitionsUnderReplicated",
        (
            "▲ Warning, pending: Broker 2 is not registered; 59 replicas there (since 08:43:00) "
            "KafkaBrokerGone"
        ),
        (
            "▲ Warning: Broker 4 is more than 10% imbalanced; an election gives 19 leaders back "
            "KafkaLeadersImbalanced"
        ),
    ]
    expect(page).to_have_title("prod: 2 partitions are offline: no writes, no reads")
    expect(page.locator("#controller-who")).to_have_text(
        re.compile(r"^Broker 1 kafka-1.*for 18 min")
    )
    expect(page.locator("#trust")).to_contain_text("verified as of 08:44:10")

    assert row_of(page, "broker-table", "^2 ")[1].startswith("✖ gone for 2 min")
    assert row_of(page, "broker-table", "^4 ")[6] == "▲ 100 % 19 of 19 not led"
    assert row_of(page, "broker-table", "^3 ")[3:5] == ["38", "57"]
    assert row_of(page, "broker-table", "^3 ")[7] == "✖ no: 19 would be under min ISR"

    expect(page.locator("#partition-note")).to_have_text("2 of 2 shown: offline.")
    assert row_of(page, "partition-table", "^legacy-export-1$") == [
        "legacy-export-1", "offline, not preferred, single replica, on gone brokers", "✖ nobody", "2 (gone)",
        "\N{EN DASH}", "2", "1",
    ]  # fmt: skip

    expect(page.locator("#incidents-list li").first).to_contain_text("Open")
    expect(page.locator("#incidents-list li").first).to_contain_text("Broker 2 crashed")
    expect(page.locator("#advice-lead")).to_contain_text("19 partitions can be given back")
    command = page.locator("#advice-command").inner_text()
    assert "kafka-leader-election.sh --bootstrap-server kafka-0.example.net:9092" in command
    assert '{"topic":"audit","partition":4}' in command
    expect(page.locator("#advice-kcm")).to_contain_text(f"--exporter {server.url} --cluster prod")
    expect(page.locator("#advice-notes")).to_contain_text("Recommended since 08:28:49")


def test_the_timeline_shows_who_was_controller_and_when(desk: Desk, bad: Served) -> None:
    """A strip for the eye, and the same in words for everybody."""
    page = desk.page(desk.serve(bad).url).open()
    expect(page.locator("#timeline-caption")).to_have_text(
        "The last 1 h 10 min: 3 elections. Not seen before 07:44:08."
    )
    assert texts(page.locator(".strip-labels span")) == ["not seen", "0", "0", "1"]
    expect(page.locator("#controller-facts")).to_contain_text("0 in 10 min, 3 in 1 h, 3 in 6 h")
    page.locator("#elections summary").click()
    said = texts(page.locator("#elections-list li"))
    assert said[0].startswith("08:27:07 broker 0 → 1, epoch 3, nobody for 10 ms")
    assert said[-1].endswith("counting began")
    assert sum("/controller is gone" in line for line in said) == 2


def test_what_was_not_seen_is_drawn_as_not_seen(desk: Desk) -> None:
    """Before counting began, except for the controller that was found; and since the figures no longer follow."""
    served = begun_recently()
    page = desk.page(desk.serve(served).url).open()
    caption = page.locator("#timeline-caption")
    expect(caption).to_have_text("The last 10 min: 4 elections. Not seen before 08:39:07.")
    expect(page.locator("#problems li")).to_have_text(
        re.compile("elected 4 times within 10 minutes")
    )
    expect(page.locator("#controller-facts")).to_contain_text(
        "4 in 10 min, 4 in 1 h, 4 in 6 h; counted since 08:41:08"
    )
    page.locator("#elections summary").click()
    assert texts(page.locator("#elections-list li"))[-1] == (
        "08:41:08 counting began: broker 2 was the controller since 08:39:07"
    )
    served.now += 120_000
    expect(caption).to_contain_text("Not seen since 08:45:08.")
    assert texts(page.locator(".strip-labels span"))[-1] == "not seen"


def begun_recently() -> Served:
    """Return a cluster that is six minutes old, of which four were watched."""
    history = History(now=T0 - 6 * 60_000 - 70)
    fold = Fold()
    fold.state.control.counters_since = T0 - 4 * 60_000
    for broker in range(3):
        history.broker(broker, seen=False)
    history.elect(2, seen=False)
    history.now = T0 - 4 * 60_000
    history.resync()
    for broker in (0, 1, 0):
        history.heartbeat(after_ms=60_000)
        history.delete("/controller")
        history.elect(broker)
    history.heartbeat(after_ms=T0 - history.now - 1)
    records = number("prod", "l", coalesce(fold.follow(history)), after=None)
    exporter = Served()
    exporter.write(*fold.views(folded_at=T0).values())
    exporter.publish(*records)
    return exporter


def test_a_quiet_cluster_is_a_quiet_page(desk: Desk) -> None:
    """Nothing is red, nothing is listed, and the page says that nothing is wrong."""
    quiet = served(LiveStory(until=T0), QUIET_HOUR)
    page = desk.page(desk.serve(quiet).url).open()
    (said,) = texts(page.locator("#problems li"))
    assert said.startswith("✔ Nothing is wrong: broker 0 is the controller")
    expect(page.locator("#advice-lead")).to_contain_text("there is nothing to elect")
    expect(page.locator("#partition-note")).to_have_text("No partition: offline.")
    expect(page.locator("#incidents-lead")).to_contain_text("None is open")
    assert (
        page.locator("main strong, main [data-sign=critical], main [data-sign=warning]").count()
        == 0
    )


def assert_nobody_says_that_all_is_well(page: Page, of_when: str) -> None:
    """With a problem or without, the page says of when that is true; nothing in it is a tick."""
    said, *problems = texts(page.locator("#problems li"))
    assert said == (f"? {of_when}" if problems else f"? {of_when} nothing was known to be wrong.")
    severity = "warning" if problems else "unknown"
    expect(page.locator("#health")).to_have_attribute("data-severity", severity)
    expect(page).not_to_have_title(WELL)
    expect(page.locator("body")).not_to_contain_text(WELL)


@pytest.mark.parametrize(
    ("log", "status", "said", "of_when"),
    [
        (
            {"verified_at": None},
            "incomplete",
            "Incomplete: changes may be missing",
            "Not proven yet:",
        ),
        (
            {"incomplete_since": T0 - 1000, "incomplete_reason": "a hole"},
            "incomplete",
            "(a hole)",
            "In doubt since 08:45:07:",
        ),
        (
            {"denied": ("/brokers/topics",)},
            "incomplete",
            "Incomplete: the watcher may not read",
            "In doubt:",
        ),
        (
            {"divergent_since": T0 - 1000},
            "divergent",
            "Divergent: a reconciliation proved",
            "In doubt since 08:45:08:",
        ),
        (
            {"session": SessionState.LOST, "session_since": T0 - 1000},
            "blind",
            "Blind: the watcher",
            "As of 08:45:07, not now:",
        ),
        (
            {"heartbeat_at": T0 - 60_000, "last_change_at": T0 - 60_000},
            "behind",
            "Behind: no sign of life of the watcher",
            "As of 08:44:08, not now:",
        ),
    ],
    ids=["unproven", "incomplete", "denied", "divergent", "blind", "behind"],
)
def test_figures_that_are_not_live_are_marked_prominently(
    desk: Desk, log: dict[str, Any], status: str, said: str, of_when: str
) -> None:
    """In words, in the title and by the background; the page does not say that all is well."""
    exporter = Served()
    exporter.write(broker_view(0), broker_view(1), cluster_view(log=log_view(**log)))
    page = desk.page(desk.serve(exporter).url).open()
    assert_nobody_says_that_all_is_well(page, of_when)
    expect(page.locator("#brokers-lead")).to_have_text(
        "2 brokers registered; whether they may be stopped is not known now."
    )
    assert row_of(page, "broker-table", "^0 ")[7] == (
        "? not known now: yes by these figures, which are in doubt"
    )
    trust = page.locator("#trust")
    expect(trust).to_have_attribute("data-status", status)
    expect(trust).to_contain_text(said)
    expect(page).to_have_title(re.compile(f"figures are {status}"))
    assert trust.evaluate("e => getComputedStyle(e).borderLeftWidth") == "6px"


def test_denied_znodes_are_counted_beyond_those_that_are_named(desk: Desk) -> None:
    """A path stands for those below it, and the page says for how many more."""
    exporter = Served()
    exporter.write(
        broker_view(0), cluster_view(log=log_view(denied=("/brokers/topics",), denied_more=149))
    )
    page = desk.page(desk.serve(exporter).url).open()
    expect(page.locator("#pipeline-notes")).to_contain_text(
        "ZooKeeper denies the watcher /brokers/topics (149 further znodes within them): not known."
    )


def test_a_problem_that_may_be_over_is_shown_with_its_time(desk: Desk) -> None:
    """What was offline when the watcher lost its session need not be so now."""
    exporter = Served()
    log = log_view(session=SessionState.LOST, session_since=T0 - 1000)
    exporter.write(broker_view(0), cluster_view(log=log, counts=Counts(offline=2)))
    page = desk.page(desk.serve(exporter).url).open()
    assert texts(page.locator("#problems li")) == [
        "? As of 08:45:07, not now:",
        "✖ Critical: 2 partitions are offline: no writes, no reads KafkaPartitionsOffline",
    ]


def test_partitions_without_a_state_are_not_well(desk: Desk) -> None:
    """No count but their own holds them: they are reported, counted in a tile, and listed."""
    exporter = Served()
    unstated = topic_view("t", leader=(None, None), isr=(None, None))
    counts = Counts(topics=1, partitions=2, without_state=2, under_min_isr=0)
    exporter.write(broker_view(0), unstated, cluster_view(counts=counts))
    page = desk.page(desk.serve(exporter).url).open()
    assert texts(page.locator("#problems li")) == [
        "▲ Warning: 2 partitions have no state: no leader KafkaPartitionsWithoutState"
    ]
    expect(page.locator("#tiles li").last).to_have_text(re.compile("2 Without a state"))
    expect(page.locator("#partition-note")).to_have_text("2 of 2 shown: without a state.")


def test_an_exporter_that_cannot_read_on_says_so(desk: Desk) -> None:
    """Before its figures are late by themselves: in the fleet, and in a cluster's own page."""
    exporter = Served()
    exporter.write(broker_view(0), broker_view(1), cluster_view())
    exporter.now += 20_000  # Kafka answered last at T0
    url = desk.serve(exporter).url
    page = desk.page(url).open()
    trust = page.locator("#trust")
    expect(trust).to_have_attribute("data-status", "unready")
    expect(trust).to_contain_text("the pipeline's Kafka has not answered for 20 s")
    assert_nobody_says_that_all_is_well(page, "As of 08:45:28, not now:")
    expect(page).to_have_title("prod: the exporter is not ready")
    exporter.write(cluster_view("other"))
    page = desk.page(url).open()
    waiting = page.locator("#waiting")
    expect(waiting).to_contain_text("the pipeline's Kafka has not answered for 20 s")
    expect(page.locator("#fleet-summary")).to_contain_text("Nothing was known to be wrong.")


def test_a_broker_with_unknown_safety_is_not_called_safe(desk: Desk) -> None:
    """While controller writes are due, more may break than is counted: not known, and why."""
    exporter = Served()
    exporter.write(
        broker_view(0, replicas=2, under_min_isr_if_lost=0, more_if_lost=True),
        broker_view(1, replicas=2, offline_if_lost=1, more_if_lost=True),
        broker_view(2, replicas=2, live=False),
        cluster_view(brokers_known=(0, 1, 2)),
    )
    page = desk.page(desk.serve(exporter).url).open()
    expect(page.locator("#brokers-lead")).to_have_text(
        "2 brokers registered, 1 gone; 1 may not be stopped now; "
        "whether 1 of them may be stopped is not known now."
    )
    assert row_of(page, "broker-table", "^0 ")[7].startswith("? not known now: more may break")
    assert row_of(page, "broker-table", "^1 ")[7] == "✖ no: 1 would be offline"
    assert row_of(page, "broker-table", "^2 ")[7] == "\N{EN DASH}"


def test_where_no_broker_is_left_none_may_be_stopped(desk: Desk) -> None:
    """The sentence on stopping is about those that are there."""
    exporter = Served()
    gone = [broker_view(id_, live=False, replicas=2) for id_ in range(3)]
    exporter.write(*gone, cluster_view(brokers_live=(), brokers_known=(0, 1, 2)))
    page = desk.page(desk.serve(exporter).url).open()
    expect(page.locator("#brokers-lead")).to_have_text("0 brokers registered, 3 gone.")


def test_text_from_the_cluster_stays_text(desk: Desk) -> None:
    """A topic, host or rack with markup in its name runs nothing and makes no element."""
    exporter = Served()
    exporter.write(
        broker_view(0, host=MARKUP, rack=MARKUP, leaders=1, replicas=2, in_isr=2),
        broker_view(1, live=False, replicas=1),
        topic_view(MARKUP, leader=(-1, 0), isr=((1,), (0,))),
        cluster_view(
            brokers_live=(0,), counts=Counts(offline=1, partitions=2, preferred_imbalance=2)
        ),
    )
    page = desk.page(desk.serve(exporter).url).open()
    expect(page.locator("#partition-table tbody th").first).to_have_text(f"{MARKUP}-0")
    expect(page.locator("#broker-table tbody th").first).to_contain_text(MARKUP)
    assert page.locator("img").count() == 0


def test_the_command_is_copied_whole(desk: Desk, bad: Served) -> None:
    """What lies in the clipboard is what the page shows, and a shell makes the right file of it."""
    page = desk.page(desk.serve(bad).url, permissions=["clipboard-read", "clipboard-write"]).open()
    page.locator("#advice-copy").click()
    expect(page.locator("#advice-copied")).to_have_text("Copied.")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.strip() == page.locator("#advice-command").inner_text().strip()
    page.locator("#advice-copy-json").click()
    # The words of the first click still stand there.
    file = wait_until(
        lambda: page.evaluate("navigator.clipboard.readText()"), lambda text: text != copied
    )
    election = msgspec.json.decode(file)
    assert len(election["partitions"]) == 19


def test_what_cannot_be_seen_is_shown_as_not_known(desk: Desk) -> None:
    """Nobody is the controller, no broker gone and no partition offline: nothing of it is known."""
    server = Served()
    hidden = log_view(denied=("/",))
    view = cluster_view(log=hidden)
    brokers = [visible_broker(broker_view(id_), frozenset(hidden.hidden)) for id_ in (0, 1)]
    server.write(*brokers, view)
    page = desk.page(desk.serve(server).url).open()
    expect(page.locator("#controller-who")).to_have_text("Not known")
    expect(page.locator("#brokers-lead")).to_have_text("Which brokers are registered is not known.")
    row = row_of(page, "broker-table", "^0")
    assert (row[1], row[3], row[6]) == ("not known", "not known", "not known")
    assert row[7].startswith("? not known now")
    expect(page.locator("#totals")).to_contain_text("not known partitions")
    expect(page.locator("#waits-list")).to_contain_text("pending writes are not known")
    expect(page.locator("#incidents-lead")).to_contain_text("Whether one is open is not known")
    expect(page.locator("#advice-lead")).to_have_text("Which elections would help is not known.")
    assert not page.locator("body").inner_text().count("Nobody")


def test_a_cluster_that_left_zookeeper_says_since_when_and_up_to_where(desk: Desk) -> None:
    """The status is kraft, and the page names the offset up to which ZooKeeper is a copy."""
    server = Served()
    log = log_view(hidden=(Capability.BROKERS,), kraft_since=T0, left_since=T0)
    migration = KraftMigration(
        controller=3001,
        controller_epoch=2,
        metadata_offset=314,
        metadata_epoch=2,
        written_at=T0,
    )
    view = cluster_view(log=log, config=ClusterConfig(migration=migration))
    server.write(visible_broker(broker_view(0), frozenset(log.hidden)), view)
    page = desk.page(desk.serve(server).url).open()
    expect(page.locator("#trust")).to_contain_text("A KRaft controller runs the cluster")
    expect(page.locator("#problems")).to_contain_text("copy up to offset 314")
    expect(page.locator("#controller-facts")).to_contain_text("offset 314 of epoch 2")
    assert row_of(page, "broker-table", "^0")[1] == "not known"
