"""`python -m zk_source`: the watcher alone, with settings from the environment and a file."""

from __future__ import annotations

import sys

from pipeline.runtime import KcmError, configure_logging, install_stop_signal
from pipeline.settings import load
from zk_source.config import WatchSettings
from zk_source.service.service import run


def main() -> int:
    """Run the watcher; return the exit code."""
    try:
        settings = load(WatchSettings)
        configure_logging(settings.log_level, settings.log_format)
        run(settings, install_stop_signal())
    except KcmError as error:
        sys.stderr.write(f"kcm watch: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
