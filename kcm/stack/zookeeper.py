"""A real ZooKeeper server, 3.8 unless another is named, standalone, on the loopback address.

Tuned for stories and tests: short ticks, so that sessions may be short; no fsync, so that a busy
disk does not stretch latencies. Data that must survive a power cut has no place in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcm.jars.java import find_java, server_command
from kcm.processes.ports import HOST, free_port
from kcm.stack.server import LOG_PROPERTIES, Server
from zk_source.zookeeper.four_letter_words import four_letter_word

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kcm.jars.jars import Jars
    from kcm.processes.supervisor import Supervisor
    from pipeline.java import Java

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
ANSWER_DEADLINE_S = 1.0  # it is local, and answers in a millisecond
TICK_TIME_MS = 250  # sessions expire on multiples of this
MIN_SESSION_TIMEOUT_MS = 500  # ZooKeeper's own minimum is two ticks; tests want short sessions
MAX_SESSION_TIMEOUT_MS = 60_000  # ZooKeeper's own maximum is twenty ticks, 5 s here: too short
PREALLOC_KIB = (
    4096  # a transaction log grows in steps of this; the default of 64 MiB fills RAM disks
)


class ZooKeeper(Server):
    """One ZooKeeper server; give `connect_string` to its clients."""

    def __init__(
        self,
        supervisor: Supervisor,
        jars: Jars,
        data_dir: Path,
        *,
        name: str = "zookeeper",
        port: int | None = None,
        java: Java | None = None,
        properties: Mapping[str, str] | None = None,
        classpath: Sequence[Path] | None = None,
        ready_deadline_s: float = 30.0,
    ) -> None:
        """Describe the server; None for `port` takes a free one, for `java` the one found.

        `properties` are added to its zoo.cfg and win over ours; `classpath` is that of another
        release, None for the one that the broker's jars bring.
        """
        super().__init__(name, supervisor, data_dir, ready_deadline_s=ready_deadline_s)
        self.port = free_port() if port is None else port
        self._classpath = jars.broker if classpath is None else list(classpath)
        self._java = java or find_java()
        self._properties = dict(properties or {})

    @property
    def connect_string(self) -> str:
        """Where clients find it, `host:port`, without a chroot."""
        return f"{HOST}:{self.port}"

    def ports(self) -> list[int]:
        """Return the client port, the only one."""
        return [self.port]

    def prepare(self) -> list[str]:
        """Write zoo.cfg and return the command line."""
        config = {
            "dataDir": str(self.data_dir / "data"),
            "clientPort": str(self.port),
            "clientPortAddress": HOST,
            "tickTime": str(TICK_TIME_MS),
            "minSessionTimeout": str(MIN_SESSION_TIMEOUT_MS),
            "maxSessionTimeout": str(MAX_SESSION_TIMEOUT_MS),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            "autopurge.snapRetainCount": "3",
            "autopurge.purgeInterval": "1",
            **self._properties,
        }
        path = self.data_dir / "zoo.cfg"
        path.write_text("".join(f"{key}={value}\n" for key, value in config.items()))
        properties = {
            "zookeeper.forceSync": "no",
            "zookeeper.preAllocSize": str(PREALLOC_KIB),
            "zookeeper.jmx.log4j.disable": "true",  # 3.4 starts without log4j's own beans only so
            **LOG_PROPERTIES,
        }
        return server_command(
            self._java,
            MAIN_CLASS,
            path,
            classpath=self._classpath,
            properties=properties,
        )

    def seen(self) -> str | None:
        """Return None when it serves, else what its answer to `srvr` was."""
        try:
            answer = four_letter_word(HOST, self.port, "srvr", deadline_s=ANSWER_DEADLINE_S)
        except OSError as error:
            return f"{self.connect_string}: {error}"
        if "Mode: " in answer:
            return None
        return f"{self.connect_string} answered srvr with {answer.strip()[:200]!r}"
