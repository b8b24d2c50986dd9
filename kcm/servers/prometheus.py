"""A real Prometheus server, where its program is installed; nothing downloads it.

Servers are on this machine, so requests to them use no proxy.
"""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import httpx

from kcm.servers.ports import HOST
from kcm.servers.server import Server
from kcm.servers.supervisor import Supervisor
from pipeline.runtime import EnvironmentProblemError

_READY_TIMEOUT_S = 1.0
"""A healthy server answers in a few milliseconds."""
RETENTION = "2d"  # a demo that is left running must not fill the disk


class Prometheus(Server):
    """A Prometheus server that scrapes targets into its data folder; `url` is the address of its page and its API."""

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


def program_of_prometheus(name: str) -> str:
    """Return the path of `prometheus` or `promtool`; raises EnvironmentProblemError when it is missing."""
    found = shutil.which(name)
    if found is None:
        raise EnvironmentProblemError(
            f"the program {name} is not on PATH; install it (Debian: apt install prometheus)"
        )
    return found


def why_not_ready(url: str) -> str | None:
    """Return None when the server is ready, else why it is not known to be."""
    ready = f"{url}/-/ready"
    try:
        answer = httpx.get(ready, timeout=_READY_TIMEOUT_S, trust_env=False)
    except httpx.HTTPError as error:
        return f"{ready}: {error}"
    return None if answer.is_success else f"{ready}: {answer.status_code} {answer.reason_phrase}"
