"""`python -m exporter`: the exporter alone, with settings from the environment and a file.

The rule: nothing but loading settings and running; `kcm export` offers options as well.
"""

from __future__ import annotations

import sys

from exporter.core.config import ExportSettings
from exporter.serve.service import run
from pipeline.runtime import KcmError, configure_logging, install_stop_signal
from pipeline.settings import load


def main() -> int:
    """Run until a signal comes; return the exit code."""
    try:
        settings = load(ExportSettings)
        configure_logging(settings.log_level, settings.log_format)
        run(settings, install_stop_signal())
    except KcmError as error:
        sys.stderr.write(f"exporter: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
