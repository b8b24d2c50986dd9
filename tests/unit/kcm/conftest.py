"""What tests of commands share: no settings but their own, and a short history to replay."""

from __future__ import annotations

import os

import pytest

from tests.histories import History
from tests.unit.kcm.replaying import failing_over


@pytest.fixture(autouse=True)
def _no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.upper().startswith("KCM_"):
            monkeypatch.delenv(name)


@pytest.fixture
def failover() -> History:
    """A controller whose session ends: the next is elected, and gives a partition a leader."""
    return failing_over()
