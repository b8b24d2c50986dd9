"""Where the exporter is found, for those who ask it and need none of its settings."""

from __future__ import annotations

DEFAULT_PORT = 9640
"""Beside the ports of the watcher (9641) and the fold (9642)."""
