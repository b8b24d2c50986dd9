"""A full disk under `kcm up`: its Kafka, the fold's state and the logs, all on one small disk.

The rule: the disk is a separate file system in memory, in a mount namespace that only `kcm up`
sees. So no disk of the machine is filled, and only the rights of a user namespace are needed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Self

from kcm.servers.jars import Jars
from kcm.servers.ports import free_port
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from kcm.servers.zookeeper import ZooKeeper
from tests.faults.changes import SteadyChanges
from tests.faults.history import History
from tests.faults.sides import Sides
from tests.faults.truth import Truth
from tests.support.registered import registered

CLUSTER = "full-disk"
DISK = "400m"
"""Room for everything for some minutes."""
READY_DEADLINE_S = 300.0
FULL_FOR_S = 60.0
"""Long enough for each part to need space more than once."""
CHUNK_BYTES = 1 << 20
IN_NAMESPACE = ("unshare", "--user", "--map-root-user", "--mount")
MOUNT = 'mount -t tmpfs -o size="$0" tmpfs "$1" && shift && exec "$@"'
CONTENTS = {
    "/brokers/ids/101": {"version": 5, "host": "localhost", "port": 9092, "endpoints": []},
    "/brokers/topics/t": {"version": 1, "partitions": {}},
    "/controller_epoch": 1,
    "/controller": {"version": 1, "brokerid": 101},
}


def why_not() -> str | None:
    """Return why this machine cannot run it; None if it can."""
    if shutil.which(IN_NAMESPACE[0]) is None:
        return "the program unshare is not installed"
    tried = subprocess.run([*IN_NAMESPACE, "true"], capture_output=True, check=False)
    return tried.stderr.decode().strip() if tried.returncode else None


class FullDisk(Sides):
    """`kcm up` on its own disk, and a ZooKeeper that it watches."""

    def __init__(self, supervisor: Supervisor, jars: Jars) -> None:
        """Describe the servers; nothing is started yet."""
        self._zookeeper = ZooKeeper(supervisor, jars, supervisor.folder / "full-disk" / "zookeeper")
        self._data = supervisor.folder / "full-disk" / "data"
        self._cluster = ExitStack()
        port = free_port()
        own = {"port": port, "watcher-metrics-port": 0, "stream-metrics-port": 0}
        self._up = Process(
            supervisor,
            "kcm-up",
            [
                *(*IN_NAMESPACE, "sh", "-c", MOUNT, DISK, self._data),
                *(sys.executable, "-P", "-m", "kcm", "up", "--cluster", CLUSTER),
                *("--zookeeper", self._zookeeper.connect_string, "--data", self._data),
                *(f"--{name}={value}" for name, value in own.items()),
            ],
            health=self._not_ready,
            ready_deadline_s=READY_DEADLINE_S,
        )
        hosts = self._zookeeper.connect_string
        super().__init__(Truth(hosts), SteadyChanges(hosts), f"http://127.0.0.1:{port}", CLUSTER)
        self.history = History([self._zookeeper.data_dir / "data"], self._bootstrap_servers)

    def __enter__(self) -> Self:
        """Start everything and wait until the monitor is up to date."""
        self._data.mkdir(parents=True)
        self._zookeeper.start()
        self._cluster.enter_context(registered(self._zookeeper.connect_string, CONTENTS))
        super().__enter__()
        self._up.start()
        self._up.wait_ready()
        self.wait_for_agreement()
        return self

    def __exit__(self, *error: object) -> None:
        """Stop the test's own clients, and end the session of the broker."""
        super().__exit__(*error)
        self._cluster.close()

    def fill(self) -> None:
        """Fill the disk for a while; then free it again."""
        filler = self._disk / "filler"
        deadline = time.monotonic() + FULL_FOR_S
        with filler.open("wb", buffering=0) as file:
            while time.monotonic() < deadline:
                with suppress(OSError):  # full: space that others free is filled a second later
                    file.write(bytes(CHUNK_BYTES))
                    continue
                time.sleep(1)
        assert self._up.running, f"kcm up has ended: {self._up.log_tail()}"
        filler.unlink()
        self.said += self._up.log_tail().splitlines()

    def _bootstrap_servers(self) -> str:
        """Return the address of the Kafka that `kcm up` has started, from its configuration."""
        config = self._disk / "kafka" / "server.properties"
        lines = (line.partition("=") for line in config.read_text().splitlines())
        (listeners,) = (value for name, _, value in lines if name == "advertised.listeners")
        return listeners.partition("://")[2].partition(",")[0]

    @property
    def _disk(self) -> Path:
        return Path(f"/proc/{self._up.pid}/root{self._data}")

    def _not_ready(self) -> str | None:
        sample = self.sampler.sample()
        return None if sample.live else sample.status
