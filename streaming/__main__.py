"""`python -m streaming`: the fold alone, configured by environment and file."""

from __future__ import annotations

import sys

from pipeline.runtime import KcmError, configure_logging, install_stop_signal
from pipeline.settings import load
from streaming.config import StreamSettings
from streaming.service import run


def main() -> int:
    """Run the fold until a signal; return the exit code."""
    try:
        settings = load(StreamSettings)
        configure_logging(settings.log_level, settings.log_format)
        run(settings, install_stop_signal())
    except KcmError as error:
        sys.stderr.write(f"kcm stream: {error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
