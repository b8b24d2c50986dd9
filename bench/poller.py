"""`python -m bench.poller KIND …`: poll repeatedly, and record what each answer shows.

It is a separate process, so that the cost of reading ten thousand partitions delays nothing else.
Each poll is a line of JSON: when it began and ended, the leaders that differ from the poll before,
and the controller.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from kcm.servers.kafka import QUIET_LIBRDKAFKA
from kraft_source.wire.connection import Access, ControllerConnection
from kraft_source.wire.messages import TOPIC, ControllerEndpoint
from pipeline.runtime import KcmError

DEADLINE_S = 60.0
"""kafka_exporter takes seconds at 10,000 partitions, and more while brokers are down."""
QUORUM_S = 2.0
_LEADER = re.compile(r"^kafka_topic_partition_leader\{(.*)\} (\S+)$", re.MULTILINE)
_LABEL = re.compile(r'(topic|partition)="([^"]*)"')
_CONTROLLER = re.compile(r"^kafka_controller_id\{.*\} (\S+)$", re.MULTILINE)
_ELECTIONS = re.compile(r"^kafka_controller_elections_total\{.*\} (\S+)$", re.MULTILINE)


class Answer(NamedTuple):
    """What one poll shows; None where this kind of peer does not show it."""

    leaders: dict[str, int]
    """By `topic/partition`."""
    controller: int | None
    elections: int | None
    bytes: int | None
    series: int | None


def main() -> int:
    """Poll until killed."""
    parser = argparse.ArgumentParser(prog="python -m bench.poller", description=__doc__)
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("address", help="URLs, separated by commas; or bootstrap servers")
    parser.add_argument("every_s", type=float)
    parser.add_argument("output", type=Path)
    arguments = parser.parse_args()
    return _poll(KINDS[arguments.kind](arguments.address), arguments.every_s, arguments.output)


def _poll(ask: Callable[[], Answer], every_s: float, output: Path) -> int:
    leaders: dict[str, int] = {}
    due = time.monotonic()
    with output.open("a", buffering=1) as lines:
        while True:
            began = time.time()
            try:
                answer = ask()
            except (OSError, KafkaException) as error:
                print(f"poll: {error}", file=sys.stderr)
                answer = None
            ended = time.time()
            if answer is not None:
                lines.write(json.dumps(_line(began, ended, answer, leaders)) + "\n")
                leaders = answer.leaders
            due = max(due + every_s, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))


def _line(began: float, ended: float, answer: Answer, before: dict[str, int]) -> dict[str, Any]:
    changed = {key: led for key, led in answer.leaders.items() if before.get(key) != led}
    gone = dict.fromkeys(before.keys() - answer.leaders.keys(), -1)
    others = answer._asdict() | {"leaders": changed | gone, "partitions": len(answer.leaders)}
    return {"began": began, "ended": ended, **others}


def _scrapes(urls: str) -> Callable[[], Answer]:
    """Return a function that scrapes these URLs and joins their texts."""

    def ask() -> Answer:
        text = ""
        for url in urls.split(","):
            with urllib.request.urlopen(url, timeout=DEADLINE_S) as answer:  # noqa: S310  # a server of our own
                text += answer.read().decode()
        return read_scrape(text)

    return ask


def read_scrape(text: str) -> Answer:
    """Read leaders by kafka_exporter's metric names, and the controller by kcm's."""
    leaders = {}
    for labels, value in _LEADER.findall(text):
        found = dict(_LABEL.findall(labels))
        leaders[f"{found['topic']}/{found['partition']}"] = int(float(value))
    series = sum(1 for line in text.splitlines() if line and not line.startswith("#"))
    return Answer(leaders, _number(_CONTROLLER, text), _number(_ELECTIONS, text), len(text), series)


def _number(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(float(found.group(1))) if found else None


def _metadata(bootstrap_servers: str) -> Callable[[], Answer]:
    """Return a function that asks a broker for the metadata of all topics."""
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, **QUIET_LIBRDKAFKA})

    def ask() -> Answer:
        metadata = admin.list_topics(timeout=DEADLINE_S)
        leaders = {
            f"{name}/{number}": partition.leader
            for name, topic in metadata.topics.items()
            for number, partition in topic.partitions.items()
        }
        return Answer(leaders, metadata.controller_id, None, None, None)

    return ask


def _quorum(controllers: str) -> Callable[[], Answer]:
    """Return a function that asks for the quorum's leader, as kafka-metadata-quorum does, without its JVM's start."""
    endpoints = [
        ControllerEndpoint(host, int(port))
        for host, _, port in (each.rpartition(":") for each in controllers.split(","))
    ]
    partitions = [{"partition_index": 0}]
    values = {"topics": [{"topic_name": TOPIC, "partitions": partitions}]}

    def ask() -> Answer:
        for endpoint in endpoints:
            try:
                connection = ControllerConnection(endpoint, Access(), timeout_s=QUORUM_S)
                answer = connection.call("DescribeQuorum", values, timeout_s=QUORUM_S)
            except KcmError:
                continue
            connection.close()
            (partition,) = answer["topics"][0]["partitions"]
            if not answer["error_code"] and not partition["error_code"]:
                return Answer({}, partition["leader_id"], None, None, None)
        return Answer({}, None, None, None, None)

    return ask


KINDS = {"scrape": _scrapes, "metadata": _metadata, "quorum": _quorum}

if __name__ == "__main__":
    sys.exit(main())
