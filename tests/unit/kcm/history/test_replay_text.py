"""The output of `kcm replay`: events, summaries, differences; as text and as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from controller_model.records.event_records import decode_event
from kcm.history.replay_text import MAX_BROKERS, MAX_DIFFERENCES, MAX_PARTITIONS
from tests.support.histories import History, encode_changes, small_cluster
from tests.support.replaying import Run, lines, write


def test_events_of_another_cluster_are_never_printed(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a choice, everything reported is about the chosen cluster."""
    other = History(cluster="alpha")
    other.resync()
    log = write(tmp_path / "log.jsonl", lines([*other.changes, *failover.changes]))
    run = Run(capsys, log, "--cluster", "prod", "--events", "--json")
    *events, snapshot = run.out.splitlines()
    assert {decode_event(line.encode()).cluster for line in events} == {"prod"}
    assert json.loads(snapshot)["cluster"] == "prod"


def test_events_as_json_are_records_and_the_snapshot_is_the_last_line(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each line is as in <prefix>.events, with increasing ids."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    *events, snapshot = Run(capsys, log, "--events", "--json").out.splitlines()
    records = [decode_event(line.encode()) for line in events]
    assert [record.id for record in records] == sorted({record.id for record in records})
    assert {record.cluster for record in records} == {"prod"}
    kinds = [type(record.event).__name__ for record in records]
    assert kinds[:2] == ["Baseline", "Verified"]
    assert "ControllerElected" in kinds
    assert json.loads(snapshot)["controller"]["id"] == 1


def test_events_as_text_are_one_line_each(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A line has the time, the place in the log and the event, with partitions by name; the summary follows."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    out = Run(capsys, log, "--events").out.splitlines()
    assert (
        "1970-01-01T00:16:50.101Z  1:16  LeadersElected broker 0 -> 1, election offline, "
        "1 partition (t-0)"
    ) in out
    assert "cluster     prod" in out


def test_an_unreadable_line_is_printed_as_an_anomaly(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An Anomaly names the line."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes) + b"x\n")
    out = Run(capsys, log, "--events").out
    assert f"Anomaly, path , reason {log}:"[:30] in out


def test_the_summary_is_one_screen(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It has the controller, the figures, the brokers and the problems; without styles in a pipe."""
    failover.set("/admin/preferred_replica_election", {"version": 1, "partitions": []})
    failover.set("/admin/reassign_partitions", {"version": 1, "partitions": []})
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    assert "under min isr not known, at min isr not known" in Run(capsys, log).out
    out = Run(capsys, log, "--assumed-min-insync-replicas", "1").out
    assert "\x1b" not in out
    assert out.splitlines()[:7] == [
        "cluster     prod",
        "as of       1:18, 1970-01-01T00:16:50.121Z",
        "controller  broker 1, epoch 2; elections 2, changes 1, to another broker 1, missed 0",
        "size        topics 1, partitions 2",
        "partitions  offline 0, under replicated 1, under min isr 0, at min isr 0, preferred imbalance 1",
        "under way   reassigning 0, deleting topics 0, preferred election, reassign partitions, notifications 0",
        "log         missed updates 0, unreadable 0, stale 0",
    ]
    rows = [line.split() for line in out.splitlines()[7:11]]
    assert rows[0] == [
        *("broker", "live", "epoch", "registrations", "leaders", "replicas", "preferred"),
        "imbalance",
    ]
    assert rows[1] == ["0", "NO", "101", "1", "0", "2", "1", "100.0%"]
    assert rows[2] == ["1", "yes", "102", "1", "2", "2", "1", "0.0%"]
    assert out.splitlines()[11] == "under-replicated t-0: leader 1, ISR [1,2] of [0,1,2]"
    assert len(out.splitlines()) == 12


def test_the_summary_of_an_empty_cut_log_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nobody, unknown and unnamed are words; a line says why it is incomplete."""
    log = write(tmp_path / "log.jsonl", b'{"path": "/cluster/id", "data": "{\\"id\\": \\"x\\"}"}')
    out = Run(capsys, log).out.splitlines()
    assert out[0] == "cluster     (unnamed)"
    assert out[2].startswith("controller  nobody, epoch unknown; elections 0,")
    assert out[3] == (
        "incomplete  the log does not begin with a resync: what was there before it is not known"
    )
    assert len(out) == 8


def test_a_large_cluster_still_fits_a_screen(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The first of many brokers and partitions are shown, dead and offline ones before the others."""
    history = small_cluster(t={p: (p, 0) for p in range(1, 50)})
    history.topic("r", {0: (2, 1)}, adding={0: (2,)})
    history.state("r", 0, leader=1, isr=[1])
    history.topic("n", {0: (1, 2)})
    history.topic("d", {0: (40,)})
    history.set("/admin/delete_topics/d", b"")
    log = write(tmp_path / "log.jsonl", lines(history.changes))
    out = Run(capsys, log).out.splitlines()
    assert len(out) == 8 + MAX_BROKERS + 1 + MAX_PARTITIONS + 1
    assert out[8].split()[:2] == ["3", "NO"]
    assert out[8 + MAX_BROKERS].split() == ["...", f"{50 - MAX_BROKERS}", "more"]
    assert out[-2].startswith("offline          t-12: leader 12, ISR [12,0] of [12,0]")
    assert out[-1] == f"... and {47 + 1 - MAX_PARTITIONS} more; --json has them all"


def test_the_worst_partitions_come_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The order is offline, under-replicated, reassigning; deleted or not yet created ones are left out."""
    history = small_cluster(a={0: (2, 1)}, b={0: (0, 1)}, c={0: (1, 0)}, d={0: (9,)}, e={0: (1, 2)})
    history.topic("a", {0: (2, 1, 0)}, adding={0: (0,)})
    history.state("b", 0, leader=0, isr=[0])
    history.state("c", 0, leader=-1, isr=[1])
    history.set("/admin/delete_topics/d", b"")
    history.delete("/brokers/topics/e/partitions/0/state")
    log = write(tmp_path / "log.jsonl", lines(history.changes))
    assert Run(capsys, log).out.splitlines()[-3:] == [
        "offline          c-0: leader -1, ISR [1] of [1,0]",
        "under-replicated b-0: leader 0, ISR [0] of [0,1]",
        "reassigning      a-0: leader 2, ISR [2,1] of [2,1,0]",
    ]


def test_a_diff_says_what_changed(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each difference is a line, in either direction; positions and times may be mixed."""
    failover.topic("n", {0: (1,)})
    failover.broker(3)
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    expected = [
        "cluster prod: from 1:11 (1970-01-01T00:16:50.071Z) to 1:18 (1970-01-01T00:16:50.121Z)",
        "controller: id 0 -> 1, epoch 1 -> 2, elections 1 -> 2, changes 0 -> 1, id changes 0 -> 1",
        "broker 0: live yes -> no, leaders 1 -> 0, imbalance ratio 0.000 -> 1.000",
        "broker 1: leaders 1 -> 2, replicas 2 -> 3, preferred 1 -> 2",
    ]
    run = Run(capsys, log, "--diff", "1:11", "1:18")
    out = run.out.splitlines()
    assert out[:4] == expected
    assert out[4].startswith("broker 3: new (live yes, epoch 112, registrations 1, leaders 0,")
    assert out[5:] == [
        (
            "t-0: leader 0 -> 1, isr [0,1,2] -> [1,2], leader epoch 0 -> 1, controller epoch 1 -> 2, "
            "partition epoch 0 -> 1"
        ),
        "topic n: new (1 partition)",
        (
            "counts: topics 1 -> 2, partitions 2 -> 3, under replicated 0 -> 1, "
            "preferred imbalance 0 -> 1"
        ),
    ]
    assert Run(capsys, log, "--diff", "1010071", "1:18").out == run.out
    back = Run(capsys, log, "--diff", "1:18", "1:11").out.splitlines()
    assert back[1].startswith("controller: id 1 -> 0, epoch 2 -> 1")
    assert any(line.startswith("broker 3: gone (live yes") for line in back)
    assert "topic n: gone (1 partition)" in back


def test_control_characters_never_reach_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Names come from znodes, which anybody may have written."""
    history = small_cluster(**{"a\x1b[2J": {0: (9, 0)}})
    history.cluster = "prod"
    history.set("/brokers/topics/b\x07", b"damaged")
    log = write(tmp_path / "log.jsonl", lines(history.changes) + b'{"path": "\x1b[2J\\u001b"}x\n')
    for arguments in (["--events"], ["--diff", "1:1", f"1:{history.seq}"]):
        run = Run(capsys, log, *arguments)
        assert run.code == 0
        assert not set(run.out + run.err) & {"\x1b", "\x07"}
        assert "a?[2J" in run.out


def test_an_empty_diff_is_reported(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """No difference is a valid result."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    out = Run(capsys, log, "--diff", "1:10", "1:11").out.splitlines()
    assert out[1:] == ["nothing differs"]


def test_a_long_diff_is_cut_as_text_and_whole_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Text has a limit on its lines; JSON has none."""
    history = small_cluster()
    seq = history.seq
    for number in range(MAX_DIFFERENCES + 5):
        history.set(f"/brokers/topics/x{number}", {"version": 1, "partitions": {}})
    log = write(tmp_path / "log.jsonl", lines(history.changes))
    arguments = (log, "--diff", f"1:{seq}", f"1:{history.seq}")
    out = Run(capsys, *arguments).out.splitlines()
    assert (len(out), out[-1]) == (MAX_DIFFERENCES + 2, "... and 6 more; --json has them all")
    assert out[1] == "topic x0: new (0 partitions)"
    reported = Run(capsys, *arguments, "--json").json
    assert len(reported["differences"]) == MAX_DIFFERENCES + 6
    assert reported["differences"][-1] == {
        "path": ["counts", "topics"],
        "before": 1,
        "after": MAX_DIFFERENCES + 6,
    }


def test_events_of_a_diff_are_those_between(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Events up to the first place, and after the second, are not printed; line breaks do not matter."""
    failover.broker_gone(2)
    log = write(tmp_path / "log.jsonl", encode_changes(failover.changes))
    last = failover.seq - 1
    run = Run(capsys, log, "--diff", "1:12", f"1:{last}", "--events", "--json")
    *events, _ = run.out.splitlines()
    reported = [decode_event(line.encode()) for line in events]
    assert all(12 < record.id.seq <= last for record in reported)
    assert next(type(record.event).__name__ for record in reported) == "BrokerStopped"


def test_a_closed_pipe_ends_the_command_without_an_error(failover: History, tmp_path: Path) -> None:
    """`kcm replay … | head` ends without a message."""
    failover.heartbeat()
    for number in range(2000):
        failover.set(f"/brokers/topics/x{number}", {"version": 1, "partitions": {}})
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    command = [sys.executable, "-m", "kcm", "replay", log, "--events"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0
