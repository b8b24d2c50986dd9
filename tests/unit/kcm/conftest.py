"""What tests of commands share: no settings but their own, and a short history to replay."""

from __future__ import annotations

import pytest

from tests.support.histories import History
from tests.support.replaying import failing_over


@pytest.fixture(autouse=True)
def _own_settings_only(no_settings_of_the_machine: None) -> None:
    """Let no test of a command hear what the machine is set to."""


@pytest.fixture
def failover() -> History:
    """A controller whose session ends: the next is elected, and gives a partition a leader."""
    return failing_over()
