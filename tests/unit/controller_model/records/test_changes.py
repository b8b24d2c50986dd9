"""Changes in the log: read one by one, joined, with their payloads."""

from __future__ import annotations

import json

import msgspec
import pytest

from controller_model.kafka.errors import UnreadableRecordError
from controller_model.records.changes import (
    Batch,
    ChangeKind,
    ZnodeChange,
    decode_message,
    encode_change,
    join_changes,
)
from controller_model.records.election_requests import encode_request
from tests.support.histories import (
    election_request,
    encode_changes,
    replaced,
    small_cluster,
)


@pytest.mark.parametrize("name", ["watcher", "zookeeper", "digest"])
def test_a_name_of_megabytes_is_damage(name: str) -> None:
    """It would stay in the state, and no view with it would fit into a message; the longest host name has 253 characters."""
    body = json.loads(encode_change(small_cluster().changes[1]))
    records = [body | {name: "x" * length} for length in (253 + len(":65535"), 1_000, 1_001)]
    batch = decode_message(msgspec.json.encode(records))
    assert ([len(getattr(each, name)) for each in batch.changes], batch.unreadable) == (
        [259, 1_000],
        1,
    )


def test_records_of_another_version_or_with_wide_numbers_are_counted() -> None:
    """They are skipped one by one; a message that is not an array at all raises."""
    good = small_cluster().changes[1]
    wide = msgspec.json.decode(encode_changes([good]))[0] | {"mzxid": 10**30}
    message = msgspec.json.encode([wide, replaced(good, v=2), good, 7])
    batch = decode_message(message)
    assert (batch.changes, batch.unreadable) == ((good,), 3)
    for garbage in (b"", b"{", b"7", b"\xff", b"null"):
        with pytest.raises(UnreadableRecordError):
            decode_message(garbage)


def test_a_payload_that_stayed_behind_or_is_damaged_raises_its_own_error() -> None:
    """The fold reports such a znode as unreadable."""
    base = ZnodeChange(
        v=1, cluster="c", generation=1, watcher="w", seq=1, kind=ChangeKind.SET, observed_at=1
    )
    assert base.payload() == b""
    for fields in ({"data_omitted": True}, {"data_base64": "!"}):
        with pytest.raises(UnreadableRecordError):
            replaced(base, **fields).payload()


def test_changes_of_another_version_are_left_out_and_counted() -> None:
    """Also if the whole message can be read; encoded changes join to the same message."""
    history = small_cluster()
    newer = replaced(history.changes[1], v=2)
    batch = decode_message(encode_changes([history.changes[0], newer]))
    assert batch == Batch((history.changes[0],), 1)
    encoded = [encode_change(change) for change in history.changes]
    assert join_changes(encoded) == msgspec.json.encode(history.changes)


def test_a_fold_reads_an_older_and_a_newer_watchers_log() -> None:
    """Optional fields may be absent, unknown ones are ignored, another version is counted."""
    change = ZnodeChange(
        v=1,
        cluster="prod",
        generation=1,
        watcher="w",
        seq=1,
        kind=ChangeKind.HEARTBEAT,
        observed_at=1,
    )
    (body,) = json.loads(encode_changes([change]))
    log = [body, body | {"of_a_newer_release": 1}, body | {"v": 2}, body | {"kind": "of_a_newer"}]
    batch = decode_message(json.dumps(log).encode())
    assert batch.changes == (change, change)
    assert batch.unreadable == 2
    with pytest.raises(UnreadableRecordError):
        decode_message(b'{"of_a_newer_release": []}')


def test_an_election_request_among_changes_is_not_a_change() -> None:
    """It has no seq, so it leaves no hole; one of another version, or with too wide a number, is damage."""
    history = small_cluster()
    request = election_request("t", 0, 1)
    message = b"[" + encode_request(request)[1:-1] + b"," + encode_changes(history.changes)[1:]
    assert decode_message(message) == Batch(tuple(history.changes), requests=(request,))
    assert decode_message(encode_request(request)) == Batch((), requests=(request,))
