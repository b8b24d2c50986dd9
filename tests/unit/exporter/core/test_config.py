"""The exporter's settings: their bounds."""

from __future__ import annotations

import pytest

from exporter.core.config import ExportSettings
from pipeline.runtime import UsageError
from pipeline.settings import load

pytestmark = pytest.mark.usefixtures("no_settings_of_the_machine")


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("port", 0, 65_535),
        ("events_kept", 1, 1_000_000),
        ("kafka_gone_s", 1, 3_600),
        ("forget_after_s", 1, 604_800),
    ],
)
def test_a_setting_accepts_its_bounds_and_refuses_values_beyond(
    name: str, least: int, most: int
) -> None:
    """A value out of bounds is refused with the setting's name."""
    for value in (least, most):
        assert getattr(load(ExportSettings, None, **{name: str(value)}), name) == value
    for value in (least - 1, most + 1):
        with pytest.raises(UsageError, match=name.replace("_", "[-_]")):
            load(ExportSettings, None, **{name: str(value)})


def test_by_default_the_server_listens_on_loopback_only() -> None:
    """The server has no password: by default it listens on this machine only, and serves few series."""
    settings = load(ExportSettings)
    assert settings.host == "127.0.0.1"
    assert not settings.partition_metrics
