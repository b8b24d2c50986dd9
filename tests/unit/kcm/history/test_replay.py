"""`kcm replay`: what it reads, where it stops, and how it fails."""

from __future__ import annotations

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.support.histories import History, encode_changes
from tests.support.replaying import Run, lines, write


def test_a_log_may_be_lines_arrays_gzip_or_standard_input(
    failover: History,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All forms of one log give the same snapshot, byte by byte."""
    changes = failover.changes
    plain = write(tmp_path / "a.jsonl", lines(changes))
    arrays = write(
        tmp_path / "b.jsonl", encode_changes(changes[:4]) + b"\n\n" + encode_changes(changes[4:])
    )
    packed = write(tmp_path / "c.jsonl.gz", gzip.compress(lines(changes)))
    marked = write(tmp_path / "d.jsonl", b"\xef\xbb\xbf" + lines(changes).replace(b"\n", b"\r\n"))
    expected = Run(capsys, plain, "--json")
    assert expected.json["controller"]["id"] == 1
    for name in (arrays, packed, marked):
        found = Run(capsys, name, "--json")
        assert (found.out, found.err) == (expected.out, "")
    stdin = io.TextIOWrapper(io.BytesIO(lines(changes)))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert Run(capsys, "-", "--json").out == expected.out


def test_several_files_are_one_log(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are read in the order given; in the wrong order, older records are dropped and reported."""
    first = write(tmp_path / "1.jsonl", lines(failover.changes[:9]))
    second = write(tmp_path / "2.jsonl", lines(failover.changes[9:]))
    whole = write(tmp_path / "all.jsonl", lines(failover.changes))
    assert Run(capsys, first, second, "--json").out == Run(capsys, whole, "--json").out
    wrong = Run(capsys, second, first, "--json")
    assert wrong.json["complete"] is False
    assert wrong.err.startswith("kcm: 9 changes were dropped: not newer")


def test_a_record_needs_a_path_and_data_only(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A log of only such records can be replayed: the facts are there, and it is called incomplete."""
    bare = [
        {"path": change.path, "data": change.data, **({} if change.data else {"kind": change.kind})}
        for change in failover.changes
        if change.path
    ]
    log = write(tmp_path / "log.jsonl", b"\n".join(map(msgspec.json.encode, bare)))
    full = Run(capsys, write(tmp_path / "full.jsonl", lines(failover.changes)), "--json").json
    reported = Run(capsys, log, "--json").json
    assert reported["cluster"] is None
    assert reported["complete"] is False
    assert reported["controller"] == full["controller"]
    assert [broker["live"] for broker in reported["brokers"].values()] == [False, True, True]
    for partition in "01":
        found = reported["topics"]["t"]["partitions"][partition]
        expected = full["topics"]["t"]["partitions"][partition]
        assert found == {**expected, "partition_epoch": None}
    assert Run(capsys, log, "--json", "--cluster", "mine").json["cluster"] == "mine"


def test_min_insync_replicas_is_an_option(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """What ZooKeeper does not hold is not known, unless an option or a variable gives it."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    assert Run(capsys, log, "--json").json["counts"]["at_min_isr"] is None
    option = Run(capsys, log, "--json", "--assumed-min-insync-replicas", "2").json
    assert option["counts"]["at_min_isr"] == 1
    monkeypatch.setenv("KCM_ASSUMED_MIN_INSYNC_REPLICAS", "3")
    assert Run(capsys, log, "--json").json["counts"]["under_min_isr"] == 1


@pytest.mark.parametrize("chosen", [[], ["--cluster", "prod"]])
def test_min_insync_replicas_is_of_each_cluster(
    failover: History,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: Any,
    chosen: list[str],
) -> None:
    """The setting is named as for the fold; a cluster that it does not name gets the value for all, if set."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes))

    def at_min_isr(*options: str) -> int | None:
        counts = Run(capsys, log, "--json", *chosen, *options).json["counts"]
        return counts["at_min_isr"]  # type: ignore[no-any-return]  # JSON

    assert at_min_isr("--min-insync-replicas", "stage=1,prod=2") == 1
    assert at_min_isr("--min-insync-replicas", "stage=2") is None
    assert at_min_isr("--min-insync-replicas", "stage=9", "--assumed-min-insync-replicas", "2") == 1
    monkeypatch.setenv("KCM_MIN_INSYNC_REPLICAS", "prod=2")
    assert at_min_isr() == 1


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        ([], "which log? name a FILE, - for standard input, or --from-topic"),
        (["/nowhere/log"], "cannot read /nowhere/log: No such file or directory"),
        (["/"], "/ has no segment (*.log)"),
        (["-", "-"], "standard input (-) can be read only once"),
        (["-", "--from-topic"], "give files or --from-topic, not both"),
        (
            ["-", "--until", "7"],
            "option --until: '7' is not GENERATION:SEQ, such as 68719477000:17",
        ),
        (
            ["-", "--at", "noon"],
            (
                "option --at: 'noon' is no time; write it as 2026-11-21T10:00:00Z, "
                "or as milliseconds since 1970"
            ),
        ),
        (
            ["-", "--at", "2026-11-21T10:00:00"],
            "option --at: '2026-11-21T10:00:00' has no zone; append Z for UTC, or +01:00",
        ),
        (["-", "--diff", "1:1", "x"], "option --diff: 'x' is no time; write it as"),
        (["-", "--until", "1:1", "--at", "5"], "give one of --until and --at, not both"),
        (["-", "--until", "1:1", "--diff", "5", "6"], "give one of --until and --diff, not both"),
        (["-", "--assumed-min-insync-replicas", "0"], "option --assumed-min-insync-replicas: "),
        (["-", "--min-insync-replicas", "prod=0"], "option --min-insync-replicas"),
    ],
)
def test_bad_use_is_one_line(
    arguments: list[str], reported: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The line says what is wrong, where, and what to do; nothing is printed."""
    assert Run(capsys, *arguments).complaint.startswith(reported)


def test_a_bad_file_is_reported_before_anything_is_read(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All names are checked first, including the last."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    nowhere = str(tmp_path / "none")
    complaint = Run(capsys, log, nowhere, "--events").complaint
    assert complaint == f"cannot read {nowhere}: No such file or directory"
