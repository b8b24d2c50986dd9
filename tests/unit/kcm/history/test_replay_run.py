"""Where a replay ends: at a change, at a time, or outside the log."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.support.histories import History
from tests.support.replaying import Run, lines, write


def test_until_and_at_are_places_in_the_log(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The snapshot shows the state at that place: before the election, and after it."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    gone = next(change for change in failover.changes if change.kind == "deleted")
    before = Run(capsys, log, "--json", "--until", f"1:{gone.seq - 1}").json
    assert before["as_of"] == {"generation": 1, "seq": gone.seq - 1}
    assert before["controller"]["id"] == 0
    assert Run(capsys, log, "--json", "--until", f"1:{gone.seq}").json["controller"]["id"] is None
    assert Run(capsys, log, "--json", "--at", str(gone.observed_at - 1)).json == before
    iso = "1970-01-01T00:16:50.080Z"
    assert gone.observed_at == 1_010_081
    assert Run(capsys, log, "--json", "--at", iso).json == before
    assert Run(capsys, log, "--json", "--at", "1970-01-01T01:16:50.080+01:00").json == before


def test_a_place_beyond_the_end_is_reported(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The end of the log is shown, and standard error says that the requested place was not reached."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    run = Run(capsys, log, "--json", "--until", "1:999")
    assert run.json["as_of"]["seq"] == failover.seq
    assert (
        run.err
        == f"kcm: the log ends before 1:999: at 1:{failover.seq}, 1970-01-01T00:16:50.101Z\n"
    )


@pytest.mark.parametrize(
    ("place", "named"),
    [
        (["--until", "0:7"], "0:7: at 1:1, 1970-01-01T00:16:40.071Z"),
        (["--at", "7"], "1970-01-01T00:00:00.007Z: at 1:1, 1970-01-01T00:16:40.071Z"),
        (["--diff", "0:7", "1:3"], "0:7: at 1:1, 1970-01-01T00:16:40.071Z"),
    ],
)
def test_a_place_before_the_beginning_is_an_error(
    place: list[str],
    named: str,
    failover: History,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """There is nothing to show, and the line says where the log begins."""
    log = write(tmp_path / "log.jsonl", lines(failover.changes))
    assert Run(capsys, log, *place).complaint == f"the log begins later than {named}"


def test_late_writes_do_not_move_a_place(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A change of a deposed or foreign watcher is dropped before its time or place is used."""
    late = 10**9
    first = failover.changes[0]
    deposed = msgspec.structs.replace(first, generation=0, observed_at=late)
    foreign = msgspec.structs.replace(first, watcher="w9", seq=100, observed_at=late)
    changes = [*failover.changes[:9], deposed, foreign, *failover.changes[9:]]
    log = write(tmp_path / "log.jsonl", lines(changes))
    clean = Run(capsys, write(tmp_path / "clean.jsonl", lines(failover.changes)), "--json")
    for place in (
        ["--at", str(failover.changes[-1].observed_at)],
        ["--until", f"1:{failover.seq}"],
    ):
        run = Run(capsys, log, "--json", *place)
        assert run.json == clean.json
        assert run.err.startswith("kcm: 2 changes were dropped: ")


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"", "there is no change in the log"),
        (b"\n  \n", "there is no change in the log"),
        (b"[]\n", "there is no change in the log"),
    ],
)
def test_an_empty_log_is_an_error(
    content: bytes, reported: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An empty log gives no snapshot: no cluster and no place are known."""
    log = write(tmp_path / "log.jsonl", content)
    assert Run(capsys, log).complaint == reported
    assert Run(capsys, log, "--json").complaint == reported


def test_several_clusters_need_a_choice(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a choice they are listed; with one the others are ignored."""
    other = History(cluster="alpha")
    other.resync()
    log = write(tmp_path / "log.jsonl", lines([*failover.changes, *other.changes]))
    several = "the log has several clusters; choose one by --cluster: alpha, prod"
    assert Run(capsys, log).complaint == several
    assert Run(capsys, log, "--until", "1:3").complaint == several
    assert Run(capsys, log, "--cluster", "alpha", "--json").json["as_of"]["seq"] == other.seq
    assert Run(capsys, log, "--cluster", "prod", "--json").json["as_of"]["seq"] == failover.seq
    missing = "there is no change of cluster beta in the log; it has: alpha, prod"
    assert Run(capsys, log, "--cluster", "beta").complaint == missing
