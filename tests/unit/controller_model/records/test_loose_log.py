"""Lines of any log: absent fields are not checked, damaged records are counted and affect no others."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from controller_model.kafka.ids import Position
from controller_model.records.changes import ChangeKind, encode_change
from controller_model.records.election_requests import encode_request
from controller_model.records.loose_log import ABSENT, LooseChange, complete, decode_line
from tests.support.histories import election_request, encode_changes, small_cluster


def line(*records: Any) -> bytes:
    """Return one line that holds the records as an array."""
    return json.dumps(records).encode()


def filled(record: dict[str, Any], **known: Any) -> LooseChange:
    """Return a record with its missing fields filled in; by default after 7:12 at 1000 ms, by watcher w1."""
    (change,) = decode_line(json.dumps(record).encode()).changes
    before = {"after": Position(7, 12), "watcher": "w1", "now": 1000, **known}
    return complete(change, **before)


def test_a_line_is_a_record_or_an_array_of_them() -> None:
    """Both forms give the same changes, in order, field by field."""
    changes = small_cluster().changes
    (alone,) = decode_line(encode_change(changes[1])).changes
    together = decode_line(encode_changes(changes))
    assert len(together.changes) == len(changes)
    assert together.unreadable == 0
    assert together.changes[1] == alone
    assert msgspec.structs.asdict(alone) == msgspec.structs.asdict(changes[1])


def test_a_complete_record_stays_the_same_object() -> None:
    """Nothing is copied if nothing is absent."""
    (change,) = decode_line(encode_change(small_cluster().changes[0])).changes
    assert complete(change, after=Position(9, 9), watcher="x", now=10**15) is change


def test_a_record_with_only_path_and_data_follows_the_one_before() -> None:
    """Without a kind it is a set; the rest continues from the record before."""
    change = filled({"path": "/controller_epoch", "data": "3"})
    assert change.kind is ChangeKind.SET
    assert change.position == Position(7, 13)
    assert (change.watcher, change.observed_at, change.cluster) == ("w1", 1000, "")
    assert (change.czxid, change.mzxid, change.version) == (None, None, None)


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"generation": 7}, Position(7, 13)),
        ({"generation": 8}, Position(8, 1)),
        ({"seq": 40}, Position(7, 40)),
        ({"generation": 6, "seq": 2}, Position(6, 2)),
        ({"seq": 0}, Position(7, 0)),
    ],
)
def test_half_a_position_is_filled_in(record: dict[str, int], expected: Position) -> None:
    """A new generation begins with 1; a given number is kept, whatever came before."""
    assert filled({"path": "/controller", **record}).position == expected


def test_the_first_generation_is_1() -> None:
    """Before anything was read there is no generation to continue."""
    change = filled({"path": "/controller"}, after=Position(0, 0))
    assert change.position == Position(1, 1)


@pytest.mark.parametrize(
    ("record", "expected"),
    [({}, 1000), ({"mtime": 999}, 1000), ({"mtime": 1001}, 1001), ({"observed_at": 5}, 5)],
)
def test_a_record_without_a_time_is_as_late_as_the_log(
    record: dict[str, int], expected: int
) -> None:
    """The znode's own time counts if it is later than all before."""
    assert filled({"path": "/controller", **record}).observed_at == expected


def test_a_watcher_that_is_reported_is_kept() -> None:
    """Only an absent watcher is replaced by the one before."""
    assert filled({"path": "/controller", "watcher": "w2"}).watcher == "w2"


@pytest.mark.parametrize("name", ["generation", "seq", "observed_at", "watcher"])
def test_one_absent_field_makes_a_record_incomplete(name: str) -> None:
    """Each of the fields that replay needs is examined."""
    record = {"path": "/a", "generation": 1, "seq": 1, "observed_at": 1, "watcher": "w"}
    (whole,) = decode_line(json.dumps(record).encode()).changes
    del record[name]
    (part,) = decode_line(json.dumps(record).encode()).changes
    assert (whole.is_complete, part.is_complete) == (True, False)


FULL = {
    "v": 1, "cluster": "c", "generation": 3, "watcher": "w", "seq": 4, "kind": "deleted",
    "observed_at": 5, "path": "/a", "czxid": 6, "mzxid": 7, "version": 8, "rebase": True,
    "denied": ["/b"],
}  # fmt: skip


@pytest.mark.parametrize("name", [name for name in FULL if name != "path"])
def test_a_null_field_counts_as_absent(name: str) -> None:
    """In each field, and in a record alone or among others; the other fields are kept."""
    null = {**FULL, name: None}
    absent = {key: value for key, value in FULL.items() if key != name}
    (expected,) = decode_line(json.dumps(absent).encode()).changes
    for read in (decode_line(json.dumps(null).encode()), decode_line(line(null))):
        assert (read.changes, read.unreadable, read.reason) == ((expected,), 0, "")


def test_a_null_path_is_a_missing_path() -> None:
    """A set needs a path, and a heartbeat does not."""
    read = decode_line(line({"path": None, "data": "x"}, {"path": None, "kind": "heartbeat"}))
    assert (len(read.changes), read.unreadable, read.reason) == (1, 1, "a set without a path")


def test_each_nullable_field_may_be_null() -> None:
    """A writer that always writes all fields is read like one that leaves them out."""
    nothing = dict.fromkeys(set(LooseChange.__struct_fields__) - {"path"})
    (change,) = decode_line(json.dumps({**nothing, "path": "/a"}).encode()).changes
    assert change == LooseChange(path="/a")


def test_large_numbers_next_to_a_null_are_read_exactly() -> None:
    """Nothing is rounded."""
    (change,) = decode_line(b'{"path":"/a","seq":null,"czxid":9223372036854775807}').changes
    assert change.czxid == 2**63 - 1


@pytest.mark.parametrize(
    ("records", "ends"),
    [
        (({"path": "/a"}, 5), True),
        ((5, {"path": "/a"}), False),
        (({"path": "/a"}, {"v": 2, "path": "/a"}), True),
        (({"v": 2, "path": "/a"}, {"path": "/a"}), False),
        (({"v": 2, "path": "/a"}, {"path": "/a"}, {"path": ""}), True),
        ((5, {"path": "/a"}, {"v": 2, "path": "/a"}), True),
        (({"path": "/a"}, {"path": "/b"}), False),
        ((5,), True),
        ((), False),
    ],
)
def test_a_line_says_whether_it_ends_with_damage(records: tuple[Any, ...], ends: bool) -> None:
    """A readable record after damage shows what is missing; at the end nothing can."""
    assert decode_line(line(*records)).ends_unreadable is ends


def test_a_record_has_a_position_if_it_has_generation_and_seq() -> None:
    """If only one of them is given, the other is filled in from before, and that proves nothing."""
    records: list[dict[str, int]] = [{"generation": 1, "seq": 2}, {"generation": 1}, {"seq": 2}, {}]
    read = decode_line(line(*({"path": "/a", **record} for record in records)))
    assert [change.has_place for change in read.changes] == [True, False, False, False]


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ({"path": "/a", "v": 2}, "a record of version 2; this release reads 1"),
        ({"data": "x"}, "a set without a path"),
        ({"kind": "deleted"}, "a deleted without a path"),
        ({"path": 7}, "not a change: Expected `str`, got `int` - at `$.path`"),
        ({"path": "/a", "kind": "moved"}, "not a change: Invalid enum value 'moved'"),
        ({"path": "/a", "seq": "1"}, "not a change: Expected `int`, got `str`"),
        (5, "not a change: Expected `object`, got `int`"),
    ],
)
def test_a_bad_record_is_counted_and_the_others_stay(bad: Any, reason: str) -> None:
    """Damage costs the damaged record only, and its reason is reported."""
    read = decode_line(line({"path": "/a"}, bad, {"path": "/b"}))
    assert [change.path for change in read.changes] == ["/a", "/b"]
    assert read.unreadable == 1
    assert read.reason.startswith(reason)


def test_the_first_reason_of_several_is_reported() -> None:
    """A line has one reason: that of its first bad record, whatever kind it is."""
    first = decode_line(line({"path": 1}, {"v": 3, "path": "/a"}, {"path": []}))
    assert (first.changes, first.unreadable) == ((), 3)
    assert first.reason.startswith("not a change: Expected `str`, got `int`")
    other = decode_line(line({"v": 3, "path": "/a"}, {"path": 1}, {"v": 4, "path": "/a"}))
    assert (other.unreadable, other.reason[:21]) == (3, "a record of version 3")


@pytest.mark.parametrize("kind", ["resync_started", "resync_finished", "reconciled", "heartbeat"])
def test_control_records_need_no_path(kind: str) -> None:
    """Only a set and a deleted are about a znode."""
    assert len(decode_line(line({"kind": kind})).changes) == 1


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"no json",
        b'{"path": "/a"',
        b'{"path": 1}',
        b'[{"path": "/a"}',
        b"7",
        b"\xff\xfe",
        b'{"path": "\xff"}',
        b"[" * 100_000,
    ],
)
def test_an_undecodable_line_is_one_unreadable_record(damaged: bytes) -> None:
    """With the reason, and never an exception."""
    read = decode_line(damaged)
    assert (read.changes, read.unreadable, read.ends_unreadable) == ((), 1, True)
    assert read.reason.startswith("not a")


def test_unknown_fields_of_a_newer_release_are_ignored() -> None:
    """Unknown fields are ignored."""
    assert decode_line(b'{"path": "/a", "colour": "red"}').changes[0].path == "/a"


def test_the_marker_of_an_absent_number_is_below_all_numbers() -> None:
    """The value that marks an absent number is below every number in a log."""
    assert ABSENT < -(2**62)


def test_an_election_request_is_neither_a_change_nor_damage() -> None:
    """Alone or among changes; the changes after it show that nothing is missing."""
    changes, request = small_cluster().changes, election_request("t", 0)
    record = encode_request(request)[1:-1]
    alone = decode_line(record)
    assert (alone.changes, alone.unreadable, alone.requests) == ((), 0, (request,))
    assert not alone.ends_unreadable
    among = decode_line(b"[" + encode_change(changes[0]) + b"," + record + b"]")
    assert (len(among.changes), among.unreadable, among.requests) == (1, 0, (request,))
    assert decode_line(record.replace(b'"holds_ms":', b'"holds_ms":-')).unreadable == 1
