"""Runs one part alone, as `python -m` does: settings from the environment and a file, a signal to stop it."""

import sys
from collections.abc import Callable

from pipeline.runtime import KcmError, configure_logging, install_stop_signal
from pipeline.settings import SettingsT, load
from pipeline.stop_signal import StopSignal


def main_of_part(
    verb: str, settings_class: type[SettingsT], run: Callable[[SettingsT, StopSignal], None]
) -> int:
    """Run a part alone, with settings from the environment and a file, until a signal; return its exit code."""
    try:
        settings = load(settings_class)
        configure_logging(settings.log_level, settings.log_format)
        run(settings, install_stop_signal())
    except KcmError as error:
        sys.stderr.write(f"kcm {verb}: {error}\n")
        return error.exit_code
    return 0
