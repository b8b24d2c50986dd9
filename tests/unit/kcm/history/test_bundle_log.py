"""The log of an incident: where it begins and ends, and what it leaves out."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest

from controller_model.kafka.ids import Position
from controller_model.records.changes import ZnodeChange, encode_change
from controller_model.records.election_requests import encode_request
from kcm.history.bundle_log import IncidentLog
from tests.support.bundles import two_resyncs
from tests.support.histories import History, election_request, encode_changes


@pytest.fixture(autouse=True)
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of everything that is kept on disk."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def cut(
    changes: Iterable[ZnodeChange],
    *,
    from_ms: int,
    to_ms: int = 10**15,
    cluster: str | None = "prod",
    at_a_time: int = 3,
) -> IncidentLog:
    """Return the log that is kept from these messages."""
    log = IncidentLog(cluster, from_ms=from_ms, to_ms=to_ms)
    records = list(changes)
    for start in range(0, len(records), at_a_time):
        log.add_message(encode_changes(records[start : start + at_a_time]))
    return log


def kept(log: IncidentLog) -> list[int]:
    """Return the seqs of the kept changes."""
    return [json.loads(line)["seq"] for line in log.lines()]


def seqs(first: int, last: int) -> list[int]:
    """Return all seqs from one to another."""
    return list(range(first, last + 1))


@pytest.mark.parametrize("at_a_time", [1, 2, 7, 100])
def test_the_log_begins_at_the_last_resync_that_ended_before(at_a_time: int, disk: Path) -> None:
    """This does not depend on the messages; the earlier part is kept neither in memory nor on disk."""
    history, started, finished = two_resyncs()
    log = cut(history.changes, from_ms=finished.observed_at, at_a_time=at_a_time)
    assert kept(log) == seqs(started.seq, history.seq)
    assert log.first is not None
    assert log.first.position == started.position
    assert log.first.observed_at == started.observed_at
    assert (log.at_from, log.is_anchored) == (finished.position, True)
    assert log.changes == history.seq - started.seq + 1
    assert len(list(disk.iterdir())) == 1
    log.close()
    assert not list(disk.iterdir())


def test_a_resync_that_ends_later_is_not_the_beginning() -> None:
    """Before its end not everything is known, so the resync before it is taken."""
    history, _, finished = two_resyncs()
    history.changes[:] = [
        msgspec.structs.replace(
            change, observed_at=change.observed_at + (change.seq >= finished.seq)
        )
        for change in history.changes
    ]
    log = cut(history.changes, from_ms=finished.observed_at)
    assert kept(log) == seqs(1, history.seq)
    assert log.is_anchored
    log.close()


def test_a_resync_with_a_gap_is_not_the_beginning() -> None:
    """A resync with a gap proves nothing."""
    history, started, finished = two_resyncs()
    changes = [change for change in history.changes if change.seq != started.seq + 2]
    log = cut(changes, from_ms=finished.observed_at)
    assert kept(log)[0] == 1
    log.close()


def test_without_a_resync_before_it_the_log_is_not_anchored() -> None:
    """The whole log is kept, from its first change on."""
    history, started, _ = two_resyncs()
    log = cut(history.changes[started.seq :], from_ms=history.now)
    assert kept(log) == seqs(started.seq + 1, history.seq)
    assert (log.is_anchored, log.at_from) == (False, Position(1, history.seq - 2))
    log.close()


def test_a_log_that_begins_later_has_nothing_at_the_beginning() -> None:
    """There is no change up to --from."""
    history, _, _ = two_resyncs()
    log = cut(history.changes, from_ms=5)
    assert (log.at_from, log.is_anchored, kept(log)) == (None, False, seqs(1, history.seq))
    log.close()


def test_the_log_ends_with_the_incident() -> None:
    """The first change after --to ends it, also within a message."""
    history, started, finished = two_resyncs()
    last = finished.seq + 1
    end = history.changes[last - 1].observed_at
    log = cut(history.changes, from_ms=finished.observed_at, to_ms=end, at_a_time=50)
    assert kept(log) == seqs(started.seq, last)
    assert log.is_over
    assert log.last is not None
    assert log.last.position.seq == last
    log.add_message(encode_changes(history.changes[:1]))
    log.add_message(b"damaged")
    assert (kept(log), log.unreadable) == (seqs(started.seq, last), 0)
    log.close()


def test_a_clock_that_goes_back_brings_nothing_before_the_incident() -> None:
    """As in replay, a change that follows a later time counts as later."""
    history, _, finished = two_resyncs()
    history.heartbeat(after_ms=-60_000)
    log = cut(history.changes, from_ms=finished.observed_at)
    assert log.at_from == finished.position
    log.close()


def with_late_ones(history: History, started: ZnodeChange) -> list[ZnodeChange]:
    """Return a log whose second resync contains records of late writers with clocks that are ahead."""
    late = 10**14
    first = history.changes[0]
    deposed = msgspec.structs.replace(first, generation=0, seq=500, observed_at=late)
    foreign = msgspec.structs.replace(first, watcher="w9", seq=900, observed_at=late)
    again = msgspec.structs.replace(started, observed_at=late)
    in_time = msgspec.structs.replace(first, watcher="w9", seq=901)
    middle = started.seq + 1
    return [*history.changes[:middle], deposed, foreign, again, in_time, *history.changes[middle:]]


def test_records_that_replay_drops_do_not_move_the_begin_or_end_of_the_log(disk: Path) -> None:
    """It is kept, so that the bundle's replay also counts it; the rest is as without it."""
    history, started, finished = two_resyncs()
    begin = finished.observed_at
    clean = cut(history.changes, from_ms=begin)
    changes = with_late_ones(history, started)
    log = cut(changes, from_ms=begin, to_ms=history.now + 1, at_a_time=1)
    assert log.is_over is False
    assert (log.first, log.last) == (clean.first, clean.last)
    assert (log.at_from, log.is_anchored) == (finished.position, True)
    assert log.changes == clean.changes + 4
    own = [seq for seq in kept(log) if seq not in {500, 900, 901}]
    assert sorted(own) == sorted([*kept(clean), started.seq])
    assert len(list(disk.iterdir())) == 2
    clean.close()
    log.close()


def test_a_late_write_before_the_end_does_not_cut_the_rest() -> None:
    """Only a change that the replay takes can be after the incident."""
    history, started, finished = two_resyncs()
    end = finished.observed_at
    changes = with_late_ones(history, started)
    log = cut(changes, from_ms=started.observed_at, to_ms=end)
    assert log.last is not None
    assert (log.last.position.seq, log.is_over) == (finished.seq, True)
    log.close()


def test_other_clusters_are_left_out_and_named() -> None:
    """Without a choice the first cluster is taken."""
    history, _, _ = two_resyncs()
    other = History(cluster="alpha")
    other.resync()
    mixed = [*other.changes, *history.changes]
    log = cut(mixed, from_ms=history.now)
    assert {json.loads(line)["cluster"] for line in log.lines()} == {"prod"}
    assert log.replay.clusters == {"prod", "alpha"}
    log.close()
    first = cut(mixed, from_ms=history.now, cluster=None)
    assert first.replay.cluster == "alpha"
    assert {json.loads(line)["cluster"] for line in first.lines()} == {"alpha"}
    first.close()


def test_damage_is_kept_as_it_is_and_counted() -> None:
    """A replay of the bundle must find the same damage, before the first change or within a message."""
    history, _, _ = two_resyncs()
    log = IncidentLog("prod", from_ms=5, to_ms=10**15)
    log.add_message(b"no\njson")
    log.add_message(b'[{"path": 1}, ' + encode_changes(history.changes[:2])[1:])
    log.add_message(b"[" + encode_change(history.changes[2]) + b', {"v": 9, "path": "/a"}]')
    assert log.unreadable == 3
    assert (log.changes, len(list(log.lines()))) == (3, 6)
    assert next(log.lines()) == b"no json\n"
    log.close()


def test_an_incident_log_without_changes_is_empty() -> None:
    """Before the first change nothing is kept."""
    log = IncidentLog(None, from_ms=1, to_ms=2)
    assert (log.first, log.last, log.changes, list(log.lines())) == (None, None, 0, [])
    log.close()


def test_a_request_is_kept_with_the_changes_around_it(disk: Path) -> None:
    """The bundle's replay then attributes the same elections; the request does not count as a change."""
    history, _, finished = two_resyncs()
    log = IncidentLog("prod", from_ms=finished.observed_at, to_ms=10**15)
    request = encode_request(election_request("t", 0))
    log.add_message(request)
    log.add_message(encode_changes(history.changes))
    count = log.changes
    log.add_message(request)
    log.add_message(encode_request(election_request("t", 0, cluster="other")))
    history.heartbeat()
    log.add_message(encode_changes(history.changes[-1:]))
    assert (log.changes, log.unreadable) == (count + 1, 0)
    *_, before, last = (json.loads(line) for line in log.lines())
    assert (before["kind"], last["kind"]) == ("election_requested", "heartbeat")
    assert sum(b"election_requested" in line for line in log.lines()) == 1
    log.close()
    assert not any(disk.iterdir())
