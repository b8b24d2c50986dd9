"""`kcm up` on a real ZooKeeper: the whole line in one command, looked after, and gone when it ends."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from kcm.run.exporter_client import ClusterSeen, read_cluster
from kcm.run.pipeline_processes import READY_DEADLINE_S
from kcm.servers import class_archive
from kcm.servers.kafka import KraftBroker
from kcm.servers.ports import HOST, free_port
from kcm.servers.zookeeper import ZooKeeper
from pipeline.java import find_java
from tests.support.hanging import HANG
from tests.support.registered import registered
from tests.support.waiting import DEADLINE_S, wait_until

CLUSTER = "up"
READY_S = class_archive.DEADLINE_S + READY_DEADLINE_S
"""As long as the command itself waits: Spark's classes are prepared, and Spark starts; on a busy machine in minutes."""
STOPPED_S = 60.0
"""All parts end at once, on a machine that does much else; of a start that is refused, most is Python's own."""

# Two starts of Spark on a busy machine take longer than a test usually may.
pytestmark = pytest.mark.timeout(600)


class Command:
    """A running `kcm up` whose output is a file."""

    def __init__(self, folder: Path, *arguments: str, module: str = "kcm") -> None:
        """Start it with everything on free ports, and its data in the folder."""
        self._module = module
        self._option = ["-P"] if module == "kcm" else []
        self.data = folder / "data"
        self._output = folder / f"up-{uuid.uuid4().hex[:6]}.out"
        options = {"port": 0, "watcher-metrics-port": 0, "stream-metrics-port": 0}
        given = [f"--{name}={value}" for name, value in options.items()]
        own = {name: value for name, value in os.environ.items() if not name.startswith("KCM_")}
        own["http_proxy"] = f"http://{HOST}:9"  # nobody is there, and it is not for this machine
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *(sys.executable, *self._option, "-m", module, "up", "--cluster", CLUSTER),
                    *("--data", str(self.data), *given, *arguments),
                ],
                stdout=output,
                stderr=subprocess.STDOUT,
                env=own,
                start_new_session=True,
            )

    @property
    def output(self) -> str:
        """Return what it printed so far."""
        return self._output.read_text()

    def says(self, pattern: str, *, deadline_s: float = READY_S) -> re.Match[str]:
        """Wait until its output matches, and return the match."""

        def look() -> tuple[re.Match[str] | None, str, int | None]:
            return re.search(pattern, self.output), self.output, self.process.poll()

        match, _, _ = wait_until(
            look, lambda seen: bool(seen[0] or seen[2] is not None), deadline_s=deadline_s
        )
        assert match, f"ended with {self.process.poll()} and never said {pattern!r}: {self.output}"
        return match

    def family(self) -> dict[int, str]:
        """Return the processes that belong to it, guards included: pid and command line."""
        found = {}
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit() or int(entry.name) == self.process.pid:
                continue
            try:
                command = (entry / "cmdline").read_bytes()
                about = command + (entry / "environ").read_bytes()
            except OSError:
                continue
            if str(self.data).encode() in about:
                found[int(entry.name)] = (
                    command.replace(b"\0", b" ").decode(errors="replace").strip()
                )
        return found

    def part(self, verb: str) -> int | None:
        """Return the pid of a part itself; None while it does not run."""
        own = " ".join([sys.executable, *self._option, "-m", self._module, verb])
        return next((pid for pid, argv in self.family().items() if argv == own), None)

    def end(self) -> int:
        """Stop it as a service manager would, and return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOPPED_S)


@contextmanager
def running(folder: Path, *arguments: str, module: str = "kcm") -> Iterator[Command]:
    """Run `kcm up` and kill it at the end if it still runs."""
    command = Command(folder, *arguments, module=module)
    try:
        yield command
    finally:
        command.process.kill()
        command.process.wait()


@pytest.fixture
def watched(zookeeper: ZooKeeper, zk_chroot: str, pipeline_broker: KraftBroker) -> Iterator[str]:
    """A cluster's znodes, written by hand: its id is the id of the pipeline's Kafka."""
    broker = {"version": 5, "host": "h", "port": 9, "endpoints": [], "features": {}}
    topic = {"version": 3, "partitions": {"0": [0]}, "adding_replicas": {}, "removing_replicas": {}}
    state = {"controller_epoch": 7, "leader": 0, "version": 1, "leader_epoch": 0, "isr": [0]}
    admin = AdminClient({"bootstrap.servers": pipeline_broker.bootstrap_servers})
    znodes: dict[str, object] = {
        "/cluster/id": {"version": "1", "id": admin.list_topics(timeout=DEADLINE_S).cluster_id},
        "/brokers/ids/0": broker,
        "/controller": {"version": 2, "brokerid": 0, "timestamp": "1", "kraftControllerEpoch": -1},
        "/controller_epoch": 7,
        "/brokers/topics/t": {**topic, "topic_id": "AAAAAAAAAAAAAAAAAAAAAA"},
        "/brokers/topics/t/partitions/0/state": state,
    }
    connect = zookeeper.connect_string + zk_chroot
    with registered(connect, znodes):
        yield connect


def test_the_pipeline_starts_restarts_a_killed_part_and_stops(
    watched: str, pipeline_broker: KraftBroker, tmp_path: Path
) -> None:
    """One command shows the cluster; a killed part comes back; a second one on its data is refused."""
    servers = pipeline_broker.bootstrap_servers
    prefix = f"up-{uuid.uuid4().hex[:8]}"
    arguments = ("--zookeeper", watched, "--bootstrap-servers", servers, "--topic-prefix", prefix)
    with running(tmp_path, *arguments) as command:
        ready = command.says(r"ready: controller is 0, epoch 7; metrics at (http://\S+)/metrics")
        command.says("warning: the pipeline's topics are on the cluster that is watched")

        with running(tmp_path, *arguments) as second:
            assert second.process.wait(STOPPED_S) == 4
            assert re.search(
                rf"^kcm: another kcm up \(process {command.process.pid}\) uses the data in "
                rf"{re.escape(str(command.data))};",
                second.output,
            )

        watcher = command.part("watch")
        assert watcher is not None
        os.kill(watcher, signal.SIGKILL)
        command.says(r"watcher ended with exit code 137; starting it again in 0\.5 s")
        wait_until(lambda: command.part("watch"), lambda pid: pid not in {None, watcher})
        seen = wait_until(
            lambda: read_cluster(ready[1], CLUSTER),
            lambda seen: isinstance(seen, ClusterSeen) and seen.live,
            deadline_s=READY_S,
        )
        assert isinstance(seen, ClusterSeen)
        assert (seen.controller_id, seen.epoch) == (0, 7)

        assert command.end() == 0
        assert command.family() == {}


@pytest.mark.full
def test_a_part_that_hangs_is_killed_and_comes_back(
    watched: str, pipeline_broker: KraftBroker, tmp_path: Path
) -> None:
    """The watcher and the exporter hang together: both are restarted, and figures are live again."""
    servers = pipeline_broker.bootstrap_servers
    prefix = f"up-{uuid.uuid4().hex[:8]}"
    arguments = ("--zookeeper", watched, "--bootstrap-servers", servers, "--topic-prefix", prefix)
    with running(tmp_path, *arguments) as command:
        ready = command.says(r"ready: controller is 0, epoch 7; metrics at (http://\S+)/met")
        hung = {verb: command.part(verb) for verb in ("watch", "export")}
        for pid in hung.values():
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
        for name in ("watcher", "exporter"):
            command.says(rf"{name} has not answered for 45 s: it hangs, and is killed")
            command.says(rf"{name} ended with exit code 137; starting it again in 0\.5 s")
        for verb, pid in hung.items():
            old = {None, pid}
            wait_until(partial(command.part, verb), partial(_is_new, old))
        wait_until(
            lambda: read_cluster(ready[1], CLUSTER),
            lambda seen: isinstance(seen, ClusterSeen) and seen.live,
            deadline_s=READY_S,
        )
        assert "stream has not answered" not in command.output
        assert command.end() == 0


@pytest.mark.full
def test_loops_and_a_kafka_that_hang_are_found_and_come_back(watched: str, tmp_path: Path) -> None:
    """Of all three parts only the main loop hangs, while their ports answer; then the pipeline's Kafka does."""
    with running(tmp_path, "--zookeeper", watched, module="tests.support.hanging") as command:
        ready = command.says(r"ready: controller is 0, epoch 7; metrics at (http://\S+)/met")
        hung = {verb: command.part(verb) for verb in ("watch", "stream", "export")}
        for pid in hung.values():
            assert pid is not None
            os.kill(pid, HANG)
        for name in ("watcher", "stream", "exporter"):
            command.says(
                f"{name} answers that its main loop does not turn: it hangs, and is killed"
            )
        for verb, pid in hung.items():
            wait_until(partial(command.part, verb), partial(_is_new, {None, pid}))
        wait_until(partial(read_cluster, ready[1], CLUSTER), _is_live, deadline_s=READY_S)

        java = str(find_java(os.environ).path)
        kafka = next(pid for pid, argv in command.family().items() if _is_kafka(java, argv))
        os.kill(kafka, signal.SIGSTOP)
        command.says("the pipeline's Kafka has not answered for 45 s: it hangs, and is killed")
        command.says("the pipeline's Kafka ended with exit code 137; starting it again")
        wait_until(partial(read_cluster, ready[1], CLUSTER), _is_live, deadline_s=READY_S)
        assert command.output.count("it hangs, and is killed") == 4
        assert command.end() == 0


def _is_kafka(java: str, argv: str) -> bool:
    return argv.startswith(java) and "kafka.Kafka" in argv


def _is_live(seen: ClusterSeen | str) -> bool:
    return isinstance(seen, ClusterSeen) and seen.live


def _is_new(old: set[int | None], pid: int | None) -> bool:
    return pid not in old


@pytest.mark.full
def test_a_killed_up_leaves_no_process_and_keeps_its_data(
    watched: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a kill -9 no process is left, and the next start has the same topics and figures.

    --java-home names the Java of Kafka and Spark, also where JAVA_HOME names none.
    """
    java_home = find_java(os.environ).path.resolve().parent.parent
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no-java"))
    arguments = ("--zookeeper", watched, "--java-home", str(java_home))
    with running(tmp_path, *arguments) as command:
        command.says("ready: controller is 0, epoch 7")
        names = command.family()  # with the broker's and Spark's JVMs
        assert any("kafka.Kafka" in argv for argv in names.values())
        assert command.part("stream") in names
        command.process.kill()
        command.process.wait()
        wait_until(command.family, lambda family: not family, deadline_s=STOPPED_S)
        cluster_id = (command.data / "kafka/logs/meta.properties").read_text()

    with running(tmp_path, *arguments) as again:
        again.says("ready: controller is 0, epoch 7")
        assert (again.data / "kafka/logs/meta.properties").read_text() == cluster_id
        assert again.end() == 0
        assert again.family() == {}


def test_a_part_with_a_permanent_error_ends_the_pipeline(
    watched: str, pipeline_broker: KraftBroker, tmp_path: Path
) -> None:
    """A part's final error is shown in one line that names the part, with its exit code."""
    prefix = f"up-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": pipeline_broker.bootstrap_servers})
    for future in admin.create_topics([NewTopic(f"{prefix}.views", 1, 1)]).values():
        future.result()
    servers = ("--bootstrap-servers", pipeline_broker.bootstrap_servers, "--topic-prefix", prefix)
    with running(tmp_path, "--zookeeper", watched, *servers) as command:
        assert command.process.wait(READY_S) == 2
        (line,) = [line for line in command.output.splitlines() if line.startswith("kcm: ")]
        assert re.match(rf"kcm: (watcher|exporter|stream): topic {prefix}\.views has ", line)
        assert command.family() == {}


def test_a_port_in_use_is_named_before_anything_is_started(watched: str, tmp_path: Path) -> None:
    """A port that another program uses is one line with the part and the port."""
    port = free_port()
    with (
        socket.create_server((HOST, port)),
        running(tmp_path, "--zookeeper", watched, "--port", str(port)) as command,
    ):
        assert command.process.wait(READY_S) == 4
        named = f"kcm: exporter cannot listen on {HOST}:{port}: the port is in use"
        assert named in command.output
        assert not (command.data / "kafka").exists()
