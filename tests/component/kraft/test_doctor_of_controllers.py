"""What `kcm doctor --controllers` says of controllers that answer as a test wants: each thing that is wrong is one line."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kcm.doctor.controllers import check_controller, check_quorum
from kcm.doctor.findings import Level
from kcm.servers.ports import HOST, free_port
from kraft_source.config import KraftSettings
from kraft_source.wire.codec import write
from kraft_source.wire.messages import TOPIC, TOPIC_ID, ControllerEndpoint
from kraft_source.wire.schemas import MESSAGES

ANSWERED = {
    message.api_key: name.removesuffix("Response")
    for name, message in MESSAGES.items()
    if name.endswith("Response")
}
"""The name of each request by its api key."""
Answers = Callable[[str], dict[str, Any]]
NOW = 1_700_000_000_000


@contextmanager
def controller(answers: Answers) -> Iterator[ControllerEndpoint]:
    """Serve any number of clients with these answers, by the request's name."""

    def serve(client: socket.socket) -> None:
        with client:
            while head := client.recv(4, socket.MSG_WAITALL):
                data = client.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                key, version, correlation_id = struct.unpack_from(">hhi", data)
                name = ANSWERED[key]
                message = MESSAGES[f"{name}Response"]
                # Answers to ApiVersions have the oldest header; all others here the one with tagged fields.
                tags = b"" if name == "ApiVersions" else b"\0"
                body = tags + write(message, version, answers(name))
                client.sendall(struct.pack(">ii", len(body) + 4, correlation_id) + body)

    def accept() -> None:
        while True:
            try:
                client, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=[client], daemon=True).start()

    with socket.create_server((HOST, 0)) as listening:
        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield ControllerEndpoint(HOST, listening.getsockname()[1])
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


class Quorum:
    """The answers of a quorum of three that is well; a test changes them."""

    def __init__(self) -> None:
        self.port = 0
        self.leader = 3001
        self.fetch_error = 74
        self.quorum_error = 0
        self.cluster_error = 31
        self.migrates = False
        self.late: set[int] = set()
        self.ports: dict[int, int] = {}
        """Where voters listen, other than here."""

    def answer(self, name: str) -> dict[str, Any]:
        """Return the answer to a request."""
        if name == "DescribeCluster":
            return {"error_code": self.cluster_error, "cluster_id": ""}
        if name == "ApiVersions":
            return self._versions()
        return self._fetch() if name == "Fetch" else self._quorum()

    def _versions(self) -> dict[str, Any]:
        keys = ("Fetch", "FetchSnapshot", "DescribeQuorum", "DescribeCluster")
        of_keys = [
            {"api_key": message.api_key, "min_version": 0, "max_version": message.versions[1]}
            for message in (MESSAGES[f"{each}Request"] for each in keys)
        ]
        levels = [("metadata.version", 25), ("kraft.version", 1)]
        features = [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in levels
        ]
        return {
            "api_keys": of_keys,
            "finalized_features": features,
            "zk_migration_ready": self.migrates,
        }

    def _fetch(self) -> dict[str, Any]:
        if self.fetch_error in {31, 104}:
            return {"error_code": self.fetch_error, "responses": []}
        partition = {
            "partition_index": 0,
            "error_code": self.fetch_error,
            "current_leader": {"leader_id": self.leader, "leader_epoch": 7},
            "records": None,
        }
        port = self.ports.get(self.leader, self.port)
        nodes = [{"node_id": self.leader, "host": HOST, "port": port, "rack": None}]
        topic = {"topic_id": TOPIC_ID, "partitions": [partition]}
        return {
            "error_code": 0,
            "responses": [topic],
            "node_endpoints": nodes if self.leader >= 0 else [],
        }

    def _quorum(self) -> dict[str, Any]:
        if self.quorum_error:
            return {"error_code": self.quorum_error, "topics": []}
        voters = [
            {
                "replica_id": each,
                "log_end_offset": 70,
                "last_fetch_timestamp": NOW,
                "last_caught_up_timestamp": NOW - 60_000 * (each in self.late),
            }
            for each in (3001, 3002, 3003)
        ]
        partition = {
            "error_code": 0,
            "leader_id": self.leader,
            "leader_epoch": 7,
            "high_watermark": 70,
            "current_voters": voters,
            "observers": [],
        }
        nodes = [
            {
                "node_id": each,
                "listeners": [
                    {"name": "CONTROLLER", "host": HOST, "port": self.ports.get(each, self.port)}
                ],
            }
            for each in (3001, 3002, 3003)
        ]
        return {
            "error_code": 0,
            "topics": [{"topic_name": TOPIC, "partitions": [partition]}],
            "nodes": nodes,
        }


@pytest.fixture
def quorum() -> Iterator[Quorum]:
    """A quorum of which one controller answers at a port."""
    quorum = Quorum()
    with controller(quorum.answer) as endpoint:
        quorum.port = endpoint.port
        yield quorum


def settings_for(port: int, **options: Any) -> KraftSettings:
    """Return settings that name one controller."""
    given: dict[str, Any] = {"controllers": f"{HOST}:{port}"}
    return KraftSettings(**(given | options))


def findings(quorum: Quorum, **options: Any) -> dict[str, tuple[Level, str, str]]:
    """Return what is found, by its subject."""
    found = check_quorum(settings_for(quorum.port, **options)).findings
    assert len({each.about for each in found}) == len(found)
    return {each.about: (each.level, each.text, each.todo) for each in found}


def test_a_quorum_that_is_well_has_one_warning_where_nobody_asks_who_reads(quorum: Quorum) -> None:
    """Without credentials of ours whoever reaches the port has the right; its level, versions and voters are told."""
    found = findings(quorum)
    assert {about: level for about, (level, _, _) in found.items()} == {
        "permissions, log": Level.WARN,
        "cluster id": Level.UNKNOWN,
        "quorum": Level.OK,
        "advertised addresses": Level.OK,
    }
    assert "whoever reaches the port, who may also register brokers" in found["permissions, log"][1]
    assert "leads epoch 7; 3 voters (3001, 3002, 3003)" in found["quorum"][1]
    assert found["advertised addresses"][1].count(str(quorum.port)) == 3
    settings = settings_for(quorum.port)
    (endpoint,) = settings.endpoints
    line = check_controller(settings, endpoint)
    assert (line.level, line.about) == (Level.OK, f"controller {endpoint}")
    assert "metadata.version 25, kraft.version 1, Fetch 18, DescribeQuorum 2" in line.text
    with_id = findings(quorum, controller_cluster_id="A" * 22)
    assert with_id["cluster id"][0] is Level.OK


@pytest.mark.parametrize(
    ("changes", "about", "level", "words"),
    [
        ({"fetch_error": 31}, "permissions, log", Level.FAIL, "may not be read"),
        ({"fetch_error": 104}, "cluster id", Level.FAIL, "another cluster"),
        ({"leader": -1}, "quorum", Level.FAIL, "knows no leader in epoch 7"),
        ({"quorum_error": 31}, "permissions, quorum", Level.WARN, "DescribeQuorum is refused"),
        ({"late": {3002}}, "quorum", Level.WARN, "not caught up: 3002"),
        ({"migrates": True}, "migration", Level.WARN, "takes a cluster over from ZooKeeper"),
    ],
)
def test_each_thing_that_is_wrong_is_one_line(
    quorum: Quorum, changes: dict[str, Any], about: str, level: Level, words: str
) -> None:
    """With what to do."""
    for name, value in changes.items():
        setattr(quorum, name, value)
    found = findings(quorum)
    assert found[about][0] is level
    assert words in found[about][1]
    assert found[about][2]


@pytest.mark.parametrize("voter", [3001, 3002])
def test_an_address_that_cannot_be_reached_is_named_with_its_controller(
    quorum: Quorum, voter: int
) -> None:
    """Of the leader, whom the watcher must ask, and of a voter that may lead next."""
    closed = free_port()
    quorum.ports = {voter: closed}
    settings = settings_for(quorum.port)
    found = [
        each for each in check_quorum(settings).findings if each.about == "advertised addresses"
    ]
    assert [each.level for each in found] == (
        [Level.FAIL] if voter == 3001 else [Level.FAIL, Level.OK]
    )
    assert found[0].text == f"controller {voter} at {HOST}:{closed}: Connection refused"
    assert "advertised.listeners" in found[0].todo


def test_a_controller_that_is_not_there_is_one_line() -> None:
    """Its own line has the reason; the quorum's says where to look."""
    settings = settings_for(free_port())
    (endpoint,) = settings.endpoints
    line = check_controller(settings, endpoint)
    assert (line.level, line.text) == (Level.FAIL, "Connection refused")
    assert "correct the setting controllers" in line.todo
    (about,) = check_quorum(settings).findings
    assert (about.level, about.text) == (Level.FAIL, "no controller can be asked")
