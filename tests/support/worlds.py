"""End the servers of the system tests when the last of those tests has run, before the session ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

WORLD_ENDS = pytest.StashKey[Callable[[], None]]()
"""Key in pytest's configuration, set where those servers run: ends them; a second call does nothing."""
