"""Our codecs of znodes against Kafka's own: the classes of the broker's jars, run by Java."""

from __future__ import annotations

import base64
import json
import random
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller_model.kafka.errors import UnreadableZnodeError
from controller_model.sources.zookeeper import payloads
from kcm.servers.jars import Jars

SOURCE = Path(__file__).with_name("ZnodeOracle.java")
PRINTED = Path(__file__).parents[2] / "unit/controller_simulator/zookeeper/kafka_3_9_payloads.tsv"
READ_ON = {
    "controller": "0.8.0 wrote a bare id, which ZkData of 3.9 reads no more",
    "topic": "a topic id that is no UUID makes ZkData throw; the assignment stands all the same",
    "broker": "an endpoint that does not parse makes ZkData throw; the broker is registered",
}
"""Where we read on and Kafka 3.9 gives up: what says nothing about leaders is not judged."""
EXAMPLES_PER_KIND = 400
ODD = ["true", "null", '"0"', "-1", "0", "1", "2", "1.0", "1e3", "NaN", "2147483648", "-2147483649",
       "1" + "0" * 40, "[]", "[1,1]", "[true]", '["1"]', "{}", '{"0":[1]}', '{"01":[1]}', "01", '"x"',
       '"\\ud800"', '"\\u0000"', "[[1]]"]  # fmt: skip


class Oracle:
    """A running ZnodeOracle that decodes a payload a line."""

    def __init__(self, java: str, classpath: str) -> None:
        self._process = subprocess.Popen(
            [java, "-Xmx64m", "-cp", classpath, "ZnodeOracle", "decode"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, encoding="utf-8",
        )  # fmt: skip

    def read(self, kind: str, payload: bytes) -> str | None:
        """Return what Kafka reads, as text; None when it cannot."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{kind}\t{base64.b64encode(payload).decode()}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().rstrip("\n")
        assert answer.startswith(("read ", "unreadable ")), f"the oracle is gone: {answer!r}"
        return answer.removeprefix("read ") if answer.startswith("read ") else None

    def close(self) -> None:
        """End it."""
        with self._process:
            self._process.kill()


@pytest.fixture(scope="module")
def classpath(jars: Jars, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The broker's jars and the compiled oracle."""
    folder = tmp_path_factory.mktemp("oracle")
    broker = ":".join(str(jar) for jar in jars.broker)
    compiler = shutil.which("javac")
    if compiler is None:
        pytest.skip("the oracle is written in Java, and there is no javac")
    subprocess.run([compiler, "-nowarn", "-cp", broker, "-d", folder, SOURCE], check=True)
    return f"{broker}:{folder}"


@pytest.fixture(scope="module")
def oracle(classpath: str) -> Iterator[Oracle]:
    """Kafka's decoders."""
    running = Oracle(_java(), classpath)
    yield running
    running.close()


def _java() -> str:
    java = shutil.which("java")
    assert java is not None
    return java


def test_the_stored_payloads_are_those_that_kafka_prints(classpath: str) -> None:
    """The file that the writers are tested by is what the oracle prints now."""
    printed = subprocess.run([_java(), "-cp", classpath, "ZnodeOracle", "encode"],
                             check=True, capture_output=True)  # fmt: skip
    assert printed.stdout.decode() == PRINTED.read_text("utf-8")


def _seq(values: Any) -> str:
    return "[" + ", ".join(map(str, values)) + "]"


def _map(content: dict[Any, Any]) -> str:
    return "{" + ", ".join(f"{key}={content[key]}" for key in sorted(content)) + "}"


def _state(data: bytes) -> str:
    state = payloads.decode_partition_state(data)
    return (
        f"{state.leader} {state.leader_epoch} {state.controller_epoch} {_seq(state.isr)}"
        f" {state.leader_recovery_state}"
    )


def _topic(data: bytes) -> str:
    topic = payloads.decode_topic(data)
    partitions = {
        p: _seq(r) + _seq(topic.adding.get(p, ())) + _seq(topic.removing.get(p, ()))
        for p, r in topic.partitions.items()
    }
    return f"{_map(partitions)} {topic.topic_id or '-'}"


def _partitions(data: bytes) -> str:
    return _seq(sorted({f"{tp.topic}-{tp.partition}" for tp in payloads.decode_partitions(data)}))


def _reassign(data: bytes) -> str:
    asked = payloads.decode_reassign_partitions(data)
    return _map({f"{tp.topic}-{tp.partition}": _seq(r) for tp, r in asked.items()})


def _feature(data: bytes) -> str:
    feature = payloads.decode_feature(data)
    most = {name: levels["max_version_level"] for name, levels in feature.features.items()}
    return f"{feature.version} {feature.status} {_map(most)}"


def _migration(data: bytes) -> str:
    state = payloads.decode_migration(data)
    return (
        f"{state.kraft_controller_id} {state.kraft_controller_epoch}"
        f" {state.kraft_metadata_offset} {state.kraft_metadata_epoch}"
    )


def _broker(data: bytes) -> str:
    broker = payloads.decode_broker(data)
    ends = "".join(f"{end.listener} {end.host} {end.port}, " for end in broker.addresses())
    return ends + ("-" if broker.rack is None else broker.rack)


OURS: dict[str, Callable[[bytes], str]] = {
    "controller": lambda data: str(payloads.decode_controller(data).brokerid),
    "epoch": lambda data: str(payloads.decode_controller_epoch(data)),
    "state": _state,
    "topic": _topic,
    "isr-change": _partitions,
    "preferred": _partitions,
    "reassign": _reassign,
    "log-dir": lambda data: str(payloads.decode_log_dir_event(data).broker),
    "cluster": payloads.decode_cluster_id,
    "feature": _feature,
    "migration": _migration,
    "broker": _broker,
}


def _valid(kind: str) -> list[str]:
    lines = PRINTED.read_text("utf-8").splitlines()
    return [line.split("\t", 1)[1] for line in lines if line.startswith(kind) and len(line) < 900]


def _damaged(text: str, chance: random.Random) -> bytes:
    """Return a payload with one odd byte, piece, surrounding, value or key; or as it is."""
    at, end = sorted((chance.randrange(len(text) + 1), chance.randrange(len(text) + 1)))
    ways = [
        text,
        text[:at] + chr(chance.randrange(32, 127)) + text[at:],
        text[:at] + text[end:],
        chance.choice(["\ufeff", "", " "]) + text + chance.choice(["", "x", "{}", "\n", "\0"]),
        _edited(text, chance),
        _edited(text, chance),
        _edited(text, chance),
    ]
    return chance.choice(ways).encode()


def _edited(text: str, chance: random.Random) -> str:
    """Return a JSON object with one value replaced, removed or written twice."""
    odd = chance.choice(ODD)
    try:
        content = json.loads(text)
    except ValueError:
        return odd
    if not isinstance(content, dict):
        return odd
    parts = [(key, json.dumps(value)) for key, value in content.items()]
    at = chance.randrange(len(parts))
    key = parts[at][0]
    parts[at : at + 1] = chance.choice([[(key, odd)], [], [parts[at], (key, odd)]])
    return "{" + ",".join(f'"{name}":{value}' for name, value in parts) + "}"


@pytest.mark.parametrize("kind", OURS)
def test_every_payload_that_kcm_decodes_is_decoded_alike_by_kafka(
    kind: str, oracle: Oracle
) -> None:
    """On valid and on damaged payloads: we may be stricter than Kafka, never of another mind."""
    chance = random.Random(f"codec {kind}")  # noqa: S311 - a test repeats
    valid = _valid(kind)
    read = 0
    for _ in range(EXAMPLES_PER_KIND):
        payload = _damaged(chance.choice(valid), chance)
        kafkas = oracle.read(kind, payload)
        try:
            ours = OURS[kind](payload)
        except UnreadableZnodeError:
            continue
        read += 1
        if kafkas is None and kind in READ_ON:
            continue
        assert ours == kafkas, payload
    assert read >= EXAMPLES_PER_KIND // 7
