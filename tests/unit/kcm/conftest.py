"""Fixtures of the command tests: no settings but the test's own, and a short history to replay."""

from __future__ import annotations

import pytest

from tests.support.histories import History
from tests.support.replaying import failing_over


@pytest.fixture(autouse=True)
def _own_settings_only(no_settings_of_the_machine: None) -> None:
    """Hide the settings of this machine from every test of a command."""


@pytest.fixture
def failover() -> History:
    """A controller whose session ends: another broker is elected and gives a partition a leader."""
    return failing_over()
