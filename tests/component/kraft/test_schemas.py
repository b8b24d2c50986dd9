"""Tests of schemas.py against the JSON inside the jars of the oldest and the newest Kafka that is watched."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kraft_source.wire.schema import ANY_VERSION, Field, Message
from kraft_source.wire.schemas import MESSAGES, RECORDS
from tests.support.release_jars import jars_of
from tests.support.releases import KAFKA_3_7_FORMATS, KAFKA_4_4, Release
from tools.kraft.generate import (
    TARGET,
    Definition,
    messages,
    read_definitions,
    records,
    schemas_text,
)


def definitions(release: Release) -> dict[str, Definition]:
    """Return what the jars of a release define; skip the test where they cannot be downloaded."""
    return read_definitions(jars_of(release))


def differences(ours: Mapping[str, Message], theirs: Mapping[str, Message]) -> dict[str, set[str]]:
    """Return by message what our tables have beyond another release's; a field is named with its path."""
    found = {}
    for name, message in ours.items():
        other = theirs.get(name)
        if other is None:
            found[name] = {"the record"}
            continue
        first, last = message.versions
        assert first == other.versions[0], name
        lines = {f"version {each}" for each in range(other.versions[1] + 1, last + 1)}
        # Only fields of versions that both know have to be the same.
        lines |= _fields(message.fields, other.versions[1]) ^ _fields(
            other.fields, other.versions[1]
        )
        if lines:
            found[name] = lines
    return found


def _fields(fields: tuple[Field, ...], last: int, path: str = "") -> set[str]:
    lines = set()
    for each in fields:
        if each.since > last:
            continue
        until = ANY_VERSION if each.until >= last else each.until
        plain = each._replace(fields=(), until=until)
        lines.add(f"{path}{plain}")
        lines |= _fields(each.fields, last, f"{path}{each.name}.")
    return lines


def test_the_tables_are_those_of_the_newest_kafka() -> None:
    """`python -m tools.kraft` would write the same file again."""
    assert TARGET.read_text(encoding="utf-8") == schemas_text(definitions(KAFKA_4_4))


def test_the_oldest_kafka_differs_in_known_places_only() -> None:
    """Kafka 3.7 lacks these versions and records; what it has is the same, field by field, tag by tag."""
    oldest = definitions(KAFKA_3_7_FORMATS)
    assert differences(MESSAGES, messages(oldest)) == {
        "FetchRequest": {"version 17", "version 18"},
        "FetchResponse": {"version 17", "version 18"},
        "DescribeQuorumRequest": {"version 2"},
        "DescribeQuorumResponse": {"version 2"},
    }
    assert differences(RECORDS, records(oldest)) == {
        "BrokerRegistrationChangeRecord": {"version 3"},
        "ClearElrRecord": {"the record"},
        "KRaftVersionRecord": {"the record"},
        "LeaderChangeMessage": {"version 1"},
        "RegisterBrokerRecord": {"version 4"},
        "UnregisterControllerRecord": {"the record"},
        "VotersRecord": {"the record"},
    }


@pytest.mark.parametrize("release", [KAFKA_3_7_FORMATS, KAFKA_4_4], ids=lambda each: each.name)
def test_each_metadata_record_of_kafka_is_kept_or_withheld_on_purpose(release: Release) -> None:
    """A release with a record that is in neither list fails here before it is only counted in production."""
    theirs = {
        definition["apiKey"]
        for definition in definitions(release).values()
        if definition["type"] == "metadata"
    }
    ours = {message.api_key for message in RECORDS.values() if message.api_key is not None}
    withheld = {10, 11, 14, 15, 18, 19, 22, 26}
    assert theirs <= ours | withheld
    assert not ours & withheld
