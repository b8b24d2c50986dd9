"""A rehearsal as text: rows for steps and partitions, lines for the rest."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest
from rich.console import Console, Group

from controller_model.kafka.cluster_facts import PartitionFacts
from kcm.cli.plain_table import PlainTable
from kcm.rehearse.text import report_text
from rehearsal.failover import LastFailover
from rehearsal.report import Rehearsal, shortened
from tests.support.partition_facts import part, up
from tests.support.rehearsing import rehearsed


def shown(said: Rehearsal) -> list[str]:
    """Return the lines of a report, with single blanks between words."""
    file = io.StringIO()
    console = Console(file=file, width=250, markup=False, emoji=False)
    console.print(report_text(msgspec.to_builtins(said, str_keys=True)), crop=False)
    return [" ".join(line.split()) for line in file.getvalue().splitlines()]


def test_each_step_is_one_row() -> None:
    """It has the elections by kind, and who raced for the controllership."""
    partitions = [part(), part(1, leader=3), part(2, replicas=(1,), isr=(1,))]
    lines = shown(rehearsed("stop-broker:3", "kill-broker:1", partitions=partitions))
    assert lines[:3] == [
        "step operation controller elections offline under min ISR unclean leaders moved ZooKeeper writes",
        "1 stop-broker:3 1 controlled_shutdown 1 0 0 0 1 3",
        "2 kill-broker:1 1 -> 2 offline 2 1 0 0 2 9",
    ]


@pytest.mark.parametrize(
    ("brokers", "step", "controller"),
    [
        ((1, 2, 3), "kill-broker:1", "1 -> 2 (race of 2, 3)"),
        ((1, 2), "kill-broker:1", "1 -> 2"),
        ((1, 2), "kill-broker:2", "1"),
        ((1,), "kill-broker:1", "1 -> none"),
    ],
)
def test_a_row_shows_the_new_controller_and_the_candidates_of_the_race(
    brokers: tuple[int, ...], step: str, controller: str
) -> None:
    """A single candidate is no race; without any there is no controller, which is known."""
    said = rehearsed(step, facts=up(*brokers, controller=1, controller_epoch=1))
    assert shown(said)[1].startswith(f"1 {step} {controller} - 0 ")


def test_unknown_partitions_are_counted_beside_the_known_ones() -> None:
    """This concerns min.insync.replicas and unclean elections."""
    said = rehearsed("kill-broker:1", partitions=[part(isr=(1,)), part(1)], min_isr_assumed=None)
    assert " 1 0 (1 not known) 0 (1 not known) 1 " in shown(said)[1]


def test_a_partition_row_shows_the_leader_and_the_isr_before_and_after() -> None:
    """What did not change is written once; a partition that is gone has no further text."""
    said = rehearsed(
        "kill-broker:1", "delete-topic:u", partitions=[part(), part(1, isr=(1,)), part(topic="u", replicas=(2,), leader=2, isr=(2,))],
    )  # fmt: skip
    lines = shown(said)
    begin = lines.index("Partitions")
    assert lines[begin + 1 : begin + 5] == [
        "step partition leader ISR replicas",
        "1 t-0 1 -> 2 1,2,3 -> 2,3 1,2,3",
        "1 t-1 1 -> none 1 1,2,3",
        "2 u-0 deleted - -",
    ]
    without_state = rehearsed(
        "start-broker:9", partitions=[part(leader=None, isr=(), replicas=(9,))]
    )
    assert "1 t-0 none -> 9 - -> 9 9" in shown(without_state)


def test_broker_0_is_a_broker() -> None:
    """This holds for a leader and for the controller; none is printed as none."""
    said = rehearsed(
        "kill-broker:0",
        "kill-broker:1",
        partitions=[part(replicas=(0, 1), leader=0, isr=(0, 1))],
        facts=up(0, 1, controller=1, controller_epoch=1),
    )
    lines = shown(said)
    assert "1 t-0 0 -> 1 0,1 -> 1 0,1" in lines
    assert [line.split(" - ")[0] for line in lines[2:3]] == ["2 kill-broker:1 1 -> none"]


def test_an_empty_table_is_left_out() -> None:
    """Only the steps are always printed."""
    lines = shown(rehearsed("stop-broker:9"))
    assert not {"Partitions", "Requests of the controller"} & set(lines)
    assert not any(line.startswith(("Offline, or under", "before: ")) for line in lines)


@pytest.mark.parametrize(
    ("partition", "is_marked"),
    [
        (part(), False),
        (part(replicas=(1,), isr=(1,)), True),
        (part(isr=(1,), unclean=True), True),
    ],
)
def test_a_step_that_loses_something_is_marked(
    partition: PartitionFacts, *, is_marked: bool
) -> None:
    """Partitions that go offline count, and data lost by an unclean election."""
    said = rehearsed("kill-broker:1", partitions=[partition])
    report = report_text(msgspec.to_builtins(said, str_keys=True))
    assert isinstance(report, Group)
    table = report.renderables[0]
    assert isinstance(table, PlainTable)
    assert [row.style for row in table.rows] == ["bold red" if is_marked else ""]


def test_what_was_cut_is_counted() -> None:
    """This holds for each step's partitions and for the outages."""
    said = rehearsed(
        "kill-broker:1", partitions=[part(n, replicas=(1,), isr=(1,)) for n in range(4)]
    )
    lines = shown(shortened(said, 1))
    assert "1 ... 3 more" in lines
    assert "... 3 more" in lines
    assert not any("more" in line for line in shown(said))


def test_outages_show_their_first_and_last_step() -> None:
    """An outage from before has no step that began it; one that lasts has none that ends it."""
    said = rehearsed(
        "start-broker:4", "kill-broker:3",
        partitions=[part(replicas=(4,), leader=-1, isr=(4,)), part(1, min_isr=3)],
    )  # fmt: skip
    lines = shown(said)
    assert "t-0 offline before 1" in lines
    assert "t-1 under min ISR 2 the end" in lines


def test_requests_are_a_row_a_broker() -> None:
    """After ISR changes the number of UpdateMetadata requests is a range: from one to one for each change."""
    lines = shown(rehearsed("stop-broker:2", partitions=[part()]))
    assert "1 1 2 of 2 partitions 2 0" in lines
    assert "1 2 0 1 2 of 2 partitions" in lines
    joins = rehearsed(
        "start-broker:9",
        partitions=[part(replicas=(1, 9), isr=(1,)), part(1, replicas=(1, 9), isr=(1,))],
    )
    (sent,) = [each for each in joins.steps[0].requests if each.broker == 3]
    assert sent.update_metadata_after_isr_changes == 2
    assert f"1 3 0 {sent.update_metadata + 1} to {sent.update_metadata + 2} 0" in shown(joins)


@pytest.mark.parametrize(
    ("last", "time"),
    [
        (None, "how long is not known: no failover with leaders to write was seen"),
        (LastFailover(2, 400), "200 ms to 400 ms, by this cluster's last failover"),
    ],
)
def test_a_failover_is_printed_with_its_writes_and_its_duration(
    last: LastFailover | None, time: str
) -> None:
    """It has the time, as far as one was measured."""
    said = rehearsed("kill-broker:1", partitions=[part()], last_failover=last)
    writes = said.steps[0].failover
    assert writes is not None
    assert (
        f"step 1: the failover has 1 partition without a leader and {writes.zookeeper_writes} "
        f"writes; {time}"
    ) in shown(said)


def test_refused_steps_and_earlier_pending_writes_are_printed() -> None:
    """A refused step is named by its number."""
    lines = shown(
        rehearsed(
            "stop-broker:9",
            partitions=[part(leader=9, isr=(9, 2))],
            facts=up(1, 2, controller=1, controller_epoch=1),
        )
    )
    assert "step 1: refused, or a part of it: broker 9 does not run" in lines
    assert "before: writes are pending for 1 partition; the rehearsal begins after them" in lines


def test_names_that_are_no_text_are_shown_as_escapes() -> None:
    """A cluster's names come from outside: none reaches the terminal as a command."""
    topic = "t\x1b[2J"
    answer: dict[str, Any] = msgspec.to_builtins(
        rehearsed("kill-broker:1", partitions=[part(topic=topic, replicas=(1,), isr=(1,))])
    )
    answer["unknown"] = [{"what": "x", "text": topic}]
    file = io.StringIO()
    Console(file=file, width=250, markup=False, emoji=False).print(report_text(answer))
    assert "\x1b" not in file.getvalue()
    assert "[2J" in file.getvalue()
