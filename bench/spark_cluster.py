"""A standalone Spark cluster on this machine: a master, and workers in their own processes."""

from __future__ import annotations

import json
import os
import secrets
import socket
from collections.abc import Mapping
from pathlib import Path

import pyspark

from kcm.servers.ports import HOST, free_port
from kcm.servers.process import Process
from kcm.servers.supervisor import Supervisor
from pipeline.java import find_java

MEMORY_MIB = 512
"""Memory of the heap of each executor; master and workers use less."""
ANSWER_DEADLINE_S = 1.0
READY_DEADLINE_S = 60.0
_SECRET = "spark.authenticate.secret"  # noqa: S105  # the name of a property
JAVA_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData")


class SparkCluster:
    """The master and its workers; each worker runs one executor, which ends with it."""

    def __init__(self, supervisor: Supervisor, folder: Path, *, workers: int, cores: int) -> None:
        """Describe the processes; nothing is started yet. `cores` is the number for each worker."""
        self._folder = folder
        self._secret = secrets.token_hex(16)
        self._java = find_java(os.environ).path
        port = free_port()
        self.url = f"spark://{HOST}:{port}"
        self.master = Process(
            supervisor,
            "spark-master",
            self._command("master.Master", "--port", str(port)),
            env=self._environment(),
            health=lambda: _refused(port),
            ready_deadline_s=READY_DEADLINE_S,
        )
        self.workers = {
            f"worker-{number}": Process(
                supervisor,
                f"worker-{number}",
                self._command(
                    "worker.Worker",
                    *("--cores", str(cores), "--memory", f"{2 * MEMORY_MIB}m"),
                    *("--work-dir", os.fspath(folder / f"worker-{number}"), self.url),
                ),
                env=self._environment(),
            )
            for number in range(workers)
        }

    def start(self) -> None:
        """Start the master, then all workers, which register with it."""
        self._folder.mkdir()
        self._properties_file.touch(mode=0o600)
        properties = {
            "spark.authenticate": "true",
            _SECRET: self._secret,
            "spark.network.crypto.enabled": "true",
            "spark.network.crypto.authEngineVersion": "2",
            "spark.worker.cleanup.enabled": "true",
        }
        self._properties_file.write_text("".join(f"{k} {v}\n" for k, v in properties.items()))
        self.master.start()
        self.master.wait_ready()
        for worker in self.workers.values():
            worker.start()

    def options(self) -> Mapping[str, str]:
        """Return the fold's settings for this cluster, which secures its own connections and needs the secret."""
        conf = {
            _SECRET: self._secret,
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.executor.memory": f"{MEMORY_MIB}m",
            "spark.executor.defaultJavaOptions": " ".join(JAVA_OPTIONS),
        }
        return {"spark_master": self.url, "spark_conf": json.dumps(conf)}

    @property
    def _properties_file(self) -> Path:
        return self._folder / "spark.properties"

    def _command(self, main_class: str, *arguments: str) -> list[str]:
        return [
            os.fspath(self._java),
            f"-Xmx{MEMORY_MIB // 2}m",
            *JAVA_OPTIONS,
            *("-cp", os.fspath(_spark_home() / "jars" / "*")),
            f"org.apache.spark.deploy.{main_class}",
            *("--host", HOST, "--webui-port", str(free_port())),
            *("--properties-file", os.fspath(self._properties_file)),
            *arguments,
        ]

    def _environment(self) -> dict[str, str]:
        return {
            "SPARK_HOME": os.fspath(_spark_home()),
            # A worker looks for it in a folder that pyspark's distribution does not have.
            "SPARK_SCALA_VERSION": "2.13",
            "SPARK_LOCAL_IP": HOST,
            "JAVA_HOME": os.fspath(self._java.resolve().parent.parent),
        }


def _spark_home() -> Path:
    return Path(pyspark.__file__).parent


def _refused(port: int) -> str | None:
    try:
        socket.create_connection((HOST, port), ANSWER_DEADLINE_S).close()
    except OSError as error:
        return str(error)
    return None
