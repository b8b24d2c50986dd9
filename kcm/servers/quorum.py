"""The controllers of one KRaft cluster, as all of its nodes are told of them: ids, addresses, listener, formatted folders.

A static quorum is named by `controller.quorum.voters` and stays as it is (kraft.version 0). A dynamic
one is written into the log when its first controllers are formatted, by `--standalone` or
`--initial-controllers` of Kafka's storage tool (kraft.version 1, KIP-853).
"""

import base64
import os
import shutil
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from controller_model.records.decoding import DECODING_ERRORS
from kcm.servers.ports import HOST, free_port
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError

STORAGE_TOOL = "kafka.tools.StorageTool"
METADATA_FOLDER = "__cluster_metadata-0"
_FORMAT_DEADLINE_S = 60.0  # the tool is a JVM that works for a second
_FORMAT_POLL_S = 0.05

Properties = Mapping[str, str | int]


class ControllerListener(NamedTuple):
    """How controllers, brokers and observers talk to a controller."""

    protocol: str = "PLAINTEXT"
    """The security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."""
    properties: Properties = MappingProxyType({})
    """What each node needs for it: passwords, stores, an authorizer."""


class Leader(NamedTuple):
    """What a node knows of the quorum's leader."""

    id: int
    epoch: int


class Quorum:
    """The voters of a KRaft cluster, and what its nodes have in common."""

    def __init__(
        self,
        voters: Iterable[int],
        *,
        dynamic: bool = False,
        listener: ControllerListener | None = None,
        format_arguments: Sequence[str] = (),
    ) -> None:
        """Take a free port for each voter.

        `format_arguments` go to the storage tool, such as `--release-version 3.7` or `--add-scram`.
        """
        self.cluster_id = random_id()
        self.ports = {node_id: free_port() for node_id in voters}
        self.reached_at = dict(self.ports)
        """The ports of a static quorum's voters as all nodes and observers are told them: tests put proxies between."""
        self.dynamic = dynamic
        self.listener = listener or ControllerListener()
        self._format_arguments = format_arguments
        self._directories = {node_id: random_id() for node_id in self.ports}
        self._formatted: Path | None = None

    @property
    def bootstrap_controllers(self) -> str:
        """The controllers' addresses, as `controller.quorum.bootstrap.servers` has them."""
        return ",".join(f"{HOST}:{port}" for port in self.reached_at.values())

    def properties(self) -> Properties:
        """Return what stands in the configuration of each node, controller or broker."""
        voters = ",".join(f"{voter}@{HOST}:{port}" for voter, port in self.reached_at.items())
        return {
            **(
                {"controller.quorum.bootstrap.servers": self.bootstrap_controllers}
                if self.dynamic
                else {"controller.quorum.voters": voters}
            ),
            "controller.listener.names": "CONTROLLER",
            "listener.security.protocol.map": f"PLAINTEXT:PLAINTEXT,CONTROLLER:{self.listener.protocol}",
            **self.listener.properties,
        }

    def listener_of(self, voter: int) -> str:
        """Return the controllers' listener of a voter, as `listeners` names it."""
        return f"CONTROLLER://{HOST}:{self.ports[voter]}"

    def advertised(self, voter: int) -> Properties:
        """Return what lets a voter advertise the port at which it is reached, if that is not its own.

        Else it tells its own to followers that do not fetch (KafkaRaftClient.buildBeginQuorumEpochRequest), and
        they fetch past the proxy.
        """
        if self.reached_at[voter] == self.ports[voter]:
            return {}
        return {"advertised.listeners": f"CONTROLLER://{HOST}:{self.reached_at[voter]}"}

    def format(self, supervisor: Supervisor, java: Sequence[str], config: Path, voter: int) -> None:
        """Format a voter's folder, unless that is done; `java` is the command line up to the main class.

        The tool writes one folder; that of another voter differs in its ids only. Raises
        EnvironmentProblemError with the tool's own words when it fails.
        """
        folder = config.parent / "logs"
        if (folder / "meta.properties").exists():
            return
        if self._formatted is None:
            command = [*java, STORAGE_TOOL, "format", "-c", os.fspath(config)]
            _run(
                supervisor,
                f"format-{voter}-{self.cluster_id}",
                [
                    *command,
                    "-t",
                    self.cluster_id,
                    *self._voter_arguments(),
                    *self._format_arguments,
                ],
            )
            self._formatted = folder
            return
        shutil.copytree(self._formatted, folder, ignore=_only_written_by_format, dirs_exist_ok=True)
        write_ids(folder, self.cluster_id, voter, self._directories[voter])

    def _voter_arguments(self) -> list[str]:
        if not self.dynamic:
            return []
        if len(self.ports) == 1:
            return ["--standalone"]
        voters = (f"{v}@{HOST}:{p}:{self._directories[v]}" for v, p in self.ports.items())
        return ["--initial-controllers", ",".join(voters)]


def write_ids(folder: Path, cluster_id: str, node_id: int, directory_id: str) -> None:
    """Write meta.properties, which names a formatted folder's cluster, node and directory, unless it is there."""
    path = folder / "meta.properties"
    if path.exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    partial.write_text(
        f"version=1\ncluster.id={cluster_id}\nnode.id={node_id}\ndirectory.id={directory_id}\n"
    )
    partial.rename(path)


def read_leader(folder: Path) -> Leader | None:
    """Return the leader that a node last wrote down in its `quorum-state`; None while it knows none.

    Kafka writes the file before it acts on what it says (QuorumState.durableTransitionTo).
    """
    try:
        text = (folder / METADATA_FOLDER / "quorum-state").read_bytes()
        state = msgspec.json.decode(text)
        leader = Leader(state["leaderId"], state["leaderEpoch"])
    except (OSError, KeyError, *DECODING_ERRORS):
        return None  # not there yet, or being replaced
    return leader if leader.id >= 0 else None


def random_id() -> str:
    """Return a new id in Kafka's form: 22 characters that do not begin with a hyphen."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


def _only_written_by_format(folder: str, names: list[str]) -> set[str]:
    """Return what is not copied: ids, and what the node itself wrote since it was formatted."""
    written = {METADATA_FOLDER} | {name for name in names if name.endswith(".checkpoint")}
    if Path(folder).name == METADATA_FOLDER:
        written = {f"{0:020d}-{0:010d}.checkpoint"}
    return set(names) - written


def _run(supervisor: Supervisor, name: str, command: Sequence[str]) -> None:
    """Run a tool under guard to its end; raises EnvironmentProblemError when it fails or hangs."""
    tool = Process(supervisor, name, command)
    tool.start()
    deadline = time.monotonic() + _FORMAT_DEADLINE_S
    while tool.running and time.monotonic() < deadline:
        time.sleep(_FORMAT_POLL_S)
    if tool.running:
        tool.kill()
        raise EnvironmentProblemError(f"{name} did not end within {_FORMAT_DEADLINE_S:g} s")
    if tool.exit_code != 0:
        tool.check()
    tool.stop()  # it has ended as it should: the supervisor no longer expects it to run
