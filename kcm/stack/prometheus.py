"""A real Prometheus server, where its program is installed; nothing downloads it.

It scrapes the given targets into a database of its own in the stack's folder.
"""

from __future__ import annotations

import http.client
import json
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from kcm.processes.errors import StackError
from kcm.processes.ports import HOST, free_port
from kcm.stack.server import Server

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kcm.processes.supervisor import Supervisor

ANSWER_DEADLINE_S = 1.0  # a healthy server answers in a few milliseconds
HTTP_OK = 200
RETENTION = "2d"  # a demo left running must not fill the disk


def find_prometheus() -> Path | None:
    """Return the program `prometheus` from PATH; None when it is not installed."""
    found = shutil.which("prometheus")
    return Path(found) if found else None


class Prometheus(Server):
    """One Prometheus server; `url` is where its page and its API are."""

    def __init__(
        self,
        supervisor: Supervisor,
        data_dir: Path,
        *,
        targets: Mapping[str, Sequence[str]],
        rule_files: Sequence[Path] = (),
        scrape_interval_s: float = 1.0,
        name: str = "prometheus",
        port: int | None = None,
        ready_deadline_s: float = 30.0,
    ) -> None:
        """Describe the server; `targets` are `host:port` by job name, None for `port` takes a free one.

        Raises StackError when the program is not on PATH.
        """
        super().__init__(name, supervisor, data_dir, ready_deadline_s=ready_deadline_s)
        program = find_prometheus()
        if program is None:
            message = (
                "the program prometheus is not on PATH; install it (Debian: apt install prometheus)"
            )
            raise StackError(message)
        self.port = free_port() if port is None else port
        self._program = program
        self._targets = {job: list(addresses) for job, addresses in targets.items()}
        self._rule_files = [path.resolve() for path in rule_files]
        self._interval = f"{round(scrape_interval_s * 1000)}ms"

    @property
    def url(self) -> str:
        """Where its page and its API are."""
        return f"http://{HOST}:{self.port}"

    def ports(self) -> list[int]:
        """Return the port of its page, the only one."""
        return [self.port]

    def env(self) -> Mapping[str, str]:
        """Return nothing: it is no JVM."""
        return {}

    def prepare(self) -> list[str]:
        """Write prometheus.yml (in JSON, which is YAML) and return the command line."""
        config = {
            "global": {"scrape_interval": self._interval, "evaluation_interval": self._interval},
            "rule_files": [os.fspath(path) for path in self._rule_files],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": addresses}]}
                for job, addresses in self._targets.items()
            ],
        }
        path = self.data_dir / "prometheus.yml"
        path.write_text(json.dumps(config, indent=2))
        return [
            os.fspath(self._program),
            f"--config.file={path}",
            f"--storage.tsdb.path={self.data_dir / 'tsdb'}",
            f"--storage.tsdb.retention.time={RETENTION}",
            f"--web.listen-address={HOST}:{self.port}",
            "--log.level=warn",
        ]

    def seen(self) -> str | None:
        """Return None when it is ready, else what its answer to /-/ready was."""
        connection = http.client.HTTPConnection(HOST, self.port, timeout=ANSWER_DEADLINE_S)
        try:
            connection.request("GET", "/-/ready")
            answer = connection.getresponse()
            body = answer.read().decode(errors="replace").strip()
        except (OSError, http.client.HTTPException) as error:
            return f"{self.url}: {error}"
        finally:
            connection.close()
        return None if answer.status == HTTP_OK else f"{self.url}/-/ready: {answer.status} {body}"
