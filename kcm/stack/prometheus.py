"""A real Prometheus server, where its program is installed; nothing downloads it.

It scrapes the given targets into its own database in the stack's folder.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from kcm.processes.ports import HOST
from kcm.processes.prometheus import program_of_prometheus, why_not_ready
from kcm.processes.supervisor import Supervisor
from kcm.stack.server import Server

RETENTION = "2d"  # a demo that is left running must not fill the disk


class Prometheus(Server):
    """One Prometheus server; `url` is the address of its page and its API."""

    def __init__(
        self,
        supervisor: Supervisor,
        data_dir: Path,
        *,
        targets: Mapping[str, Sequence[str]],
        rule_files: Sequence[Path] = (),
        scrape_interval_s: float = 1.0,
        port: int | None = None,
    ) -> None:
        """Describe the server; `targets` are `host:port` by job name, None for `port` takes a free one."""
        super().__init__(supervisor, "prometheus", data_dir, port=port)
        self._targets = targets
        self._rule_files = [path.resolve() for path in rule_files]
        self._interval = f"{round(scrape_interval_s * 1000)}ms"

    @property
    def url(self) -> str:
        """The address of its page and its API."""
        return f"http://{HOST}:{self.port}"

    def prepare(self) -> list[str]:
        """Write prometheus.yml (in JSON, which is YAML) and return the command line.

        Raises EnvironmentProblemError when the program is not on PATH.
        """
        program = program_of_prometheus("prometheus")
        config = {
            "global": {"scrape_interval": self._interval, "evaluation_interval": self._interval},
            "rule_files": [os.fspath(path) for path in self._rule_files],
            "scrape_configs": [
                {"job_name": job, "static_configs": [{"targets": list(addresses)}]}
                for job, addresses in self._targets.items()
            ],
        }
        path = self.data_dir / "prometheus.yml"
        path.write_text(json.dumps(config, indent=2))
        return [
            program,
            f"--config.file={path}",
            f"--storage.tsdb.path={self.data_dir / 'tsdb'}",
            f"--storage.tsdb.retention.time={RETENTION}",
            f"--web.listen-address={HOST}:{self.port}",
            "--log.level=warn",
        ]

    def seen(self) -> str | None:
        """Return None when it is ready, else why it is not known to be."""
        return why_not_ready(self.url)
