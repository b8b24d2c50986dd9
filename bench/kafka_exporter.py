"""Provide kafka_exporter, installed by Go when it is first needed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from kcm.servers.jars import default_cache

MODULE = "github.com/danielqsj/kafka_exporter@latest"
INSTALL_DEADLINE_S = 600.0


def find_kafka_exporter() -> Path | None:
    """Return the program; None, with the reason on standard error, where it cannot be installed."""
    folder = default_cache() / "tools"
    if found := shutil.which(
        "kafka_exporter", path=os.pathsep.join([str(folder), *os.get_exec_path()])
    ):
        return Path(found)
    go = shutil.which("go")
    if go is None:
        print("kafka_exporter is skipped: it is not here, and neither is Go", file=sys.stderr)
        return None
    try:
        subprocess.run(  # noqa: S603  # Go's own program
            [go, "install", MODULE],
            env=os.environ | {"GOBIN": str(folder)},
            check=True,
            capture_output=True,
            text=True,
            timeout=INSTALL_DEADLINE_S,
        )
    except subprocess.SubprocessError as error:
        reason = (getattr(error, "stderr", None) or str(error)).strip().splitlines()[-1]
        print(f"kafka_exporter is skipped: go install {MODULE}: {reason}", file=sys.stderr)
        return None
    return folder / "kafka_exporter"
