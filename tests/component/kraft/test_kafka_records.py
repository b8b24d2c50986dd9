"""Our codec of metadata records against Kafka's own: the classes of the jars of two releases, run by Java."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from random import Random
from typing import Any

import pytest

from kraft_source.wire.codec import reader, uuid_text, uvarint, write
from kraft_source.wire.schema import Field, Message
from kraft_source.wire.schemas import RECORDS
from pipeline.java import find_java
from tests.support.release_jars import jars_of
from tests.support.releases import KAFKA_3_9, KAFKA_4_4, Release
from tools.kraft.generate import snake_case

SOURCE = Path(__file__).with_name("MetadataOracle.java")
EXAMPLES = 60
"""Of each version of each record."""
CHOICES: dict[str, list[Any]] = {
    **{
        f"int{bits}": [-(2 ** (bits - 1)), -2, -1, 0, 1, 77, 2 ** (bits - 1) - 1]
        for bits in (8, 16, 32, 64)
    },
    "uint16": [0, 9092, 65_535],
    "bool": [False, True],
    "string": ["", "a", "ä€𝄞", "t" * 300],
}
"""Values at the edges of each kind; ids are any bytes."""
NOT_IN_3_9 = {"ClearElrRecord", "UnregisterControllerRecord"}
NEWEST_IN_3_9 = {"RegisterBrokerRecord": 3, "BrokerRegistrationChangeRecord": 2}


def drawn(field: Field, version: int, rng: Random) -> Any:
    """Return a value for a field."""
    kind = field.kind
    if field.is_nullable and rng.random() < 0.2:
        return None
    if kind.startswith("[]"):
        element = field._replace(kind=kind[2:], is_nullable=False)
        count = rng.choice([0, 1, 3, 3, 130] if kind == "[]int32" else [0, 1, 3])
        return tuple(drawn(element, version, rng) for _ in range(count))
    if field.fields:
        return {each.name: drawn(each, version, rng) for each in field.fields}
    return rng.choice(CHOICES[kind]) if kind in CHOICES else uuid_text(rng.randbytes(16))


def examples(release: Release) -> list[tuple[Message, int, dict[str, Any]]]:
    """Return records of each version that a release knows, with drawn values; some tagged fields are left out."""
    rng = Random(38)  # noqa: S311  # the same values each time
    made = []
    for name, message in RECORDS.items():
        last = message.versions[1]
        if release is KAFKA_3_9:
            last = NEWEST_IN_3_9.get(name, last)
        if message.api_key is None or (release is KAFKA_3_9 and name in NOT_IN_3_9):
            continue
        for version in range(last + 1):
            present = [each for each in message.fields if each.is_in(version)]
            for _ in range(EXAMPLES):
                values = {
                    each.name: drawn(each, version, rng)
                    for each in present
                    if each.tag is None or rng.random() < 0.6
                }
                made.append((message, version, values))
    return made


def as_ours(value: Any) -> Any:
    """Return Kafka's JSON with our names."""
    if isinstance(value, dict):
        return {snake_case(key): as_ours(each) for key, each in value.items()}
    return tuple(map(as_ours, value)) if isinstance(value, list) else value


@pytest.mark.parametrize("release", [KAFKA_3_9, KAFKA_4_4], ids=["3.9", "4.4"])
def test_kafka_reads_and_writes_each_record_as_we_do(release: Release, tmp_path: Path) -> None:
    """What we write, Kafka reads to the same values and writes to the same bytes; what it writes, we read."""
    if (compiler := shutil.which("javac")) is None:
        pytest.skip("the oracle is written in Java, and there is no javac")
    jars = ":".join(map(str, jars_of(release)))
    subprocess.run([compiler, "-nowarn", "-cp", jars, "-d", tmp_path, SOURCE], check=True)
    records = examples(release)
    ours = [
        uvarint(1)
        + uvarint(message.api_key or 0)
        + uvarint(version)
        + write(message, version, values)
        for message, version, values in records
    ]
    answered = subprocess.run(
        [find_java(os.environ).path, "-Xmx128m", "-cp", f"{jars}:{tmp_path}", "MetadataOracle"],
        input="\n".join(each.hex() for each in ours),
        capture_output=True, text=True, encoding="utf-8", check=True,
    ).stdout.splitlines()  # fmt: skip
    assert len(answered) == len(records)
    for (message, version, _), data, line in zip(records, ours, answered, strict=True):
        printed, _, written = line.partition("\t")
        assert bytes.fromhex(written) == data, (message, version, line)
        read, end = reader(message, version)(data, 3)
        assert end == len(data)
        assert as_ours(json.loads(printed)) == read, (message, version)
