"""Fixtures of the child process tests: their owner."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kcm.processes.supervisor import Supervisor


@pytest.fixture
def owner(tmp_path: Path) -> Iterator[Supervisor]:
    """A supervisor of this test's own."""
    with Supervisor(tmp_path) as supervisor:
        yield supervisor
