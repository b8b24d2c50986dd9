"""Bundles: which part of a log an incident needs, which events, and the file that holds them."""

from __future__ import annotations

import contextlib
import json
import zipfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller_model.kafka.ids import Position
from controller_model.records.changes import ZnodeChange, encode_change, encode_changes
from controller_model.records.event_records import encode_event, number
from controller_model.records.events import AnyEvent
from kcm.__main__ import main
from kcm.history.bundle_events import IncidentEvents
from kcm.history.bundle_file import (
    LOG_NAME,
    MANIFEST_NAME,
    VERSION,
    Manifest,
    Versions,
    is_bundle,
    read_manifest,
    write_bundle,
)
from kcm.history.bundle_log import IncidentLog
from pipeline.runtime import UsageError
from tests.support.histories import Fold, History, small_cluster


def two_resyncs() -> tuple[History, ZnodeChange, ZnodeChange]:
    """Return a history, and the first and last record of its second resync."""
    history = small_cluster()
    history.heartbeat()
    history.resync()
    started = next(c for c in reversed(history.changes) if c.kind == "resync_started")
    finished = history.changes[-1]
    history.heartbeat()
    history.broker_gone(0)
    history.elect(1)
    return history, started, finished


def cut(
    folder: Path,
    changes: Iterable[ZnodeChange],
    *,
    from_ms: int,
    to_ms: int = 10**15,
    cluster: str | None = "prod",
    at_a_time: int = 3,
) -> IncidentLog:
    """Return what is kept of a log that comes in messages."""
    log = IncidentLog(folder, cluster, from_ms=from_ms, to_ms=to_ms)
    records = list(changes)
    for start in range(0, len(records), at_a_time):
        log.take(encode_changes(records[start : start + at_a_time]))
    return log


def kept(log: IncidentLog) -> list[int]:
    """Return the seqs of what is kept."""
    return [json.loads(line)["seq"] for line in log.lines()]


def seqs(first: int, last: int) -> list[int]:
    """Return all seqs from one to another."""
    return list(range(first, last + 1))


@pytest.mark.parametrize("at_a_time", [1, 2, 7, 100])
def test_the_log_begins_at_the_last_resync_that_ended_before(
    at_a_time: int, tmp_path: Path
) -> None:
    """Whatever the messages are; the earlier part is not kept, on disk neither."""
    history, started, finished = two_resyncs()
    log = cut(tmp_path, history.changes, from_ms=finished.observed_at, at_a_time=at_a_time)
    assert kept(log) == seqs(started.seq, history.seq)
    assert (log.first, log.first_at) == (started.position, started.observed_at)
    assert (log.at_from, log.is_anchored) == (finished.position, True)
    assert log.changes == history.seq - started.seq + 1
    assert len(list(tmp_path.iterdir())) == 1
    log.close()


def test_a_resync_that_ends_later_is_not_the_beginning(tmp_path: Path) -> None:
    """Before its end not all of it is known: the one before it is taken."""
    history, _, finished = two_resyncs()
    history.changes[:] = [
        msgspec.structs.replace(
            change, observed_at=change.observed_at + (change.seq >= finished.seq)
        )
        for change in history.changes
    ]
    log = cut(tmp_path, history.changes, from_ms=finished.observed_at)
    assert kept(log) == seqs(1, history.seq)
    assert log.is_anchored
    log.close()


def test_a_resync_that_was_in_vain_is_not_the_beginning(tmp_path: Path) -> None:
    """One with a hole in it proves nothing."""
    history, started, finished = two_resyncs()
    changes = [change for change in history.changes if change.seq != started.seq + 2]
    log = cut(tmp_path, changes, from_ms=finished.observed_at)
    assert kept(log)[0] == 1
    log.close()


def test_without_a_resync_before_it_the_log_is_not_anchored(tmp_path: Path) -> None:
    """All that there is is kept, from its first change on."""
    history, started, _ = two_resyncs()
    log = cut(tmp_path, history.changes[started.seq :], from_ms=history.now)
    assert kept(log) == seqs(started.seq + 1, history.seq)
    assert (log.is_anchored, log.at_from) == (False, Position(1, history.seq - 2))
    log.close()


def test_a_log_that_begins_later_has_nothing_at_the_beginning(tmp_path: Path) -> None:
    """There is no change up to --from."""
    history, _, _ = two_resyncs()
    log = cut(tmp_path, history.changes, from_ms=5)
    assert (log.at_from, log.is_anchored, kept(log)) == (None, False, seqs(1, history.seq))
    log.close()


def test_the_log_ends_with_the_incident(tmp_path: Path) -> None:
    """The first change after --to ends it, also in the middle of a message."""
    history, started, finished = two_resyncs()
    last = finished.seq + 1
    end = history.changes[last - 1].observed_at
    log = cut(tmp_path, history.changes, from_ms=finished.observed_at, to_ms=end, at_a_time=50)
    assert kept(log) == seqs(started.seq, last)
    assert log.is_over
    assert log.last is not None
    assert log.last.seq == last
    log.take(encode_changes(history.changes[:1]))
    log.take(b"damaged")
    assert (kept(log), log.unreadable) == (seqs(started.seq, last), 0)
    log.close()


def test_a_clock_that_goes_back_brings_nothing_before_the_incident(tmp_path: Path) -> None:
    """As in replay: what follows a later time is later."""
    history, _, finished = two_resyncs()
    history.heartbeat(after_ms=-60_000)
    log = cut(tmp_path, history.changes, from_ms=finished.observed_at)
    assert log.at_from == finished.position
    log.close()


def with_late_ones(history: History, started: ZnodeChange) -> list[ZnodeChange]:
    """Return a log in which late writers whose clocks are ahead stand, in its second resync."""
    late = 10**14
    first = history.changes[0]
    deposed = msgspec.structs.replace(first, generation=0, seq=500, observed_at=late)
    foreign = msgspec.structs.replace(first, watcher="w9", seq=900, observed_at=late)
    again = msgspec.structs.replace(started, observed_at=late)
    in_time = msgspec.structs.replace(first, watcher="w9", seq=901)
    middle = started.seq + 1
    return [*history.changes[:middle], deposed, foreign, again, in_time, *history.changes[middle:]]


def test_what_replay_drops_neither_ends_nor_begins_anything(tmp_path: Path) -> None:
    """It is kept, so that the bundle's replay counts it too; the rest is as without it."""
    history, started, finished = two_resyncs()
    begin = finished.observed_at
    clean = cut(tmp_path, history.changes, from_ms=begin)
    folder = tmp_path / "late"
    folder.mkdir()
    changes = with_late_ones(history, started)
    log = cut(folder, changes, from_ms=begin, to_ms=history.now + 1, at_a_time=1)
    assert log.is_over is False
    assert (log.first, log.first_at, log.last) == (clean.first, clean.first_at, clean.last)
    assert (log.at_from, log.is_anchored) == (finished.position, True)
    assert log.changes == clean.changes + 4
    own = [seq for seq in kept(log) if seq not in {500, 900, 901}]
    assert sorted(own) == sorted([*kept(clean), started.seq])
    assert len(list(folder.iterdir())) == 1
    clean.close()
    log.close()


def test_a_late_write_before_the_end_does_not_cut_the_rest(tmp_path: Path) -> None:
    """Only a change that the replay takes can be after the incident."""
    history, started, finished = two_resyncs()
    end = finished.observed_at
    changes = with_late_ones(history, started)
    log = cut(tmp_path, changes, from_ms=started.observed_at, to_ms=end)
    assert log.last is not None
    assert (log.last.seq, log.is_over) == (finished.seq, True)
    log.close()


def test_other_clusters_are_left_out_and_named(tmp_path: Path) -> None:
    """Without a choice the first one is taken."""
    history, _, _ = two_resyncs()
    other = History(cluster="alpha")
    other.resync()
    mixed = [*other.changes, *history.changes]
    log = cut(tmp_path, mixed, from_ms=history.now)
    assert {json.loads(line)["cluster"] for line in log.lines()} == {"prod"}
    assert log.replay.clusters == {"prod", "alpha"}
    log.close()
    first = cut(tmp_path, mixed, from_ms=history.now, cluster=None)
    assert first.replay.cluster == "alpha"
    assert {json.loads(line)["cluster"] for line in first.lines()} == {"alpha"}
    first.close()


def test_damage_is_kept_as_it_is_and_counted(tmp_path: Path) -> None:
    """A replay of the bundle must find it too: before the first change, and in a message."""
    history, _, _ = two_resyncs()
    log = IncidentLog(tmp_path, "prod", from_ms=5, to_ms=10**15)
    log.take(b"no\njson")
    log.take(b'[{"path": 1}, ' + encode_changes(history.changes[:2])[1:])
    log.take(b"[" + encode_change(history.changes[2]) + b', {"v": 9, "path": "/a"}]')
    assert log.unreadable == 3
    assert (log.changes, len(list(log.lines()))) == (3, 6)
    assert next(log.lines()) == b"no json\n"
    log.close()


def test_nothing_is_nothing(tmp_path: Path) -> None:
    """Before the first change there is no part."""
    log = IncidentLog(tmp_path, None, from_ms=1, to_ms=2)
    assert (log.first, log.first_at, log.last, log.changes, list(log.lines())) == (
        *(None, None, None, 0),
        [],
    )
    log.close()


def events_of(history: History) -> Sequence[AnyEvent]:
    """Return what happened in a history."""
    return Fold().follow(history)


def test_events_of_the_incident_are_kept_once() -> None:
    """By time, of this cluster, and what a batch told twice only once."""
    history, _, finished = two_resyncs()
    records = number("prod", "l1", events_of(history))
    other = number("alpha", "l1", events_of(small_cluster()))
    begin = next(r.event.at for r in records if type(r.event).__name__ == "ControllerVacated")
    events = IncidentEvents("prod", from_ms=begin, to_ms=begin + 5)
    for record in [*records, *other, *records]:
        events.take(encode_event(record))
    kinds = [json.loads(line)["event"]["kind"] for line in events.kept]
    assert kinds == ["ControllerVacated", "BrokerStopped"]
    assert events.missing("kcm.events", is_cut=False) == []
    assert finished.observed_at < begin


def test_missing_events_are_told() -> None:
    """None at all, an earlier part that is gone, damage, and two lineages: each a line."""
    history, _, _ = two_resyncs()
    told = events_of(history)
    empty = IncidentEvents("prod", from_ms=0, to_ms=10**15)
    assert empty.missing("kcm.events", is_cut=True) == [
        "kcm.events has no event of the cluster: the fold has published none"
    ]
    earliest = min(event.at for event in told)
    for from_ms, is_cut, count in ((earliest - 1, True, 1), (earliest, True, 0), (0, False, 0)):
        events = IncidentEvents("prod", from_ms=from_ms, to_ms=10**15)
        for record in number("prod", "l1", told):
            events.take(encode_event(record))
        assert len(events.missing("kcm.events", is_cut=is_cut)) == count
    events.take(b"damaged")
    for record in number("prod", "l2", told):
        events.take(encode_event(record))
    assert events.missing("kcm.events", is_cut=False) == [
        "1 events cannot be read",
        "the events are of 2 lineages: a later one publishes again what an earlier one published",
    ]


def manifest(**fields: Any) -> Manifest:
    """Return a manifest."""
    return Manifest(
        **{
            "v": VERSION,
            "cluster": "prod",
            "from_ms": 1,
            "to_ms": 2,
            "log_first": Position(1, 1),
            "log_last": Position(1, 2),
            "at_from": None,
            "changes": 2,
            "events": 0,
            "topics": ("a", "b"),
            "versions": Versions(kcm="0.1.0"),
            "made_at": 3,
            **fields,
        }
    )


def packed(path: Path, changes: Iterable[ZnodeChange], **fields: Any) -> Path:
    """Write a bundle of a log."""
    write_bundle(
        path,
        manifest(**fields),
        log=map(encode_change, changes),
        events=(),
        before=None,
        after=b"{}",
    )
    return path


def test_a_bundle_replays_whatever_its_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Replay finds it out by its content, tells what it lacks, and takes its assumption."""
    history = small_cluster(t={0: (0, 1)})
    path = packed(
        tmp_path / "incident.gz",
        history.changes,
        missing=("the beginning",),
        assumed_min_insync_replicas=2,
    )
    assert is_bundle(path)
    assert main(["replay", str(path), "--json"]) == 0
    captured = capsys.readouterr()
    assert captured.err == f"kcm: {path}: missing: the beginning\n"
    assert json.loads(captured.out)["counts"]["at_min_isr"] == 1
    assert read_manifest(path) == manifest(
        missing=("the beginning",), assumed_min_insync_replicas=2
    )
    assert main(["replay", str(path), "--json", "--assumed-min-insync-replicas", "1"]) == 0
    assert json.loads(capsys.readouterr().out)["counts"]["at_min_isr"] == 0


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ({}, "is a zip without manifest.json or changes.jsonl"),
        ({MANIFEST_NAME: b"{}"}, "is no bundle of kcm"),
        ({MANIFEST_NAME: msgspec.json.encode(manifest())}, "is a zip without"),
        (
            {MANIFEST_NAME: msgspec.json.encode(manifest(v=2)), LOG_NAME: b""},
            "is a bundle of layout 2; this release reads 1",
        ),
    ],
)
def test_another_zip_is_no_bundle(
    members: dict[str, bytes], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is told in one line that names the file."""
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("other", b"x")
        for name, content in members.items():
            file.writestr(name, content)
    assert main(["replay", str(path)]) == 2
    captured = capsys.readouterr()
    assert captured.err.startswith(f"kcm: {path} {told}")
    assert len(captured.err.splitlines()) == 1


def test_a_damaged_zip_is_no_bundle(tmp_path: Path) -> None:
    """A beginning alone is not enough."""
    path = tmp_path / "a.zip"
    path.write_bytes(b"PK\x03\x04 and no more")
    with pytest.raises(UsageError, match=r"is no bundle of kcm"):
        read_manifest(path)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_a_damaged_manifest_is_no_bundle(tmp_path: Path, compression: int) -> None:
    """Whatever is damaged in it, it is told, and nothing else is raised."""
    path = tmp_path / "a.zip"
    text = msgspec.json.encode(manifest())
    with zipfile.ZipFile(path, "w", compression) as file:
        file.writestr(MANIFEST_NAME, text)
        file.writestr(LOG_NAME, b"")
        begin = file.getinfo(MANIFEST_NAME).header_offset + 30 + len(MANIFEST_NAME)
        size = file.getinfo(MANIFEST_NAME).compress_size
    whole = path.read_bytes()
    for at in (*range(begin), begin + 1, begin + size // 2, begin + size - 1):
        damaged = bytearray(whole)
        damaged[at] ^= 0xFF
        path.write_bytes(damaged)
        with contextlib.suppress(UsageError):
            assert read_manifest(path) == manifest()  # what a zip says twice is read once


def test_what_is_not_there_is_no_bundle(tmp_path: Path) -> None:
    """Whether a file is there is told elsewhere."""
    assert not is_bundle(tmp_path / "nothing")


def test_an_unfinished_bundle_leaves_nothing(tmp_path: Path) -> None:
    """Neither under its name nor beside it."""

    def broken() -> Iterable[bytes]:
        yield b"{}"
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.zip"
    with pytest.raises(UsageError, match=r"cannot write .*a\.zip: No space left on device"):
        write_bundle(path, manifest(), log=broken(), events=(), before=None, after=b"{}")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--from", "5", "--to", "4"], "--from 5 is after --to 4"),
        (["--from", "now", "--to", "4"], "option --from: 'now' is no time"),
        (["--from", "1", "--to", "later"], "option --to: 'later' is no time"),
        (["--from", "1"], "Missing option '--to'"),
        (["--from", "1", "--to", "2", "--output", "/nowhere/a.zip"], "cannot write /nowhere/a.zip"),
        (["--from", "1", "--to", "2", "--output", "/"], "/ exists already"),
    ],
)
def test_bad_use_is_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before any server is asked."""
    assert main(["bundle", *arguments]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"kcm: {told}")
