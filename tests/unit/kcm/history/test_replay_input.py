"""`kcm replay` of damaged logs: what can be read is read, and the rest is reported with its place."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from pathlib import Path

import pytest

from controller_model.history.log_replay import UNREADABLE
from controller_model.records.changes import encode_change
from kcm.history.bundle_file import LOG_NAME, write_bundle
from kcm.history.replay_input import Line, _lines
from kcm.history.replay_run import MAX_DAMAGE_SHOWN
from tests.support.bundles import manifest
from tests.support.histories import History
from tests.support.replaying import Run, failing_over, lines, write


def test_damage_is_reported_with_its_place_and_counted(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The replay continues; the gap that the fold finds is what makes the snapshot incomplete."""
    content = [encode_change(change) for change in failover.changes]
    content[3] = b"damaged"
    content[12] = b'[{"path": 1}, {"path": 2}]'
    log = write(tmp_path / "log.jsonl", b"\n".join(content))
    run = Run(capsys, log, "--json")
    first, second = run.err.splitlines()
    assert first.startswith(f"kcm: {log}:4: unreadable, skipped: not a change: ")
    assert second.startswith(f"kcm: {log}:13: unreadable, skipped: 2 records: not a change: ")
    assert run.json["counts"]["unreadable"] == 3
    assert run.json["complete"] is False
    assert run.json["as_of"]["seq"] == failover.seq


def test_much_damage_is_not_reported_line_by_line(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One screen of lines is enough; all damage is counted."""
    log = write(tmp_path / "log.jsonl", b"x\n" * 50 + lines(failover.changes))
    run = Run(capsys, log, "--json")
    assert len(run.err.splitlines()) == MAX_DAMAGE_SHOWN + 1
    assert run.err.splitlines()[-1] == (
        f"kcm: {log}:{MAX_DAMAGE_SHOWN + 1}: more that is unreadable is counted only"
    )
    assert run.json["counts"]["unreadable"] == 50


@pytest.mark.parametrize("cut", [30, 400])
def test_a_gzip_that_ends_early_is_read_as_far_as_it_goes(
    cut: int, failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was unpacked counts; the next file is read all the same."""
    packed = gzip.compress(lines(failover.changes))
    broken = write(tmp_path / "a.jsonl.gz", packed[:cut])
    whole = write(tmp_path / "b.jsonl", lines(failover.changes))
    run = Run(capsys, broken, whole, "--json")
    assert "cannot be unpacked from here on" in run.err.splitlines()[0]
    assert run.json["counts"]["unreadable"] == 1
    assert run.json["as_of"]["seq"] == failover.seq


def long_log() -> list[bytes]:
    """Return a log that is too long to be unpacked in one read."""
    history = failing_over()
    for number in range(3000):
        history.heartbeat(zookeeper=f"host-{number * number * 7919 % 99991}:2181")
    return [encode_change(change) + b"\n" for change in history.changes]


def pack(path: Path, log: list[bytes]) -> None:
    """Write a bundle of a log."""
    write_bundle(path, manifest(), log=log, events=(), before=None, after=b"{}")


@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 0.999])
def test_all_that_can_be_unpacked_is_read(
    share: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is read up to the last complete line before a gzip breaks off; that place is reported."""
    content = long_log()
    packed = gzip.compress(b"".join(content))
    packed = packed[: int(len(packed) * share)]
    whole = zlib.decompressobj(31).decompress(packed).count(b"\n")
    assert 0 < whole < len(content)
    log = write(tmp_path / "log.jsonl.gz", packed)
    run = Run(capsys, log, "--json")
    assert run.json["as_of"]["seq"] == whole
    assert run.json["counts"]["unreadable"] == 1
    assert run.json["complete"] is False
    (reported,) = run.err.splitlines()
    assert reported.startswith(
        f"kcm: {log}:{whole + 1}: unreadable, skipped: cannot be unpacked from here on: "
    )


def test_a_last_line_that_is_whole_without_its_end_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A gzip without its checksum loses no line, only the certainty that it is complete."""
    content = long_log()
    log = write(tmp_path / "log.jsonl.gz", gzip.compress(b"".join(content)[:-1])[:-5])
    run = Run(capsys, log, "--json")
    assert run.json["as_of"]["seq"] == len(content)
    assert (run.json["counts"]["unreadable"], run.json["complete"]) == (1, False)
    assert f"kcm: {log}:{len(content) + 1}: unreadable" in run.err


def test_the_log_of_a_damaged_bundle_is_read_as_far_as_it_goes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Damage within a member loses what follows it, and a few lines before it."""
    content = long_log()
    path = tmp_path / "incident.zip"
    pack(path, content)
    whole = Run(capsys, str(path), "--json")
    assert (whole.json["as_of"]["seq"], whole.json["complete"], whole.err) == (
        *(len(content), True, ""),
    )
    with zipfile.ZipFile(path) as bundle:
        member = bundle.getinfo(LOG_NAME)
    middle = member.header_offset + member.compress_size // 2
    damaged = path.read_bytes()
    path.write_bytes(damaged[:middle] + b"\xff" * 64 + damaged[middle + 64 :])
    run = Run(capsys, str(path), "--json")
    assert run.json["as_of"]["seq"] > len(content) // 3
    assert run.json["complete"] is False
    assert "cannot be unpacked from here on" in run.err.splitlines()[-1]
    assert len(run.err.splitlines()) <= MAX_DAMAGE_SHOWN + 2


def test_a_bundle_whose_log_cannot_be_opened_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its manifest can be read, but nothing else: one line and never a traceback."""
    path = tmp_path / "incident.zip"
    pack(path, long_log())
    with zipfile.ZipFile(path) as bundle:
        at = bundle.getinfo(LOG_NAME).header_offset
    content = path.read_bytes()
    path.write_bytes(content[:at] + b"XX" + content[at + 2 :])
    complaint = Run(capsys, str(path), "--json").complaint
    assert complaint.startswith(f"{path} is not a kcm bundle: Bad magic number")


@pytest.mark.parametrize("at_once", [1, 2, 3, 7, 1 << 20])
def test_lines_are_the_same_however_much_is_read_at_once(at_once: int) -> None:
    """Blank lines are skipped but counted; a byte order mark is not part of the first line."""
    content = b"\xef\xbb\xbf{}\n\n  \r\n[]\r\n\n7\n\n{ }"
    read = list(_lines("f", io.BytesIO(content), at_once))
    assert read == [
        Line("f:1", b"{}"),
        Line("f:4", b"[]\r"),
        Line("f:6", b"7"),
        Line("f:8", b"{ }"),
    ]
    assert list(_lines("f", io.BytesIO(b"a\n"), at_once)) == [Line("f:1", b"a")]


def test_a_file_that_cannot_be_read_on_is_damage() -> None:
    """What was read before is kept; the line that was begun is not."""

    class Failing(io.BytesIO):
        def read1(self, size: int | None = -1, /) -> bytes:
            data = super().read1(size)
            if not data:
                raise OSError(5, "Input/output error")
            return data

    first, damage = _lines("f", Failing(b'{}\n{"path"'), 4)
    assert first == Line("f:1", b"{}")
    assert damage == Line("f:2", b"", "cannot be read from here on: Input/output error")


DAMAGED_ENDS = [b"x", b"{", b'{"v":2,"path":"/a"}', b'[{"path":1}]']


@pytest.mark.parametrize("damaged", DAMAGED_ENDS)
def test_damage_at_the_end_leaves_the_end_open(
    damaged: bytes, failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The records it held are unknown; in the middle of a log, the change after it can show that."""
    content = lines(failover.changes)
    end = write(tmp_path / "end.jsonl", content + damaged)
    run = Run(capsys, end, "--json")
    assert (run.json["complete"], run.json["incomplete_reason"]) == (False, UNREADABLE)
    heartbeats = [change for change in failover.changes if change.kind == "heartbeat"]
    before, after = content.split(encode_change(heartbeats[0]), 1)
    middle = before + damaged + b"\n" + encode_change(heartbeats[0]) + after
    inserted = Run(capsys, write(tmp_path / "middle.jsonl", middle), "--json").json
    assert (inserted["complete"], inserted["counts"]["unreadable"]) == (True, 1)
    replaced = Run(
        capsys, write(tmp_path / "replaced.jsonl", before + damaged + after), "--json"
    ).json
    assert replaced["incomplete_reason"].startswith("a hole in the log: ")


def test_damage_at_the_end_of_an_array_leaves_the_end_open(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Changes before it in its line prove nothing; those after it do."""
    *before, last = map(encode_change, failover.changes)
    for array, complete in ((b'[%s,{"path":1}]', False), (b'[{"path":1},%s]', True)):
        content = b"\n".join([*before, array % last])
        run = Run(capsys, write(tmp_path / "log.jsonl", content), "--json")
        assert (run.json["complete"], run.json["counts"]["unreadable"]) == (complete, 1)


def test_a_gzip_by_name_alone_is_damage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], failover: History
) -> None:
    """A file that is named .gz and is not gzip cannot be unpacked."""
    log = write(tmp_path / "log.jsonl.gz", lines(failover.changes))
    assert Run(capsys, log).complaint.startswith(
        f"nothing in the log is a readable change: {log}:1: unreadable, skipped: cannot be unpacked"
    )


def test_damage_in_a_message_of_another_cluster_is_not_counted(
    failover: History, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message belongs to one cluster: its readable changes show which."""
    foreign = b'[{"cluster": "alpha", "path": "/controller", "kind": "deleted"}, {"path": 1}]\n'
    own = b'[{"cluster": "prod", "path": "/feature", "kind": "deleted"}, {"path": 1}]\n'
    unnamed = b'[{"path": "/feature", "kind": "deleted"}, {"path": 1}]\n'
    log = write(tmp_path / "log.jsonl", lines(failover.changes) + foreign + own + unnamed + b"x\n")
    run = Run(capsys, log, "--cluster", "prod", "--json")
    assert run.json["counts"]["unreadable"] == 3
    places = [line.split(": ")[1] for line in run.err.splitlines()]
    last = failover.seq
    assert places == [f"{log}:{last + 2}", f"{log}:{last + 3}", f"{log}:{last + 4}"]
