"""A request of `kcm elect` in the log: what is accepted, up to its limits, and what is not."""

from __future__ import annotations

import json
from typing import Any

import pytest

from controller_model.records.changes import Batch, decode_message, decode_request
from controller_model.records.election_requests import (
    MAX_PARTITIONS,
    ElectionOrigin,
    encode_request,
)
from tests.support.histories import election_request


def test_an_election_request_is_encoded_as_its_own_message() -> None:
    """It holds one record, whose kind distinguishes it from others."""
    request = election_request("t", 0, 7)
    assert json.loads(encode_request(request)) == [
        {
            "v": 1,
            "cluster": "prod",
            "kind": "election_requested",
            "partitions": [["t", 0], ["t", 7]],
            "requested_at": 1,
            "holds_ms": 60_000,
        }
    ]


@pytest.mark.parametrize(
    "fields",
    [
        {"partitions": []},
        {"partitions": [["t", p] for p in range(MAX_PARTITIONS)]},
        {"partitions": [["t" * 249, 2**31 - 1]]},
        {"holds_ms": 2**63 - 1, "requested_at": 0},
        {"of_a_newer_release": 1},
    ],
)
def test_a_request_up_to_its_bounds_is_read(fields: dict[str, Any]) -> None:
    """Kafka's longest topic name, and fields that a newer release adds."""
    (body,) = json.loads(encode_request(election_request("t", 0)))
    request = decode_request(json.dumps(body | fields).encode())
    assert request is not None
    asked = fields.get("partitions", [["t", 0]])
    assert [list(each) for each in request.partitions] == asked


@pytest.mark.parametrize(
    "harm",
    [
        {"v": 2},
        {"kind": "election_held"},
        {"partitions": [["t", p] for p in range(501)]},
        {"partitions": [["t" * 250, 0]]},
        {"partitions": [["t", -1]]},
        {"partitions": [["t", 2**31]]},
        {"partitions": [["", 0]]},
        {"partitions": [["t"]]},
        {"holds_ms": -1},
        {"holds_ms": 2**63},
        {"requested_at": None},
        {"cluster": 7},
    ],
)
def test_a_hostile_request_is_damage(harm: dict[str, Any]) -> None:
    """It is counted, and the other records of the message are read."""
    good = election_request("t", 0)
    (body,) = json.loads(encode_request(good))
    batch = decode_message(json.dumps([body | harm, body]).encode())
    assert batch == Batch((), 1, (good,))
    assert decode_request(json.dumps(body | harm).encode()) is None


def test_a_request_from_its_own_message_is_read_again() -> None:
    """A written request is read as the same request."""
    request = election_request("t", *range(MAX_PARTITIONS))
    assert decode_message(encode_request(request)) == Batch((), requests=(request,))


def test_election_origins_have_stable_names() -> None:
    """Grades count by them and the API shows them: a change would break readers of either."""
    assert [str(origin) for origin in ElectionOrigin] == ["kcm", "znode", "rebalance", "other"]
