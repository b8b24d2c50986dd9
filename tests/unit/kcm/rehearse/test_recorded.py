"""A rehearsal on a recorded log: at any place of it, with what the log shows up to there."""

from __future__ import annotations

import json
import re
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller_model.history.log_replay import END, Point
from controller_model.kafka.ids import Position
from controller_model.records.changes import ZnodeChange
from kcm.__main__ import main
from kcm.history.log_source import LogSource
from kcm.history.options import load_replay
from kcm.history.replay_input import Line
from kcm.rehearse.recorded import rehearse_on_log
from pipeline.runtime import UsageError
from tests.support.commands import complaint
from tests.support.histories import History
from tests.support.replaying import lines, write


@pytest.fixture
def log(failover: History, tmp_path: Path) -> str:
    """A recorded log of three brokers; broker 0 was the controller and is gone."""
    return str(write(tmp_path / "log.jsonl", lines(failover.changes)))


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Return what the command prints as JSON."""
    assert main(["rehearse", *arguments, "--json"]) == 0
    body: dict[str, Any] = json.loads(capsys.readouterr().out)
    return body


def on_log(
    changes: list[ZnodeChange], *steps: str, point: Point = END, most: int = 20
) -> dict[str, Any]:
    """Return the answer on a log of these changes, without assumed values."""
    recorded = (
        Line(f"log:{number}", data)
        for number, data in enumerate(lines(changes).splitlines(), start=1)
    )
    source = LogSource(recorded, {}, load_replay(None, {}).assumed)
    return rehearse_on_log(source, steps, cluster=None, point=point, most=most)


def test_a_log_is_rehearsed_on_at_any_place(
    log: str, failover: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before the failover broker 0 is the controller, at the end it is broker 1."""
    end = answer(capsys, log, "--delete-controller")
    assert end["steps"][0]["controller_before"] == 1
    assert end["complete"] is True
    last = failover.changes[-1]
    assert end["as_of"] == {"generation": str(last.generation), "seq": last.seq}
    begin = next(c for c in failover.changes if c.path == "/controller" and not c.data)
    place = f"{begin.generation}:{begin.seq - 1}"
    before = answer(capsys, log, "--at", place, "--kill-broker", "0", "--kill-broker", "1")
    assert before["steps"][0]["controller_before"] == 0
    assert before["steps"][0]["controller_candidates"] == [1, 2]


def test_the_answer_has_the_fields_of_the_apis(failover: History) -> None:
    """It also has the place in the log, and whether the log was complete up to there."""
    found = on_log(failover.changes, "stop-broker:1")
    last = failover.changes[-1]
    assert list(found) == [
        "name",
        "as_of",
        "at",
        "complete",
        "steps",
        "outages",
        "pending_writes",
        "is_zombie",
        "unknown",
    ]
    assert (found["name"], found["at"], found["complete"]) == ("prod", last.observed_at, True)
    assert found["steps"][0]["refused"] is None


def test_the_last_failover_of_the_log_bounds_the_duration_of_the_next(failover: History) -> None:
    """That failover wrote one leader, and two are due now; before it no time is known."""
    (work,) = [step["failover"] for step in on_log(failover.changes, "kill-broker:1")["steps"]]
    assert work["partitions"] == 2
    assert 0 < work["at_least_ms"] < work["at_most_ms"] == 2 * work["at_least_ms"]
    before = next(c for c in failover.changes if c.path == "/controller" and not c.data)
    place = Point(until=Position(before.generation, before.seq - 1))
    (work,) = [
        step["failover"] for step in on_log(failover.changes, "kill-broker:0", point=place)["steps"]
    ]
    assert (work["at_least_ms"], work["at_most_ms"]) == (None, None)


def test_lists_are_cut_and_counted(failover: History) -> None:
    """The list of outages is cut, too."""
    whole = on_log(failover.changes, "kill-broker:1", "kill-broker:2")
    count = whole["outages"]["count"]
    assert count == len(whole["outages"]["outages"]) > 1
    cut = on_log(failover.changes, "kill-broker:1", "kill-broker:2", most=1)
    assert (cut["outages"]["count"], len(cut["outages"]["outages"])) == (count, 1)


def test_a_log_with_a_hole_is_rehearsed_on_with_a_warning(
    failover: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """Standard error has the warning with the place; the answer says that it is incomplete."""
    heartbeat = next(n for n, c in enumerate(failover.changes) if c.path == "/controller") - 1
    del failover.changes[heartbeat]
    found = on_log(failover.changes, "stop-broker:2")
    assert found["complete"] is False
    last = failover.changes[-1]
    err = capsys.readouterr().err
    assert f"what the log shows at {last.generation}:{last.seq}" in err
    assert re.search(r" is incomplete: \w", err)


def test_a_place_before_the_log_is_bad_use(failover: History) -> None:
    """The error says where the log begins."""
    with pytest.raises(UsageError, match="the log begins later than 0:1"):
        on_log(failover.changes, "stop-broker:1", point=Point(until=Position(0, 1)))


def test_a_log_without_a_controller_has_nothing_to_rehearse(
    log: str, failover: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """The error names the place."""
    begin = next(c for c in failover.changes if c.path == "/controller" and not c.data)
    place = f"{begin.generation}:{begin.seq}"
    line = complaint(capsys, "rehearse", log, "--at", place, "--delete-controller")
    assert line.startswith(f"at {place}")
    assert "no live broker is the controller" in line


VALUES = re.compile(rb"(?<=:)(?:-?\d+|\[[-\d,]*\])(?=[,}\]])")
"""Numbers and lists of numbers, within payloads too."""
PUT = (
    b"-1",
    b"0",
    b"7",
    b"2147483647",
    b"9223372036854775807",
    b"null",
    b"[]",
    b"[1,1]",
    b"[9]",
    b"{}",
)
STEPS = (
    *("kill-broker:1", "stop-broker:1", "start-broker:7", "rolling-restart", "delete-controller"),
    *("delete-topic:t", "preferred-election"),
    'reassign:{"partitions":[{"topic":"t","partition":0,"replicas":[1,2]}]}',
)


def test_whatever_a_log_holds_a_rehearsal_is_an_answer_or_one_line(
    failover: History, capsys: pytest.CaptureFixture[str]
) -> None:
    """Numbers of a stranger's log may be any: an epoch at its largest, a replica twice, no replica."""
    whole = lines(failover.changes)
    places = [match.span() for match in VALUES.finditer(whole)]
    assumed = load_replay(None, {}).assumed

    @settings(max_examples=30, deadline=None, database=None)
    @given(
        st.lists(st.tuples(st.sampled_from(places), st.sampled_from(PUT)), min_size=1, max_size=4),
        st.lists(st.sampled_from(STEPS), min_size=1, max_size=3),
    )
    def check(edits: list[tuple[tuple[int, int], bytes]], steps: list[str]) -> None:
        changed = whole
        for (begin, end), value in sorted(dict(edits).items(), reverse=True):
            changed = changed[:begin] + value + changed[end:]
        recorded = (
            Line(f"log:{number}", data) for number, data in enumerate(changed.splitlines(), start=1)
        )
        source = LogSource(recorded, {}, assumed)
        with suppress(UsageError):
            rehearse_on_log(source, steps, cluster=None, point=END, most=20)

    check()
    assert "unexpected" not in capsys.readouterr().err
