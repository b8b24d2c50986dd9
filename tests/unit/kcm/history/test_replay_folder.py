"""`kcm replay` of a folder that was copied from a KRaft node: what it shows is what was true of the cluster."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kcm.__main__ import main
from kcm.cli.text import time_text
from kcm.history.replay_text import UNPROVEN
from kraft_source.folder import NAME, MetadataFolder
from tests.support.commands import complaint
from tests.support.metadata_folders import ABANDONED, BROKER, VOTER, Truth, unpack

Show = Callable[..., str]

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


@pytest.fixture
def truth(tmp_path: Path) -> Truth:
    """The truth of the folders, which are unpacked in this test's own folder."""
    return unpack(tmp_path)


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str]) -> Show:
    """Run `kcm replay`, and return its output; standard error is in `show.told`."""

    def run(*arguments: object) -> str:
        assert main(["replay", *map(str, arguments)]) == 0
        captured = capsys.readouterr()
        told.append(captured.err)
        return captured.out

    told: list[str] = []
    run.told = told  # type: ignore[attr-defined]
    return run


def told_by(show: Show) -> str:
    """Return what the last run wrote to standard error."""
    told: list[str] = show.told  # type: ignore[attr-defined]
    return told[-1]


@pytest.mark.parametrize("node", [VOTER, BROKER])
def test_the_end_of_the_log_is_what_brokers_describe(
    truth: Truth, tmp_path: Path, show: Show, node: str
) -> None:
    """Leaders, ISRs, replicas, brokers and elections, by AdminClient and the controllers' own files."""
    shown: dict[str, Any] = msgspec.json.decode(show(tmp_path / node, "--json"))
    assert shown["cluster"] == truth.cluster_id
    described = {
        name: {
            int(number): (each["leader"], tuple(each["replicas"]), {*each["isr"]})
            for number, each in topic["partitions"].items()
        }
        for name, topic in shown["topics"].items()
    }
    assert described == {
        name: {n: (each.leader, each.replicas, {*each.isr}) for n, each in its.items()}
        for name, its in truth.topics.items()
    }
    assert {name: its["topic_id"] for name, its in shown["topics"].items()} == truth.topic_ids
    live = tuple(int(broker) for broker, its in shown["brokers"].items() if its["live"])
    assert live == truth.live
    controller = shown["controller"]
    assert (controller["id"], controller["epoch"]) == truth.leaders[-1]
    assert controller["elections"] == len(truth.leaders)
    assert shown["complete"]


def test_the_summary_says_nothing_of_what_kraft_does_not_have(
    truth: Truth, tmp_path: Path, show: Show
) -> None:
    """No topics that wait for their deletion, no notifications, no reads of znodes; the controller is a node."""
    assert truth.leaders
    text = show(tmp_path / VOTER)
    assert f"controller  node {truth.leaders[-1][0]}, epoch {truth.leaders[-1][1]};" in text
    assert "under way   reassigning 0\n" in text
    assert "log         unreadable 0\n" in text
    assert "to another node" in text


def test_events_tell_the_story(truth: Truth, tmp_path: Path, show: Show) -> None:
    """Elections, an unclean one, fenced brokers, offline partitions and a deleted topic, each when it was done."""
    events = show(tmp_path / VOTER, "--events")
    begins = [*(step.at for step in truth.steps), 2**62]

    def during(step: str) -> str:
        """Return the events from the beginning of a step up to the next one."""
        (number,) = (n for n, each in enumerate(truth.steps) if each.did.startswith(step))
        begin, end = time_text(begins[number]), time_text(begins[number + 1])
        return "\n".join(line for line in events.splitlines() if begin <= line[:24] < end)

    elected = re.findall(r"ControllerElected node -?\d+ -> (\d+), epoch (\d+)", events)
    assert tuple((int(leader), int(epoch)) for leader, epoch in elected) == truth.leaders
    assert "ControllerElected" in during("kill the active controller")
    assert "BrokerStopped, broker 2" in during("pause broker 2")
    assert "PartitionsOffline from broker 1, 1 partition (clicks-0)" in during("stop broker 2")
    assert "LeadersElected broker -1 -> 2, election unclean, 1 partition (clicks-0)" in during(
        "start broker 2"
    )
    assert "TopicDeleted, topic temp" in during("delete topic temp")
    assert during("pause all brokers").count("end fenced") == 3


def test_records_that_are_not_proven_are_marked(truth: Truth, tmp_path: Path, show: Show) -> None:
    """Of a leader that lost its quorum: its last records, and nothing before them."""
    folder = MetadataFolder(tmp_path / ABANDONED)
    proof = folder.prove()
    lines = show(tmp_path / ABANDONED, "--events").splitlines()
    marked = [line for line in lines if line.endswith(f"({UNPROVEN})")]
    assert any(f"TopicCreated, topic {truth.uncommitted}" in line for line in marked)
    events = (re.match(r"\d{4}-\S+  1:(\d+)  ", line) for line in lines)
    ends = {each.string: int(each[1]) for each in events if each is not None}
    assert {line for line, end in ends.items() if end > proof.end} == set(marked)
    assert f"below {proof.end} (" in told_by(show)
    assert f"offset {proof.end} on nothing proves that it was committed" in "\n".join(lines)
    last = msgspec.json.decode(show(tmp_path / ABANDONED, "--json"))
    assert last["unproven_from"] == proof.end
    before = msgspec.json.decode(show(tmp_path / ABANDONED, "--json", "--until", f"1:{proof.end}"))
    assert before["unproven_from"] is None


def test_any_place_of_the_log_can_be_shown(truth: Truth, tmp_path: Path, show: Show) -> None:
    """By a time and by an offset, also one of a record that kcm does not keep, and what differs between two."""
    storm = next(step for step in truth.steps if step.did.startswith("pause all brokers"))
    at = msgspec.json.decode(show(tmp_path / VOTER, "--json", "--at", time_text(storm.at)))
    assert sum(its["live"] for its in at["brokers"].values()) == 3
    assert at["at"] <= storm.at
    seq = at["as_of"]["seq"]
    for offset in (seq, seq + 1, seq + 2):
        shown = msgspec.json.decode(show(tmp_path / VOTER, "--json", "--until", f"1:{offset}"))
        assert shown["as_of"]["seq"] <= offset
        assert "the log ends before" not in told_by(show)
    assert "topic after: new" in show(tmp_path / VOTER, "--diff", f"1:{seq}", "1:99999")
    assert "the log ends before 1:99999" in told_by(show)


@pytest.mark.parametrize("has_state", [True, False])
def test_a_snapshot_alone_does_not_say_who_led(
    truth: Truth, tmp_path: Path, show: Show, *, has_state: bool
) -> None:
    """The replica's own state may know the leader of that epoch; otherwise nobody does, and nobody is shown as none."""
    folder = tmp_path / VOTER / NAME
    (segment,) = folder.glob("*.log")
    segment.unlink()
    state = {"leaderId": 3009, "leaderEpoch": 3 if has_state else 4}
    (folder / "quorum-state").write_bytes(msgspec.json.encode(state))
    shown = msgspec.json.decode(show(tmp_path / VOTER, "--json"))["controller"]
    assert (shown["id"], shown["known"], shown["epoch"]) == (
        (3009, True, 3) if has_state else (None, False, 3)
    )
    assert ("controller  not known" in show(tmp_path / VOTER)) is not has_state
    assert truth.leaders[1][1] == 3


def test_a_log_that_was_cut_off_is_shown_up_to_there(
    truth: Truth, tmp_path: Path, show: Show
) -> None:
    """The damage is one line, and the snapshot is called incomplete."""
    folder = tmp_path / VOTER / NAME
    for snapshot in folder.glob("*.checkpoint"):
        snapshot.unlink()
    (segment,) = folder.glob("*.log")
    segment.write_bytes(segment.read_bytes()[:6_000])
    shown = msgspec.json.decode(show(tmp_path / VOTER, "--json"))
    assert {*shown["topics"]} == {"orders", "clicks", "temp"}
    assert not shown["complete"]
    (damage,) = (line for line in told_by(show).splitlines() if "unreadable" in line)
    assert "ends within a record batch" in damage
    assert truth.leaders[0]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("{folder}", "other.jsonl"), "is a folder: it is a log of its own, so name it alone"),
        (("{folder}/{name}/00000000000000000000.log",), "name its folder"),
        (("{empty}",), "is empty: name a copy of a node's __cluster_metadata-0"),
    ],
)
def test_bad_input_is_one_line(
    truth: Truth,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    *,
    arguments: tuple[str, ...],
    said: str,
) -> None:
    """It says what to name instead, and ends with the exit code of bad input."""
    (tmp_path / "empty").mkdir()
    places = {"folder": tmp_path / VOTER, "name": NAME, "empty": tmp_path / "empty"}
    named = [each.format(**places) for each in arguments]
    assert said in complaint(capsys, "replay", *named)
    assert truth.topics
