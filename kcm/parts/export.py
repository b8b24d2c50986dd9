"""`kcm export`: the exporter alone."""

from __future__ import annotations

from pathlib import Path

from kcm.cli.options import Options, with_options
from kcm.cli.parts import EXPORT, run_part


@with_options((EXPORT.title, EXPORT.settings))
def export(config: Path | None, options: Options) -> int:
    """Serve /metrics for Prometheus, and an API.

    Example: kcm export --bootstrap-servers k1:9092 --host 0.0.0.0 --port 9640

    Every option can also be given as an environment variable (--port as KCM_PORT) or in the configuration file
    (port = 9640).
    """
    return run_part(EXPORT, config, options)
