"""A real standalone ZooKeeper server on the loopback address, 3.8 unless another release is named.

It is tuned for demos and tests: short ticks, so that sessions may be short; no fsync, so that a
busy disk does not lengthen latencies. Do not keep data in it that must survive a power cut.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from kcm.servers.jars import Jars
from kcm.servers.ports import HOST
from kcm.servers.server import Server, jvm_command
from kcm.servers.supervisor import Supervisor
from zk_source.ensemble.four_letter_words import four_letter_word

MAIN_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
ANSWER_DEADLINE_S = 1.0  # it is local, and answers in a millisecond
CONFIG = {
    "clientPortAddress": HOST,
    "tickTime": 250,  # sessions expire on multiples of this
    "minSessionTimeout": 500,  # ZooKeeper's own minimum is two ticks; tests want short sessions
    "maxSessionTimeout": 60_000,  # ZooKeeper's own maximum is twenty ticks, 5 s here: too short
    "maxClientCnxns": 0,
    "admin.enableServer": "false",
    "4lw.commands.whitelist": "*",
    "autopurge.snapRetainCount": 3,
    "autopurge.purgeInterval": 1,
}
JVM_OPTIONS = (
    "-Dzookeeper.forceSync=no",
    # KiB by which a transaction log grows; the default of 64 MiB fills RAM disks
    "-Dzookeeper.preAllocSize=4096",
    "-Dzookeeper.jmx.log4j.disable=true",  # 3.4 only starts without log4j's own beans
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
        properties: Mapping[str, str] | None = None,
        classpath: Sequence[Path] | None = None,
    ) -> None:
        """Describe the server; None for `port` takes a free one.

        `properties` are added to its zoo.cfg and override the defaults. `classpath` is that of
        another release; None takes the one among the broker's jars.
        """
        super().__init__(supervisor, name, data_dir, port=port)
        self._classpath = jars.broker if classpath is None else classpath
        self._properties = dict(properties or {})

    @property
    def connect_string(self) -> str:
        """The address for clients, `host:port`, without a chroot."""
        return f"{HOST}:{self.port}"

    def prepare(self) -> list[str]:
        """Make the data folder, write zoo.cfg and return the command line."""
        data = self.data_dir / "data"
        # ZooKeeper 3.4 makes it in two threads, the server's and the purge's, and ends if the other one was first (FileTxnSnapLog).
        (data / "version-2").mkdir(parents=True, exist_ok=True)
        own = {"dataDir": data, "clientPort": self.port}
        return jvm_command(
            MAIN_CLASS,
            self.data_dir / "zoo.cfg",
            {**CONFIG, **own, **self._properties},
            classpath=self._classpath,
            heap_mib=self.heap_mib,
            options=(*JVM_OPTIONS, *self.jvm_options),
        )

    def seen(self) -> str | None:
        """Return None when it serves, else its answer to `srvr`."""
        try:
            answer = four_letter_word(HOST, self.port, "srvr", deadline_s=ANSWER_DEADLINE_S)
        except OSError as error:
            return f"{self.connect_string}: {error}"
        if "Mode: " in answer:
            return None
        return f"{self.connect_string} answered srvr with {answer.strip()[:200]!r}"
