"""What ends the servers of the whole line when its last test has run, before the session does."""

from __future__ import annotations

from collections.abc import Callable

import pytest

WORLD_ENDS = pytest.StashKey[Callable[[], None]]()
"""In pytest's configuration, where the world's servers run: ends them; a second call does nothing."""
